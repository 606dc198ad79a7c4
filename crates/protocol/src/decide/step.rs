//! The steps that decisions share: each makes one edge, or one part of an edge, on a [`Change`].
//!
//! Invariant: [`enter`] is the only place that replaces a run's phase with one of another status, and it refuses every
//! pair that the edge table does not have.

use super::{Cx, job, settle};
use crate::approval::{self, Approval};
use crate::call::{self, Applied, Outcome, OutcomeStatus, ReceiptFacts, ReceiptOutcome};
use crate::code::Code;
use crate::command::Taker;
use crate::delivery::{Cause, Delivery, Mode, State};
use crate::digest::Digest;
use crate::event::{Facts, Kind};
use crate::fault::{Fault, planted};
use crate::id::{CallId, WaitId};
use crate::job::Job;
use crate::limits::SMALL_CHECKPOINT_BYTES;
use crate::obligation::{self, Obligation, Subject};
use crate::pause;
use crate::rows::{Change, Debt};
use crate::run::{Charge, Claim, Clock, Edge, End, Failure, Hardware, Parked, Phase, Status, Stop, WaitMode, edge};
use crate::signal::Signal;
use crate::time::Time;
use crate::wait;

/// Why approvals and waits are closed by the runtime itself.
pub(super) const RUN_CANCELLED: &str = "system:run-cancelled";
pub(super) const RUN_FAILED: &str = "system:run-failed";
pub(super) const RUN_ENDED: &str = "system:run-ended";
pub(super) const ABANDONED: &str = "system:abandoned";

/// Makes an edge: phase, clock and the event `run.<status>`.
pub(super) fn enter(change: &mut Change, by: Edge, phase: Phase, charge: Charge, facts: Facts) {
    let now = change.now;
    let run = &mut change.rows.run;
    let (from, to) = (run.status(), phase.status());
    // a pair outside the table is a bug of a decision, never written.
    assert!(edge(by, Some(from), to), "{by} does not lead from {from} to {to} ({})", run.id);
    let clock = match to {
        Status::Queued => Clock::Queued,
        Status::Running => Clock::Hop,
        Status::AwaitingHardware => Clock::Hold,
        Status::AwaitingConsent => Clock::Person,
        Status::AwaitingDelegate | Status::AwaitingSignal | Status::AwaitingTimer => Clock::Machine,
        Status::Cancelling | Status::Failing => Clock::Stopping,
        Status::Done | Status::Failed | Status::Cancelled => Clock::Stopped,
    };
    run.clocks.switch(now, charge, clock);
    run.phase = phase;
    run.since = now;
    change.event(Kind::Run(to), facts);
}

/// E-8, E-9, E-10: the run becomes QUEUED with the next seq and a fresh delivery.
pub(super) fn queue(change: &mut Change, by: Edge, cause: Cause, charge: Charge, told: Facts) {
    let now = change.now;
    let run = &mut change.rows.run;
    run.seq += 1;
    if planted(Fault::BudgetForgotten) {
        run.budget.hardware = Hardware::default();
    }
    let mode = if run.checkpoint.is_some() { Mode::Resume } else { Mode::Fresh };
    let facts = told.with("cause", cause.as_str()).number("hop", run.seq);
    let delivery =
        Delivery { state: State::Pending, mode, cause, ready_at: now, retry_at: now, attempts: 0, last_error: None };
    enter(change, by, Phase::Queued { delivery }, charge, facts);
}

/// Charges a run's time in the queue up to now: what a pause kept from a claim was not waiting for a worker.
pub(super) fn charge_queue(change: &mut Change, cx: &Cx<'_>) {
    let now = change.now;
    let run = &mut change.rows.run;
    if run.status() == Status::Queued {
        let paused = pause::between(run, cx.registry, run.clocks.since, now);
        run.clocks.charge_queue(now, paused);
    }
}

/// The taker, if it can run this and no pause keeps the run from it.
pub(super) fn may_take(change: &Change, taker: Option<Taker>, cx: &Cx<'_>) -> Option<Taker> {
    let run = change.run();
    taker.filter(|taker| taker.able.lacks(run, cx.registry).is_none() && !pause::is_paused(run, cx.registry))
}

/// E-3: the taker owns the hop, with a token larger than any before.
pub(super) fn take(change: &mut Change, taker: Taker) {
    let now = change.now;
    let run = &mut change.rows.run;
    run.fence += u64::from(!planted(Fault::TokenGivenTwice));
    run.started_at.get_or_insert(now);
    let token = run.fence;
    // W-247: the commit that claims a hop consumes the snapshot; whoever comes later can only replay.
    if let Some(snapshot) = run.checkpoint.as_mut().and_then(|c| c.snapshot.as_mut()) {
        snapshot.consumed_by.get_or_insert(token);
    }
    let claim = Claim { worker: taker.worker, token, deadline: now + taker.ttl, renewed_at: now };
    let facts = Facts::new().with("worker", taker.worker).number("token", token).number("hop", run.seq);
    enter(change, Edge(3), Phase::Active { hardware: false, claim }, Charge::default(), facts);
}

/// E-9, now that a member of the set on which the run is parked has ended, if that satisfies the set;
/// E-3 follows where a worker of this process has room.
///
/// What is still open becomes `live` and stays decidable; in mode `first` it is closed.
pub(super) fn member_ended(change: &mut Change, taker: Option<Taker>, cx: &Cx<'_>) -> bool {
    let Phase::Parked { mode, .. } = change.run().phase else { return false };
    let open = change.rows.waits.keys(|w| w.state == wait::State::Parked);
    if mode == WaitMode::All && !open.is_empty() {
        return false;
    }
    for id in open {
        if mode == WaitMode::First {
            close_wait(change, id, ABANDONED);
        } else if let Some(wait) = change.rows.waits.edit(id) {
            wait.state = wait::State::Live;
        }
    }
    queue(change, Edge(9), Cause::Return, Charge::default(), Facts::new());
    if let Some(taker) = may_take(change, taker, cx) {
        take(change, taker);
    }
    true
}

/// Marks a wait as ended by its owner; the hop that takes it deletes the row. Whether it was a member of the set on
/// which the run is parked: only the end of such a one may return the run.
pub(super) fn end_wait(change: &mut Change, id: WaitId, outcome: Digest) -> bool {
    let Some(wait) = change.rows.waits.edit(id) else { return planted(Fault::OldAnswerReturns) };
    let member = wait.state == wait::State::Parked;
    if wait.is_open() {
        wait.state = wait::State::Ended { outcome };
        let call = wait.call;
        close_others(change, id, call);
    }
    member
}

/// Of the waits of one call the first that ends wins. The question what became of an effect is nobody's rival.
fn close_others(change: &mut Change, winner: WaitId, call: CallId) {
    let settles = |change: &Change, wait: &wait::Wait| match wait.owner {
        wait::Owner::Approval(id) => change.rows.approvals.get(id).is_some_and(|a| a.kind() == approval::Kind::Settle),
        wait::Owner::Timer(_) | wait::Owner::Signal(_) | wait::Owner::Job(_) => false,
    };
    // A call that has ended has none: what is left of it is waited for until all of it has ended.
    if change.rows.calls.get(call).is_none_or(call::Call::is_ended) {
        return;
    }
    let rivals = change.rows.waits.keys(|wait| wait.call == call && wait.id != winner && wait.is_open());
    for id in rivals {
        if !change.rows.waits.get(id).is_some_and(|wait| settles(change, wait)) {
            close_wait(change, id, ABANDONED);
        }
    }
}

/// Closes a wait for good. Its job is asked to stop. Its approval is cancelled, unless it settles an effect: that question
/// outlives everything but a `give_up` (C-152).
pub(super) fn close_wait(change: &mut Change, id: WaitId, by: &str) {
    let Some(wait) = change.rows.waits.get(id).cloned() else { return };
    if let wait::Owner::Approval(approval) = wait.owner {
        cancel_approval(change, approval, by);
    }
    change.rows.waits.remove(id);
    if let wait::Owner::Job(id) = wait.owner {
        job::ask_to_stop(change, id, by);
    }
    if wait.is_open() {
        change.event(Kind::WaitClosed, Facts::new().with("wait", id).with("by", by));
    }
}

fn cancel_approval(change: &mut Change, id: crate::id::ApprovalId, by: &str) {
    let now = change.now;
    let Some(found) = change.rows.approvals.get(id) else { return };
    if found.kind() == approval::Kind::Settle {
        return;
    }
    if found.is_pending() {
        let row = change.rows.approvals.edit(id).expect("found above");
        row.status = approval::Status::Cancelled { at: now, by: by.to_owned() };
        change.event(Kind::ApprovalCancelled, Facts::new().with("approval", id).with("by", by));
    } else if found.is_open_yes() {
        end_yes(change, id, approval::Ending::CancelledBeforeDispatch);
    }
}

/// Ends an open or gated yes (C-152 to C-157).
pub(super) fn end_yes(change: &mut Change, id: crate::id::ApprovalId, how: approval::Ending) {
    let now = change.now;
    let Some(row) = change.rows.approvals.edit(id) else { return };
    if let approval::Status::Approved { phase, .. } = &mut row.status {
        let gate_at = match *phase {
            approval::Phase::Open => None,
            approval::Phase::Gated { at } => Some(at),
            approval::Phase::Ended { .. } => return,
        };
        *phase = approval::Phase::Ended { gate_at, at: now, how };
    }
}

/// Closes every wait of a run that stops or ends, and every yes that was not dispatched.
pub(super) fn close_questions(change: &mut Change, by: &str) {
    for id in change.rows.waits.keys(|_| true) {
        close_wait(change, id, by);
    }
    for id in change.rows.approvals.keys(|a| a.is_pending() || a.is_open_yes()) {
        cancel_approval(change, id, by);
    }
}

/// Stops a run: closes its questions, opens an obligation for its hop, for each call in flight and for each job whose agent
/// is not known to have stopped, and ends it at once where there is none (E-16 with E-17, E-14 or E-13, E-15 with E-18, E-4).
pub(super) fn stop(change: &mut Change, stop: Stop, edges: StopEdges, charge: Charge, cx: &mut Cx<'_>) {
    close_questions(change, stop.closes_by());
    let hop = match &change.run().phase {
        Phase::Active { claim, .. } => Some(claim.clone()),
        _ => None,
    };
    let in_flight = change.rows.calls.keys(call::Call::in_flight);
    let hop = hop.filter(|_| edges.hop_must_acknowledge || !in_flight.is_empty());
    let jobs = change.rows.jobs.keys(Job::may_run);
    if let (true, Some(direct)) = (hop.is_none() && in_flight.is_empty() && jobs.is_empty(), edges.direct) {
        return finish(change, direct, stop.end(), charge, cx);
    }
    let seq = change.run().seq;
    if hop.is_some() {
        open(change, Subject::Hop(seq));
    }
    for id in &in_flight {
        open(change, Subject::Call(*id));
    }
    for id in jobs {
        open(change, Subject::Job(id));
    }
    let facts = match &stop {
        Stop::Cancel { by } => edges.why.with("by", by),
        Stop::Fail(failure) => failure_facts(failure, cx),
    };
    enter(change, edges.stopping, Phase::Stopping { end: stop, hop }, charge, facts);
    contain(change, cx);
}

/// Which edges a stop may make.
pub(super) struct StopEdges {
    pub(super) stopping: Edge,
    /// The edge to the final status where nothing is left to stop; without one the stopping status comes first.
    pub(super) direct: Option<Edge>,
    /// Whether a hop that owns the run has to say that it stopped, even with no call in flight.
    pub(super) hop_must_acknowledge: bool,
    /// What the event of a cancel says beside by whom.
    pub(super) why: Facts,
}

impl StopEdges {
    /// Those of a failure, which does not wait for a hop that has no call in flight.
    pub(super) fn of_failure(stopping: Edge, direct: Option<Edge>) -> StopEdges {
        StopEdges { stopping, direct, hop_must_acknowledge: false, why: Facts::new() }
    }
}

/// Opens an obligation of a run that stops.
pub(super) fn open(change: &mut Change, subject: Subject) {
    // Of a job only its agent can tell, who learns of it at each heartbeat: there is nothing to try.
    let retry_at = if matches!(subject, Subject::Job(_)) { Time::MAX } else { change.now };
    let row = Obligation {
        run: change.run().id,
        subject,
        state: obligation::State::Open,
        attempts: 0,
        last_error: None,
        retry_at,
    };
    change.rows.obligations.add(row);
    change.event(Kind::ContainmentOpened, Facts::new().with("kind", subject.kind()).with("ref", subject.to_string()));
}

/// Acknowledges an obligation, if it is open.
pub(super) fn acknowledge(change: &mut Change, subject: Subject, by: &str) {
    let now = change.now;
    let Some(row) = change.rows.obligations.edit(subject) else { return };
    if !row.is_open() {
        return;
    }
    row.state = obligation::State::Acknowledged { by: by.to_owned(), at: now };
    let facts = Facts::new().with("kind", subject.kind()).with("by", by);
    change.event(Kind::ContainmentAcknowledged, facts);
}

/// E-17, E-18: ends a stopping run once every obligation is acknowledged or attested.
pub(super) fn contain(change: &mut Change, cx: &mut Cx<'_>) -> bool {
    let Phase::Stopping { end, hop: None } = &change.run().phase else { return false };
    if change.rows.obligations.iter().any(Obligation::is_open) && !planted(Fault::EndsUncontained) {
        return false;
    }
    let (edge, end) = match end {
        Stop::Cancel { .. } => (Edge(17), end.end()),
        Stop::Fail(_) => (Edge(18), end.end()),
    };
    finish(change, edge, end, Charge::default(), cx);
    true
}

/// The final commit: what is still open is closed, calls that never ran are receipted as such, debt is written
/// down, and the one terminal event follows the status.
pub(super) fn finish(change: &mut Change, by: Edge, end: End, charge: Charge, cx: &mut Cx<'_>) {
    settle::ask_what_is_left(change, cx);
    close_questions(change, end.closes_by());
    for id in change.rows.calls.keys(|c| matches!(c.state, call::State::Entered | call::State::Asked)) {
        never_ran(change, id);
    }
    clean_up(change);
    for id in change.rows.obligations.keys(|obligation| !obligation.is_attested()) {
        change.rows.obligations.remove(id);
    }
    let facts = match &end {
        End::Done { result } => Facts::new().with("result_digest", result.digest),
        End::Failed(failure) => failure_facts(failure, cx),
        End::Cancelled { by } => Facts::new().with("by", by),
    };
    for n in change.rows.signals.keys(Signal::is_kept) {
        change.rows.signals.remove(n);
    }
    change.rows.run.pause = None;
    let at = change.now;
    enter(change, by, Phase::Final { end, at }, charge, facts);
}

/// A small checkpoint goes with its run; what takes time to delete is owed.
fn clean_up(change: &mut Change) {
    let Some(checkpoint) = &change.rows.run.checkpoint else { return };
    let owed: &[Debt] = match checkpoint.snapshot {
        Some(_) => &[Debt::Snapshot, Debt::Checkpoint],
        None if checkpoint.body.len > SMALL_CHECKPOINT_BYTES => &[Debt::Checkpoint],
        None => &[],
    };
    if owed.is_empty() {
        change.rows.run.checkpoint = None;
        change.paid.push(Debt::Checkpoint);
    }
    change.debts.extend_from_slice(owed);
}

/// A call that no handler ever saw, at the end of its run (C-125: every counted call has a receipt).
fn never_ran(change: &mut Change, id: CallId) {
    let outcome = Outcome {
        status: OutcomeStatus::Denied,
        code: Some(Code::CancelledBeforeDispatch),
        applied: Applied::No,
        body: None,
        gate: None,
        at: change.now,
    };
    conclude(change, id, outcome);
}

/// Stores a call's outcome with its receipt and event. Waits of the call are taken.
pub(super) fn conclude(change: &mut Change, id: CallId, outcome: Outcome) {
    for wait in change.rows.waits.keys(|w| w.call == id) {
        if change.rows.waits.get(wait).is_some_and(wait::Wait::is_open) {
            close_wait(change, wait, ABANDONED);
        } else {
            change.rows.waits.remove(wait);
        }
    }
    conclude_keeping_waits(change, id, outcome);
}

/// As [`conclude`], for an outcome that a person found out: the hop has still to take the wait.
pub(super) fn conclude_keeping_waits(change: &mut Change, id: CallId, outcome: Outcome) {
    let hop = change.run().seq;
    let row = change.rows.calls.get(id).expect("concluded calls are loaded").clone();
    let settles = row.receipt;
    match row.approval {
        Some(approval) => end_yes(change, approval, ending(change.rows.approvals.get(approval), outcome.status)),
        // Its gates, if it waited for some (W-124).
        None => {
            for gate in change.rows.approvals.keys(|a| a.call == id && a.kind() == approval::Kind::Gate) {
                end_yes(change, gate, approval::Ending::Delivered);
            }
        }
    }
    let facts = ReceiptFacts {
        hop,
        outcome: match outcome.status {
            OutcomeStatus::Ok => ReceiptOutcome::Ok,
            OutcomeStatus::Error => ReceiptOutcome::Error,
            OutcomeStatus::Denied => ReceiptOutcome::Denied,
        },
        code: outcome.code,
        applied: outcome.applied,
        result: outcome.body.filter(|_| outcome.status == OutcomeStatus::Ok).map(|b| b.digest),
        policy: asked_under(change, &row),
        gate_at: outcome.gate.as_ref().map(|g| g.at),
        attempt: outcome.gate.as_ref().map_or(1, |g| g.attempt),
        ended_at: outcome.at,
        settles,
    };
    change.receipt(id, &facts);
    let kind = if settles.is_some() { Kind::CallSettled } else { Kind::CallEnded };
    let told = Facts::new()
        .with("call", id)
        .with("tool", &row.tool.name)
        .with("outcome", outcome.status.as_str())
        .with("applied", outcome.applied.as_str())
        .maybe("code", outcome.code.map(Code::as_str));
    change.event(kind, told);
    let row = change.rows.calls.edit(id).expect("loaded above");
    row.state = call::State::Ended(outcome);
    change.rows.run.continuations = 0;
    acknowledge(change, Subject::Call(id), "outcome");
}

/// The version of the policy under which a person was asked about the call.
pub(super) fn asked_under(change: &Change, call: &call::Call) -> Option<Digest> {
    call.approval.and_then(|id| change.rows.approvals.get(id)).map(|a| a.binding.policy)
}

fn ending(approval: Option<&Approval>, status: OutcomeStatus) -> approval::Ending {
    match (approval.map(Approval::kind), status) {
        (Some(approval::Kind::Gate), _) => approval::Ending::Delivered,
        (_, OutcomeStatus::Ok) => approval::Ending::Ok,
        (_, OutcomeStatus::Error) => approval::Ending::Error,
        (_, OutcomeStatus::Denied) => approval::Ending::CancelledBeforeDispatch,
    }
}

fn failure_facts(failure: &Failure, cx: &Cx<'_>) -> Facts {
    let text = &failure.message;
    let short = &text[..text.floor_char_boundary(cx.limits.event_text())];
    Facts::new().with("code", failure.code.as_str()).with("message", short)
}

/// Adds the waits of a park to its facts; of more than fit, how many there are.
pub(super) fn with_waits(facts: Facts, waits: &[WaitId], cx: &Cx<'_>) -> Facts {
    let most = cx.limits.event_waits();
    let told = facts.list("waits", waits.iter().take(most));
    if waits.len() > most { told.number("waits_in_all", waits.len() as u64) } else { told }
}

/// The phase of a run parked on these waits.
pub(super) fn parked_on(change: &Change) -> Option<Parked> {
    wait::strongest(change.rows.waits.iter().map(|w| &w.owner))
}

impl Stop {
    fn closes_by(&self) -> &'static str {
        match self {
            Stop::Cancel { .. } => RUN_CANCELLED,
            Stop::Fail(_) => RUN_FAILED,
        }
    }

    fn end(&self) -> End {
        match self {
            Stop::Cancel { by } => End::Cancelled { by: by.clone() },
            Stop::Fail(failure) => End::Failed(failure.clone()),
        }
    }
}

impl End {
    fn closes_by(&self) -> &'static str {
        match self {
            End::Done { .. } => RUN_ENDED,
            End::Failed(_) => RUN_FAILED,
            End::Cancelled { .. } => RUN_CANCELLED,
        }
    }
}
