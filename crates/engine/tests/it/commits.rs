//! What a cycle costs in commits (R-117, C-102): each is one wait for the disk.

use crate::desk::Desk;
use protocol::approval::Verdict;
use protocol::run::Status;

/// Commits between the admission and the end of a program that asks once.
async fn cycle(source: &str) -> u64 {
    let desk = Desk::open().await;
    desk.register(source).await.expect("registered");
    let before = desk.engine.ledger().commits();
    let started = desk.engine.start_run(crate::desk::local(), crate::desk::request("{}")).await.expect("started");
    let run = desk.stopped(started.run.id).await;
    assert_eq!(run.status(), Status::AwaitingConsent);
    let pending = desk.pending(run.id).await;
    desk.decide(pending[0].id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(run.status(), Status::Done, "{:?}", run.phase);
    desk.engine.ledger().commits() - before
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_around_a_gate_is_four_commits() {
    let commits = cycle("payments.order(order_id='o-1')\nstasis.gate('go on?')\nresult = 1").await;
    assert_eq!(commits, 4); // R-117 C-102 C-100
}

#[tokio::test(flavor = "multi_thread")]
async fn an_asked_write_adds_its_gate_and_its_outcome() {
    let commits = cycle("payments.refund(order_id='o-1', amount=500)\nresult = 1").await;
    assert_eq!(commits, 6); // R-117 C-98 C-101
}
