//! Admission, claims, hops, ends and cancels.

use crate::world::{World, args, obligation, worker};
use protocol::approval::Verdict;
use protocol::call::{Applied, Outcome, OutcomeStatus, RecoveryClass};
use protocol::code::Code;
use protocol::command::{Act, Answer, Claim, Command, Concluded, Conclusion, Progress, Taker};
use protocol::delivery::{Cause, Mode};
use protocol::event::Kind;
use protocol::journal::Entry;
use protocol::run::{Charge, Failure, Phase, Status, WaitMode};
use protocol::tool::Effect;
use std::time::Duration;

fn failure() -> Failure {
    Failure { code: Code::StepFailed, message: "ValueError: no".to_owned(), detail: None }
}

#[test]
fn the_same_request_under_one_key_is_one_run() {
    let mut world = World::new();
    let first = world.admission(Some("k"));
    let again = first.clone();
    let Ok(Answer::Admitted { run, created: true }) = world.give(first) else { panic!("admitted") };
    let Ok(Answer::Admitted { run: same, created: false }) = world.give(again.clone()) else { panic!("repeated") };
    assert_eq!(same.id, run.id);
    let Command::Admit(mut other) = again else { unreachable!() };
    other.request_digest = protocol::digest::Digest::of("another request");
    let refused = world.give(Command::Admit(other)).expect_err("another request");
    assert_eq!(refused.code, Code::IdempotencyMismatch);
    assert!(refused.detail.contains(&run.id.to_string()));
    assert_eq!(world.events.len(), 1);
}

#[test]
fn admission_refuses_what_it_does_not_know() {
    let mut world = World::new();
    let change = |f: fn(&mut protocol::command::Admit)| {
        let mut world = World::new();
        let Command::Admit(mut admit) = world.admission(None) else { unreachable!() };
        f(&mut admit);
        world.give(Command::Admit(admit)).expect_err("refused").code
    };
    assert_eq!(change(|a| a.pattern.key = "nobody".into()), Code::UnknownWorkflow);
    assert_eq!(change(|a| a.pattern.revision = 2), Code::RevisionNotActive);
    assert_eq!(change(|a| a.priority = 101), Code::InvalidRequest);
    assert_eq!(change(|a| a.by.principal.rights = protocol::principal::Rights::none()), Code::NotPermitted);
    let run = world.admit();
    assert_eq!((run.status(), run.seq), (Status::Queued, 0)); // E-1
    let delivery = run.delivery().expect("one delivery");
    assert_eq!((delivery.mode, delivery.cause), (Mode::Fresh, Cause::Admission));
}

#[test]
fn an_admission_can_be_claimed_in_its_own_commit() {
    let mut world = World::new();
    let Command::Admit(mut admit) = world.admission(None) else { unreachable!() };
    admit.taker = Some(Taker { worker: worker(1), ttl: Duration::from_secs(30) });
    let Ok(Answer::Admitted { run, .. }) = world.give(Command::Admit(admit)) else { panic!("admitted") };
    assert_eq!(run.status(), Status::Running);
    let kinds: Vec<_> = world.events.iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [Kind::Run(Status::Queued), Kind::Run(Status::Running)]);
}

#[test]
fn of_many_claims_of_one_hop_one_wins() {
    let mut world = World::new();
    let run = world.admit();
    let claim = |n| {
        Command::Claim(Claim { run: run.id, seq: 0, taker: Taker { worker: worker(n), ttl: Duration::from_secs(30) } })
    };
    assert!(matches!(world.give(claim(1)), Ok(Answer::Claimed { .. }))); // E-3
    let events = world.events.len();
    for n in 2..5 {
        assert_eq!(world.give(claim(n)).expect_err("late").code, Code::Skipped);
    }
    assert_eq!(world.events.len(), events);
    assert_eq!(world.run().started_at, Some(world.now));
}

#[test]
fn a_write_without_the_present_token_changes_nothing() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let old = world.token();
    world.hop(Progress::default(), Act::HandBack { checkpoint: None }).expect("handed back");
    assert_eq!(world.run().delivery().map(|d| d.cause), Some(Cause::HandBack)); // E-8
    world.claim(2).expect("claimed again");
    assert!(world.token() > old);
    for act in [Act::Record, Act::Finish { result: args("1") }, Act::Fail(failure()), Act::Acknowledge] {
        let refused = world.hop_as(old, Progress::default(), act).expect_err("old token");
        assert_eq!(refused.code, Code::StaleClaim); // R-98 R-99
    }
    assert_eq!(world.status(), Status::Running);
}

#[test]
fn a_program_ends_once() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let token = world.token();
    world.hop(Progress::default(), Act::Finish { result: args("41") }).expect("done");
    assert_eq!(world.status(), Status::Done); // E-12
    assert_eq!(world.run().result().map(|b| b.digest), Some(args("41").body.digest));
    let late = world.hop_as(token, Progress::default(), Act::Fail(failure())).expect_err("late");
    assert_eq!(late.code, Code::StaleClaim);
    let Answer::Settled { changed, run, .. } = world.cancel() else { panic!("answered") };
    assert!(!changed && run.status() == Status::Done); // R-273 R-22
}

#[test]
fn a_failure_without_calls_in_flight_is_final_at_once() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    world.hop(Progress::default(), Act::Fail(failure())).expect("failed");
    assert_eq!(world.status(), Status::Failed); // E-13
    assert_eq!(world.run().failure(), Some(&failure()));
}

#[test]
fn a_failure_with_a_call_in_flight_waits_for_it() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let id = in_flight(&mut world);
    world.hop(Progress::default(), Act::Fail(failure())).expect("failing");
    assert_eq!(world.status(), Status::Failing); // E-14
    let token = world.run().claim().expect("R-256: the hop stays").token;
    let refused = world.hop_as(token, Progress::default(), Act::Finish { result: args("1") });
    assert_eq!(refused.expect_err("stopping").code, Code::RunStopping);
    let ended = ok_write(&world, id);
    world.hop_as(token, conclude(id, ended), Act::Acknowledge).expect("acknowledged");
    assert_eq!(world.status(), Status::Failed); // E-18
    assert_eq!(world.run().failure(), Some(&failure()));
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
fn cancelling_a_running_run_waits_for_its_hop() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    world.cancel();
    assert_eq!(world.status(), Status::Cancelling); // E-16
    let events = world.events.len();
    let Answer::Settled { changed: false, .. } = world.cancel() else { panic!("one election") };
    assert_eq!(world.events.len(), events);
    let refused = world.hop(Progress::default(), Act::Finish { result: args("1") }).expect_err("lost");
    assert_eq!(refused.code, Code::RunStopping);
    world.hop(Progress::default(), Act::Acknowledge).expect("acknowledged");
    assert_eq!(world.status(), Status::Cancelled); // E-17
}

#[test]
fn cancelling_a_parked_run_closes_its_question() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    world.cancel();
    assert_eq!(world.status(), Status::Cancelled);
    let approval = &world.approvals[&ask.id];
    let protocol::approval::Status::Cancelled { by, .. } = &approval.status else { panic!("{approval:?}") };
    assert_eq!(by, "system:run-cancelled");
    let late = world.verdict("ana", ask.id, Verdict::Approve).expect_err("late");
    assert_eq!(late.code, Code::ApprovalCancelled); // R-264 C-213
    assert_eq!(world.status(), Status::Cancelled);
}

#[test]
fn a_park_saves_checkpoint_question_and_wait_together() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    assert_eq!(world.status(), Status::AwaitingConsent); // E-7
    assert_eq!(world.run().checkpoint.as_ref().map(|c| c.n), Some(1));
    assert!(world.approvals[&ask.id].is_pending());
    assert_eq!(world.journal.len(), 2); // start and the call
    let kinds: Vec<_> = world.events.iter().map(|e| e.kind.as_str()).collect();
    assert_eq!(kinds, ["run.queued", "run.running", "call.entered", "approval.requested", "run.awaiting_consent"]);
}

#[test]
fn a_park_with_nothing_to_wait_for_is_refused() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let progress = Progress::default();
    let checkpoint = world.checkpoint(&progress);
    let act = Act::Park { checkpoint, mode: WaitMode::Any, taker: None };
    assert_eq!(world.hop(progress, act).expect_err("refused").code, Code::WaitUnsafe);
    in_flight(&mut world);
    let progress = Progress::default();
    let checkpoint = world.checkpoint(&progress);
    let act = Act::Park { checkpoint, mode: WaitMode::Any, taker: None };
    assert_eq!(world.hop(progress, act).expect_err("refused").code, Code::WaitUnsafe);
    assert_eq!(world.status(), Status::Running);
}

#[test]
fn the_clocks_say_where_the_time_went() {
    let mut world = World::new();
    world.admit();
    world.pass(Duration::from_millis(10));
    world.claim(1).expect("claimed");
    world.pass(Duration::from_millis(20));
    let call = world.call(Effect::Write, RecoveryClass::Manual);
    let ask = world.ask(&call, obligation());
    let progress = Progress {
        entries: vec![Entry::Call(Box::new(call))],
        asks: vec![ask],
        charge: Charge { active: 5_000, person: 0 },
        ..Progress::default()
    };
    let checkpoint = world.checkpoint(&progress);
    let act = Act::Park { checkpoint, mode: WaitMode::Any, taker: None };
    world.hop(progress, act).expect("parked");
    world.pass(Duration::from_secs(7));
    world.cancel();
    let clocks = world.run().clocks;
    assert_eq!((clocks.queued, clocks.active, clocks.calls, clocks.person), (10_000, 5_000, 15_000, 7_000_000));
    assert_eq!(world.run().budget.active_us, 5_000);
}

#[test]
fn a_call_beyond_the_budget_is_refused() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    for n in 0..101 {
        let call = world.call(Effect::Read, RecoveryClass::Retry);
        let progress = Progress { entries: vec![Entry::Call(Box::new(call))], ..Progress::default() };
        let answer = world.hop(progress, Act::Record);
        if n < 100 {
            answer.expect("within the budget"); // C-63
        } else {
            assert_eq!(answer.expect_err("past it").code, Code::CallBudgetExceeded); // C-63
        }
    }
    assert_eq!(world.run().budget.calls, 100); // C-65
}

/// A write that passed its gate and has no outcome.
pub(super) fn in_flight(world: &mut World) -> protocol::id::CallId {
    allow_writes(world);
    let call = world.call(Effect::Write, RecoveryClass::Manual);
    let id = call.id;
    let progress = Progress { entries: vec![Entry::Call(Box::new(call))], ..Progress::default() };
    world.hop(progress, Act::Record).expect("entered");
    assert!(matches!(world.dispatch(id), Ok(Answer::Dispatched { attempt: 1 })));
    id
}

/// A policy that allows every write.
pub(super) fn allow_writes(world: &mut World) {
    let mut policy = (*world.registry.policy).clone();
    policy.default.write = protocol::policy::Outcome::Allow;
    world.registry.policy = std::sync::Arc::new(policy);
}

pub(super) fn ok_write(world: &World, id: protocol::id::CallId) -> Outcome {
    Outcome {
        status: OutcomeStatus::Ok,
        code: None,
        applied: Applied::Yes,
        body: Some(args("{}").body),
        gate: world.calls[&id].gate().cloned(),
        at: world.now,
    }
}

pub(super) fn conclude(id: protocol::id::CallId, outcome: Outcome) -> Progress {
    Progress { conclusions: vec![Conclusion { call: id, end: Concluded::Ended(outcome) }], ..Progress::default() }
}

#[test]
fn a_final_run_never_changes_again() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    world.hop(Progress::default(), Act::Finish { result: args("1") }).expect("done");
    let run = world.run().clone();
    world.pass(Duration::from_secs(1_000_000));
    world.recover();
    world.cancel();
    let Phase::Final { .. } = &world.run().phase else { panic!("final") };
    assert_eq!(*world.run(), run); // R-15 R-32
}
