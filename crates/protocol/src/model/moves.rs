//! What anybody may do in a small world, and what comes of it.
//!
//! Owns: who tries what and when. Workers are honest and late: they act on the token they were given last, report what
//! their handlers really did, and try every command they could have a reason for, at any time. People say of an effect
//! only what happened. Everything else, the order above all, is up to chance, and every order is tried.

use super::act;
use super::check;
use super::home::{Home, Policy};
use super::state::{Given, State};
use super::world::{Extra, Script, World};
use crate::approval::{self, Verdict};
use crate::call::{self, RecoveryClass};
use crate::run::Phase;
use crate::time::Time;
use std::fmt;

/// One move. Workers, calls and people go by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Move {
    Claim {
        worker: u8,
    },
    /// By a message of another hop: so many before the present one; -1 is the one after it.
    OldMessage {
        worker: u8,
        before: i8,
    },
    Crash {
        worker: u8,
    },
    Renew {
        worker: u8,
    },
    Hop {
        worker: u8,
        act: Act,
    },
    Land {
        call: u8,
    },
    Miss {
        call: u8,
    },
    Vote {
        person: u8,
        call: u8,
        verdict: Verdict,
    },
    Edit {
        person: u8,
        call: u8,
    },
    Settle {
        call: u8,
        verdict: Verdict,
    },
    Policy(Policy),
    Send {
        signal: u8,
    },
    Cancel,
    Pause,
    Resume,
    Expire {
        call: u8,
    },
    Recover,
    Lookup {
        call: u8,
    },
    Tick,
}

/// What a worker tries with its token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// Journals the calls of the program, with their questions and timers.
    Enter,
    Dispatch {
        call: u8,
        edited: bool,
    },
    /// What its handler did.
    Report {
        call: u8,
    },
    /// Its handler may have done it or not.
    Unsure {
        call: u8,
    },
    /// Sends an ambiguous call again, under the same key.
    Again {
        call: u8,
    },
    /// Asks the tool what became of an ambiguous call.
    Ask {
        call: u8,
    },
    /// Tells the guest that the call does not run.
    Deny {
        call: u8,
    },
    /// Tells the guest that its time has come.
    Wake {
        call: u8,
    },
    /// Takes note of ends that a person found out.
    Take,
    /// Waits for a resource, and calls its manager.
    Hold {
        resource: u8,
    },
    Warm,
    Park,
    HandBack,
    Finish,
    Fail,
    Acknowledge,
}

/// Every move that somebody could make here.
pub(super) fn moves(world: &World, state: &State) -> Vec<Move> {
    let mut all = Vec::new();
    for worker in 0..world.workers {
        workers(world, state, worker, &mut all);
    }
    let calls = 0..state.calls.len() as u8;
    for call in calls.clone() {
        people(world, state, call, &mut all);
        if state.outside[usize::from(call)].running > 0 {
            all.extend([Move::Land { call }, Move::Miss { call }]);
        }
    }
    all.extend(world.policies.iter().filter(|policy| **policy != state.policy).map(|policy| Move::Policy(*policy)));
    let has = |extra| world.extras.contains(&extra);
    if has(Extra::Send) {
        all.extend([Move::Send { signal: 0 }, Move::Send { signal: 1 }]);
    }
    if has(Extra::Cancel) {
        all.push(Move::Cancel);
    }
    if has(Extra::Pause) {
        all.push(if state.run().pause.is_some() { Move::Resume } else { Move::Pause });
    }
    all.push(Move::Recover);
    let waits = |call: &u8| state.rows.waits.iter().any(|wait| wait.call == state.calls[usize::from(*call)].id);
    all.extend(calls.clone().filter(waits).map(|call| Move::Expire { call }));
    if state.status().is_stopping() {
        all.extend(calls.map(|call| Move::Lookup { call }));
    }
    if next_time(state).is_some() {
        all.push(Move::Tick);
    }
    all
}

fn workers(world: &World, state: &State, worker: u8, all: &mut Vec<Move>) {
    let has = |extra| world.extras.contains(&extra);
    all.push(Move::Claim { worker });
    if has(Extra::OldMessages) {
        all.extend([-1, 1, 2].map(|before| Move::OldMessage { worker, before }));
    }
    let me = &state.workers[usize::from(worker)];
    if me.token.is_none() {
        return;
    }
    if has(Extra::Crash) {
        all.push(Move::Crash { worker });
    }
    if has(Extra::Renew) {
        all.push(Move::Renew { worker });
    }
    let mut acts = vec![Act::Acknowledge, Act::Take];
    if state.calls.len() < world.calls.len() {
        acts.push(Act::Enter);
    }
    let ended = state.calls.len() == world.calls.len() && state.calls.iter().all(call::Call::is_ended);
    let given_up = (0..state.calls.len()).any(|call| {
        state.settling(call).is_some_and(|question| matches!(question.status, approval::Status::Cancelled { .. }))
    });
    let some = [
        (has(Extra::Hold), Act::Hold { resource: 0 }),
        (has(Extra::Hold), Act::Hold { resource: 1 }),
        (has(Extra::Hold), Act::Warm),
        (has(Extra::Park) || !has(Extra::HandBack), Act::Park),
        (has(Extra::HandBack), Act::HandBack),
        (ended, Act::Finish),
        (has(Extra::Fail) || given_up, Act::Fail),
    ];
    acts.extend(some.into_iter().filter(|(may, _)| *may).map(|(_, act)| act));
    for (at, call) in state.calls.iter().enumerate() {
        on_call(world, state, worker, at, call, &mut acts);
    }
    all.extend(acts.into_iter().map(|act| Move::Hop { worker, act }));
}

fn on_call(world: &World, state: &State, worker: u8, at: usize, row: &call::Call, acts: &mut Vec<Act>) {
    let call = at as u8;
    let (mine, outside) = (state.workers[usize::from(worker)].started[at], state.outside[at]);
    let Script::Write { ask, class } = world.calls[at] else {
        let waits = state.rows.waits.iter().find(|wait| wait.call == row.id);
        if !row.is_ended() {
            acts.push(if waits.is_some_and(|wait| wait.is_ended()) { Act::Wake { call } } else { Act::Deny { call } });
        }
        return;
    };
    acts.push(Act::Dispatch { call, edited: false });
    if world.edits {
        acts.push(Act::Dispatch { call, edited: true });
    }
    if mine && outside.running == 0 {
        acts.push(Act::Report { call });
    }
    let ambiguous = matches!(row.state, call::State::Ambiguous(_));
    let lost = mine && outside.running > 0 && world.extras.contains(&Extra::Unsure);
    if lost || (ambiguous && row.settle.is_none()) {
        acts.push(Act::Unsure { call });
    }
    if ambiguous && row.settle.is_none() {
        let tries = row.gate().map_or(0, |gate| gate.attempt);
        match class {
            RecoveryClass::Idempotent if tries < 3 => acts.push(Act::Again { call }),
            RecoveryClass::Lookup if outside.running == 0 => acts.push(Act::Ask { call }),
            _ => {}
        }
    }
    let closed = match (ask, state.question(at)) {
        (Some(_), Some(question)) => !question.is_pending() && !question.is_open_yes(),
        _ => state.policy != Policy::Allow,
    };
    if closed && matches!(row.state, call::State::Entered | call::State::Asked) {
        acts.push(Act::Deny { call });
    }
}

fn people(world: &World, state: &State, call: u8, all: &mut Vec<Move>) {
    let at = usize::from(call);
    if let Some(question) = state.question(at) {
        for person in 0..world.people.len() as u8 {
            all.extend(world.verdicts.iter().map(|&verdict| Move::Vote { person, call, verdict }));
            if world.edits && question.binding.revision == 1 {
                all.push(Move::Edit { person, call });
            }
        }
    }
    // What happened can be found out once nothing runs any more; giving up is always possible.
    if state.settling(at).is_some() {
        let outside = state.outside[at];
        let truth = if outside.landed > 0 { Verdict::Happened } else { Verdict::DidNotHappen };
        if outside.running == 0 {
            all.push(Move::Settle { call, verdict: truth });
        }
        all.push(Move::Settle { call, verdict: Verdict::GiveUp });
    }
}

/// The next time at which anything changes by itself.
pub(super) fn next_time(state: &State) -> Option<Time> {
    let run = state.run();
    let claim = run.claim().map(|claim| claim.deadline);
    let waits = state.rows.waits.iter().filter(|wait| wait.is_open()).filter_map(|wait| wait.due_at);
    let yes = state.approvals.iter().filter_map(|approval| match approval.status {
        approval::Status::Approved { valid_until, phase: approval::Phase::Open, .. } => valid_until,
        _ => None,
    });
    let stops = matches!(run.phase, Phase::Stopping { .. });
    let calls = state.calls.iter().filter(|_| stops).filter_map(act::over_time);
    let deadline = run.deadline.filter(|_| !run.status().is_final());
    let times = claim.into_iter().chain(waits).chain(yes).chain(calls).chain(deadline);
    times.filter(|time| *time > state.now).min()
}

/// The state after a move; nothing where it changes nothing. A promise that breaks on the way is an error.
pub(super) fn step(home: &Home, world: &World, state: &State, by: Move) -> Result<Option<State>, String> {
    let mut after = state.clone();
    match by {
        Move::Tick => after.now = next_time(state).expect("offered where time can pass"),
        Move::Policy(policy) => after.policy = policy,
        Move::Crash { worker } => after.workers[usize::from(worker)] = super::state::Worker::default(),
        Move::Land { call } => {
            let class = state.calls[usize::from(call)].recovery;
            after.outside[usize::from(call)].land(class);
        }
        Move::Miss { call } => after.outside[usize::from(call)].running -= 1,
        _ => {
            let Given { answer, entered, saved } = act::act(home, world, &mut after, by);
            check::moved(home, state, &after, by, &check::Seen { answer: &answer, entered: &entered, saved })?;
            if !saved {
                return Ok(None);
            }
        }
    }
    check::holds(home, world, &after)?;
    Ok(Some(after))
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = |person: u8| ["ana", "ben"][usize::from(person)];
        let one = |call: u8| call + 1;
        match *self {
            Move::Claim { worker } => write!(f, "worker {} claims", one(worker)),
            Move::OldMessage { worker, before: -1 } => write!(f, "worker {} claims the next hop", one(worker)),
            Move::OldMessage { worker, before } => write!(f, "worker {} claims {before} hops back", one(worker)),
            Move::Crash { worker } => write!(f, "worker {} crashes", one(worker)),
            Move::Renew { worker } => write!(f, "worker {} renews", one(worker)),
            Move::Hop { worker, act } => write!(f, "worker {} {act}", one(worker)),
            Move::Land { call } => write!(f, "effect {} happens", one(call)),
            Move::Miss { call } => write!(f, "effect {} fails", one(call)),
            Move::Vote { person, call, verdict } => write!(f, "{}: {} {}", who(person), verdict.as_str(), one(call)),
            Move::Edit { person, call } => write!(f, "{}: approve {} with other arguments", who(person), one(call)),
            Move::Settle { call, verdict } => write!(f, "ana: effect {} {}", one(call), verdict.as_str()),
            Move::Policy(policy) => write!(f, "the policy is now {policy:?}"),
            Move::Send { signal } => write!(f, "signal {}", one(signal)),
            Move::Cancel => f.write_str("cancel"),
            Move::Pause => f.write_str("pause"),
            Move::Resume => f.write_str("resume"),
            Move::Expire { call } => write!(f, "timer of {}", one(call)),
            Move::Recover => f.write_str("recovery"),
            Move::Lookup { call } => write!(f, "lookup of {}", one(call)),
            Move::Tick => f.write_str("time passes"),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |call: u8| call + 1;
        match *self {
            Act::Enter => f.write_str("enters its calls"),
            Act::Dispatch { call, edited: false } => write!(f, "dispatches {}", one(call)),
            Act::Dispatch { call, edited: true } => write!(f, "dispatches {} with other arguments", one(call)),
            Act::Report { call } => write!(f, "reports {}", one(call)),
            Act::Unsure { call } => write!(f, "cannot tell of {}", one(call)),
            Act::Again { call } => write!(f, "sends {} again", one(call)),
            Act::Ask { call } => write!(f, "looks up {}", one(call)),
            Act::Deny { call } => write!(f, "denies {}", one(call)),
            Act::Wake { call } => write!(f, "wakes {}", one(call)),
            Act::Take => f.write_str("takes what ended"),
            Act::Hold { resource } => write!(f, "waits for resource {}", one(resource)),
            Act::Warm => f.write_str("finds it warm"),
            Act::Park => f.write_str("parks"),
            Act::HandBack => f.write_str("hands back"),
            Act::Finish => f.write_str("finishes"),
            Act::Fail => f.write_str("fails"),
            Act::Acknowledge => f.write_str("acknowledges"),
        }
    }
}
