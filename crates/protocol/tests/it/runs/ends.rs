//! Ends: results, failures, cancels, and what is written after them (runs.md sections 11 to 13).

use crate::world::{World, args, failure, obligation, ok, result};
use protocol::approval::{self, Verdict};
use protocol::call::{OutcomeStatus, RecoveryClass};
use protocol::code::Code;
use protocol::command::{Act, Answer, Command, Concluded, Conclusion, Progress};
use protocol::digest::Digest;
use protocol::event::Kind;
use protocol::obligation::Subject;
use protocol::rows::Debt;
use protocol::run::{Body, Failure, Phase, Snapshot, Status};
use protocol::tool::Effect;
use std::time::Duration;

fn closed_by(world: &World, id: protocol::id::ApprovalId) -> &str {
    match &world.approval(id).status {
        approval::Status::Cancelled { by, .. } => by,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_ends_once() {
    let mut world = World::running();
    let token = world.token();
    world.finish().expect("done");
    assert_eq!(world.status(), Status::Done); // E-12
    assert_eq!(world.run().result().map(|b| b.digest), Some(result().body.digest));
    let torn = world.hop_as(token, Progress::default(), Act::Fail(failure())).expect_err("late");
    assert_eq!(torn.code, Code::StaleClaim);
    assert_eq!(world.status(), Status::Done);
    let Answer::Settled { changed, run, .. } = world.cancel() else { panic!("answered") };
    assert!(!changed && run.status() == Status::Done); // R-273 R-22
}

#[test]
pub(super) fn a_final_commit_closes_everything_at_once() {
    let mut world = World::running();
    let first = world.parked(obligation());
    world.verdict("ana", first.id, Verdict::Approve).expect("approved");
    world.claim(2).expect("claimed");
    let open = world.hot(obligation());
    let commands = world.seqs.len();
    world.finish().expect("done");
    assert_eq!(world.seqs.len(), commands + 1);
    let change = world.last.clone().expect("saved");
    let run = &change.rows.run;
    assert_eq!((run.status(), run.finished_at()), (Status::Done, Some(world.now)));
    assert!(run.result().is_some() && run.claim().is_none() && run.delivery().is_none());
    assert_eq!(change.rows.waits.iter().count(), 0);
    assert_eq!(closed_by(&world, open.id), "system:run-ended"); // R-244 R-188
    // A yes that nobody used is closed with its run.
    let unused = &world.approval(first.id).status;
    let approval::Status::Approved { phase: approval::Phase::Ended { how, .. }, .. } = unused else {
        panic!("{unused:?}")
    };
    assert_eq!(*how, approval::Ending::CancelledBeforeDispatch); // C-152
    assert!(run.checkpoint.is_none() && change.debts.is_empty());
    assert_eq!(change.paid, [Debt::Checkpoint]);
    assert_eq!(change.events.last().map(|event| event.kind), Some(Kind::Run(Status::Done))); // R-244 R-357
}

#[test]
fn an_end_owes_what_takes_time_to_delete() {
    let limit = 64 * 1024;
    let body = Body { digest: Digest::of("guest"), len: 9 };
    let image = Digest::of("image");
    let snapshot = Snapshot { hop: 0, engine: "python".to_owned(), image, body, consumed_by: None };
    let cases: [(u32, Option<Snapshot>, &[Debt]); 4] = [
        (limit, None, &[]),
        (limit + 1, None, &[Debt::Checkpoint]),
        (1, Some(snapshot.clone()), &[Debt::Snapshot, Debt::Checkpoint]),
        (limit + 1, Some(snapshot), &[Debt::Snapshot, Debt::Checkpoint]),
    ];
    for (len, snapshot, owed) in cases {
        let mut world = World::running();
        let ask = world.parked(obligation());
        let checkpoint = world.rows.as_mut().expect("rows").run.checkpoint.as_mut().expect("parked");
        (checkpoint.body.len, checkpoint.snapshot) = (len, snapshot);
        world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
        world.claim(2).expect("claimed");
        world.finish().expect("done");
        let change = world.last.clone().expect("saved");
        assert_eq!(change.debts, owed); // R-244 R-245
        assert_eq!(change.rows.run.checkpoint.is_none(), owed.is_empty());
    }
}

#[test]
fn a_call_that_the_body_gives_up_closes_its_question() {
    let mut world = World::running();
    let ask = world.hot(obligation());
    world.end(ask.call, crate::world::denied(Code::ApprovalCancelled)).expect("given up");
    assert_eq!(closed_by(&world, ask.id), "system:abandoned");
    assert_eq!(world.rows().waits.iter().count(), 0);
    let late = world.verdict("ana", ask.id, Verdict::Approve).expect_err("late");
    assert_eq!(late.code, Code::ApprovalCancelled);
}

#[test]
fn a_failure_without_calls_in_flight_is_final_at_once() {
    let mut world = World::running();
    let ask = world.hot(obligation());
    world.fail().expect("failed");
    assert_eq!(world.status(), Status::Failed); // E-13 R-253
    assert_eq!(world.run().failure(), Some(&failure()));
    assert_eq!(closed_by(&world, ask.id), "system:run-failed");
}

#[test]
fn a_failure_with_calls_in_flight_waits_for_each() {
    let mut world = World::running();
    let calls = [world.in_flight(RecoveryClass::Manual), world.in_flight(RecoveryClass::Idempotent)];
    world.fail().expect("failing");
    assert_eq!(world.status(), Status::Failing); // E-14 R-253
    let mut open: Vec<_> = world.rows().obligations.iter().map(|o| o.subject).collect();
    open.sort();
    assert_eq!(open, [Subject::Hop(0), Subject::Call(calls[0]), Subject::Call(calls[1])]);
    let token = world.run().claim().expect("R-256: the hop stays").token;
    let refused = world.hop_as(token, Progress::default(), Act::Finish { result: args("1") });
    assert_eq!(refused.expect_err("stopping").code, Code::RunStopping);
    world.end(calls[0], ok()).expect("R-21: an outcome");
    let last = Conclusion { call: calls[1], end: Concluded::Ended(ok()) };
    let progress = Progress { conclusions: vec![last], ..Progress::default() };
    world.hop_as(token, progress, Act::Acknowledge).expect("acknowledged");
    assert_eq!(world.status(), Status::Failed); // E-18
    assert_eq!(world.run().failure(), Some(&failure()));
}

#[test]
fn every_failure_goes_one_way() {
    let failures = [
        (Code::StepFailed, "ValueError: no"),
        (Code::StasisLost, "stasis lost"),
        (Code::CheckpointInvalid, "checkpoint invalid: journal"),
        (Code::PinnedPatternUnavailable, "pinned Pattern unavailable: refund@1"),
        (Code::GuestTime, "active time exceeded: 61 ms > 60 ms"),
        (Code::LimitExceeded, "calls exceeded: 101 > 100"),
    ];
    for (code, message) in failures {
        let mut world = World::running();
        let ask = world.hot(obligation());
        let failure = Failure { code, message: message.to_owned(), detail: None };
        world.hop(Progress::default(), Act::Fail(failure)).expect("failed");
        ends_the_same_way(&world, ask.id, code, message);
    }
    let mut world = World::running_with(|admit| admit.deadline = Some(admit.deadline.unwrap_or(far())));
    let ask = world.hot(obligation());
    world.now = far();
    world.recover();
    ends_the_same_way(&world, ask.id, Code::RunDeadlineExceeded, "run deadline exceeded");
    let mut world = World::running();
    world.patience.continuations = 0;
    world.enter(Effect::Read, RecoveryClass::Retry);
    let ask = world.hot(obligation());
    world.lapse();
    ends_the_same_way(&world, ask.id, Code::WorkerLost, "worker lost");
}

fn far() -> protocol::time::Time {
    protocol::time::Time::from_millis(2_000_000)
}

fn ends_the_same_way(world: &World, question: protocol::id::ApprovalId, code: Code, message: &str) {
    assert_eq!(world.status(), Status::Failed, "{message}");
    let told = world.run().failure().map(|f| (f.code, f.message.as_str()));
    assert_eq!(told, Some((code, message)));
    assert_eq!(closed_by(world, question), "system:run-failed", "{message}");
    let facts = world.events.last().expect("events").facts.value();
    assert_eq!(facts.get("code").and_then(|c| c.as_str()), Some(code.as_str()));
}

#[test]
fn what_is_no_failure_of_a_run_leaves_it_going() {
    // A lost claim, and a shutdown between two steps or while a person thinks.
    let mut world = World::running();
    world.lapse();
    world.claim(2).expect("claimed");
    world.hand_back().expect("handed back");
    world.claim(3).expect("claimed");
    let ask = world.hot(obligation());
    world.park().expect("parked");
    world.verdict("ana", ask.id, Verdict::Reject).expect("rejected");
    world.claim(4).expect("claimed");
    world.end(ask.call, crate::world::denied(Code::ApprovalRejected)).expect("told");
    world.finish().expect("done");
    assert_eq!(world.status(), Status::Done);
    assert!(!world.kinds(0).iter().any(|kind| ["run.failing", "run.failed"].contains(kind)));
}

#[test]
fn a_long_text_of_a_failure_fits_into_its_event() {
    for limit in [8_192, 4_096] {
        let mut world = World::running();
        world.limits.facts_bytes = limit;
        let failure = Failure { code: Code::StepFailed, message: "\u{1}".repeat(4_096), detail: None };
        world.hop(Progress::default(), Act::Fail(failure.clone())).expect("failed");
        assert_eq!(world.run().failure(), Some(&failure));
        let facts = world.events.last().expect("events").facts.canonical();
        assert!(facts.len() > limit as usize / 2 && facts.len() <= limit as usize, "{}", facts.len());
    }
}

#[test]
fn cancelling_a_queued_run_is_contained_at_once() {
    let mut world = World::new();
    world.admit();
    let Answer::Settled { run, changed: true, .. } = world.cancel() else { panic!("cancelled") };
    assert_eq!(run.status(), Status::Cancelled); // E-16 E-17
    assert_eq!(run.failure(), None);
    assert_eq!(world.claim(1).expect_err("final").code, Code::Skipped);
}

#[test]
pub(super) fn cancelling_a_running_run_waits_for_its_hop() {
    let mut world = World::running();
    world.cancel();
    assert_eq!(world.status(), Status::Cancelling); // E-16
    let events = world.events.len();
    let Answer::Settled { changed: false, .. } = world.cancel() else { panic!("one election") };
    assert_eq!(world.events.len(), events);
    assert_eq!(world.finish().expect_err("lost").code, Code::RunStopping);
    world.hop(Progress::default(), Act::Acknowledge).expect("acknowledged");
    assert_eq!(world.status(), Status::Cancelled); // E-17
}

#[test]
fn a_worker_of_a_cancelled_run_neither_fails_it_nor_waits_for_it() {
    let mut world = World::running();
    let call = world.in_flight(RecoveryClass::Manual);
    world.cancel();
    assert_eq!(world.fail().expect_err("not a failure").code, Code::RunStopping);
    assert_eq!((world.status(), world.run().failure()), (Status::Cancelling, None));
    world.hop(Progress::default(), Act::Acknowledge).expect("the hop is free");
    assert!(world.run().claim().is_none()); // it does not wait for the cancel to finish
    assert_eq!(world.status(), Status::Cancelling);
    let open: Vec<_> = world.rows().obligations.iter().filter(|o| o.is_open()).map(|o| o.subject).collect();
    assert_eq!(open, [Subject::Call(call)]);
}

#[test]
pub(super) fn cancelling_a_parked_run_closes_its_question() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    world.cancel();
    assert_eq!(world.status(), Status::Cancelled);
    assert_eq!(closed_by(&world, ask.id), "system:run-cancelled");
    let late = world.verdict("ana", ask.id, Verdict::Approve).expect_err("late");
    assert_eq!(late.code, Code::ApprovalCancelled); // R-264 C-213
    assert_eq!(world.status(), Status::Cancelled);
    let outcome = world.calls[&ask.call].outcome().expect("R-275: what was denied is listed");
    assert_eq!((outcome.status, outcome.code), (OutcomeStatus::Denied, Some(Code::CancelledBeforeDispatch))); // C-244
}

#[test]
fn a_final_run_never_changes_again() {
    let mut world = World::running();
    let token = world.token();
    let ask = world.hot(obligation());
    world.finish().expect("done");
    let run = world.run().clone();
    world.pass(Duration::from_secs(1_000_000));
    world.recover();
    world.cancel();
    world.claim(2).expect_err("final");
    world.hop_as(token, Progress::default(), Act::Record).expect_err("final");
    world.give(Command::Expire { run: world.run().id, wait: ask.wait }).expect("nothing is due");
    let Phase::Final { .. } = &world.run().phase else { panic!("final") };
    assert_eq!(*world.run(), run); // R-15 R-32
    world.verdict("ana", ask.id, Verdict::Reject).expect_err("closed");
    let after = world.kinds(run.events.len as usize);
    assert_eq!(after, ["attempt.refused"]);
}
