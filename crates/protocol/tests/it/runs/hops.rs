//! Deliveries, claims, fencing, parks (runs.md sections 4 and 5).

use crate::world::{TTL, World, args, denied, failure, obligation, ok, worker};
use protocol::able::Able;
use protocol::approval::Verdict;
use protocol::call::RecoveryClass;
use protocol::code::Code;
use protocol::command::{Act, Answer, Claim, Command, Progress, Reach, Renew, Renewed, Taker};
use protocol::decide::renew;
use protocol::delivery::{Cause, State};
use protocol::journal::Entry;
use protocol::run::{Charge, Phase, Status, WaitMode};
use protocol::tool::Effect;
use std::time::Duration;

/// A way out of a hop.
type Way = fn(&mut World);

#[test]
fn of_many_claims_of_one_hop_one_wins() {
    let mut world = World::new();
    world.admit();
    assert!(matches!(world.claim(1), Ok(Answer::Claimed { .. }))); // E-3
    let events = world.events.len();
    for n in 2..5 {
        assert_eq!(world.claim(n).expect_err("late").code, Code::Skipped);
    }
    assert_eq!(world.events.len(), events);
    assert_eq!(world.run().started_at, Some(world.now));
}

#[test]
fn a_delivery_is_claimed_or_settled_from_either_open_state() {
    for state in [State::Pending, State::Published] {
        let queued = || {
            let mut world = World::new();
            world.admit();
            let rows = world.rows.as_mut().expect("admitted");
            let Phase::Queued { delivery } = &mut rows.run.phase else { panic!("queued") };
            delivery.state = state;
            world
        };
        let mut world = queued();
        world.claim(1).expect("claimed");
        assert!(world.run().delivery().is_none() && world.run().claim().is_some());
        assert_eq!(world.claim(2).expect_err("claimed already").code, Code::Skipped);
        let mut world = queued();
        world.cancel();
        assert!(world.run().delivery().is_none());
        assert_eq!(world.claim(1).expect_err("settled").code, Code::Skipped);
    }
}

#[test]
fn each_way_out_of_a_hop_settles_its_delivery() {
    let ways: [(Way, Status); 6] = [
        (|world| drop(world.parked(obligation())), Status::AwaitingConsent),
        (|world| drop(world.hand_back().expect("handed back")), Status::Queued),
        (|world| drop(world.finish().expect("done")), Status::Done),
        (|world| drop(world.fail().expect("failed")), Status::Failed),
        (|world| drop(world.lapse()), Status::Queued),
        (
            |world| {
                world.cancel();
                world.hop(Progress::default(), Act::Acknowledge).expect("acknowledged");
            },
            Status::Cancelled,
        ),
    ];
    for (leave, status) in ways {
        let mut world = World::running();
        let (seq, token) = (world.run().seq, world.token());
        leave(&mut world);
        assert_eq!(world.status(), status);
        assert!(world.run().claim().is_none());
        assert_eq!(world.claim_seq(9, seq).expect_err("settled").code, Code::Skipped);
        assert_eq!(world.hop_as(token, Progress::default(), Act::Record).expect_err("over").code, Code::StaleClaim);
    }
}

#[test]
fn each_cause_makes_a_fresh_seq_and_a_burned_one_names_no_other_hop() {
    let mut world = World::running();
    world.hand_back().expect("handed back");
    world.claim(2).expect("claimed");
    world.lapse();
    world.claim(3).expect("claimed");
    let ask = world.parked(obligation());
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    let queued = world.events.iter().filter(|event| event.kind.as_str() == "run.queued");
    let told: Vec<_> = queued
        .map(|event| {
            let facts = event.facts.value();
            let cause = facts.get("cause").and_then(|c| c.as_str()).map(str::to_owned);
            (cause.expect("every delivery has its cause"), facts.get("hop").and_then(|n| n.as_u64()).unwrap_or(0))
        })
        .collect();
    let told: Vec<_> = told.iter().map(|(cause, hop)| (cause.as_str(), *hop)).collect();
    assert_eq!(told, [("admission", 0), ("hand_back", 1), ("recovery", 2), ("return", 3)]);
    for seq in 0..3 {
        assert_eq!(world.claim_seq(4, seq).expect_err("burned").code, Code::Skipped); // R-72 R-110
    }
    world.claim(4).expect("the present one");
    assert_eq!(world.run().seq, 3);
}

#[test]
fn a_write_without_the_present_token_changes_nothing() {
    let mut world = World::running();
    let old = world.token();
    world.hand_back().expect("handed back");
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
pub(super) fn a_hop_of_a_run_that_is_not_stopping_has_nothing_to_acknowledge() {
    let mut world = World::running();
    let refused = world.hop(Progress::default(), Act::Acknowledge).expect_err("it runs");
    assert_eq!(refused.code, Code::IllegalTransition);
    for word in [world.run().id.to_string(), "running".to_owned(), "acknowledge".to_owned()] {
        assert!(refused.detail.contains(&word), "{}", refused.detail); // run, present and wanted
    }
    assert_eq!(world.status(), Status::Running);
}

#[test]
fn a_lapsed_claim_that_nobody_took_over_may_do_all_but_pass_a_gate() {
    let late = || {
        let mut world = World::running();
        let id = world.in_flight(RecoveryClass::Manual);
        world.pass(TTL * 3);
        (world, id)
    };
    let (mut world, id) = late();
    world.end(id, ok()).expect("an outcome");
    world.finish().expect("an end");
    let (mut world, _) = late();
    world.fail().expect("a failure");
    let leave: [Way; 2] =
        [|world| drop(world.park().expect("parked")), |world| drop(world.hand_back().expect("handed back"))];
    for leave in leave {
        let (mut world, id) = late();
        world.end(id, ok()).expect("an outcome");
        world.hot(obligation());
        leave(&mut world);
    }
    let (mut world, _) = late();
    let mut run = world.run().clone();
    let claims = vec![(run.id, world.token())];
    let renewal = Renew { worker: worker(1), ttl: TTL, claims };
    let renewed = renew(&mut run, world.token(), &renewal, &world.registry, world.now);
    assert_eq!(renewed, Renewed::Until { deadline: world.now + TTL, stopping: false, paused: false, late: false });
    let second = world.enter(Effect::Write, RecoveryClass::Manual);
    assert_eq!(world.dispatch(second).expect_err("lapsed").code, Code::StaleClaim);
}

#[test]
fn a_renewal_says_what_the_hop_has_to_know() {
    let mut world = World::running_with(|admit| {
        admit.deadline = Some(protocol::time::Time::from_millis(1_000_000) + TTL);
    });
    let told = |world: &World| {
        let (mut run, token) = (world.run().clone(), world.token());
        let events = run.events;
        let renewal = Renew { worker: worker(1), ttl: TTL, claims: vec![(run.id, token)] };
        let told = renew(&mut run, token, &renewal, &world.registry, world.now);
        assert_eq!(run.events, events);
        match told {
            Renewed::Until { stopping, paused, late, .. } => (stopping, paused, late),
            Renewed::StaleClaim => panic!("it is the present claim"),
        }
    };
    world.pass(TTL - Duration::from_micros(1));
    assert_eq!(told(&world), (false, false, false));
    world.pause().expect("paused");
    world.pass(Duration::from_micros(1));
    assert_eq!(told(&world), (false, true, true)); // R-101 R-379
    world.cancel();
    assert_eq!(told(&world), (true, true, true));
}

#[test]
fn a_hop_hands_back_anywhere_but_with_a_call_in_flight() {
    let mut world = World::running();
    let id = world.in_flight(RecoveryClass::Manual);
    assert_eq!(world.hand_back().expect_err("in flight").code, Code::WaitUnsafe); // R-115 R-135
    world.end(id, ok()).expect("ended");
    world.hand_back().expect("between two calls");
    world.claim(2).expect("claimed");
    world.hot(obligation());
    world.enter(Effect::Read, RecoveryClass::Retry);
    world.hand_back().expect("inside a batch: its journal brings the guest back");
    assert!(world.is_at(Status::Queued, 2));
}

#[test]
fn a_checkpoint_is_told_with_the_status_that_it_is_for() {
    let mut world = World::running();
    let checkpoint = world.checkpoint(&Progress::default());
    let saved = checkpoint.body.body.digest.to_string();
    world.hop(Progress::default(), Act::HandBack { checkpoint: Some(checkpoint) }).expect("handed back");
    let told = world.events.last().expect("queued").facts.value();
    assert_eq!(told.get("checkpoint_digest").and_then(|d| d.as_str()), Some(saved.as_str()));
    assert_eq!(world.run().delivery().map(|d| d.mode), Some(protocol::delivery::Mode::Resume));
    world.claim(2).expect("claimed");
    world.parked(obligation());
    let told = world.events.last().expect("parked").facts.value();
    assert_eq!(told.get("checkpoint").and_then(|n| n.as_u64()), Some(2));
}

#[test]
fn a_park_saves_checkpoint_question_and_wait_together() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    assert_eq!(world.status(), Status::AwaitingConsent); // E-7
    assert_eq!(world.run().checkpoint.as_ref().map(|c| c.n), Some(1));
    assert!(world.approval(ask.id).is_pending());
    assert_eq!(world.journal.len(), 2); // start and the call
    let told = ["run.queued", "run.running", "call.entered", "approval.requested", "run.awaiting_consent"];
    assert_eq!(world.kinds(0), told);
}

#[test]
pub(super) fn a_park_with_nothing_to_wait_for_is_refused() {
    let mut world = World::running();
    assert_eq!(world.park().expect_err("refused").code, Code::WaitUnsafe);
    world.in_flight(RecoveryClass::Manual);
    world.hot(obligation());
    assert_eq!(world.park().expect_err("refused").code, Code::WaitUnsafe);
    assert_eq!(world.status(), Status::Running);
}

#[test]
fn after_the_park_nothing_of_its_hop_touches_the_run() {
    let mut world = World::running();
    let token = world.token();
    let ask = world.parked(obligation());
    let rows = world.rows.clone();
    let acts = [
        Act::Fail(failure()),
        Act::HandBack { checkpoint: None },
        Act::Finish { result: args("1") },
        Act::Acknowledge,
        Act::Record,
        Act::Park { checkpoint: world.checkpoint(&Progress::default()), mode: WaitMode::Any, taker: None },
    ];
    for act in acts {
        let late = world.hop_as(token, Progress::default(), act).expect_err("late");
        assert_eq!(late.code, Code::StaleClaim);
    }
    let progress = Progress {
        conclusions: vec![protocol::command::Conclusion {
            call: ask.call,
            end: protocol::command::Concluded::Ended(denied(Code::ApprovalCancelled)),
        }],
        ..Progress::default()
    };
    assert_eq!(world.hop_as(token, progress, Act::Record).expect_err("late").code, Code::StaleClaim);
    assert_eq!(world.rows, rows); // R-177 R-252
    assert!(world.approval(ask.id).is_pending() && world.run().checkpoint.is_some());
}

#[test]
fn reads_ride_with_the_next_commit_of_their_hop() {
    let mut world = World::running();
    let commits = world.seqs.len();
    let mut progress = Progress::default();
    for _ in 0..3 {
        let mut call = world.call(Effect::Read, RecoveryClass::Retry);
        call.identity.n += progress.entries.len() as u32;
        let end = protocol::command::Concluded::Ended(protocol::call::Outcome {
            applied: protocol::call::Applied::No,
            ..ok()
        });
        progress.conclusions.push(protocol::command::Conclusion { call: call.id, end });
        progress.entries.push(Entry::Call(Box::new(call)));
    }
    world.hop(progress, Act::Finish { result: args("1") }).expect("done");
    assert_eq!(world.seqs.len(), commits + 1);
    assert_eq!((world.calls.len(), world.receipts.len()), (3, 3));
}

#[test]
fn the_clocks_say_where_the_time_went() {
    let mut world = World::new();
    world.admit();
    world.pass(Duration::from_millis(10));
    world.claim(1).expect("claimed");
    world.pass(Duration::from_millis(20));
    let (progress, _) = world.question(obligation());
    let progress = Progress { charge: Charge { active: 5_000, person: 0 }, ..progress };
    let checkpoint = world.checkpoint(&progress);
    world.hop(progress, Act::Park { checkpoint, mode: WaitMode::Any, taker: None }).expect("parked");
    world.pass(Duration::from_secs(7));
    world.cancel();
    let clocks = world.run().clocks;
    assert_eq!((clocks.queued, clocks.active, clocks.calls, clocks.person), (10_000, 5_000, 15_000, 7_000_000));
    assert_eq!(world.run().budget.active_us, 5_000);
}

#[test]
pub(super) fn a_call_beyond_the_budget_is_refused() {
    let mut world = World::running_with(|admit| admit.settings.max_calls = 100);
    for _ in 0..100 {
        world.enter(Effect::Read, RecoveryClass::Retry); // C-63
    }
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let progress = Progress { entries: vec![Entry::Call(Box::new(call))], ..Progress::default() };
    assert_eq!(world.record(progress).expect_err("past it").code, Code::CallBudgetExceeded); // C-63
    assert_eq!(world.run().budget.calls, 100); // C-65
}

#[test]
fn recovery_looks_at_status_and_deadline_alone() {
    // who had the hop, and since when it runs, make no difference; status and deadline do.
    let recovered = |worker: u64, started: i64| {
        let mut world = World::new();
        world.admit();
        world.claim(worker).expect("claimed");
        let rows = world.rows.as_mut().expect("admitted");
        rows.run.started_at = Some(protocol::time::Time::from_millis(started));
        world.pass(TTL - Duration::from_micros(1));
        let Answer::Settled { changed: early, .. } = world.recover_as(Reach::Lapsed) else { panic!("answered") };
        world.pass(Duration::from_micros(1));
        let Answer::Settled { changed, .. } = world.recover_as(Reach::Lapsed) else { panic!("answered") };
        (early, changed, world.status(), world.run().seq, world.run().fence)
    };
    let one = recovered(1, 1_000_000);
    assert_eq!(one, (false, true, Status::Queued, 1, 2));
    assert_eq!(recovered(77, 1), one);
}

#[test]
pub(super) fn a_claim_names_a_hop_that_is_there() {
    let mut world = World::new();
    let taker = Taker { worker: worker(1), ttl: TTL, able: Able::Everything };
    let run = world.mint();
    let unknown = world.give(Command::Claim(Claim { run, seq: 0, taker }));
    assert_eq!(unknown.expect_err("no run").code, Code::NotFound);
    world.admit();
    assert_eq!(world.claim_seq(1, 1).expect_err("not yet").code, Code::Skipped);
}
