//! Recovery: what a lapsed claim leaves, and what it never guesses (runs.md section 14).

use super::lifecycle::{allow_writes, in_flight};
use crate::world::{World, args, obligation, worker};
use protocol::approval::Verdict;
use protocol::call::{RecoveryClass, State};
use protocol::code::Code;
use protocol::command::{Act, Answer, Command, Progress, Reach, Recover};
use protocol::delivery::{Cause, Mode};
use protocol::journal::Entry;
use protocol::run::{Kind, Status};
use protocol::tool::Effect;
use std::time::Duration;

fn lapse(world: &mut World) {
    world.pass(Duration::from_secs(30));
}

#[test]
fn a_claim_that_has_not_lapsed_is_left_alone() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    world.pass(Duration::from_secs(29));
    let run = world.run().clone();
    let Answer::Settled { changed: false, .. } = world.recover() else { panic!("R-282") };
    assert_eq!(*world.run(), run);
}

#[test]
fn a_lapsed_hop_without_effects_goes_on_from_its_journal() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let (old, fence) = (world.token(), world.run().fence);
    lapse(&mut world);
    world.recover();
    assert_eq!((world.status(), world.run().seq), (Status::Queued, 1)); // E-10 R-285
    assert_eq!(world.run().delivery().map(|d| (d.mode, d.cause)), Some((Mode::Fresh, Cause::Recovery)));
    assert_eq!(world.run().fence, fence + 1);
    let late = world.hop_as(old, Progress::default(), Act::Finish { result: args("1") });
    assert_eq!(late.expect_err("a zombie").code, Code::StaleClaim);
}

#[test]
fn claims_of_other_starts_are_lapsed_by_proof() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    assert!(matches!(world.recover_as(Reach::Others(worker(1))), Answer::Settled { changed: false, .. }));
    assert!(matches!(world.recover_as(Reach::Others(worker(2))), Answer::Settled { changed: true, .. }));
    assert_eq!(world.status(), Status::Queued);
}

#[test]
fn a_fourth_continuation_without_progress_is_worker_lost() {
    let mut world = World::new();
    world.admit();
    for n in 0..4 {
        assert_eq!(world.status(), Status::Queued);
        world.claim(n).expect("claimed");
        lapse(&mut world);
        world.recover();
    }
    assert_eq!(world.status(), Status::Failed);
    let failure = world.run().failure().expect("failed");
    assert_eq!((failure.code, failure.message.as_str()), (Code::WorkerLost, "worker lost"));
}

#[test]
fn rust_code_is_never_continued_by_guess() {
    let mut world = World::new();
    let Command::Admit(mut admit) = world.admission(None) else { unreachable!() };
    admit.kind = Kind::Rust;
    world.give(Command::Admit(admit)).expect("admitted");
    world.claim(1).expect("claimed");
    lapse(&mut world);
    world.recover();
    assert_eq!(world.run().failure().map(|f| f.message.as_str()), Some("worker lost"));
}

#[test]
fn a_manual_effect_in_flight_is_a_question() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let id = in_flight(&mut world);
    lapse(&mut world);
    world.recover();
    assert_eq!(world.status(), Status::AwaitingConsent); // R-287 E-11
    assert!(matches!(world.calls[&id].state, State::Ambiguous(_)));
    let question = world.calls[&id].settle.expect("asked");
    assert!(world.approvals[&question].is_pending()); // C-209
    let rows = world.rows.clone();
    for _ in 0..10 {
        world.recover();
    }
    assert_eq!(world.rows, rows);
    world.verdict("ana", question, Verdict::GiveUp).expect("given up");
    assert_eq!(world.status(), Status::Queued); // the returned hop fails the run
    assert!(matches!(world.calls[&id].state, State::Ambiguous(_))); // C-238
}

#[test]
fn an_effect_with_a_key_goes_on_and_is_settled_first() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    allow_writes(&mut world);
    let call = world.call(Effect::Write, RecoveryClass::Idempotent);
    let id = call.id;
    let progress = Progress { entries: vec![Entry::Call(Box::new(call))], ..Progress::default() };
    world.hop(progress, Act::Record).expect("entered");
    world.dispatch(id).expect("dispatched");
    lapse(&mut world);
    world.recover();
    assert_eq!(world.status(), Status::Queued);
    assert!(matches!(world.calls[&id].state, State::Ambiguous(_)));
    assert_eq!(world.calls[&id].settle, None);
}

#[test]
fn a_hot_question_survives_the_crash() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let call = world.call(Effect::Write, RecoveryClass::Manual);
    let ask = world.ask(&call, obligation());
    let progress =
        Progress { entries: vec![Entry::Call(Box::new(call))], asks: vec![ask.clone()], ..Progress::default() };
    world.hop(progress, Act::Record).expect("asked");
    let expires = world.approvals[&ask.id].expires_at;
    lapse(&mut world);
    world.recover();
    assert_eq!(world.status(), Status::AwaitingConsent); // R-283 C-209
    assert_eq!(world.approvals.len(), 1); // nothing is asked twice
    assert_eq!(world.approvals[&ask.id].expires_at, expires); // C-209
}

#[test]
fn a_hot_question_decided_before_the_pass_returns_at_once() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let call = world.call(Effect::Write, RecoveryClass::Manual);
    let ask = world.ask(&call, obligation());
    let progress =
        Progress { entries: vec![Entry::Call(Box::new(call))], asks: vec![ask.clone()], ..Progress::default() };
    world.hop(progress, Act::Record).expect("asked");
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    assert_eq!(world.status(), Status::Running);
    lapse(&mut world);
    world.recover();
    assert_eq!((world.status(), world.run().seq), (Status::Queued, 1)); // R-283 with E-9
}

#[test]
fn an_intent_without_a_gate_never_ran() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let call = world.call(Effect::Write, RecoveryClass::Manual);
    let id = call.id;
    let progress = Progress { entries: vec![Entry::Call(Box::new(call))], ..Progress::default() };
    world.hop(progress, Act::Record).expect("entered");
    lapse(&mut world);
    world.recover();
    assert_eq!(world.status(), Status::Queued);
    assert_eq!(world.calls[&id].state, State::Entered);
}

#[test]
fn a_parked_run_whose_owner_is_missing_is_corrupt() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    let rows = world.rows.as_mut().expect("rows");
    rows.approvals = protocol::rows::Set::default();
    let run = world.run().id;
    let mut ids = protocol::id::Ids::new(world.now, 0, 7);
    let mut cx =
        protocol::decide::Cx { now: world.now, ids: &mut ids, registry: &world.registry, limits: &world.limits };
    let loaded = protocol::decide::Loaded::Rows(Box::new(world.rows.clone().expect("rows")));
    let recover = Recover { run, reach: Reach::Lapsed, patience: world.patience };
    let decision = protocol::decide::decide(Command::Recover(recover), loaded, &mut cx);
    let change = decision.change.expect("R-315: ended");
    let failure = change.rows.run.failure().expect("failed").clone();
    assert_eq!(failure.code, Code::WaitCorrupt);
    assert_eq!(failure.message, format!("wait corrupt: {}", ask.id));
    assert_eq!(change.rows.run.status(), Status::Failed); // E-15 E-18
}

#[test]
fn a_stopping_run_whose_worker_is_gone_is_acknowledged_by_lapse() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    world.cancel();
    assert_eq!(world.status(), Status::Cancelling);
    lapse(&mut world);
    world.recover();
    assert_eq!(world.status(), Status::Cancelled);
}

#[test]
fn a_stopping_run_waits_for_a_call_until_its_limit_and_a_minute() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let id = in_flight(&mut world);
    world.cancel();
    world.pass(Duration::from_secs(31));
    world.recover();
    assert_eq!(world.status(), Status::Cancelling);
    world.pass(Duration::from_secs(60));
    world.recover();
    assert_eq!(world.status(), Status::Cancelled);
    let question = world.calls[&id].settle.expect("asked");
    assert!(world.approvals[&question].is_pending());
    world.verdict("ana", question, Verdict::DidNotHappen).expect("R-307: settled after the end");
    assert_eq!(world.status(), Status::Cancelled); // C-242
    assert!(world.calls[&id].is_ended());
}

#[test]
fn a_run_past_its_deadline_ends_by_the_edge_of_its_status() {
    let mut world = World::new();
    let Command::Admit(mut admit) = world.admission(None) else { unreachable!() };
    admit.deadline = Some(world.now + Duration::from_secs(100));
    world.give(Command::Admit(admit.clone())).expect("admitted");
    world.pass(Duration::from_secs(100));
    world.recover();
    assert_eq!(world.status(), Status::Failed); // E-4 R-379
    assert_eq!(world.run().failure().map(|f| f.message.as_str()), Some("run deadline exceeded"));
}
