//! Pauses: what they hold up, what they do not, and where the time goes (runs.md section 18).

use crate::world::{TTL, World, caller, expiring, obligation, ok, person};
use protocol::able::Able;
use protocol::approval::Verdict;
use protocol::call::RecoveryClass;
use protocol::code::Code;
use protocol::command::{Act, Answer, Command, PauseRun, Progress, Renew, Renewed, Taker};
use protocol::decide::renew;
use protocol::limits::PAUSE_SPANS;
use protocol::pause::{self, Shared};
use protocol::policy::OnExpiry;
use protocol::principal::{Right, Rights};
use protocol::run::{Clock, Status};
use protocol::tool::Effect;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

fn workflow() -> Shared {
    Shared::Workflow("refund".to_owned())
}

fn queue() -> Shared {
    Shared::Queue("default".to_owned())
}

fn changed(answer: Answer) -> bool {
    match answer {
        Answer::Settled { changed, .. } => changed,
        other => panic!("{other:?}"),
    }
}

fn scopes(world: &World) -> Vec<String> {
    pause::over(world.run(), &world.registry).iter().map(|(scope, _)| scope.to_string()).collect()
}

#[test]
pub(super) fn each_pause_over_a_run_holds_it_until_that_one_is_cleared() {
    let mut world = World::new();
    let id = world.admit().id;
    world.pause().expect("paused");
    world.shade(workflow(), true).expect("paused");
    world.shade(queue(), true).expect("paused");
    assert_eq!(scopes(&world), [format!("run {id}"), "workflow refund".to_owned(), "queue default".to_owned()]); // R-368
    let (_, own) = pause::over(world.run(), &world.registry)[0].clone();
    assert_eq!((own.by.as_str(), own.reason.as_deref(), own.since), ("ana", Some("the bank is closed"), world.now)); // R-368
    let clear: [fn(&mut World); 3] = [
        |world| drop(world.resume().expect("cleared")),
        |world| assert!(world.shade(queue(), false).expect("cleared")),
        |world| assert!(world.shade(workflow(), false).expect("cleared")),
    ];
    for (n, clear) in clear.into_iter().enumerate() {
        let before = world.rows.clone();
        assert_eq!(world.claim(1).expect_err("held").code, Code::NotNow); // R-369
        assert_eq!(world.rows, before); // R-2
        clear(&mut world);
        assert_eq!((world.status(), scopes(&world).len()), (Status::Queued, 2 - n)); // R-368 R-372: no edge of its own
    }
    world.claim(1).expect("nothing holds it"); // R-369
}

#[test]
fn a_second_pause_changes_nothing_and_is_told_the_first() {
    let mut world = World::new();
    world.admit();
    assert!(!changed(world.resume().expect("nothing to clear"))); // R-372
    assert!(changed(world.pause().expect("paused")));
    let (first, events) = (world.run().pause.clone(), world.events.len());
    world.pass(HOUR);
    assert!(!changed(world.pause().expect("paused already"))); // R-372
    assert_eq!((world.run().pause.clone(), world.events.len()), (first, events)); // R-372
    assert!(changed(world.resume().expect("cleared")));
    assert_eq!(world.kinds(1), ["pause.set", "pause.cleared"]); // R-356
    let told = world.events[1].facts.value();
    assert_eq!(told.get("by").and_then(|by| by.as_str()), Some("ana")); // I-38
    let digest = told.get("reason_digest").and_then(|digest| digest.as_str()).expect("told").parse().expect("a digest");
    assert_eq!(world.bodies[&digest], b"the bank is closed"); // I-38
    assert!(world.shade(workflow(), true).expect("paused") && !world.shade(workflow(), true).expect("paused already")); // R-372
    assert!(world.shade(workflow(), false).expect("cleared") && !world.shade(workflow(), false).expect("nothing")); // R-372
}

#[test]
fn only_a_run_that_may_still_go_on_takes_a_pause() {
    let mut world = World::running();
    let by = person("req");
    let without = Rights::from_iter([Right::RunsRead, Right::RunsStart, Right::RunsCancel]);
    let powerless =
        PauseRun { by: caller(protocol::principal::Principal { rights: without, ..by }), ..world.pausing() };
    assert_eq!(world.give(Command::Pause(powerless.clone())).expect_err("no right").code, Code::NotPermitted); // R-12
    assert_eq!(world.give(Command::Resume(powerless)).expect_err("no right").code, Code::NotPermitted); // R-12
    let foreign = protocol::principal::Principal { namespace: "elsewhere".to_owned(), ..person("ana") };
    let foreign = PauseRun { by: caller(foreign), ..world.pausing() };
    assert_eq!(world.give(Command::Pause(foreign)).expect_err("not theirs").code, Code::NotFound); // R-12
    assert_eq!(world.shade(Shared::Workflow("other".to_owned()), true).expect_err("unknown").code, Code::NotFound);
    assert_eq!(world.shade(Shared::Queue("other".to_owned()), true).expect_err("unknown").code, Code::NotFound);
    world.pause().expect("paused");
    world.cancel();
    assert_eq!(world.status(), Status::Cancelling); // R-369: a cancel is not held up
    assert_eq!(world.pause().expect_err("stopping").code, Code::RunStopping);
    world.hop(Progress::default(), Act::Acknowledge).expect("acknowledged");
    assert_eq!(world.status(), Status::Cancelled); // R-369: nor is its containment
    assert_eq!(world.pause().expect_err("final").code, Code::RunTerminal); // R-372
    assert_eq!(world.resume().expect_err("final").code, Code::RunTerminal); // R-372
}

#[test]
fn a_pause_holds_up_no_answer_and_no_return() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    world.pause().expect("paused");
    let mut decide = world.decision("ana", ask.id, Verdict::Approve);
    decide.taker = Some(Taker { worker: crate::world::worker(7), ttl: TTL, able: Able::Everything });
    world.give(Command::Decide(Box::new(decide))).expect("decided"); // R-369
    assert!(world.is_at(Status::Queued, 1)); // R-369: it returns, and waits
    assert_eq!(world.claim(1).expect_err("held").code, Code::NotNow); // R-369
    world.resume().expect("cleared");
    assert!(world.is_at(Status::Queued, 1)); // R-372: resume made no return of its own
    world.claim(1).expect("claimed");
    world.dispatch(ask.call).expect("dispatched");
}

#[test]
fn a_paused_queue_admits_and_hands_nothing_out() {
    let mut world = World::new();
    world.shade(queue(), true).expect("paused");
    let taker = Some(Taker { worker: crate::world::worker(7), ttl: TTL, able: Able::Everything });
    let admission = world.admission_with(|admit| admit.taker = taker);
    world.give(admission).expect("admitted"); // R-60
    assert_eq!((world.status(), scopes(&world)), (Status::Queued, vec!["queue default".to_owned()])); // R-60
}

#[test]
pub(super) fn the_gate_waits_for_the_end_of_a_pause_and_keeps_what_was_approved() {
    let (mut world, call, approval) = World::approved(obligation());
    world.shade(workflow(), true).expect("paused");
    let entered = world.call(Effect::Read, RecoveryClass::Retry);
    let progress =
        Progress { entries: vec![protocol::journal::Entry::Call(Box::new(entered.clone()))], ..Progress::default() };
    let arguments = protocol::json::canonicalize(br#"{"amount":5}"#).expect("JSON");
    let act = Act::Dispatch { call, arguments, operands: Vec::new(), grant: crate::world::grant() };
    let answer = world.hop(progress, act).expect("answered");
    assert!(matches!(answer, Answer::NotDispatched { code: Code::RunPaused, .. })); // R-369 C-105
    assert!(world.approval(approval).is_open_yes()); // C-105: nothing recorded
    assert!(world.calls.contains_key(&entered.id)); // R-334: what rode with it is stored
    world.hand_back().expect("handed back"); // R-370
    world.shade(workflow(), false).expect("cleared");
    world.claim(3).expect("claimed");
    assert!(matches!(world.dispatch(call), Ok(Answer::Dispatched { attempt: 1 }))); // R-369
    world.pause().expect("paused");
    world.end(call, ok()).expect("a call in flight ends under a pause"); // R-370
}

#[test]
fn a_renewal_tells_of_a_pause_of_the_queue_too() {
    let mut world = World::running();
    let told = |world: &World| {
        let (mut run, token) = (world.run().clone(), world.token());
        let renewal = Renew { worker: crate::world::worker(1), ttl: TTL, claims: vec![(run.id, token)] };
        matches!(renew(&mut run, token, &renewal, &world.registry, world.now), Renewed::Until { paused: true, .. })
    };
    assert!(!told(&world));
    world.shade(queue(), true).expect("paused");
    assert!(told(&world)); // R-101
}

#[test]
fn a_pause_gives_no_more_time_to_anything_but_the_program() {
    let mut world = World::new();
    let deadline = world.now + HOUR;
    let admission = world.admission_with(|admit| admit.deadline = Some(deadline));
    world.give(admission).expect("admitted");
    world.claim(1).expect("claimed");
    let first = world.hot(expiring(obligation(), OnExpiry::Reject));
    world.park().expect("parked");
    world.pause().expect("paused");
    world.pass(Duration::from_secs(60));
    world.give(Command::Expire { run: world.run().id, wait: first.wait }).expect("expired");
    assert_eq!((world.approval(first.id).status.as_str(), world.status()), ("expired", Status::Queued)); // R-371
    world.pass(HOUR);
    world.recover();
    let failed = world.run().failure().map(|failure| failure.code);
    assert_eq!((world.status(), failed), (Status::Failed, Some(Code::RunDeadlineExceeded))); // R-371
}

#[test]
fn paused_time_is_what_a_pause_kept_a_queued_run_from_a_worker() {
    let mut world = World::new();
    world.admit();
    let spent = |world: &World| {
        let clocks = world.run().clocks;
        (clocks.queued / 1_000_000, clocks.paused / 1_000_000)
    };
    let pass = |world: &mut World, seconds| world.pass(Duration::from_secs(seconds));
    pass(&mut world, 10);
    world.shade(workflow(), true).expect("paused");
    pass(&mut world, 20);
    world.shade(queue(), true).expect("paused");
    pass(&mut world, 30);
    world.shade(workflow(), false).expect("cleared");
    pass(&mut world, 40);
    world.pause().expect("paused");
    assert_eq!(spent(&world), (10, 90)); // R-373: two at once count once
    pass(&mut world, 50);
    world.shade(queue(), false).expect("cleared");
    pass(&mut world, 60);
    world.resume().expect("cleared");
    pass(&mut world, 5);
    world.claim(1).expect("claimed");
    assert_eq!(spent(&world), (15, 200)); // R-373
    // Under a pause the hop still runs to its boundary, and what waits for a person waits for a person.
    world.pause().expect("paused");
    pass(&mut world, 7);
    world.hot(obligation());
    world.park().expect("parked");
    pass(&mut world, 100);
    assert_eq!(world.run().clocks.running, Clock::Person); // R-374
    world.cancel();
    assert_eq!((spent(&world), world.run().clocks.person / 1_000_000), ((15, 200), 100)); // R-373
    assert_eq!(world.run().clocks.total() / 1_000_000, 322); // R-373
}

#[test]
fn time_between_two_pauses_of_one_stretch_was_spent_in_the_queue() {
    let mut world = World::new();
    world.admit();
    for _ in 0..PAUSE_SPANS + 6 {
        world.shade(workflow(), true).expect("paused");
        world.pass(Duration::from_secs(1));
        world.shade(workflow(), false).expect("cleared");
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(world.registry.pauses[&workflow()].before.len(), PAUSE_SPANS);
    world.claim(1).expect("claimed");
    let clocks = world.run().clocks;
    let spans = PAUSE_SPANS as u64;
    assert_eq!((clocks.paused / 1_000_000, clocks.queued / 1_000_000), (spans, spans + 12)); // R-373
}
