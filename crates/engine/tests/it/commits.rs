//! What a cycle costs in commits (R-117, C-102), counted at the disk: each commit is one wait for it.

use crate::code;
use crate::desk::{Desk, local, request};
use crate::syncs;
use engine::workflow::Step;
use protocol::approval::Verdict;
use protocol::run::Status;

/// What was spent between the admission and the end of a program that asks once.
#[derive(PartialEq, Eq, Debug)]
struct Spent {
    commits: u64,
    syncs_of_log: u64,
    syncs_of_ledger: u64,
}

impl Spent {
    fn so_far(desk: &Desk) -> Spent {
        let ledger = desk.ledger_path();
        Spent {
            commits: desk.engine.ledger().commits(),
            syncs_of_log: syncs::of_log(&ledger),
            syncs_of_ledger: syncs::of_ledger(&ledger),
        }
    }

    fn since(self, before: Spent) -> Spent {
        Spent {
            commits: self.commits - before.commits,
            syncs_of_log: self.syncs_of_log - before.syncs_of_log,
            syncs_of_ledger: self.syncs_of_ledger - before.syncs_of_ledger,
        }
    }
}

async fn cycle(source: &str) -> Spent {
    let desk = Desk::open().await;
    desk.register(source).await.expect("registered");
    cycle_on(&desk, "{}").await
}

async fn cycle_on(desk: &Desk, input: &str) -> Spent {
    let before = Spent::so_far(desk);
    let started = desk.engine.start_run(local(), request(input)).await.expect("started");
    let run = desk.stopped(started.run.id).await;
    assert_eq!(run.status(), Status::AwaitingConsent);
    let pending = desk.pending(run.id).await;
    desk.decide(pending[0].id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(run.status(), Status::Done, "{:?}", run.phase);
    Spent::so_far(desk).since(before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_around_a_gate_waits_for_the_disk_four_times() {
    let spent = cycle("payments.order(order_id='o-1')\nstasis.gate('go on?')\nresult = 1").await;
    assert_eq!(spent, Spent { commits: 4, syncs_of_log: 4, syncs_of_ledger: 0 }); // R-117 C-102 C-100
}

#[tokio::test(flavor = "multi_thread")]
async fn an_asked_write_adds_its_gate_and_its_outcome() {
    let spent = cycle("payments.refund(order_id='o-1', amount=500)\nresult = 1").await;
    assert_eq!(spent, Spent { commits: 6, syncs_of_log: 6, syncs_of_ledger: 0 }); // R-117 C-98 C-101
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_of_two_steps_in_rust_waits_for_the_disk_four_times() {
    let program = code::program(|node, state, cx| {
        Box::pin(async move {
            match node.as_str() {
                "first" => {
                    cx.gate("go on?").await?;
                    Ok(code::next("second"))
                }
                _ => Ok(Step::End(state.clone())),
            }
        })
    });
    let input = serde_json::json!("x".repeat(1_022)).to_string();
    let spent = cycle_on(&code::desk(&program).await, &input).await;
    assert_eq!(spent, Spent { commits: 4, syncs_of_log: 4, syncs_of_ledger: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_a_step_asks_for_adds_its_gate_and_its_outcome() {
    let program = code::program(|_, _, cx| {
        Box::pin(async move {
            let order = serde_json::json!({ "order_id": "o-1", "amount": 500 });
            Ok(Step::End(cx.call("payments.refund", &order).await?))
        })
    });
    let spent = cycle_on(&code::desk(&program).await, "{}").await;
    assert_eq!(spent, Spent { commits: 6, syncs_of_log: 6, syncs_of_ledger: 0 }); // R-117 C-98
}
