//! Stories of holds: a hop that waits for a resource keeps its claim, counts before it asks, and ends by itself.

use crate::world::{TTL, World, failure, obligation, ok};
use protocol::approval::Verdict;
use protocol::call::RecoveryClass;
use protocol::code::Code;
use protocol::command::{Act, Answer, Concluded, Progress};
use protocol::event::Kind;
use protocol::refusal::Refusal;
use protocol::run::{Kind as RunKind, Phase, Status};
use protocol::tool::Effect;
use std::time::Duration;

impl World {
    fn hold(&mut self, resource: &str) -> Result<Answer, Refusal> {
        let checkpoint = self.checkpoint(&Progress::default());
        self.hop(Progress::default(), Act::Hold { resource: resource.to_owned(), checkpoint })
    }

    fn warm(&mut self) -> Result<Answer, Refusal> {
        self.hop(Progress::default(), Act::Warm)
    }

    fn made(&self) -> (u32, u32, u32) {
        let made = &self.run().budget.hardware;
        (made.total, made.in_row("a"), made.in_row("b"))
    }
}

fn refused(answer: Result<Answer, Refusal>) -> Code {
    answer.expect_err("refused").code
}

#[test]
fn a_hold_stays_in_its_hop_and_counts_before_the_manager_is_asked() {
    let mut world = World::running();
    let before = world.run().clone();
    world.pass(Duration::from_secs(2));
    world.hold("a").expect("held"); // E-5
    let held = world.run().clone();
    assert_eq!((held.status(), held.seq, held.claim()), (Status::AwaitingHardware, before.seq, before.claim())); // R-142
    assert!(world.rows().waits.iter().next().is_none() && held.delivery().is_none()); // R-142: no wait, no message
    // In the commit that begins the hold, with the checkpoint that it starts again from.
    assert_eq!((world.made(), held.checkpoint.as_ref().map(|c| c.n)), ((1, 1, 0), Some(1))); // R-147 R-132
    let told = &world.events.last().expect("an event").facts;
    assert!(told.canonical().as_str().contains(r#""calls":1"#), "{told:?}");
    world.pass(Duration::from_secs(5));
    world.warm().expect("warm"); // E-6
    let run = world.run().clone();
    assert_eq!((run.status(), run.seq, run.claim()), (Status::Running, before.seq, before.claim())); // R-142
    assert_eq!((run.clocks.hold, run.clocks.calls), (5_000_000, 2_000_000)); // R-373 R-375: its time is nobody's work
    assert_eq!(run.checkpoint, held.checkpoint); // E-6: the status alone
    world.finish().expect("done");
    assert_eq!(world.made(), (1, 1, 0)); // R-152: shown to the end
}

#[test]
pub(super) fn the_fourth_in_a_row_and_the_ninth_in_all_are_never_made() {
    let mut world = World::running();
    for resource in ["a", "a", "b", "a", "a"] {
        world.hold(resource).expect("within its bounds"); // R-143
        world.warm().expect("warm");
    }
    assert_eq!(world.made(), (5, 2, 0)); // R-144
    world.hold("a").expect("the third"); // R-143
    world.warm().expect("warm");
    let refusal = world.hold("a").expect_err("the fourth"); // R-143
    assert_eq!(refusal.code, Code::HardwareBudgetExhausted); // R-148
    assert_eq!(refusal.detail, "hardware budget exhausted: resource 'a': 3 calls in a row, and no more"); // R-148 R-381
    assert_eq!((world.status(), world.made()), (Status::Running, (6, 3, 0))); // R-146: a refused one is not counted
    for resource in ["b", "a"] {
        world.hold(resource).expect("another resource"); // R-145
        world.warm().expect("warm");
    }
    let refusal = world.hold("b").expect_err("the ninth"); // R-143
    assert_eq!(refusal.detail, "hardware budget exhausted: resource 'b': 8 calls in all, and no more"); // R-148
}

#[test]
fn nothing_but_another_resource_resets_the_count_in_a_row() {
    let mut world = World::running();
    world.hold("a").expect("the first");
    world.warm().expect("warm");
    // Progress and a success.
    let call = world.enter(Effect::Read, RecoveryClass::Retry);
    world.end(call, ok()).expect("ended");
    assert_eq!(world.made(), (1, 1, 0)); // R-145
    // A park, a decision and a return to another worker.
    let ask = world.parked(obligation());
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    world.claim(2).expect("claimed");
    assert_eq!(world.made(), (1, 1, 0)); // R-145
    // A hand back, and a worker that is lost in a hold.
    world.hand_back().expect("handed back");
    world.claim(3).expect("claimed");
    world.hold("a").expect("the second");
    world.lapse();
    assert_eq!((world.status(), world.made()), (Status::Queued, (2, 2, 0))); // R-145
    world.claim(4).expect("claimed");
    world.hold("a").expect("the third");
    world.warm().expect("warm");
    assert_eq!(refused(world.hold("a")), Code::HardwareBudgetExhausted); // R-145
}

#[test]
fn in_a_hold_outcomes_are_stored_and_no_gate_opens() {
    let mut world = World::running();
    let flying = world.in_flight(RecoveryClass::Manual);
    let next = world.enter(Effect::Write, RecoveryClass::Manual);
    let ask = world.hot(obligation());
    world.hold("a").expect("held beside a call in flight");
    assert_eq!(refused(world.dispatch(next)), Code::IllegalTransition); // R-150
    assert_eq!(refused(world.hold("b")), Code::IllegalTransition); // R-150: one at a time
    assert_eq!(refused(world.park()), Code::IllegalTransition); // E-7: from RUNNING alone
    assert_eq!(refused(world.hand_back()), Code::WaitUnsafe); // R-135
    world.end(flying, ok()).expect("stored"); // R-150
    world.verdict("ana", ask.id, Verdict::Approve).expect("decided all the same");
    assert_eq!(world.status(), Status::AwaitingHardware);
    world.warm().expect("warm");
    assert_eq!(refused(world.warm()), Code::IllegalTransition); // E-6: from the hold alone
    assert!(matches!(world.dispatch(next), Ok(Answer::Dispatched { .. }))); // R-150
}

#[test]
fn a_pause_and_a_shutdown_end_a_hold_by_handing_back() {
    let mut world = World::running();
    world.hold("a").expect("held");
    world.pause().expect("paused");
    assert_eq!(world.status(), Status::AwaitingHardware);
    world.hand_back().expect("handed back"); // E-8
    assert_eq!((world.status(), world.run().seq, world.made()), (Status::Queued, 1, (1, 1, 0))); // R-151
    assert!(world.run().claim().is_none()); // R-151
}

#[test]
fn whoever_lost_the_claim_neither_holds_nor_goes_on() {
    let mut world = World::running();
    let old = world.token();
    world.hold("a").expect("held");
    world.lapse();
    assert_eq!(world.status(), Status::Queued); // E-10
    world.claim(2).expect("claimed");
    let resource = "a".to_owned();
    let checkpoint = world.checkpoint(&Progress::default());
    let hold = Act::Hold { resource, checkpoint };
    assert_eq!(refused(world.hop_as(old, Progress::default(), hold)), Code::StaleClaim); // R-98
    assert_eq!(refused(world.hop_as(old, Progress::default(), Act::Warm)), Code::StaleClaim); // R-98
    assert_eq!(world.made(), (1, 1, 0));
    world.cancel();
    assert_eq!(refused(world.hold("a")), Code::RunStopping); // R-20
}

#[test]
fn a_hold_that_fails_ends_the_run_from_where_it_is() {
    let mut world = World::running();
    world.hold("a").expect("held");
    world.fail().expect("failed"); // E-13
    assert_eq!((world.status(), world.run().failure().cloned()), (Status::Failed, Some(failure()))); // R-149
    let mut world = World::running();
    let flying = world.in_flight(RecoveryClass::Manual);
    world.hold("a").expect("held");
    world.fail().expect("failing"); // E-14
    assert_eq!(world.status(), Status::Failing); // R-149
    world.concluded(flying, Concluded::Ended(ok())).expect("stored");
    world.hop(Progress::default(), Act::Acknowledge).expect("acknowledged");
    assert_eq!(world.status(), Status::Failed);
}

#[test]
fn rust_goes_on_from_the_very_hold_it_was_lost_in_and_from_nothing_else() {
    let rust = || World::running_with(|admit| admit.kind = RunKind::Rust);
    let mut world = rust();
    world.hold("a").expect("held");
    world.lapse();
    assert_eq!(world.status(), Status::Queued); // R-284
    assert!(matches!(&world.run().phase, Phase::Queued { delivery } if delivery.cause.as_str() == "recovery")); // R-284
    // The next hop is lost after it went on: its effects since are not proved.
    world.claim(2).expect("claimed");
    world.lapse();
    assert_eq!(world.run().failure().map(|f| f.message.as_str()), Some("worker lost")); // R-288 R-299
    let mut world = rust();
    world.hold("a").expect("held");
    world.warm().expect("warm");
    world.lapse();
    assert_eq!(world.run().failure().map(|f| f.message.as_str()), Some("worker lost")); // R-299
    let mut world = rust();
    world.in_flight(RecoveryClass::Manual);
    world.hold("a").expect("held");
    world.lapse();
    assert_eq!(world.run().failure().map(|f| f.message.as_str()), Some("worker lost")); // R-284: no call in flight
}

#[test]
fn a_save_that_is_refused_begins_no_hold() {
    let mut world = World::running();
    world.limits.checkpoint_bytes = 4;
    let events = world.events.len();
    assert_eq!(refused(world.hold("a")), Code::LimitExceeded); // R-321
    assert_eq!((world.status(), world.made(), world.kinds(events)), (Status::Running, (0, 0, 0), vec![])); // R-133
    world.pass(TTL);
    assert!(!world.events.iter().any(|event| event.kind == Kind::Run(Status::AwaitingHardware))); // R-133
}
