//! The recovery pass, one run at a time.

use protocol::able::Able;
use std::time::Duration;

use protocol::approval::{self, Kind as Question};
use protocol::call::{OutcomeStatus, State};
use protocol::code::Code;
use protocol::command::{Admit, Progress, Reach};
use protocol::delivery::{Cause, Mode};
use protocol::id::WorkerId;
use protocol::run::Status;

use super::admission::futures;
use super::world::{World, refused};

pub async fn a_lapsed_claim_is_taken_over_once(world: World) {
    let run = world.running().await;
    let (_, early) = world.recover(run.id, Reach::Lapsed).await;
    assert!(!early);
    world.pass(world.ttl);
    let due = world.ledger.due(world.ledger.now(), Reach::Lapsed, 0, 10).await.unwrap();
    assert_eq!(due.lapsed, [run.id]);
    let told = futures(4, |_| world.recover(run.id, Reach::Lapsed)).await;
    assert_eq!(told.iter().filter(|(_, changed)| *changed).count(), 1);
    let after = world.ledger.run(run.id).await.unwrap().unwrap();
    assert_eq!((after.status(), after.seq, after.fence), (Status::Queued, 1, run.fence + 1));
    let delivery = after.delivery().unwrap();
    assert_eq!((delivery.cause, delivery.mode), (Cause::Recovery, Mode::Fresh));
}

pub async fn claims_of_other_processes_are_taken_over_at_once(world: World) {
    let run = world.running().await;
    let me: WorkerId = world.id();
    let mine = world.queued().await;
    world
        .claim(mine.id, 0, protocol::command::Taker { worker: me, ttl: world.ttl, able: Able::Everything })
        .await
        .unwrap();
    let due = world.ledger.due(world.ledger.now(), Reach::Others(me), 0, 10).await.unwrap();
    assert_eq!(due.lapsed, [run.id]);
    let (after, changed) = world.recover(run.id, Reach::Others(me)).await;
    assert!(changed && after.status() == Status::Queued);
    let (_, changed) = world.recover(mine.id, Reach::Others(me)).await;
    assert!(!changed);
}

pub async fn a_call_in_flight_at_a_crash_asks_a_person(world: World) {
    let (run, asked) = world.dispatched().await;
    world.pass(world.ttl);
    let (after, _) = world.recover(run.id, Reach::Lapsed).await;
    assert_eq!(after.status(), Status::AwaitingConsent);
    let shown = world.shown(run.id).await;
    assert!(matches!(shown.calls[0].state, State::Ambiguous(_)));
    let settle = shown.approvals.iter().find(|a| a.kind() == Question::Settle).unwrap();
    assert_eq!((settle.call, settle.expires_at), (asked.call, None));
    assert_eq!(shown.calls[0].settle, Some(settle.id));
    let ambiguous = world.ledger.effects(true, None, None, 10).await.unwrap();
    assert_eq!(ambiguous.items.iter().map(|item| item.call.id).collect::<Vec<_>>(), [asked.call]);
    assert_eq!(shown.waits.len(), 1);
    let question = super::world::Asked { approval: settle.id, ..asked.clone() };
    let verdict = world.verdict(&question, approval::Verdict::DidNotHappen, "bo");
    let decided = world.decide(verdict).await.unwrap();
    assert_eq!(decided.run.status(), Status::Queued);
    let call = world.ledger.call(asked.call).await.unwrap().unwrap().call;
    let outcome = call.outcome().map(|o| (o.status, o.code));
    assert_eq!(outcome, Some((OutcomeStatus::Error, Some(Code::EffectNotExecuted))));
    assert!(world.ledger.effects(true, None, None, 10).await.unwrap().items.is_empty());
}

pub async fn a_late_outcome_of_a_lost_worker_changes_nothing(world: World) {
    let (run, asked) = world.dispatched().await;
    world.pass(world.ttl + Duration::from_secs(1));
    world.recover(run.id, Reach::Lapsed).await;
    let before = world.shown(run.id).await;
    let conclusions = vec![world.outcome(asked.call, OutcomeStatus::Ok, None)];
    let late = Progress { conclusions, ..Progress::default() };
    let told = world.hop(&run, late, protocol::command::Act::Record).await;
    assert_eq!(refused(told), Code::StaleClaim);
    assert_eq!(world.shown(run.id).await, before);
}

pub async fn waits_of_namespaces_take_turns(world: World) {
    let mut crowd = Vec::new();
    for _ in 0..5 {
        crowd.push(world.parked().await.1.wait);
        world.pass(Duration::from_secs(1));
    }
    let mut admit = Admit { taker: Some(world.taker()), ..world.admission() };
    admit.by.principal.namespace = "other".to_owned();
    let (run, _) = world.admit(admit).await.unwrap();
    let (progress, asked) = world.asks(&run);
    let act = world.park(&run, &progress, "checkpoint");
    world.step(&run, progress, act).await.unwrap();
    world.pass(Duration::from_secs(400 * 86_400));
    let due = async |skip, limit| {
        let due = world.ledger.due(world.ledger.now(), Reach::Lapsed, skip, limit).await.unwrap();
        due.waits.into_iter().map(|(wait, _)| wait).collect::<Vec<_>>()
    };
    assert_eq!(due(0, 2).await, [crowd[0], asked.wait]); // the last to be due, and not behind the others
    assert_eq!(due(2, 2).await, [crowd[1], crowd[2]]);
    assert_eq!(due(0, 100).await.len(), 6);
}
