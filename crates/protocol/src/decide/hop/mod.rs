//! The writes of a hop (runs.md section 5): each carries its claim's token, and without the token of the claim on the
//! row it changes nothing.

mod dispatch;
mod hold;
mod progress;
mod stop;

pub(super) use progress::{check_end, enter_own, publish};
pub(super) use stop::ask_to_stop;

use super::{Cx, Decision, step};
use crate::code::Code;
use crate::command::{Act, Answer, Hop, NewCheckpoint};
use crate::delivery::Cause;
use crate::event::Facts;
use crate::fault::{Fault, planted};
use crate::obligation::Subject;
use crate::refusal::Refusal;
use crate::rows::{Change, NewBody, Rows};
use crate::run::{Charge, Checkpoint, Edge, End, Failure, Phase, Run, Status, Stop, WaitMode};
use crate::wait;

/// Decides one write of a hop: its progress first, then its act, in one transaction.
pub(super) fn hop(hop: Hop, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    if rows.run.claim().is_none_or(|claim| claim.token != hop.token) {
        return stale_claim(&rows.run).into();
    }
    if rows.run.status().is_stopping() {
        return stopping(hop, rows, cx);
    }
    let mut change = Change::of(rows, cx.now);
    let charge = hop.progress.charge;
    if let Err(refusal) = progress::apply(&mut change, hop.progress, cx) {
        return refusal.into();
    }
    let acted = match hop.act {
        Act::Record => {
            change.rows.run.clocks.charge(cx.now, charge);
            Ok(())
        }
        Act::Dispatch { call, arguments, operands, grant } => {
            change.rows.run.clocks.charge(cx.now, charge);
            return dispatch::dispatch(change, call, arguments, operands, grant, cx);
        }
        Act::Park { checkpoint, mode, taker } => park(&mut change, cx, checkpoint, mode, charge).map(|()| {
            // Every wait of the run is a member, so one that has ended already counts.
            if change.rows.waits.iter().any(wait::Wait::is_ended) && !planted(Fault::EarlyAnswerLost) {
                step::member_ended(&mut change, taker, cx);
            }
        }),
        Act::Hold { resource, checkpoint } => hold::hold(&mut change, &resource, checkpoint, charge, cx),
        Act::Warm => hold::warm(&mut change, charge),
        Act::HandBack { checkpoint } => hand_back(&mut change, cx, checkpoint, charge),
        Act::Finish { result } => done(&mut change, result, charge, cx),
        Act::Fail(failure) => {
            fail(&mut change, failure, charge, cx);
            Ok(())
        }
        Act::AskToStop(_) | Act::Acknowledge => {
            let run = change.run();
            let detail = format!("{} is {} and there is nothing to stop or to acknowledge", run.id, run.status());
            Err(Refusal::new(Code::IllegalTransition, detail))
        }
    };
    match acted {
        Ok(()) => stored(change),
        Err(refusal) => refusal.into(),
    }
}

fn stored(change: Change) -> Decision {
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Stored { run })
}

/// A stopping run takes outcomes of calls in flight, its cancel tools and the acknowledgement of its hop, and nothing else.
fn stopping(hop: Hop, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    let only_outcomes = hop.progress.entries.is_empty() && hop.progress.opens().next().is_none();
    let status = rows.run.status();
    let (acknowledges, asks) = match hop.act {
        Act::Record if only_outcomes => (false, None),
        Act::AskToStop(asked) if only_outcomes => (false, Some(asked)),
        Act::Acknowledge if only_outcomes => (true, None),
        _ => {
            return Refusal::new(Code::RunStopping, format!("{} is {status}", rows.run.id)).into();
        }
    };
    let mut change = Change::of(rows, cx.now);
    if let Err(refusal) = progress::apply(&mut change, hop.progress, cx) {
        return refusal.into();
    }
    if let Some(asked) = asks {
        return ask_to_stop(change, *asked, cx);
    }
    if acknowledges {
        acknowledge_hop(&mut change, "worker");
    }
    step::contain(&mut change, cx);
    stored(change)
}

/// The hop of a stopping run has stopped: the claim is cleared.
pub(super) fn acknowledge_hop(change: &mut Change, by: &str) {
    let seq = change.run().seq;
    release_claim(change);
    step::acknowledge(change, Subject::Hop(seq), by);
}

/// The hop of a stopping run owns it no more.
pub(super) fn release_claim(change: &mut Change) {
    if let Phase::Stopping { hop, .. } = &mut change.rows.run.phase {
        *hop = None;
    }
}

/// E-7: checkpoint, owners and waits in one transaction. Every open wait of the run is in the set; one that has ended
/// already satisfies it, and the caller chains E-9.
fn park(
    change: &mut Change,
    cx: &Cx<'_>,
    checkpoint: NewCheckpoint,
    mode: WaitMode,
    charge: Charge,
) -> Result<(), Refusal> {
    if change.run().status() != Status::Running {
        return Err(illegal(change.run(), Status::AwaitingConsent));
    }
    if !change.run().settings.resume {
        return Err(Refusal::new(Code::ResumeDisabled, "resume disabled"));
    }
    no_call_in_flight(change)?;
    let Some(on) = step::parked_on(change) else {
        return Err(Refusal::new(Code::WaitUnsafe, "there is nothing to wait for"));
    };
    let one_kind = change.rows.waits.iter().all(|w| w.owner.parks() == on);
    if mode == WaitMode::All && !one_kind {
        return Err(Refusal::new(Code::WaitUnsafe, "waiting for all of a set needs waits of one kind"));
    }
    let told = save(change, checkpoint, cx)?;
    for id in change.rows.waits.keys(|w| w.state == wait::State::Live) {
        let row = change.rows.waits.edit(id).expect("listed above");
        row.state = wait::State::Parked;
    }
    let facts = step::with_waits(told, &change.rows.waits.keys(|_| true), cx);
    step::enter(change, Edge(7), Phase::Parked { on, mode }, charge, facts);
    Ok(())
}

/// E-8.
fn hand_back(
    change: &mut Change,
    cx: &Cx<'_>,
    checkpoint: Option<NewCheckpoint>,
    charge: Charge,
) -> Result<(), Refusal> {
    no_call_in_flight(change)?;
    let told = match checkpoint {
        Some(checkpoint) => save(change, checkpoint, cx)?,
        None => Facts::new(),
    };
    step::queue(change, Edge(8), Cause::HandBack, charge, told);
    Ok(())
}

/// E-12. A run with a call in flight or unsettled is never DONE.
fn done(change: &mut Change, result: NewBody, charge: Charge, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let open = change
        .rows
        .calls
        .iter()
        .find(|c| matches!(c.state, crate::call::State::Dispatched(_) | crate::call::State::Ambiguous(_)));
    if let Some(call) = open {
        let detail = format!("{} has no settled outcome", call.identity.text(call.run));
        return Err(Refusal::new(Code::WaitUnsafe, detail));
    }
    if let Some(job) = change.rows.jobs.iter().find(|job| !job.is_ended()) {
        return Err(Refusal::new(Code::WaitUnsafe, format!("{} is {}", job.id, job.state.as_str())));
    }
    if change.run().status() != Status::Running {
        return Err(illegal(change.run(), Status::Done));
    }
    let body = result.body;
    change.rows.run.budget.body_bytes += u64::from(body.len);
    change.bodies.push(result);
    step::finish(change, Edge(12), End::Done { result: body }, charge, cx);
    Ok(())
}

/// E-13, or E-14 where a call is in flight: the claim was proved first, so only now are questions closed.
fn fail(change: &mut Change, failure: Failure, charge: Charge, cx: &mut Cx<'_>) {
    let edges = step::StopEdges::of_failure(Edge(14), Some(Edge(13)));
    step::stop(change, Stop::Fail(failure), edges, charge, cx);
}

/// Replaces the run's checkpoint as a whole. Gives what the event of this commit says of it.
fn save(change: &mut Change, new: NewCheckpoint, cx: &Cx<'_>) -> Result<Facts, Refusal> {
    let limit = cx.limits.checkpoint_bytes;
    let len = u64::from(new.body.body.len);
    if len > limit {
        let detail = format!("checkpoint exceeded: {len} > {limit}");
        return Err(Refusal::new(Code::LimitExceeded, detail));
    }
    let run = &mut change.rows.run;
    if new.journal != run.journal {
        let detail =
            format!("the checkpoint names journal position {}, the run has {}", new.journal.len, run.journal.len);
        return Err(Refusal::new(Code::StaleHop, detail));
    }
    let snapshot = new.snapshot.map(|(snapshot, body)| {
        change.bodies.extend(body);
        snapshot
    });
    let saved = Checkpoint {
        n: run.checkpoint.as_ref().map_or(0, |c| c.n) + 1,
        seq: run.seq,
        token: run.fence,
        schema: new.schema,
        journal: new.journal,
        body: new.body.body,
        snapshot,
    };
    let told = Facts::new()
        .number("checkpoint", saved.n)
        .with("checkpoint_digest", saved.body.digest)
        .flag("snapshot", saved.snapshot.is_some());
    run.checkpoint = Some(saved);
    run.continuations = 0;
    change.bodies.push(new.body);
    Ok(told)
}

fn no_call_in_flight(change: &Change) -> Result<(), Refusal> {
    match change.rows.calls.iter().find(|c| c.in_flight()) {
        None => Ok(()),
        Some(call) => {
            let detail = format!("{} is in flight", call.identity.text(call.run));
            Err(Refusal::new(Code::WaitUnsafe, detail))
        }
    }
}

fn stale_claim(run: &Run) -> Refusal {
    Refusal::new(Code::StaleClaim, format!("{} is {} at hop {}", run.id, run.status(), run.seq))
}

fn illegal(run: &Run, wanted: Status) -> Refusal {
    let detail = format!("{} is {} and cannot become {wanted}", run.id, run.status());
    Refusal::new(Code::IllegalTransition, detail)
}
