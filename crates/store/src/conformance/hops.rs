//! Claims, fencing, renewals, parks.

use protocol::able::Able;
use std::time::Duration;

use protocol::code::Code;
use protocol::command::{Act, Answer, Claim, Command, Progress, Renew, Renewed, Taker};
use protocol::delivery::Mode;
use protocol::id::WorkerId;
use protocol::journal;
use protocol::run::{Phase, Status};
use protocol::wait;

use super::admission::futures;
use super::world::{World, refused};
use crate::error::TransactError;

pub async fn of_many_claims_one_wins(world: World) {
    let run = world.queued().await;
    let takers: Vec<Taker> =
        (0..8).map(|_| Taker { worker: world.id(), ttl: world.ttl, able: Able::Everything }).collect();
    let told =
        futures(8, |i| world.ledger.transact(Command::Claim(Claim { run: run.id, seq: 0, taker: takers[i].clone() })))
            .await;
    let won = told.iter().filter(|told| matches!(told, Ok(Answer::Claimed { .. }))).count();
    assert_eq!(won, 1);
    for told in told.into_iter().filter(Result::is_err) {
        assert_eq!(refused(told), Code::Skipped);
    }
    let run = world.ledger.run(run.id).await.unwrap().unwrap();
    assert_eq!(run.claim().map(|claim| claim.token), Some(run.fence));
    assert_eq!(run.started_at, Some(world.ledger.now()));
}

pub async fn a_claim_hands_out_a_larger_token(world: World) {
    let run = world.running().await;
    assert_eq!(run.fence, 1);
    let back = world.step(&run, Progress::default(), Act::HandBack { checkpoint: None }).await.unwrap();
    assert_eq!((back.status(), back.seq), (Status::Queued, 1));
    let again = world.claim(run.id, 1, world.taker()).await.unwrap();
    assert_eq!(again.fence, 2);
    assert_eq!(again.started_at, run.started_at);
    assert_eq!(refused(world.claim(run.id, 0, world.taker()).await), Code::Skipped);
}

pub async fn an_old_token_changes_nothing(world: World) {
    let old = world.running().await;
    world.step(&old, Progress::default(), Act::HandBack { checkpoint: None }).await.unwrap();
    let run = world.claim(old.id, 1, world.taker()).await.unwrap();
    let before = world.shown(run.id).await;
    let (progress, _) = world.asks(&old);
    let acts = [
        world.finish("late"),
        Act::Fail(world.failure()),
        Act::Record,
        Act::HandBack { checkpoint: None },
        world.park(&old, &progress, "late"),
    ];
    for act in acts {
        assert_eq!(refused(world.hop(&old, progress.clone(), act).await), Code::StaleClaim);
    }
    assert_eq!(world.shown(run.id).await, before);
    let renew = Renew { worker: world.worker, ttl: world.ttl, claims: vec![(run.id, old.fence)] };
    assert_eq!(world.ledger.renew(renew).await.unwrap(), [(run.id, Renewed::StaleClaim)]);
}

pub async fn a_renewal_moves_the_deadline_and_writes_no_event(world: World) {
    let run = world.running().await;
    let other = world.queued().await;
    world.pass(Duration::from_secs(10));
    let renew = Renew { worker: world.worker, ttl: world.ttl, claims: vec![(run.id, 1), (other.id, 1)] };
    let told = world.ledger.renew(renew.clone()).await.unwrap();
    let deadline = world.ledger.now() + world.ttl;
    assert_eq!(told[0], (run.id, Renewed::Until { deadline, stopping: false, paused: false, late: false }));
    assert_eq!(told[1], (other.id, Renewed::StaleClaim));
    let stored = world.ledger.run(run.id).await.unwrap().unwrap();
    assert_eq!(stored.claim().unwrap().deadline, deadline);
    assert_eq!(stored.events, run.events);
    let stranger = Renew { worker: world.id::<WorkerId>(), ..renew };
    assert_eq!(world.ledger.renew(stranger).await.unwrap()[0].1, Renewed::StaleClaim);
}

pub async fn a_thousand_claims_are_renewed_at_once(world: World) {
    let admissions = futures(200, |_| world.running()).await;
    let claims: Vec<_> = admissions.iter().map(|run| (run.id, run.fence)).collect();
    // The same claims several times over: a renewal asks nothing of the number or the order.
    let claims: Vec<_> = claims.iter().cycle().take(1_000).copied().collect();
    world.pass(Duration::from_secs(1));
    let commits = world.ledger.commits();
    let told = world.ledger.renew(Renew { worker: world.worker, ttl: world.ttl, claims }).await.unwrap();
    assert_eq!(world.ledger.commits(), commits + 1);
    assert!(told.len() == 1_000 && told.iter().all(|(_, renewed)| matches!(renewed, Renewed::Until { .. })));
}

pub async fn a_park_leaves_no_worker_and_keeps_its_checkpoint(world: World) {
    let (run, asked) = world.parked().await;
    assert_eq!(run.status(), Status::AwaitingConsent);
    assert!(run.claim().is_none() && run.delivery().is_none());
    let shown = world.shown(run.id).await;
    assert_eq!(shown.run, run);
    assert_eq!(shown.waits.len(), 1);
    assert_eq!(
        (shown.waits[0].state, shown.waits[0].owner.clone()),
        (wait::State::Parked, wait::Owner::Approval(asked.approval))
    );
    let checkpoint = run.checkpoint.as_ref().unwrap();
    assert_eq!((checkpoint.n, checkpoint.token, checkpoint.journal), (1, 1, run.journal));
    assert_eq!(world.ledger.checkpoint(run.id).await.unwrap().unwrap(), b"checkpoint 1");
    let named = world.ledger.body(run.id, checkpoint.body.digest).await.unwrap().unwrap();
    assert_eq!(named, b"checkpoint 1");
    let approval = world.ledger.approval(asked.approval).await.unwrap().unwrap().approval;
    assert_eq!(approval.binding.digest(), approval.binding_digest); // C-136
    assert_eq!(approval.expires_at, shown.waits[0].due_at);
    let lapsed = world.ledger.due(world.ledger.now() + world.ttl * 2, crate::Reach::Lapsed, 0, 10).await.unwrap();
    assert!(lapsed.is_empty());
}

pub async fn a_second_checkpoint_replaces_the_first(world: World) {
    let (run, asked) = world.parked().await;
    let decide = protocol::command::Decide {
        taker: Some(world.taker()),
        ..world.verdict(&asked, protocol::approval::Verdict::Reject, "bo")
    };
    let run2 = world.decide(decide).await.unwrap().run;
    assert_eq!(run2.seq, run.seq + 1);
    let (mut progress, _) = world.asks(&run2);
    let denied = world.denied(asked.call);
    progress.conclusions = denied.conclusions;
    progress.bodies.extend(denied.bodies);
    let act = world.park(&run2, &progress, "checkpoint 2");
    let run3 = world.step(&run2, progress, act).await.unwrap();
    assert_eq!(run3.checkpoint.as_ref().map(|c| c.n), Some(2));
    assert_eq!(world.ledger.checkpoint(run.id).await.unwrap().unwrap(), b"checkpoint 2");
    let late = world.hop(&run2, Progress::default(), world.park(&run2, &Progress::default(), "late")).await;
    assert_eq!(refused(late), Code::StaleClaim);
    assert_eq!(world.ledger.checkpoint(run.id).await.unwrap().unwrap(), b"checkpoint 2");
}

pub async fn a_hold_and_its_counters_are_there_for_every_later_hop(world: World) {
    let run = world.running().await;
    let hold = |run: &protocol::run::Run, text: &str| match world.park(run, &Progress::default(), text) {
        Act::Park { checkpoint, .. } => Act::Hold { resource: "chat:small".to_owned(), checkpoint },
        other => panic!("{other:?}"),
    };
    let held = world.step(&run, Progress::default(), hold(&run, "checkpoint 1")).await.unwrap();
    assert_eq!(held.status(), Status::AwaitingHardware);
    assert_eq!(world.shown(run.id).await.run, held);
    assert_eq!(world.ledger.checkpoint(run.id).await.unwrap().unwrap(), b"checkpoint 1");
    let warm = world.step(&held, Progress::default(), Act::Warm).await.unwrap();
    let held = world.step(&warm, Progress::default(), hold(&warm, "checkpoint 2")).await.unwrap();
    let back = world.step(&held, Progress::default(), Act::HandBack { checkpoint: None }).await.unwrap();
    let next = world.claim(run.id, back.seq, world.taker()).await.unwrap();
    let made = &next.budget.hardware;
    assert_eq!((made.total, made.in_row("chat:small")), (2, 2)); // R-145 R-147
    assert_eq!(world.ledger.checkpoint(run.id).await.unwrap().unwrap(), b"checkpoint 2");
    let done = world.step(&next, Progress::default(), world.finish("fine")).await.unwrap();
    assert_eq!(world.shown(run.id).await.run.budget, done.budget);
}

pub async fn progress_is_stored_as_a_prefix(world: World) {
    let run = world.running().await;
    let (progress, _) = world.asks(&run);
    let (entries, log) = (progress.entries.len(), progress.log.clone());
    let stored = world.step(&run, progress, Act::Record).await.unwrap();
    assert_eq!(stored.journal.len as usize, entries);
    let journal = world.ledger.journal(run.id).await.unwrap().unwrap();
    assert!(journal::verify(&journal, stored.journal));
    assert_eq!(world.ledger.log(run.id, None, 10).await.unwrap().unwrap()[0].text, log[0]);
    let (again, _) = world.asks(&run);
    assert_eq!(refused(world.hop(&run, again, Act::Record).await), Code::StaleHop);
    assert!(matches!(stored.phase, Phase::Active { .. }));
    let next = world.delivery_mode(&stored).await;
    assert_eq!(next, Some(Mode::Fresh));
}

impl World {
    /// How the next hop of a run begins, once it is handed back.
    async fn delivery_mode(&self, run: &protocol::run::Run) -> Option<Mode> {
        let told: Result<_, TransactError> =
            self.step(run, Progress::default(), Act::HandBack { checkpoint: None }).await;
        told.ok()?.delivery().map(|delivery| delivery.mode)
    }
}
