//! One run of the recovery pass (runs.md section 14).
//!
//! Rows are tried from the top of the table of that section; the first that fits is taken. Invariant: recovery never
//! guesses. An active run goes on only from a proved place: its journal, with every effect since then receipted, never
//! dispatched, or settled by key or lookup before anything else runs.

use super::{Cx, Decision, expire, hop::acknowledge_hop, settle, step};
use crate::able::Able;
use crate::approval;
use crate::call::{Call, RecoveryClass, State};
use crate::code::Code;
use crate::command::{Answer, Patience, Reach, Recover};
use crate::delivery::Cause;
use crate::digest::Digest;
use crate::event::{Facts, Kind};
use crate::fault::{Fault, planted};
use crate::job::{self, End, Job};
use crate::rows::{Change, Rows};
use crate::run::{Charge, Checkpoint, Claim, Edge, Failure, Phase, Run, Status, Stop, WaitMode};
use crate::tool::Effect;
use crate::wait::{self, Owner, Wait};

/// Does what is due for one run, or nothing.
pub(super) fn recover(recover: Recover, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    let Recover { reach, patience, able, .. } = recover;
    let mut change = Change::of(rows, cx.now);
    let before = change.run().clone();
    let repaired = match before.status() {
        Status::Queued => queued(&mut change, patience, &able, cx),
        Status::Running | Status::AwaitingHardware => active(&mut change, reach, patience, cx),
        Status::AwaitingConsent | Status::AwaitingDelegate | Status::AwaitingSignal | Status::AwaitingTimer => {
            parked(&mut change, cx)
        }
        Status::Cancelling | Status::Failing => stopping(&mut change, reach, patience, cx),
        Status::Done | Status::Failed | Status::Cancelled => false,
    };
    let changed = *change.run() != before || !change.events.is_empty();
    let run = Box::new(change.run().clone());
    let answer = Answer::Settled { run, changed, repaired };
    if changed { Decision::done(change, answer) } else { Decision::stands(answer) }
}

/// A run whose deadline has passed ends by the edge of its status.
fn past_deadline(run: &Run, change: &Change) -> Option<Failure> {
    run.deadline.filter(|deadline| change.now >= *deadline).map(|_| Failure::deadline())
}

fn queued(change: &mut Change, patience: Patience, able: &Able, cx: &mut Cx<'_>) -> bool {
    let ended = past_deadline(change.run(), change).or_else(|| without_worker(change.run(), patience, able, cx));
    if let Some(failure) = ended {
        step::charge_queue(change, cx);
        let edges = step::StopEdges::of_failure(Edge(4), Some(Edge(4)));
        step::stop(change, Stop::Fail(failure), edges, Charge::default(), cx);
    }
    false
}

/// nobody who is there can run it, and it has waited long enough for somebody who could.
fn without_worker(run: &Run, patience: Patience, able: &Able, cx: &Cx<'_>) -> Option<Failure> {
    let why = able.lacks(run, cx.registry)?;
    let since = run.delivery()?.ready_at;
    (cx.now >= since + patience.pin_grace).then(|| Failure::unavailable(&run.pattern, &why))
}

/// Whether the claim may be taken over: lapsed by the store's clock, or of a worker that cannot be alive.
fn lost(claim: &Claim, reach: Reach, cx: &Cx<'_>) -> bool {
    match reach {
        Reach::Lapsed => cx.now >= claim.deadline || planted(Fault::LiveClaimTaken),
        Reach::Others(me) => claim.worker != me || cx.now >= claim.deadline,
    }
}

/// takes over a lapsed claim, with a larger fence, in the transaction of its outcome.
fn active(change: &mut Change, reach: Reach, patience: Patience, cx: &mut Cx<'_>) -> bool {
    let Phase::Active { claim, .. } = change.run().phase.clone() else { return false };
    if !lost(&claim, reach, cx) {
        return false;
    }
    take_over(change, &claim);
    if let Some(failure) = past_deadline(change.run(), change) {
        fail(change, failure, cx);
        return true;
    }
    if !change.run().kind.is_journaled() && holds_exactly(change, &claim) {
        if continues(change, patience, cx) {
            step::queue(change, Edge(10), Cause::Recovery, Charge::default(), Facts::new());
        }
        return true;
    }
    if !change.run().kind.is_journaled() {
        settle::unknown_outcomes(change, cx, |_| true);
        fail(change, worker_lost(None), cx);
        return true;
    }
    let asked = settle::unknown_outcomes(change, cx, |call| !settles_itself(call));
    if asked > 0 {
        park_on(change, cx, |change, wait| wait.is_open() && settles(change, wait));
    } else if blocked_on_waits(change) {
        if !change.rows.waits.iter().any(Wait::is_ended) {
            park_on(change, cx, |_, _| true);
        } else if continues(change, patience, cx) {
            // It only passes through the park: no fact came of it.
            let in_a_row = change.run().continuations;
            park_on(change, cx, |_, _| true);
            change.rows.run.continuations = in_a_row;
            step::member_ended(change, None, cx);
        }
    } else if continues(change, patience, cx) {
        step::queue(change, Edge(10), Cause::Recovery, Charge::default(), Facts::new());
    }
    true
}

/// a hop in a hold saved the state it stood at with the hold, and ran nothing after that; a checkpoint of an
/// earlier claim is that of another place.
fn holds_exactly(change: &Change, claim: &Claim) -> bool {
    let run = change.run();
    let by_this_hop = |header: &Checkpoint| (header.seq, header.token) == (run.seq, claim.token);
    run.status() == Status::AwaitingHardware
        && run.checkpoint.as_ref().is_some_and(by_this_hop)
        && !change.rows.calls.iter().any(Call::in_flight)
}

/// Raises the fence, so that whatever the lost worker still writes changes nothing, and charges the hop.
fn take_over(change: &mut Change, claim: &Claim) {
    charge_lapsed(change, claim);
    change.rows.run.fence += 1;
    let facts = Facts::new().with("worker", claim.worker).number("token", claim.token).with("deadline", claim.deadline);
    change.event(Kind::ClaimLapsed, facts);
}

/// A lapsed hop worked until its last renewal; the time since then was nobody's work. Where its journal says
/// that it waited for people, or for handlers, it did not work at all.
fn charge_lapsed(change: &mut Change, claim: &Claim) {
    let now = change.now;
    let for_people =
        blocked_on_waits(change) && change.rows.waits.iter().all(|wait| matches!(wait.owner, Owner::Approval(_)));
    let for_handlers = change.rows.calls.iter().any(Call::in_flight);
    let clocks = &mut change.rows.run.clocks;
    // A charge is never more than the time that passed.
    let all = u64::MAX;
    if for_people {
        clocks.charge(now, Charge { active: 0, person: all });
    } else if !for_handlers {
        clocks.charge(claim.renewed_at.max(clocks.since), Charge { active: all, person: 0 });
    }
}

/// Reads run again, keys and lookups answer by themselves; anything else needs a person (C-228).
fn settles_itself(call: &Call) -> bool {
    call.effect != Effect::Write || call.recovery != RecoveryClass::Manual || planted(Fault::RecoveryGuesses)
}

fn settles(change: &Change, wait: &Wait) -> bool {
    let Owner::Approval(id) = wait.owner else { return false };
    change.rows.approvals.get(id).is_some_and(|a| a.kind() == approval::Kind::Settle)
}

/// the guest is blocked in a call or batch whose unfinished members all wait for owners that exist. A guest is
/// synchronous, so nothing came after an unfinished call.
fn blocked_on_waits(change: &Change) -> bool {
    let mut open = change.rows.calls.iter().filter(|c| !c.is_ended()).peekable();
    open.peek().is_some()
        && open.all(|call| {
            let waits = change.rows.waits.iter().any(|w| w.call == call.id && owner_is_sound(change, w));
            waits && matches!(call.state, State::Asked | State::Ambiguous(_))
        })
}

/// The owner exists, is of this run, and was not cancelled.
fn owner_is_sound(change: &Change, wait: &Wait) -> bool {
    match wait.owner {
        Owner::Timer(id) => id == wait.id,
        Owner::Signal(_) => true,
        Owner::Job(id) => {
            let cancelled = |job: &Job| matches!(job.state, job::State::Ended { end: End::Cancelled, .. });
            change.rows.jobs.get(id).is_some_and(|job| job.run == change.run().id && !cancelled(job))
        }
        Owner::Approval(id) => change.rows.approvals.get(id).is_some_and(|a| {
            a.run == change.run().id
                && (!matches!(a.status, approval::Status::Cancelled { .. }) || a.kind() == approval::Kind::Settle)
        }),
    }
}

/// E-11 on the waits that `chosen` picks; other open ones stay `live`.
fn park_on(change: &mut Change, cx: &Cx<'_>, chosen: impl Fn(&Change, &Wait) -> bool) {
    let picked: Vec<_> = change.rows.waits.iter().filter(|w| chosen(change, w)).cloned().collect();
    let on = wait::strongest(picked.iter().map(|w| &w.owner)).expect("recovery parks on a wait");
    for wait in picked.iter().filter(|w| w.state == wait::State::Live) {
        let row = change.rows.waits.edit(wait.id).expect("picked from these rows");
        row.state = wait::State::Parked;
    }
    // A park is a durable fact, whoever makes it: what comes after it is no continuation in a row.
    change.rows.run.continuations = 0;
    let ids: Vec<_> = picked.iter().map(|w| w.id).collect();
    let facts = step::with_waits(Facts::new().with("cause", "recovery"), &ids, cx);
    let phase = Phase::Parked { on, mode: WaitMode::Any };
    step::enter(change, Edge(11), phase, Charge::default(), facts);
}

/// Counts one more continuation; a run that was continued too often without getting anywhere ends instead.
fn continues(change: &mut Change, patience: Patience, cx: &mut Cx<'_>) -> bool {
    let in_a_row = change.run().continuations;
    if u32::from(in_a_row) >= patience.continuations {
        fail(change, worker_lost(Some(in_a_row)), cx);
        return false;
    }
    change.rows.run.continuations = in_a_row.saturating_add(1);
    true
}

fn worker_lost(continuations: Option<u8>) -> Failure {
    #[derive(serde::Serialize)]
    struct Detail {
        continuations: u8,
    }
    Failure {
        code: Code::WorkerLost,
        message: "worker lost".to_owned(),
        detail: continuations.and_then(|n| crate::json::to_canonical(&Detail { continuations: n }).ok()),
    }
}

fn fail(change: &mut Change, failure: Failure, cx: &mut Cx<'_>) {
    let edges = step::StopEdges::of_failure(Edge(14), Some(Edge(13)));
    step::stop(change, Stop::Fail(failure), edges, Charge::default(), cx);
    // The worker is gone: what it ran cannot acknowledge, the fence refuses its writes.
    acknowledge_hop(change, "lapse");
    step::contain(change, cx);
}

/// a satisfied set returns, a due member ends, a corrupt set ends the run; an open one is left alone
/// . Whether it was a repair: what is due is the ordinary work of time.
fn parked(change: &mut Change, cx: &mut Cx<'_>) -> bool {
    if let Some(failure) = past_deadline(change.run(), change) {
        expire::fail_parked(change, failure, cx);
        return false;
    }
    let members: Vec<Wait> = change.rows.waits.iter().filter(|w| w.state == wait::State::Parked).cloned().collect();
    if let Some(unsound) = members.iter().find(|wait| !owner_is_sound(change, wait)) {
        let owner = match unsound.owner {
            Owner::Approval(id) => id.to_string(),
            Owner::Timer(id) => id.to_string(),
            Owner::Signal(_) => unsound.id.to_string(),
            Owner::Job(id) => id.to_string(),
        };
        return corrupt(change, owner, cx);
    }
    let ended = change.rows.waits.iter().any(Wait::is_ended);
    if members.is_empty() {
        let nothing = change.run().id.to_string();
        return if ended { step::member_ended(change, None, cx) } else { corrupt(change, nothing, cx) };
    }
    for member in &members {
        let ended = match member.owner {
            Owner::Approval(id) => change.rows.approvals.get(id).is_some_and(|a| !a.is_pending()),
            Owner::Job(id) => change.rows.jobs.get(id).is_some_and(Job::is_ended),
            Owner::Timer(_) | Owner::Signal(_) => false,
        };
        if ended {
            step::end_wait(change, member.id, Digest::of(member.id.to_string()));
            if step::member_ended(change, None, cx) {
                return true;
            }
        }
    }
    for member in &members {
        if change.run().status().is_parked() && member.due_at.is_some_and(|due| cx.now >= due) {
            expire::end_due(change, member, cx);
        }
    }
    end_due_jobs(change, cx);
    false
}

/// jobs that nothing was heard of, or that are past their deadline.
fn end_due_jobs(change: &mut Change, cx: &mut Cx<'_>) {
    let now = cx.now;
    for id in change.rows.jobs.keys(|job| job.due_at().is_some_and(|due| now >= due)) {
        super::job::lapse(change, id, cx);
    }
}

fn corrupt(change: &mut Change, owner: String, cx: &mut Cx<'_>) -> bool {
    let failure = Failure { code: Code::WaitCorrupt, message: format!("wait corrupt: {owner}"), detail: None };
    expire::fail_parked(change, failure, cx);
    true
}

/// Drives what a stopping run still waits for.
fn stopping(change: &mut Change, reach: Reach, patience: Patience, cx: &mut Cx<'_>) -> bool {
    if let Phase::Stopping { hop: Some(claim), .. } = &change.run().phase {
        let claim = claim.clone();
        if !lost(&claim, reach, cx) {
            return false;
        }
        take_over(change, &claim);
        acknowledge_hop(change, "lapse");
    }
    let now = cx.now;
    for id in change.rows.calls.keys(|call| call.is_over_time(patience.beyond_tool_limit, now)) {
        let call = change.rows.calls.get(id).expect("listed above");
        match (call.effect, call.recovery) {
            // Its lookup is made first, and brings what it found by a command of its own.
            (Effect::Write, RecoveryClass::Lookup) => {}
            (Effect::Write, _) => settle::unknown(change, id, cx),
            (Effect::Read | Effect::Pure, _) => {
                step::acknowledge(change, crate::obligation::Subject::Call(id), "limit");
            }
        }
    }
    end_due_jobs(change, cx);
    step::contain(change, cx)
}
