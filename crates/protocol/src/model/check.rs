//! What holds in every state of every world, and of every move between two: the invariants of runs.md section 2, and what
//! each world promises.
//!
//! Invariant: nothing here asks the law whether it was right. A promise is said again, in terms of rows before and after
//! and of what really happened outside.

use super::home::{Home, Policy, arguments};
use super::moves::{Act, Move};
use super::state::State;
use super::world::{Script, World};
use crate::approval::{self, Kind};
use crate::call::{self, Applied, Call, OutcomeStatus, RecoveryClass};
use crate::code::Code;
use crate::command::Answer;
use crate::digest::Digest;
use crate::obligation::Obligation;
use crate::refusal::Refusal;
use crate::run::{Phase, Status, WaitMode, legal};
use crate::signal::{self, Signal};
use crate::wait::{Owner, Wait};

/// What a command was answered, and what it did.
pub(super) struct Seen<'a> {
    pub(super) answer: &'a Result<Answer, Refusal>,
    /// Statuses entered, in order.
    pub(super) entered: &'a [Status],
    pub(super) saved: bool,
}

type Kept = Result<(), String>;

fn must(holds: bool, promise: &str) -> Kept {
    if holds { Ok(()) } else { Err(promise.to_owned()) }
}

/// What every command keeps.
pub(super) fn moved(home: &Home, before: &State, after: &State, by: Move, seen: &Seen<'_>) -> Kept {
    edges(before, after, seen)?;
    fences(before, after, by, seen)?;
    parks(before, after, by)?;
    returns(before, after)?;
    verdicts(before, after)?;
    gates(home, before, after, by)
}

fn edges(before: &State, after: &State, seen: &Seen<'_>) -> Kept {
    let mut from = before.status();
    for &to in seen.entered {
        must(legal(Some(from), to), "R-13: every edge is in the table")?;
        from = to;
    }
    must(from == after.status(), "R-353: no status changes in silence")?;
    let (was, is) = (before.run(), after.run());
    let queued = seen.entered.iter().filter(|status| **status == Status::Queued).count();
    must(is.seq == was.seq + queued as u32, "R-30: seq grows by one at each return and at nothing else")?;
    must(!was.status().is_stopping() || is.seq == was.seq, "R-32: a stopping status freezes seq")?;
    must(
        !was.status().is_final() || (&is.phase, is.seq, is.fence) == (&was.phase, was.seq, was.fence),
        "R-247: final is final",
    )
}

fn fences(before: &State, after: &State, by: Move, seen: &Seen<'_>) -> Kept {
    let (was, is) = (before.run(), after.run());
    let (old, new) = (was.claim(), is.claim());
    let another = new.filter(|new| old.is_none_or(|old| old.token != new.token || old.worker != new.worker));
    must(another.is_none_or(|new| new.token > was.fence), "R-31: a later token is larger")?;
    let token = match by {
        Move::Hop { worker, .. } | Move::Renew { worker } => before.workers[usize::from(worker)].token,
        _ => None,
    };
    if let Some(token) = token {
        let owns = old.is_some_and(|old| old.token == token && Some(token) == last_given(before, old.worker));
        let refused = matches!(seen.answer, Err(refusal) if refusal.code == Code::StaleClaim) && !seen.saved;
        must(owns || refused, "R-98: without the token of the claim on the row a hop changes nothing")?;
    }
    match by {
        Move::Claim { .. } => must(!seen.saved || old.is_none(), "R-92: of the claims of a hop one wins")?,
        Move::OldMessage { .. } => {
            let skipped = matches!(seen.answer, Err(refusal) if refusal.code == Code::Skipped);
            must(skipped && !seen.saved, "R-92: a message of another hop is skipped")?;
        }
        Move::Recover => {
            let lapsed = old.is_none_or(|old| before.now >= old.deadline);
            let taken = old.is_some() && new.is_none();
            must(!taken || lapsed, "R-282: a claim that has not lapsed is left")?;
            must(!taken || is.fence > was.fence, "R-277: a takeover raises the fence")?;
        }
        _ => {}
    }
    Ok(())
}

/// The token that the worker of the claim was given last.
fn last_given(state: &State, worker: crate::id::WorkerId) -> Option<u64> {
    let number = (0..state.workers.len()).find(|n| super::home::worker(*n as u8) == worker)?;
    state.workers[number].token
}

/// A hop that parks waits for all that it asked, so what has ended already counts; recovery may park on less.
fn parks(before: &State, after: &State, by: Move) -> Kept {
    let Phase::Parked { mode, .. } = after.run().phase else { return Ok(()) };
    if matches!(by, Move::Hop { act: Act::Park, .. }) && !before.status().is_parked() {
        let ended = after.rows.waits.iter().any(Wait::is_ended);
        must(mode == WaitMode::All || !ended, "R-175: an answer before the park is not lost")?;
    }
    Ok(())
}

/// A parked run returns because a member of its set ended in this very commit, and its set asked for no more.
fn returns(before: &State, after: &State) -> Kept {
    let Phase::Parked { mode, .. } = before.run().phase else { return Ok(()) };
    let members = || before.rows.waits.iter().filter(|wait| wait.state == crate::wait::State::Parked);
    if after.status().is_parked() {
        let ended = members().any(|wait| !open(after, wait));
        return must(mode == WaitMode::All || !ended, "R-165: no decision stands whose return is still to be made");
    }
    if after.status().is_stopping() || after.status().is_final() {
        return Ok(());
    }
    must(members().any(|wait| !open(after, wait)), "R-33: a run returns by the end of a member of its set")?;
    let all = members().all(|wait| !open(after, wait));
    must(mode != WaitMode::All || all, "R-181: a set of mode all returns with its last end")?;
    let left = after.rows.waits.iter().any(Wait::is_open);
    must(mode != WaitMode::First || !left, "R-182: the first end closes the others")
}

/// Whether whoever ends the wait has not ended it yet.
fn open(state: &State, wait: &Wait) -> bool {
    match wait.owner {
        Owner::Approval(id) => state.approval(id).is_some_and(approval::Approval::is_pending),
        Owner::Timer(_) | Owner::Signal(_) | Owner::Job(_) => state.rows.waits.get(wait.id).is_some_and(Wait::is_open),
    }
}

fn verdicts(before: &State, after: &State) -> Kept {
    for was in before.approvals.iter().filter(|approval| !approval.is_pending()) {
        let is = after.approval(was.id).expect("no approval goes");
        must(was.status.as_str() == is.status.as_str(), "R-166: the first decision stands")?;
    }
    for is in &after.approvals {
        let now = matches!(is.status, approval::Status::Approved { .. })
            && before.approval(is.id).is_some_and(approval::Approval::is_pending);
        let due = is.expires_at.is_some_and(|at| after.now >= at);
        must(!now || !due, "R-169: nothing is approved once it is due")?;
    }
    Ok(())
}

/// The gate is the one place after which an effect may happen: what has to be true there, said again.
fn gates(home: &Home, before: &State, after: &State, by: Move) -> Kept {
    for (at, is) in after.calls.iter().enumerate() {
        let was = before.calls.get(at);
        let passed = is.in_flight() && !was.is_some_and(Call::in_flight);
        if !passed {
            continue;
        }
        let Move::Hop { act: Act::Dispatch { edited, .. }, .. } = by else {
            return Err("C-112: only the gate starts an effect".to_owned());
        };
        let run = before.run();
        must(run.status() == Status::Running, "R-105: RUNNING")?;
        must(run.claim().is_some_and(|claim| before.now < claim.deadline), "R-105: the claim has not lapsed")?;
        must(!crate::pause::is_paused(run, home.registry(before.policy)), "R-105: nothing is paused")?;
        must(before.policy != Policy::Deny, "C-111: the policy of now allows it")?;
        let Some(question) = before.question(at) else {
            must(before.policy == Policy::Allow, "C-111: what the policy asks for was asked")?;
            continue;
        };
        let in_time = matches!(question.status, approval::Status::Approved { valid_until, phase: approval::Phase::Open, .. }
            if valid_until.is_none_or(|until| before.now < until));
        must(in_time, "R-105: no effect without its yes, in time and unspent")?;
        let sent = Digest::of(arguments(edited).as_bytes());
        must(question.arguments.digest == sent, "C-107: what is sent is what was approved")?;
    }
    Ok(())
}

/// What holds in every state.
pub(super) fn holds(home: &Home, world: &World, state: &State) -> Kept {
    status(state)?;
    signals(state)?;
    holds_are_counted(home, state)?;
    effects(world, state)
}

fn status(state: &State) -> Kept {
    let run = state.run();
    let waits = &state.rows.waits;
    let parked = || waits.iter().filter(|wait| wait.state == crate::wait::State::Parked);
    let pending = || state.approvals.iter().filter(|approval| approval.is_pending());
    let obliged = state.rows.obligations.iter().any(Obligation::is_open);
    match &run.phase {
        Phase::Queued { .. } => {}
        Phase::Active { claim, .. } => must(claim.token == run.fence, "R-26: the claim has the last token")?,
        Phase::Parked { .. } => {
            must(parked().count() > 0, "R-27: a parked run has a wait that is parked")?;
            must(parked().all(|wait| open(state, wait)), "R-165: no decision stands whose return is still to be made")?;
        }
        Phase::Stopping { .. } => {
            must(obliged, "R-253: a stopping run waits for something")?;
            must(waits.iter().count() == 0, "R-20: a stopping run has no waits")?;
            must(pending().all(|a| a.kind() == Kind::Settle), "R-262: questions are withdrawn")?;
        }
        Phase::Final { .. } => {
            must(waits.iter().count() == 0, "R-29: an end leaves no wait")?;
            must(!obliged, "E-17, E-18: an end comes after every acknowledgement")?;
            must(pending().all(|a| a.kind() == Kind::Settle), "R-29: an end leaves no question but of what happened")?;
        }
    }
    must(run.status().is_parked() || parked().count() == 0, "R-33: waits are parked with their run")?;
    let terminal = u8::from(run.status().is_final());
    must(state.terminal_events == terminal, "R-248: exactly one terminal event")
}

fn signals(state: &State) -> Kept {
    let wants = |wait: &Wait| wait.is_open() && matches!(wait.owner, Owner::Signal(_));
    let kept = state.rows.signals.iter().any(Signal::is_kept);
    must(
        !kept || !state.rows.waits.iter().any(wants),
        "R-234: no wait stays open beside a signal that is kept for it",
    )?;
    let takers = || {
        state.signals.iter().filter_map(|signal| match signal.state {
            signal::State::Taken(wait) => Some(wait),
            signal::State::Kept | signal::State::SetAside => None,
        })
    };
    must(takers().all(|wait| takers().filter(|taker| *taker == wait).count() == 1), "R-235: a wait takes one signal")?;
    let ended = |wait: &&Wait| wait.is_ended() && matches!(wait.owner, Owner::Signal(_));
    let served = state.rows.waits.iter().filter(ended).all(|wait| takers().any(|taker| taker == wait.id));
    must(served, "R-235: a wait ends with the signal that it takes")
}

fn holds_are_counted(home: &Home, state: &State) -> Kept {
    let (counted, made) = (&state.run().budget.hardware, state.manager);
    must(counted.total >= u32::from(made.total), "R-147: a call of the manager is counted before it is made")?;
    let within = u32::from(made.total) <= home.limits.convergence_calls
        && u32::from(made.in_row) <= home.limits.convergence_in_row;
    must(within, "R-143: no call of the manager past its bounds")
}

/// The ledger never says what is not so, and nothing is lost on the way.
fn effects(world: &World, state: &State) -> Kept {
    for ((row, outside), script) in state.calls.iter().zip(&state.outside).zip(world.calls) {
        let &Script::Write { class, .. } = script else { continue };
        must(outside.landed <= 1, "R-301: no effect happens twice")?;
        must(outside.started <= 1 || class == RecoveryClass::Idempotent, "C-117: no handler starts twice")?;
        match &row.state {
            call::State::Entered | call::State::Asked => {
                must(outside.started == 0, "C-112: nothing starts before its gate")?;
            }
            call::State::Ended(outcome) => {
                let happened = match (outcome.status, outcome.applied) {
                    (OutcomeStatus::Ok, _) => outside.landed == 1,
                    (OutcomeStatus::Denied, _) => outside.started == 0,
                    (OutcomeStatus::Error, Applied::No) => outside.landed == 0,
                    (OutcomeStatus::Error, _) => true,
                };
                must(happened, "C-88, C-120: an outcome says what happened")?;
            }
            call::State::Dispatched(_) => {
                must(!state.status().is_final(), "E-17, E-18: nothing is in flight at an end")?;
            }
            call::State::Ambiguous(_) => {
                must(state.status() != Status::Done, "R-23: no run is done with an effect that is unknown")?;
                let asked = row.settle.is_some();
                must(asked || !state.status().is_final(), "R-268: what is unknown at an end is asked")?;
                let alone = class == RecoveryClass::Manual && state.run().claim().is_none();
                must(asked || !alone, "R-287: what nothing settles is asked before the run goes on")?;
            }
        }
    }
    Ok(())
}
