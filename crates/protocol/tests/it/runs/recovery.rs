//! Recovery: what a lapsed claim leaves, and what it never guesses (runs.md section 14).

use crate::world::{TTL, World, args, obligation, ok, worker};
use protocol::approval::{self, Verdict};
use protocol::call::{RecoveryClass, State};
use protocol::code::Code;
use protocol::command::{Act, Answer, Command, Due, Progress, Reach, Timer};
use protocol::delivery::{Cause, Mode};
use protocol::journal::Entry;
use protocol::policy::OnExpiry;
use protocol::run::{Kind, Status, WaitMode};
use protocol::tool::Effect;
use protocol::wait;
use std::time::Duration;

fn changed(answer: Answer) -> (bool, bool) {
    match answer {
        Answer::Settled { changed, repaired, .. } => (changed, repaired),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_that_has_not_lapsed_is_left_alone() {
    let mut world = World::running();
    world.pass(Duration::from_secs(29));
    let run = world.run().clone();
    assert!(!changed(world.recover()).0); // R-282
    assert_eq!(*world.run(), run); // R-282
}

#[test]
fn a_lapsed_hop_without_effects_goes_on_from_its_journal() {
    let mut world = World::running();
    let (old, fence) = (world.token(), world.run().fence);
    world.lapse();
    assert!(world.is_at(Status::Queued, 1)); // E-10 R-285
    assert_eq!(world.run().delivery().map(|d| (d.mode, d.cause)), Some((Mode::Fresh, Cause::Recovery))); // R-308
    assert_eq!(world.run().fence, fence + 1); // R-277
    let late = world.hop_as(old, Progress::default(), Act::Finish { result: args("1") });
    assert_eq!(late.expect_err("a zombie").code, Code::StaleClaim); // R-111
}

#[test]
fn claims_of_other_starts_are_lapsed_by_proof() {
    let mut world = World::running();
    assert!(!changed(world.recover_as(Reach::Others(worker(1)))).0);
    assert!(changed(world.recover_as(Reach::Others(worker(2)))).0); // R-278
    assert_eq!(world.status(), Status::Queued);
}

#[test]
pub(super) fn a_fourth_continuation_without_progress_is_worker_lost() {
    let mut world = World::running();
    for n in 0..3 {
        world.lapse();
        assert_eq!(world.status(), Status::Queued); // R-118
        world.claim(n).expect("claimed");
    }
    world.lapse();
    assert_eq!(world.status(), Status::Failed); // R-118
    let failure = world.run().failure().expect("failed");
    assert_eq!((failure.code, failure.message.as_str()), (Code::WorkerLost, "worker lost")); // R-299
    assert_eq!(failure.detail.as_ref().map(|d| d.as_str()), Some(r#"{"continuations":3}"#)); // R-118
}

#[test]
fn a_durable_fact_between_two_crashes_starts_the_count_again() {
    let mut world = World::running();
    for n in 0..9 {
        let read = world.enter(Effect::Read, RecoveryClass::Retry);
        world.end(read, protocol::call::Outcome { applied: protocol::call::Applied::No, ..ok() }).expect("an outcome");
        world.lapse();
        world.claim(n).expect("R-118: it got somewhere");
    }
    // How many it may be is a setting of the pass.
    world.patience.continuations = 1;
    world.lapse();
    assert_eq!(world.status(), Status::Failed); // R-118
}

#[test]
fn a_park_between_two_crashes_starts_the_count_again() {
    let mut world = World::running();
    world.patience.continuations = 1;
    world.lapse();
    world.claim(2).expect("continued once, which is all that is borne");
    let ask = world.hot(obligation());
    world.lapse();
    assert_eq!(world.status(), Status::AwaitingConsent);
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    world.claim(3).expect("claimed");
    world.lapse();
    assert!(world.is_at(Status::Queued, 3)); // R-118: a park of recovery is a park
    // One that is answered already is none: whoever dies on the answer each time is not continued for ever.
    world.claim(4).expect("claimed");
    world.lapse();
    assert_eq!(world.status(), Status::Failed); // R-118
}

#[test]
fn rust_code_is_never_continued_by_guess() {
    let mut world = World::running_with(|admit| admit.kind = Kind::Rust);
    let id = world.in_flight(RecoveryClass::Idempotent);
    world.lapse();
    assert_eq!(world.run().failure().map(|f| f.message.as_str()), Some("worker lost")); // R-288
    let question = world.calls[&id].settle.expect("R-299: asked, for nobody else will settle it");
    assert!(world.approval(question).is_pending()); // R-299
}

#[test]
fn a_manual_effect_in_flight_is_a_question() {
    let mut world = World::running();
    let id = world.in_flight(RecoveryClass::Manual);
    world.lapse();
    assert_eq!(world.status(), Status::AwaitingConsent); // R-287 E-11
    assert!(matches!(world.calls[&id].state, State::Ambiguous(_))); // R-301
    let question = world.calls[&id].settle.expect("asked");
    assert!(world.approval(question).is_pending()); // C-209
    let rows = world.rows.clone();
    for _ in 0..10 {
        world.recover();
    }
    assert_eq!(world.rows, rows); // R-316 R-292
    world.verdict("ana", question, Verdict::GiveUp).expect("given up");
    assert_eq!(world.status(), Status::Queued); // R-305: the returned hop fails the run
    assert!(matches!(world.calls[&id].state, State::Ambiguous(_))); // C-238
}

#[test]
fn a_run_that_waits_for_what_is_unknown_waits_for_nothing_else() {
    let mut world = World::running();
    let hot = world.hot(obligation());
    let id = world.in_flight(RecoveryClass::Manual);
    world.lapse();
    let question = world.calls[&id].settle.expect("asked");
    let state = |world: &World, wait| world.rows().waits.get(wait).map(|w| w.state);
    assert_eq!(state(&world, hot.wait), Some(wait::State::Live)); // R-309
    assert_eq!(state(&world, world.approval(question).wait), Some(wait::State::Parked)); // R-309
    world.verdict("ana", hot.id, Verdict::Approve).expect("decided");
    assert!(world.is_at(Status::AwaitingConsent, 0)); // R-184 R-33: no member of the set
    world.recover();
    assert!(world.is_at(Status::AwaitingConsent, 0)); // R-316
    world.verdict("ana", question, Verdict::DidNotHappen).expect("settled");
    assert!(world.is_at(Status::Queued, 1)); // R-309
}

#[test]
fn an_effect_with_a_key_or_a_lookup_goes_on_and_is_settled_first() {
    for class in [RecoveryClass::Idempotent, RecoveryClass::Lookup] {
        let mut world = World::running();
        let id = world.in_flight(class);
        world.lapse();
        assert_eq!(world.status(), Status::Queued); // R-286
        assert!(matches!(world.calls[&id].state, State::Ambiguous(_))); // R-286
        assert_eq!(world.calls[&id].settle, None);
    }
}

#[test]
fn only_what_is_proved_goes_on() {
    // Receipted, never dispatched, or settled by key before anything else runs: the journal carries on from there.
    let mut world = World::running();
    let done = world.in_flight(RecoveryClass::Manual);
    world.end(done, ok()).expect("receipted");
    let entered = world.enter(Effect::Write, RecoveryClass::Manual);
    let keyed = world.in_flight(RecoveryClass::Idempotent);
    world.lapse();
    assert!(world.is_at(Status::Queued, 1)); // R-296
    assert_eq!(world.calls[&entered].state, State::Entered); // R-296
    assert!(matches!(world.calls[&keyed].state, State::Ambiguous(_))); // R-296
    // One effect that nobody can tell about, and nothing less lets it go on.
    world.claim(2).expect("claimed");
    world.in_flight(RecoveryClass::Manual);
    world.lapse();
    assert!(world.is_at(Status::AwaitingConsent, 1)); // R-296
}

#[test]
fn a_hot_question_survives_the_crash() {
    let mut world = World::running();
    let ask = world.hot(obligation());
    let expires = world.approval(ask.id).expires_at;
    world.lapse();
    assert_eq!(world.status(), Status::AwaitingConsent); // R-283 C-209
    assert_eq!(world.approvals.len(), 1); // R-300: nothing is asked twice
    assert_eq!(world.approval(ask.id).expires_at, expires); // C-209
}

#[test]
fn a_batch_is_blocked_when_each_open_member_waits() {
    let mut world = World::running();
    let asks = [world.hot(obligation()), world.hot(obligation())];
    world.lapse();
    assert_eq!(world.status(), Status::AwaitingConsent); // R-297
    let parked = world.rows().waits.keys(|w| w.state == wait::State::Parked);
    assert_eq!(parked, asks.each_ref().map(|ask| ask.wait)); // R-297
    // A member that waits for nobody is work: no exact wait, the journal carries on.
    let mut world = World::running();
    world.hot(obligation());
    world.enter(Effect::Read, RecoveryClass::Retry);
    world.lapse();
    assert_eq!(world.status(), Status::Queued); // R-297
}

#[test]
fn an_older_wait_is_no_exact_wait() {
    // Parked once, returned, and at work again when the worker died: what it waited for then proves nothing now.
    let mut world = World::new();
    let ask = world.parked(obligation());
    world.verdict("ana", ask.id, Verdict::Reject).expect("rejected");
    world.claim(2).expect("claimed");
    world.end(ask.call, crate::world::denied(Code::ApprovalRejected)).expect("told");
    world.enter(Effect::Read, RecoveryClass::Retry);
    world.lapse();
    assert!(world.is_at(Status::Queued, 2)); // R-298
    // A question that is closed is none to wait for either.
    let mut world = World::running();
    let ask = world.hot(obligation());
    let cancelled = approval::Status::Cancelled { at: world.now, by: "somebody".to_owned() };
    world.approvals.get_mut(&ask.id).expect("asked").status = cancelled.clone();
    world.rows.as_mut().expect("rows").approvals.edit(ask.id).expect("asked").status = cancelled;
    world.lapse();
    assert_eq!(world.status(), Status::Queued); // R-298
}

#[test]
fn a_hot_question_decided_before_the_pass_returns_at_once() {
    let mut world = World::running();
    let ask = world.hot(obligation());
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    assert_eq!(world.status(), Status::Running); // R-184
    world.lapse();
    assert!(world.is_at(Status::Queued, 1)); // R-283 with E-9
}

#[test]
fn an_intent_without_a_gate_never_ran() {
    let mut world = World::running();
    let id = world.enter(Effect::Write, RecoveryClass::Manual);
    world.lapse();
    assert_eq!(world.status(), Status::Queued); // R-300
    assert_eq!(world.calls[&id].state, State::Entered); // R-300
}

#[test]
fn a_decision_that_did_not_return_its_run_is_repaired() {
    // No command leaves such rows: the question is answered, and the run is parked on it all the same.
    let stuck = || {
        let mut world = World::new();
        let ask = world.parked(obligation());
        world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
        let decided = world.approval(ask.id).clone();
        let mut world = World::new();
        let same = world.parked(obligation());
        assert_eq!(same.id, ask.id);
        world.approvals.insert(ask.id, decided.clone());
        *world.rows.as_mut().expect("rows").approvals.edit(ask.id).expect("asked") = decided;
        (world, ask)
    };
    let (mut world, _) = stuck();
    assert_eq!(changed(world.recover()), (true, true)); // R-289
    assert!(world.is_at(Status::Queued, 1)); // R-289
    let (mut world, ask) = stuck();
    let Ok(Answer::Decided(decided)) = world.verdict("ana", ask.id, Verdict::Approve) else { panic!("repeated") };
    assert_eq!((decided.run.status(), decided.run.seq), (Status::Queued, 1)); // R-167 C-202
}

#[test]
fn what_is_due_in_a_parked_run_is_ended_by_the_pass_too() {
    let mut world = World::new();
    let ask = world.parked(crate::world::expiring(obligation(), OnExpiry::Reject));
    assert_eq!(changed(world.recover()), (false, false)); // R-292
    world.pass(Duration::from_secs(60));
    assert_eq!(changed(world.recover()), (true, false)); // R-290
    assert!(matches!(world.approval(ask.id).status, approval::Status::Expired { .. })); // R-290
    assert!(world.is_at(Status::Queued, 1)); // R-290
    let mut world = World::running();
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let timer = Timer { wait: world.mint(), call: call.id, due: Due::In(Duration::from_secs(60)) };
    let progress = Progress { entries: vec![Entry::Call(Box::new(call))], timers: vec![timer], ..Progress::default() };
    let checkpoint = world.checkpoint(&progress);
    world.hop(progress, Act::Park { checkpoint, mode: WaitMode::Any, taker: None }).expect("asleep");
    world.pass(Duration::from_secs(60) - Duration::from_micros(1));
    assert_eq!(changed(world.recover()), (false, false)); // R-241
    world.pass(Duration::from_micros(1));
    assert_eq!(changed(world.recover()), (true, false)); // R-290
    assert!(world.is_at(Status::Queued, 1)); // R-290
}

#[test]
pub(super) fn a_parked_run_whose_owner_is_missing_is_corrupt() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    world.rows.as_mut().expect("rows").approvals = protocol::rows::Set::default();
    world.approvals.clear();
    assert_eq!(changed(world.recover()), (true, true));
    let failure = world.run().failure().expect("failed").clone();
    assert_eq!(failure.code, Code::WaitCorrupt); // R-291
    assert_eq!(failure.message, format!("wait corrupt: {}", ask.id)); // R-315
    assert_eq!(world.status(), Status::Failed); // E-15 E-18
}

#[test]
fn a_stopping_run_whose_worker_is_gone_is_acknowledged_by_lapse() {
    let mut world = World::running();
    world.cancel();
    assert_eq!(world.status(), Status::Cancelling);
    world.lapse();
    assert_eq!(world.status(), Status::Cancelled); // R-267 R-293
}

#[test]
fn a_stopping_run_waits_for_a_call_until_its_limit_and_a_minute() {
    let mut world = World::running();
    let id = world.in_flight(RecoveryClass::Manual);
    world.cancel();
    world.pass(Duration::from_secs(31));
    for _ in 0..10 {
        world.recover();
    }
    assert_eq!(world.status(), Status::Cancelling); // R-268
    let open = |world: &World| -> Vec<_> {
        world.rows().obligations.iter().filter(|o| o.is_open()).map(|o| o.subject).collect()
    };
    assert_eq!(open(&world), [protocol::obligation::Subject::Call(id)]);
    world.pass(Duration::from_secs(60));
    world.recover();
    assert_eq!(world.status(), Status::Cancelled); // R-269 R-293
    let question = world.calls[&id].settle.expect("asked");
    assert!(world.approval(question).is_pending()); // R-269
    world.verdict("ana", question, Verdict::DidNotHappen).expect("R-307: settled after the end");
    assert_eq!(world.status(), Status::Cancelled); // C-242
    assert!(world.calls[&id].is_ended());
}

#[test]
fn how_long_past_its_limit_a_call_may_run_is_a_setting() {
    let mut world = World::running();
    world.in_flight(RecoveryClass::Manual);
    world.patience.beyond_tool_limit = Duration::from_secs(2);
    world.cancel();
    world.pass(Duration::from_secs(32) - Duration::from_micros(1));
    world.recover();
    assert_eq!(world.status(), Status::Cancelling); // R-268
    world.pass(Duration::from_micros(1));
    world.recover();
    assert_eq!(world.status(), Status::Cancelled); // R-268
}

#[test]
pub(super) fn a_run_past_its_deadline_ends_by_the_edge_of_its_status() {
    let mut world = World::new();
    let deadline = world.now + Duration::from_secs(100);
    let admission = world.admission_with(|admit| admit.deadline = Some(deadline));
    world.give(admission).expect("admitted");
    world.pass(Duration::from_secs(100));
    assert_eq!(world.claim(1).expect_err("too late").code, Code::NotNow);
    world.recover();
    assert_eq!(world.status(), Status::Failed); // E-4 R-379
    assert_eq!(world.run().failure().map(|f| f.message.as_str()), Some("run deadline exceeded"));
}

#[test]
fn a_question_that_expires_with_its_run_is_no_answer() {
    for by_pass in [false, true] {
        let mut world = World::running_with(|admit| {
            admit.deadline = Some(protocol::time::Time::from_millis(1_000_000) + Duration::from_secs(60));
        });
        let ask = world.hot(obligation());
        world.park().expect("parked");
        assert_eq!(world.approval(ask.id).expires_at, world.run().deadline);
        world.pass(Duration::from_secs(60));
        if by_pass {
            world.recover();
        } else {
            world.give(Command::Expire { run: world.run().id, wait: ask.wait }).expect("due");
        }
        let failure = world.run().failure().map(|failure| failure.code);
        assert_eq!((world.status(), failure), (Status::Failed, Some(Code::RunDeadlineExceeded))); // R-379
    }
}

#[test]
fn a_lapsed_hop_is_charged_to_its_last_renewal() {
    let mut world = World::running();
    let since = world.now;
    world.pass(Duration::from_secs(8));
    let rows = world.rows.as_mut().expect("rows");
    let protocol::run::Phase::Active { claim, .. } = &mut rows.run.phase else { panic!("active") };
    claim.renewed_at = since + Duration::from_secs(8);
    world.pass(TTL);
    world.recover();
    let clocks = world.run().clocks;
    assert_eq!((clocks.active, clocks.calls, clocks.person), (8_000_000, 30_000_000, 0)); // R-377
    // One that waited for a person all the while did not work.
    let mut world = World::running();
    world.hot(obligation());
    world.lapse();
    let clocks = world.run().clocks;
    assert_eq!((clocks.active, clocks.calls, clocks.person), (0, 0, 30_000_000)); // R-374
}
