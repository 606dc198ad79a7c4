//! Signals and timers: what is kept, what is taken, and by whom (runs.md section 10).

use crate::world::{World, args, caller, obligation, ok, person};
use protocol::approval::{self, Verdict};
use protocol::call::{RecoveryClass, ToolRef};
use protocol::code::Code;
use protocol::command::{Act, Answer, Ask, AwaitSignal, Command, Due, Member, Progress, Target, Timer};
use protocol::digest::Digest;
use protocol::id::{CallId, WaitId};
use protocol::journal::Entry;
use protocol::limits::{KEPT_SIGNAL_BYTES, KEPT_SIGNALS};
use protocol::principal::{Principal, Right, Rights};
use protocol::refusal::Refusal;
use protocol::run::Status;
use protocol::signal::{Awaited, State};
use protocol::tool::Effect;
use protocol::wait;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn code(answer: Result<Answer, Refusal>) -> Code {
    answer.expect_err("refused").code
}

/// What became of each signal, in order of arrival.
fn states(world: &World) -> Vec<State> {
    world.signals.values().map(|signal| signal.state).collect()
}

fn outcome(world: &World, wait: WaitId) -> Option<String> {
    match world.rows().waits.get(wait)?.state {
        wait::State::Ended { outcome } => Some(String::from_utf8_lossy(&world.bodies[&outcome]).into_owned()),
        wait::State::Live | wait::State::Parked => None,
    }
}

#[test]
fn a_signal_ends_the_wait_of_its_name_and_returns_the_run() {
    let mut world = World::running();
    let (_, wait) = world.awaits("paid", None, None);
    world.park().expect("parked");
    assert_eq!(world.status(), Status::AwaitingSignal); // R-183
    let events = world.events.len();
    let sent = world.send("paid", "k-1", r#"{"amount":5}"#).expect("sent");
    assert!(matches!(sent, Answer::Sent { changed: true, .. }));
    assert!(world.is_at(Status::Queued, 1)); // R-235: the wait's end and E-9 in one commit
    assert_eq!(world.kinds(events), ["signal.received", "run.queued"]); // R-356
    assert_eq!(outcome(&world, wait).as_deref(), Some(r#"{"amount":5}"#)); // R-235
    assert_eq!(states(&world), [State::Taken(wait)]); // R-235
    let (before, events) = (world.rows.clone(), world.events.len());
    let again = world.send("paid", "k-1", r#"{"amount":5}"#).expect("one signal");
    assert!(matches!(again, Answer::Sent { changed: false, .. })); // R-233
    assert_eq!((world.rows.clone(), world.events.len()), (before, events)); // R-233
    assert_eq!(code(world.send("paid", "k-1", r#"{"amount":6}"#)), Code::IdempotencyMismatch); // R-233
    assert_eq!(code(world.send("other", "k-1", r#"{"amount":5}"#)), Code::IdempotencyMismatch); // R-233
}

#[test]
fn signals_that_come_early_are_taken_in_order_and_each_once() {
    let mut world = World::new();
    world.admit();
    for (id, payload) in [("a", "1"), ("b", "2"), ("c", "3")] {
        world.send("paid", id, payload).expect("kept"); // R-234: before any wait, before any worker
    }
    world.claim(1).expect("claimed");
    let (call, first) = world.awaits("paid", None, None);
    assert_eq!(outcome(&world, first).as_deref(), Some("1")); // R-234
    world.park().expect("parked");
    assert!(world.is_at(Status::Queued, 1)); // R-234 R-175: the park returned at once
    world.claim(2).expect("claimed");
    world.end(call, ok()).expect("the hop took it");
    let second = world.awaits("paid", None, None).1;
    assert_eq!(outcome(&world, second).as_deref(), Some("2")); // R-234
    assert_eq!(states(&world), [State::Taken(first), State::Taken(second), State::Kept]); // R-235
    let other = world.awaits("refunded", None, None).1;
    assert_eq!(outcome(&world, other), None); // R-234: another name
    world.cancel();
    world.hop(Progress::default(), Act::Acknowledge).expect("acknowledged");
    assert_eq!(states(&world), [State::Taken(first), State::Taken(second)]); // R-234: an end keeps none
}

#[test]
pub(super) fn to_one_wait_the_first_answer_wins() {
    let mut world = World::running();
    let (_, one) = world.awaits("paid", None, None);
    let (_, two) = world.awaits("paid", None, None);
    world.send_to(two, "a", "1").expect("taken");
    let refused = world.send_to(two, "b", "2").expect_err("won already");
    assert_eq!(refused.code, Code::WaitConsumed); // R-236
    let truth = refused.truth.expect("what won").value();
    assert_eq!(truth.get("signal").and_then(|id| id.as_str()), Some("a")); // R-236
    assert_eq!(states(&world), [State::Taken(two)]); // R-236: not kept for another wait
    assert_eq!((outcome(&world, one), outcome(&world, two).as_deref()), (None, Some("1")));
    // By its name the one that is still open gets it, though the other was made later and has ended (R-237).
    world.send("paid", "c", "3").expect("taken");
    assert_eq!(outcome(&world, one).as_deref(), Some("3")); // R-237
    world.send("paid", "d", "4").expect("kept");
    assert_eq!(states(&world)[2], State::Kept); // R-237: an ended wait takes nothing
}

#[test]
fn two_waits_on_one_name_are_served_in_the_order_in_which_they_were_made() {
    let mut world = World::running();
    let waits = [world.awaits("paid", None, None).1, world.awaits("paid", None, None).1];
    world.park().expect("parked");
    for (n, wait) in waits.into_iter().enumerate() {
        world.send("paid", &format!("k-{n}"), &n.to_string()).expect("taken");
        assert_eq!(outcome(&world, wait), Some(n.to_string())); // R-237
    }
    assert!(world.is_at(Status::Queued, 1)); // R-184: one return for both
}

#[test]
pub(super) fn a_payload_that_does_not_fit_is_refused_or_set_aside() {
    let number = Some(r#"{"type":"number"}"#);
    let mut world = World::running();
    let (_, open) = world.awaits("paid", number, None);
    let (before, events) = (world.rows.clone(), world.events.len());
    assert_eq!(code(world.send("paid", "a", r#""five""#)), Code::InvalidInput); // R-238
    assert_eq!(code(world.send_to(open, "a", r#""five""#)), Code::InvalidInput); // R-238
    assert_eq!((world.rows.clone(), world.events.len()), (before, events)); // R-238: the wait stays open
    world.send("paid", "a", "5").expect("it fits");
    for (id, payload) in [("b", r#""six""#), ("c", "7"), ("d", "8")] {
        world.send("paid", id, payload).expect("kept");
    }
    let events = world.events.len();
    let (_, next) = world.awaits("paid", number, None);
    assert_eq!(outcome(&world, next).as_deref(), Some("7")); // R-238: the next is tried
    assert_eq!(states(&world)[1..], [State::SetAside, State::Taken(next), State::Kept]); // R-238
    assert_eq!(world.kinds(events), ["call.entered", "wait.opened", "signal.set_aside", "signal.taken"]); // R-238
}

#[test]
pub(super) fn a_run_keeps_so_many_signals_and_no_more() {
    let mut world = World::new();
    world.admit();
    for n in 0..KEPT_SIGNALS {
        world.send("paid", &format!("k-{n}"), "1").expect("kept");
    }
    assert_eq!(code(world.send("paid", "one more", "1")), Code::SignalInboxFull); // R-239
    world.send("paid", "k-0", "1").expect("a repeat of one that is there"); // R-233
    world.claim(1).expect("claimed");
    world.awaits("paid", None, None);
    world.send("paid", "one more", "1").expect("there is room again"); // R-239
    let mut world = World::new();
    world.admit();
    let each = 1 << 20;
    let large = format!("\"{}\"", "x".repeat(each - 2));
    for n in 0..KEPT_SIGNAL_BYTES / each as u64 {
        world.send("paid", &n.to_string(), &large).expect("kept");
    }
    assert_eq!(code(world.send("paid", "one more", "1")), Code::SignalInboxFull); // R-239
}

#[test]
pub(super) fn a_run_that_cannot_use_a_signal_refuses_it() {
    let mut world = World::running();
    let (_, open) = world.awaits("paid", None, None);
    let powerless = Principal { rights: Rights::from_iter([Right::RunsRead]), ..person("req") };
    let to = Target::Name { run: world.run().id, name: "paid".to_owned() };
    let send = protocol::command::SendSignal { by: caller(powerless), ..world.signal(to.clone(), "a", "1") };
    assert_eq!(code(world.give(Command::Send(Box::new(send)))), Code::NotPermitted); // R-12
    let foreign = Principal { namespace: "elsewhere".to_owned(), ..person("ana") };
    for to in [to, Target::Wait(open)] {
        let send = protocol::command::SendSignal { by: caller(foreign.clone()), ..world.signal(to, "a", "1") };
        assert_eq!(code(world.give(Command::Send(Box::new(send)))), Code::NotFound); // R-240 R-12
    }
    world.in_flight(RecoveryClass::Manual);
    world.cancel();
    assert_eq!(world.status(), Status::Cancelling);
    assert_eq!(code(world.send("paid", "a", "1")), Code::RunStopping); // R-240
    assert_eq!(code(world.send_to(open, "a", "1")), Code::WaitClosed); // R-236
    let mut world = World::running();
    world.send("paid", "a", "1").expect("kept");
    world.finish().expect("done");
    assert_eq!(code(world.send("paid", "b", "1")), Code::RunTerminal); // R-240
}

#[test]
fn of_a_signal_and_its_limit_exactly_one_ends() {
    for signal_first in [true, false] {
        for parked in [true, false] {
            let mut world = World::running();
            let (_, wait) = world.awaits("paid", None, Some(MINUTE));
            let timer = world.rows().waits.keys(|row| row.id != wait)[0];
            if parked {
                world.park().expect("parked");
                assert_eq!(world.status(), Status::AwaitingSignal); // R-183
            }
            world.pass(MINUTE);
            let expire =
                |world: &mut World| world.give(Command::Expire { run: world.run().id, wait: timer }).expect("answered");
            if signal_first {
                world.send("paid", "a", "1").expect("taken");
                assert!(matches!(expire(&mut world), Answer::Settled { changed: false, .. })); // R-243
                assert_eq!(outcome(&world, wait).as_deref(), Some("1")); // R-243
            } else {
                expire(&mut world);
                assert_eq!(code(world.send_to(wait, "a", "1")), Code::WaitClosed); // R-243
                world.send("paid", "b", "2").expect("kept");
                assert_eq!(states(&world), [State::Kept]); // R-237: a closed wait takes nothing
                assert!(world.rows().waits.get(timer).is_some_and(wait::Wait::is_ended)); // R-243
            }
            assert_eq!(world.rows().waits.iter().count(), 1); // R-243
            assert_eq!(world.run().seq, u32::from(parked)); // R-182: one return
        }
    }
}

#[test]
fn waits_for_signals_and_times_count_among_the_open_waits() {
    let mut world = World::running();
    for _ in 0..127 {
        world.awaits("paid", None, Some(MINUTE));
    }
    world.awaits("paid", None, None);
    let timer = |world: &mut World| {
        let call = world.call(Effect::Read, RecoveryClass::Retry);
        let timers = vec![Timer { wait: world.mint(), call: call.id, due: Due::In(MINUTE) }];
        world.record(Progress { entries: vec![Entry::Call(Box::new(call))], timers, ..Progress::default() })
    };
    timer(&mut world).expect("the 256th");
    let full = timer(&mut world).expect_err("one more");
    assert_eq!((full.code, full.detail.as_str()), (Code::LimitExceeded, "open waits exceeded: 257 > 256")); // R-179 R-382
    world.park().expect("R-179: a set of 256");
    world.send("paid", "a", "1").expect("taken");
    assert_eq!(world.rows().waits.iter().count(), 255); // R-243: its limit went with it
    assert!(world.is_at(Status::Queued, 1)); // R-180
}

#[test]
fn a_signal_is_no_leave_for_an_effect() {
    let mut world = World::running();
    let call = world.call(Effect::Write, RecoveryClass::Manual);
    let (id, wait) = (call.id, world.mint());
    let awaited = Awaited { name: "paid".to_owned(), schema: None };
    let signals = vec![AwaitSignal { wait, call: id, awaited: awaited.into() }];
    let entries = vec![Entry::Call(Box::new(call))];
    world.record(Progress { entries, signals, ..Progress::default() }).expect("it waits");
    world.send("paid", "a", "1").expect("taken");
    assert_eq!(code(world.end(id, ok())), Code::NotDispatched); // C-88
}

/// A call that waits for two gates and a signal; the gates, and the signal's wait.
fn two_gates_and_a_signal(world: &mut World) -> (CallId, [Ask; 2], WaitId) {
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let mut gate = |title: &str| {
        let arguments = args(title);
        let tool = ToolRef { name: "stasis.gate".to_owned(), version: "1".to_owned(), digest: Digest::of("gate") };
        let member = Some(Member { tool, arguments: arguments.body });
        Ask { kind: approval::Kind::Gate, member, ..world.ask(&call, obligation()) }
    };
    let asks = [gate(r#"{"title":"money"}"#), gate(r#"{"title":"law"}"#)];
    let (id, wait) = (call.id, world.mint());
    let awaited = Awaited { name: "paid".to_owned(), schema: None };
    let progress = Progress {
        entries: vec![Entry::Call(Box::new(call))],
        signals: vec![AwaitSignal { wait, call: id, awaited: awaited.into() }],
        asks: asks.to_vec(),
        bodies: vec![args(r#"{"title":"money"}"#), args(r#"{"title":"law"}"#)],
        ..Progress::default()
    };
    world.record(progress).expect("it waits");
    (id, asks, wait)
}

#[test]
fn of_several_gates_and_a_signal_the_first_to_end_closes_the_others() {
    for winner in 0..3 {
        let mut world = World::running();
        let (call, [money, law], wait) = two_gates_and_a_signal(&mut world);
        assert_eq!(world.approvals[&law.id].binding.arguments, args(r#"{"title":"law"}"#).body.digest); // C-136
        world.park().expect("parked");
        assert_eq!(world.status(), Status::AwaitingConsent); // R-183
        match winner {
            0 => drop(world.verdict("ana", money.id, Verdict::Approve).expect("approved")),
            1 => drop(world.verdict("ana", law.id, Verdict::Reject).expect("rejected")),
            _ => drop(world.send("paid", "a", "1").expect("taken")),
        }
        assert!(world.is_at(Status::Queued, 1)); // R-182
        let left = world.rows().waits.keys(|_| true);
        assert_eq!(left, [[money.wait, law.wait, wait][winner]]); // R-182 W-134
        let closed = |id| matches!(world.approvals[&id].status, approval::Status::Cancelled { .. });
        assert_eq!([closed(money.id), closed(law.id)], [winner != 0, winner != 1]); // R-182
        for loser in [&money, &law].into_iter().enumerate().filter(|(n, _)| *n != winner).map(|(_, ask)| ask.id) {
            assert_eq!(code(world.verdict("ana", loser, Verdict::Approve)), Code::ApprovalCancelled); // W-134
        }
        world.claim(2).expect("claimed");
        world.end(call, ok()).expect("the hop took it");
        assert!(world.rows().approvals.iter().next().is_none()); // C-156: the yes is delivered
        world.finish().expect("done");
    }
    // What was there already came first: nobody is asked.
    let mut world = World::running();
    world.send("paid", "a", "1").expect("kept");
    let (_, [money, law], wait) = two_gates_and_a_signal(&mut world);
    assert_eq!(outcome(&world, wait).as_deref(), Some("1")); // R-234
    assert!(!world.approvals.contains_key(&money.id) && !world.approvals.contains_key(&law.id)); // R-243
}

#[test]
fn a_kept_signal_leaves_nothing_for_a_limit_to_end() {
    let mut world = World::running();
    world.send("paid", "a", "1").expect("kept");
    let (_, wait) = world.awaits("paid", None, Some(Duration::ZERO));
    assert_eq!(outcome(&world, wait).as_deref(), Some("1")); // R-243: what was there already came first
    let (_, late) = world.awaits("paid", None, Some(Duration::ZERO));
    assert!(world.rows().waits.get(late).is_none()); // R-241: due as it begins
    assert_eq!(world.rows().waits.keys(wait::Wait::is_ended).len(), 2);
}
