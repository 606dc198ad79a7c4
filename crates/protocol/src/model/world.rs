//! The small worlds: what runs in each, who may do what, and what each promises.
//!
//! Owns: the list. A world is data; every move that its data allows is tried in every state it can reach.

use super::home::Policy;
use crate::approval::Verdict;
use crate::call::RecoveryClass;
use crate::fault::Fault;
use crate::run::WaitMode;
use std::time::Duration;

/// One small world.
pub(super) struct World {
    pub(super) name: &'static str,
    /// What holds in each of its states, beside the invariants of runs.md section 2.
    pub(super) promise: &'static str,
    /// Calls of the program, all in one batch; at most [`super::state::CALLS`].
    pub(super) calls: &'static [Script],
    pub(super) mode: WaitMode,
    /// At most [`super::state::WORKERS`].
    pub(super) workers: u8,
    pub(super) people: &'static [&'static str],
    pub(super) verdicts: &'static [Verdict],
    /// Whether an approver may change the arguments.
    pub(super) edits: bool,
    /// The first is in force at the beginning; any may be, later.
    pub(super) policies: &'static [Policy],
    pub(super) deadline: Option<Duration>,
    pub(super) extras: &'static [Extra],
    /// Faults that show here.
    pub(super) faults: &'static [Fault],
}

/// A call of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Script {
    Write {
        ask: Option<Ask>,
        class: RecoveryClass,
    },
    Sleep {
        seconds: u64,
    },
    /// For one of the name that every signal here is sent to.
    Signal,
}

/// How a person is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    Plainly,
    /// Silence fails the run (C-191).
    OrFail,
}

/// Moves that not every world has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extra {
    Cancel,
    Crash,
    Fail,
    HandBack,
    Renew,
    /// Two signals, each sent as often as anybody likes.
    Send,
    /// Waits for one of two resources to be made warm.
    Hold,
    /// Claims by messages of other hops than the present one: late, doubled, out of order.
    OldMessages,
    Park,
    /// The handler's answer is lost, and the hop says so.
    Unsure,
    Pause,
}

const ASKED: Script = Script::Write { ask: Some(Ask::Plainly), class: RecoveryClass::Manual };
const FREE: Script = Script::Write { ask: None, class: RecoveryClass::Manual };
const YES_OR_NO: &[Verdict] = &[Verdict::Approve, Verdict::Reject];

const NOTHING: World = World {
    name: "",
    promise: "",
    calls: &[],
    mode: WaitMode::Any,
    workers: 1,
    people: &["ana"],
    verdicts: YES_OR_NO,
    edits: false,
    policies: &[Policy::Ask],
    deadline: None,
    extras: &[],
    faults: &[],
};

/// Every world, in the order of the table.
pub(super) const WORLDS: &[World] = &[
    World {
        name: "gate",
        promise: "no effect without its yes, in time and for these very bytes; none twice",
        calls: &[ASKED],
        people: &["ana", "ben"],
        edits: true,
        policies: &[Policy::Ask, Policy::Allow, Policy::Deny],
        extras: &[Extra::Unsure],
        faults: &[Fault::GateWithoutYes, Fault::BytesNotCompared, Fault::ExpiryIgnored],
        ..NOTHING
    },
    World {
        name: "park and return",
        promise: "an answer before, at, or after the park, once or twice: one return",
        calls: &[ASKED],
        people: &["ana", "ben"],
        extras: &[Extra::Park, Extra::Crash, Extra::HandBack, Extra::Pause],
        faults: &[Fault::EarlyAnswerLost, Fault::AnswerWithoutReturn],
        ..NOTHING
    },
    World {
        name: "waits: any",
        promise: "the first end returns the run, and an old answer never does",
        calls: &[ASKED, ASKED],
        extras: &[Extra::Park],
        faults: &[Fault::OldAnswerReturns],
        ..NOTHING
    },
    World {
        name: "waits: all",
        promise: "the last end returns the run, and none before it",
        calls: &[ASKED, ASKED],
        mode: WaitMode::All,
        extras: &[Extra::Park],
        ..NOTHING
    },
    World {
        name: "waits: first",
        promise: "exactly one of a question and its limit ends",
        calls: &[ASKED, Script::Sleep { seconds: 20 }],
        mode: WaitMode::First,
        extras: &[Extra::Park, Extra::Cancel],
        ..NOTHING
    },
    World {
        name: "silence",
        promise: "expiry and the deadline of the run fail it, and approve nothing",
        calls: &[Script::Write { ask: Some(Ask::OrFail), class: RecoveryClass::Manual }],
        deadline: Some(Duration::from_secs(75)),
        extras: &[Extra::Park, Extra::Fail],
        ..NOTHING
    },
    World {
        name: "containment",
        promise: "no end while something may still run; nothing starts after the election",
        calls: &[ASKED, FREE],
        verdicts: &[Verdict::Approve],
        policies: &[Policy::Allow],
        extras: &[Extra::Cancel, Extra::Fail, Extra::Park, Extra::Crash],
        faults: &[Fault::EndsUncontained],
        ..NOTHING
    },
    World {
        name: "two servers",
        promise: "a lapsed claim is taken over once, its late writes change nothing, no effect is guessed",
        calls: &[FREE],
        workers: 2,
        policies: &[Policy::Allow],
        extras: &[Extra::Crash, Extra::Renew, Extra::Park, Extra::HandBack, Extra::Unsure],
        faults: &[Fault::TokenGivenTwice, Fault::LiveClaimTaken, Fault::RecoveryGuesses],
        ..NOTHING
    },
    World {
        name: "two servers, key",
        promise: "the same with a key: sent again, done once",
        calls: &[Script::Write { ask: None, class: RecoveryClass::Idempotent }],
        workers: 2,
        policies: &[Policy::Allow],
        extras: &[Extra::Crash, Extra::Park, Extra::Unsure],
        ..NOTHING
    },
    World {
        name: "two servers, lookup",
        promise: "the same with a lookup, on a run that may be cancelled",
        calls: &[Script::Write { ask: None, class: RecoveryClass::Lookup }],
        workers: 2,
        policies: &[Policy::Allow],
        extras: &[Extra::Crash, Extra::Park, Extra::Cancel, Extra::Unsure],
        ..NOTHING
    },
    World {
        name: "relay",
        promise: "messages lost, doubled, late and out of order: each hop is claimed once",
        calls: &[ASKED],
        workers: 2,
        extras: &[Extra::OldMessages, Extra::HandBack, Extra::Park, Extra::Crash, Extra::Renew],
        faults: &[Fault::OldMessageClaims],
        ..NOTHING
    },
    World {
        name: "signals",
        promise: "a signal before, at or after its wait, once or twice: one wait takes it",
        calls: &[Script::Signal, Script::Signal],
        extras: &[Extra::Send, Extra::Park, Extra::Crash],
        ..NOTHING
    },
    World {
        name: "hold and budget",
        promise: "each call of the manager is counted before it is made, over all hops",
        workers: 2,
        extras: &[Extra::Hold, Extra::HandBack, Extra::Crash, Extra::Pause, Extra::Cancel],
        faults: &[Fault::BudgetForgotten],
        ..NOTHING
    },
];
