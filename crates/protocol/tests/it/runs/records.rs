//! What is promised of every record, whatever the command (runs.md sections 0, 2 and 17).

use crate::world::{TTL, World, args, caller, obligation, ok, person};
use protocol::approval::Verdict;
use protocol::call::{Applied, Call, Outcome, RecoveryClass};
use protocol::command::{Act, Answered, Cancel, Command, Concluded, Conclusion, Progress};
use protocol::journal::Entry;
use protocol::run::Status;
use protocol::time::Time;
use protocol::tool::Effect;
use std::time::Duration;

/// A life with everything in it: a hot question, a park, a crash with an unknown effect, a person who finds out.
fn life(tick: Duration) -> World {
    let mut world = World::running();
    // A claim that is worth nothing has lapsed at once, however little time passes.
    let expire = |world: &mut World| {
        let now = world.now;
        let rows = world.rows.as_mut().expect("admitted");
        let protocol::run::Phase::Active { claim, .. } = &mut rows.run.phase else { panic!("active") };
        claim.deadline = now;
    };
    let ask = world.hot(obligation());
    world.pass(tick);
    world.park().expect("parked");
    world.pass(tick);
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    world.claim(2).expect("claimed");
    world.pass(tick);
    world.dispatch(ask.call).expect("dispatched");
    expire(&mut world);
    world.recover();
    let question = world.calls[&ask.call].settle.expect("asked");
    world.pass(tick);
    let mut decide = world.decision("ben", question, Verdict::Happened);
    decide.answer = Some(Answered { body: args(r#"{"refund":"R-77"}"#), fault: None });
    world.give(Command::Decide(Box::new(decide))).expect("settled");
    world.claim(3).expect("claimed");
    expire(&mut world);
    world.recover();
    world.claim(4).expect("claimed");
    world.pass(tick);
    world.finish().expect("done");
    world
}

#[test]
fn equal_times_change_no_outcome() {
    let (still, moving) = (life(Duration::ZERO), life(Duration::from_millis(7)));
    assert!(still.events.iter().all(|event| event.at == still.now));
    assert_eq!(still.kinds(0), moving.kinds(0)); // R-6: order is by sequence
    assert_eq!((still.status(), still.run().seq), (moving.status(), moving.run().seq)); // R-6: recovery included
    let outcomes = |world: &World| world.calls.values().map(|c| c.outcome().map(|o| o.status)).collect::<Vec<_>>();
    assert_eq!(outcomes(&still), outcomes(&moving)); // R-6
    assert_eq!(still.status(), Status::Done);
}

#[test]
fn events_say_what_happened_and_nothing_that_was_said() {
    let world = life(Duration::from_millis(7));
    // What a person or program wrote: arguments, result, answer, reason. Each is kept as a body, by its digest.
    for said in ["amount", "the result", "R-77", "because"] {
        let kept = world.bodies.values().any(|body| String::from_utf8_lossy(body).contains(said));
        assert!(kept, "{said}");
        for event in &world.events {
            assert!(
                !event.facts.canonical().as_str().contains(said),
                "{}: {}",
                event.kind,
                event.facts.canonical().as_str()
            ); // R-358
        }
    }
    let told = |kind: &str, key: &str| {
        let event = world.events.iter().find(|event| event.kind.as_str() == kind).expect(kind);
        event.facts.value().get(key).and_then(|v| v.as_str()).map(str::to_owned)
    };
    assert_eq!(told("approval.approved", "principal").as_deref(), Some("ana")); // R-358
    assert_eq!(told("run.queued", "principal").as_deref(), Some("req")); // R-358
}

#[test]
fn what_the_runtime_closes_says_so_by_a_name_of_its_own() {
    let mut world = World::new();
    world.parked(obligation());
    world.cancel();
    let by: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| event.facts.value().get("by").and_then(|v| v.as_str()).map(str::to_owned))
        .collect();
    assert!(by.contains(&"system:run-cancelled".to_owned()) && by.contains(&"ana".to_owned())); // R-358
}

#[test]
fn why_somebody_cancelled_is_kept_beside_the_event() {
    let mut world = World::running();
    let reason = args("the customer called");
    let by = caller(person("ana"));
    let request = by.request.to_string();
    world.give(Command::Cancel(Cancel { by, run: world.run().id, reason: Some(reason.clone()) })).expect("cancelled");
    let event = world.events.iter().find(|event| event.kind.as_str() == "run.cancelling").expect("cancelling");
    let facts = event.facts.value();
    let told = |key: &str| facts.get(key).and_then(|v| v.as_str()).map(str::to_owned);
    assert_eq!(told("by").as_deref(), Some("ana"));
    assert_eq!(told("request"), Some(request));
    assert_eq!(told("reason_digest"), Some(reason.body.digest.to_string()));
    assert_eq!(world.bodies[&reason.body.digest], reason.bytes.to_vec());
    assert!(!event.facts.canonical().as_str().contains("customer")); // R-358
    world.hop(Progress::default(), Act::Acknowledge).expect("acknowledged");
    assert_eq!(world.status(), Status::Cancelled);
}

#[test]
fn a_step_tells_of_its_nodes_and_of_nothing_else() {
    use protocol::event::{Facts, Kind};
    let mut world = World::running();
    let told = |kind| Progress { nodes: vec![(kind, Facts::new())], ..Progress::default() };
    for kind in [Kind::ApprovalRequested, Kind::ApprovalApproved, Kind::Run(Status::Done), Kind::CallEnded] {
        let refused = world.record(told(kind)).expect_err("not a step's to tell");
        assert_eq!(refused.code, protocol::code::Code::InvalidRequest); // R-194
    }
    let ask = world.hot(obligation());
    let checkpoint = world.checkpoint(&Progress::default());
    let act = Act::Park { checkpoint, mode: protocol::run::WaitMode::Any, taker: None };
    let events = world.events.len();
    world.hop(told(Kind::NodeWaiting), act).expect("parked");
    assert_eq!(world.kinds(events), ["node.waiting", "run.awaiting_consent"]); // R-354: with the commit of its hop
    assert!(world.approval(ask.id).is_pending());
}

#[test]
fn a_timer_is_told_when_it_opens() {
    let mut world = World::running();
    let call = world.call(protocol::tool::Effect::Read, RecoveryClass::Retry);
    let due = protocol::command::Due::In(TTL);
    let timer = protocol::command::Timer { wait: world.mint(), call: call.id, due };
    let entries = vec![protocol::journal::Entry::Call(Box::new(call))];
    world.record(Progress { entries, timers: vec![timer], ..Progress::default() }).expect("asleep");
    let event = world.events.last().expect("told");
    assert_eq!(event.kind.as_str(), "wait.opened"); // R-353
    let due = (world.now + TTL).to_string();
    assert_eq!(event.facts.value().get("due_at").and_then(|v| v.as_str()), Some(due.as_str()));
}

#[test]
fn an_attempt_is_told_before_it_is_made() {
    let mut world = World::running();
    let id = world.in_flight(RecoveryClass::Idempotent);
    world.concluded(id, Concluded::Ambiguous { ask: false, seen: None }).expect("cut off");
    let events = world.events.len();
    world.concluded(id, Concluded::Attempt).expect("recorded");
    assert_eq!(world.kinds(events), ["call.dispatched"]); // R-303 R-353
    world.end(id, ok()).expect("answered");
    assert_eq!(world.kinds(events), ["call.dispatched", "call.settled"]);
}

#[test]
fn a_call_that_rides_with_a_later_commit_keeps_the_times_at_which_it_was_made_and_ended() {
    let mut world = World::running();
    let began = world.now;
    let second = Duration::from_secs(1);
    let told = |world: &mut World, made: Time, ended: Time| {
        let call = Call { at: made, ..world.call(Effect::Read, RecoveryClass::Retry) };
        let (id, end) = (call.id, Concluded::Ended(Outcome { at: ended, applied: Applied::No, ..ok() }));
        let conclusions = vec![Conclusion { call: id, end }];
        let entries = vec![Entry::Call(Box::new(call))];
        world.record(Progress { entries, conclusions, ..Progress::default() }).expect("recorded");
        let call = &world.calls[&id];
        (call.at, call.outcome().expect("ended").at)
    };
    world.pass(second * 10);
    let now = world.now;
    assert_eq!(told(&mut world, began, began + second), (began, began + second)); // C-119
    // A worker's clock that is ahead, or that went back, is not believed.
    assert_eq!(told(&mut world, now + second, now + second * 2), (now, now)); // C-119
    assert_eq!(told(&mut world, now, began), (now, now)); // C-119: times never run backwards
}
