//! Lists and passes.

use std::time::Duration;

use protocol::approval;
use protocol::command::Admit;
use protocol::run::Status;

use super::world::World;
use crate::page::{ApprovalFilter, ApprovalOrder, ApprovalStatus, Page, RunFilter, WaitingFor};

pub async fn runs_are_listed_newest_first_and_by_filter(world: World) {
    let labels = [("team".to_owned(), "a \"quoted\" one".to_owned())];
    let labelled = Admit { labels: labels.clone().into(), ..world.admission() };
    let first = world.admit(labelled).await.unwrap().0;
    let parked = world.parked().await.0;
    world.pass(Duration::from_secs(1));
    let running = world.running().await;
    let done = world.running().await;
    let done = world.step(&done, Default::default(), world.finish("{}")).await.unwrap();
    let all = [done.id, running.id, parked.id, first.id];
    let list = async |filter: RunFilter| {
        let page = world.ledger.runs(filter, None, 100).await.unwrap();
        assert!(page.next.is_none() && page.faults.is_empty());
        page.items.iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(list(RunFilter::default()).await, all); // I-37
    let of = |statuses: &[Status]| RunFilter { statuses: statuses.to_vec(), ..RunFilter::default() };
    assert_eq!(list(of(&[Status::Running])).await, [running.id]); // I-22
    assert_eq!(
        list(of(&[Status::Queued, Status::Done, Status::AwaitingConsent])).await,
        [done.id, parked.id, first.id]
    );
    let filter = RunFilter { labels: labels.to_vec(), ..RunFilter::default() };
    assert_eq!(list(filter).await, [first.id]); // I-22
    let filter = RunFilter { waiting_for: Some(WaitingFor::Approval), ..RunFilter::default() };
    assert_eq!(list(filter).await, [parked.id]); // I-22
    let filter = RunFilter { created_from: Some(running.created_at), ..RunFilter::default() };
    assert_eq!(list(filter).await, [done.id, running.id]); // I-22
    let filter = RunFilter { created_to: Some(running.created_at), ..RunFilter::default() };
    assert_eq!(list(filter).await, [parked.id, first.id]); // I-22
    let filter = RunFilter { workflow: Some("other".to_owned()), ..RunFilter::default() };
    assert!(list(filter).await.is_empty()); // I-22
    let filter = RunFilter { namespace: Some("elsewhere".to_owned()), ..RunFilter::default() };
    assert!(list(filter).await.is_empty());
    let (mut after, mut walked) = (None, Vec::new());
    loop {
        let page = world.ledger.runs(RunFilter::default(), after, 3).await.unwrap();
        walked.extend(page.items.iter().map(|run| run.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(walked, all); // I-37
}

pub async fn approvals_are_listed_in_each_order(world: World) {
    let first = world.parked().await.1;
    world.pass(Duration::from_secs(10));
    let (second_run, second) = world.parked().await;
    let third = world.parked().await.1;
    world.decide(world.verdict(&third, approval::Verdict::Reject, "bo")).await.unwrap();
    let ids = |page: &Page<crate::ApprovalOf>| page.items.iter().map(|item| item.approval.id).collect::<Vec<_>>();
    let list = async |filter: ApprovalFilter| {
        let whole = world.ledger.approvals(filter.clone(), None, 10).await.unwrap();
        let (mut after, mut walked) = (None, Vec::new());
        loop {
            let page = world.ledger.approvals(filter.clone(), after, 1).await.unwrap();
            walked.extend(ids(&page));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(walked, ids(&whole)); // I-37
        walked
    };
    let by = |order| ApprovalFilter { order, ..ApprovalFilter::default() };
    assert_eq!(list(by(ApprovalOrder::Newest)).await, [second.approval, first.approval]); // I-25
    assert_eq!(list(by(ApprovalOrder::Oldest)).await, [first.approval, second.approval]); // I-25
    assert_eq!(list(by(ApprovalOrder::Expiring)).await, [first.approval, second.approval]); // I-25
    let filter = ApprovalFilter { status: Some(ApprovalStatus::Rejected), ..ApprovalFilter::default() };
    assert_eq!(list(filter).await, [third.approval]); // I-25
    let filter =
        ApprovalFilter { status: Some(ApprovalStatus::Any), run: Some(second_run.id), ..ApprovalFilter::default() };
    assert_eq!(list(filter).await, [second.approval]); // I-25
    let filter = ApprovalFilter { kinds: vec![approval::Kind::Settle], ..ApprovalFilter::default() };
    assert!(list(filter).await.is_empty());
    let filter = ApprovalFilter { namespace: Some("elsewhere".to_owned()), ..ApprovalFilter::default() };
    assert!(list(filter).await.is_empty());
    assert_eq!(world.ledger.pending(second_run.id).await.unwrap().len(), 1); // I-42
}

pub async fn effects_are_listed(world: World) {
    world.parked().await;
    let (run, asked) = world.dispatched().await;
    let other = world.dispatched().await.1;
    let ids = |page: Page<crate::CallOf>| page.items.into_iter().map(|item| item.call.id).collect::<Vec<_>>();
    assert_eq!(ids(world.ledger.effects(false, None, None, 10).await.unwrap()), [other.call, asked.call]); // I-30
    assert_eq!(ids(world.ledger.effects(false, Some(run.id), None, 10).await.unwrap()), [asked.call]);
    let page = world.ledger.effects(false, None, None, 1).await.unwrap();
    assert_eq!(ids(world.ledger.effects(false, None, page.next, 10).await.unwrap()), [asked.call]); // I-37
    assert!(world.ledger.effects(true, None, None, 10).await.unwrap().items.is_empty()); // I-30
}

pub async fn work_is_found_in_order_of_priority(world: World) {
    let at = async |priority| world.admit(Admit { priority, ..world.admission() }).await.unwrap().0.id;
    let low = at(10).await;
    let early = at(50).await;
    world.pass(Duration::from_secs(1));
    let (late, high) = (at(50).await, at(90).await);
    let (found, faults) = world.ledger.claimable(0, 10).await.unwrap();
    assert!(faults.is_empty());
    assert_eq!(found.iter().map(|c| c.run).collect::<Vec<_>>(), [high, early, late, low]);
    assert_eq!(found[0].pattern, world.pattern);
    let (rest, _) = world.ledger.claimable(1, 2).await.unwrap();
    assert_eq!(rest.iter().map(|c| c.run).collect::<Vec<_>>(), [early, late]);
    world.claim(high, 0, world.taker()).await.unwrap();
    assert_eq!(world.ledger.claimable(0, 1).await.unwrap().0[0].run, early);
}

pub async fn a_sweep_finds_what_was_committed_late(world: World) {
    // Its id is older than those that the sweep has seen; its commit is not.
    let early = world.admission();
    let seen = world.queued().await;
    let ids = async || {
        let (found, _) = world.ledger.claimable(0, 10).await.unwrap();
        found.iter().map(|claimable| claimable.run).collect::<Vec<_>>()
    };
    assert_eq!(ids().await, [seen.id]);
    let late = world.admit(early).await.unwrap().0;
    assert!(late.id < seen.id);
    assert_eq!(ids().await, [late.id, seen.id]);
    world.claim(seen.id, 0, world.taker()).await.unwrap();
    assert_eq!(ids().await, [late.id]);
}

pub async fn the_figures_count_what_is_there(world: World) {
    world.queued().await;
    world.parked().await;
    let run = world.running().await;
    world.step(&run, Default::default(), world.finish("{}")).await.unwrap();
    let counts = world.ledger.counts().await.unwrap();
    let of = |wanted| counts.statuses.iter().find(|(status, _)| *status == wanted).map_or(0, |(_, count)| *count);
    assert_eq!(counts.runs, 3);
    assert_eq!((of(Status::Queued), of(Status::AwaitingConsent), of(Status::Running), of(Status::Done)), (1, 1, 0, 1));
    assert_eq!((counts.pending_approvals, counts.ambiguous_calls), (1, 0));
    assert_eq!(world.ledger.check().await.unwrap().faults, Vec::<String>::new());
}
