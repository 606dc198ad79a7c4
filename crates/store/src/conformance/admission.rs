//! Admission and claims of names: keys, ids, sessions.

use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::command::{Act, Admit, Cancel, Claim, Command, Progress};
use protocol::digest::Digest;
use protocol::id::{ApprovalId, RunId, WaitId};
use protocol::run::Status;

use super::world::{World, refused};
use crate::error::TransactError;

pub async fn a_run_is_there_once_it_is_answered(world: World) {
    let (run, created) = world.admit(world.admission()).await.unwrap();
    assert!(created);
    assert_eq!(world.ledger.run(run.id).await.unwrap().as_ref(), Some(&run));
    assert_eq!(run.status(), Status::Queued);
    assert_eq!(run.pattern, world.pattern);
    assert_eq!(run.requester.subject, "ana");
    let delivery = run.delivery().unwrap();
    assert_eq!((run.seq, delivery.attempts), (0, 0));
    let input = world.ledger.body(run.id, run.input.digest).await.unwrap().unwrap();
    assert_eq!(input, b"{\"order\":\"A-1\"}");
}

pub async fn equal_requests_make_one_run(world: World) {
    let admit = || Admit { idempotency_key: Some("key-1".to_owned()), ..world.admission() };
    let told = futures(8, |_| world.admit(admit())).await;
    let told: Vec<_> = told.into_iter().map(Result::unwrap).collect();
    assert_eq!(told.iter().filter(|(_, created)| *created).count(), 1);
    assert!(told.iter().all(|(run, _)| run.id == told[0].0.id));
    let run = &told[0].0;
    world.claim(run.id, 0, world.taker()).await.unwrap();
    let (again, created) = world.admit(admit()).await.unwrap();
    assert_eq!((again.id, again.status(), created), (run.id, Status::Running, false));
    assert_eq!(world.ledger.counts().await.unwrap().runs, 1);
    let (digest, found) = world.ledger.admission("default", "ana", "key-1").await.unwrap().unwrap();
    assert_eq!((digest, found), (world.admission().request_digest, again));
    assert!(world.ledger.admission("default", "bo", "key-1").await.unwrap().is_none());
}

pub async fn a_key_with_another_request_is_refused(world: World) {
    let first = Admit { idempotency_key: Some("key-1".to_owned()), ..world.admission() };
    let (run, _) = world.admit(first.clone()).await.unwrap();
    let other = Admit { run: world.id(), request_digest: Digest::of("another request"), ..first };
    assert_eq!(refused(world.admit(other).await), Code::IdempotencyMismatch);
    assert_eq!(world.ledger.run(run.id).await.unwrap(), Some(run));
}

pub async fn a_run_id_is_its_own_key(world: World) {
    let first = world.admission();
    let (run, created) = world.admit(first.clone()).await.unwrap();
    let (again, repeated) = world.admit(first.clone()).await.unwrap();
    assert_eq!((created, repeated, again.id), (true, false, run.id));
    let other = Admit { request_digest: Digest::of("another request"), ..first };
    assert_eq!(refused(world.admit(other.clone()).await), Code::IdempotencyMismatch);
    let request_digest = world.admission().request_digest;
    let foreign = Admit { by: world.foreign("eve"), request_digest, ..other };
    assert_eq!(refused(world.admit(foreign).await), Code::NotFound); // though the request is the same
}

pub async fn keys_of_two_people_are_two_keys(world: World) {
    let ana = Admit { idempotency_key: Some("key".to_owned()), ..world.admission() };
    let bo = Admit { by: world.by("bo"), run: world.id(), ..ana.clone() };
    let (first, _) = world.admit(ana).await.unwrap();
    let (second, created) = world.admit(bo).await.unwrap();
    assert!(created && first.id != second.id);
}

pub async fn a_session_has_one_run_at_a_time(world: World) {
    let admit = || Admit { session: Some("cart 7".to_owned()), ..world.admission() };
    let (run, _) = world.admit(admit()).await.unwrap();
    let told = world.admit(admit()).await;
    let text = told.as_ref().unwrap_err().to_string();
    assert_eq!(refused(told), Code::SessionBusy);
    assert_eq!(text, format!("session already has an active run: {}", run.id));
    let (ended, _) = world.cancel(run.id).await.unwrap();
    assert_eq!(ended.status(), Status::Cancelled);
    let (next, created) = world.admit(admit()).await.unwrap();
    assert!(created && next.id != run.id);
}

pub async fn of_many_admissions_to_a_session_one_is_taken(world: World) {
    let admit = || Admit { session: Some("cart 8".to_owned()), ..world.admission() };
    let told = futures(8, |_| world.admit(admit())).await;
    let (taken, busy): (Vec<_>, Vec<_>) = told.into_iter().partition(Result::is_ok);
    assert_eq!(taken.len(), 1);
    assert!(busy.into_iter().all(|told| refused(told) == Code::SessionBusy));
    assert_eq!(world.ledger.counts().await.unwrap().runs, 1);
}

pub async fn a_refusal_changes_nothing_and_writes_no_event(world: World) {
    let run = world.queued().await;
    let before = world.shown(run.id).await;
    let events = world.ledger.events(run.id, None, 100).await.unwrap();
    let stale = Claim { run: run.id, seq: 7, taker: world.taker() };
    assert_eq!(refused(world.ledger.transact(Command::Claim(stale)).await), Code::Skipped);
    let unknown = Admit { priority: 101, ..world.admission() };
    let id = unknown.run;
    assert_eq!(refused(world.admit(unknown).await), Code::InvalidRequest);
    assert_eq!(world.shown(run.id).await, before);
    assert_eq!(world.ledger.events(run.id, None, 100).await.unwrap(), events);
    assert_eq!(world.ledger.run(id).await.unwrap(), None);
}

pub async fn an_unknown_id_is_refused_alike(world: World) {
    let run: RunId = world.id();
    let taker = world.taker();
    let commands = [
        Command::Claim(Claim { run, seq: 0, taker }),
        Command::Cancel(Cancel { by: world.by("ana"), run, reason: None }),
        Command::Expire { run, wait: world.id::<WaitId>() },
    ];
    for command in commands {
        assert_eq!(refused(world.ledger.transact(command).await), Code::NotFound);
    }
    assert_eq!(world.ledger.run(run).await.unwrap(), None);
    assert!(world.ledger.rows(run).await.unwrap().is_none());
    assert!(world.ledger.events(run, None, 1).await.unwrap().is_none());
    assert!(world.ledger.approval(world.id::<ApprovalId>()).await.unwrap().is_none());
}

pub async fn a_caller_that_goes_away_changes_nothing(world: World) {
    let mut left = Vec::new();
    // The command is in the writer's hands; nobody waits for what it says. A writer that is quick has answered already.
    for _ in 0..1_000 {
        if left.len() == 8 {
            break;
        }
        let admit = world.admission();
        let id = admit.run;
        let mut leaves = Box::pin(world.ledger.transact(Command::Admit(Box::new(admit))));
        if std::future::poll_fn(|cx| std::task::Poll::Ready(leaves.as_mut().poll(cx).is_pending())).await {
            left.push(id);
        }
    }
    assert_eq!(left.len(), 8, "a commit takes a thread of its own");
    // Commands are taken in turn, so those that were left are done when this one is.
    world.queued().await;
    let (found, _) = world.ledger.claimable(0, 1_000).await.unwrap();
    for id in left {
        let run = world.ledger.run(id).await.unwrap().expect("accepted all the same");
        assert_eq!(run.status(), Status::Queued);
        assert!(found.iter().any(|claimable| claimable.run == id));
    }
}

pub async fn a_run_keeps_its_queue_and_priority_in_every_delivery(world: World) {
    let admit = Admit { priority: 70, taker: Some(world.taker()), ..world.admission() };
    let (run, _) = world.admit(admit).await.unwrap();
    let delivered = async || {
        let (found, _) = world.ledger.claimable(0, 10).await.unwrap();
        let [one] = &found[..] else { panic!("{found:?}") };
        (one.run, one.seq, one.queue.clone(), one.priority)
    };
    world.step(&run, Progress::default(), Act::HandBack { checkpoint: None }).await.unwrap();
    assert_eq!(delivered().await, (run.id, 1, "default".to_owned(), 70));
    let run = world.claim(run.id, 1, world.taker()).await.unwrap();
    let (progress, asked) = world.asks(&run);
    let act = world.park(&run, &progress, "checkpoint");
    world.step(&run, progress, act).await.unwrap();
    world.decide(world.verdict(&asked, Verdict::Reject, "bo")).await.unwrap();
    assert_eq!(delivered().await, (run.id, 2, "default".to_owned(), 70));
}

pub async fn a_full_queue_takes_no_more_and_lets_every_run_return(world: World) {
    let admit = || Admit { max_queued: Some(2), idempotency_key: Some("key".to_owned()), ..world.admission() };
    let parked = world.parked().await;
    world.queued().await;
    let (first, _) = world.admit(admit()).await.unwrap();
    let refused = world.ledger.transact(Command::Admit(Box::new(Admit { idempotency_key: None, ..admit() }))).await;
    let Err(TransactError::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.code, Code::CapacityClosed);
    assert!(refusal.retry_after_ms.is_some_and(|ms| ms > 0), "{refusal:?}"); // a retry time
    // A repeat is no admission, and who returns was admitted already.
    assert_eq!(world.admit(admit()).await.unwrap(), (first, false));
    world.decide(world.verdict(&parked.1, Verdict::Reject, "bo")).await.unwrap();
    assert_eq!(world.ledger.run(parked.0.id).await.unwrap().unwrap().status(), Status::Queued);
    let (found, _) = world.ledger.claimable(0, 10).await.unwrap();
    assert_eq!(found.len(), 3);
    for one in found.iter().take(2) {
        world.claim(one.run, one.seq, world.taker()).await.unwrap();
    }
    assert!(world.admit(Admit { idempotency_key: None, ..admit() }).await.unwrap().1); // there is room again
}

/// Runs several at once and gives what each was told.
pub(super) async fn futures<F: Future>(count: usize, make: impl Fn(usize) -> F) -> Vec<F::Output> {
    let mut waiting: Vec<_> = (0..count).map(|i| Box::pin(make(i))).collect();
    let mut told: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(move |cx| {
        for (future, told) in waiting.iter_mut().zip(&mut told) {
            if told.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(cx)
            {
                *told = Some(output);
            }
        }
        if told.iter().any(Option::is_none) {
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(told.drain(..).flatten().collect())
    })
    .await
}
