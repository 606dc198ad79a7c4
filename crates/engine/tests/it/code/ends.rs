//! How runs of Rust code end: by their steps, by a panic, by a lost worker, and after what they left open.

use super::{begin, checkpoint, desk, next, program, run, setting, shopping, told};
use crate::desk::{Desk, eventually, local};
use crate::jobs::{claim, report, success};
use crate::shop::{Reply, Shop};
use engine::workflow::{Step, StepError};
use protocol::approval::{self, Verdict};
use protocol::code::Code;
use protocol::event::Kind;
use protocol::run::{Run, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;

fn failure(run: &Run) -> (Code, &str) {
    let failure = run.failure().unwrap_or_else(|| panic!("it did not fail: {:?}", run.phase));
    (failure.code, failure.message.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_told_in_the_words_of_its_step() {
    let program = program(|_, state, _| {
        Box::pin(async move {
            match state.as_str() {
                Some("say") => Err(StepError::new("no such order")),
                Some("long") => Err(StepError::new("é".repeat(3_000))),
                _ => Err("12x".parse::<u32>().expect_err("no number").into()),
            }
        })
    });
    let desk = desk(&program).await;
    let said = run(&desk, r#""say""#).await;
    assert_eq!(failure(&said), (Code::StepFailed, "no such order")); // R-128 R-260
    assert_eq!(failure(&run(&desk, "1").await), (Code::StepFailed, "invalid digit found in string")); // R-260
    let long = run(&desk, r#""long""#).await;
    assert_eq!(failure(&long).1, "é".repeat(2_048)); // R-260: cut at 4 KiB, and not within a letter
    assert_eq!(told(&desk, said.id, Kind::NodeFailed).await[0]["code"], "step_failed"); // R-134
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_step_fails_its_run_alone() {
    let program = program(|_, state, cx| {
        Box::pin(async move {
            cx.gate("Go on?").await?;
            if state["panics"] == true {
                let _: Value = cx.call("mail.send", &json!({ "to": "x" })).await?;
                panic!("a secret");
            }
            Ok(Step::End(json!("fine")))
        })
    });
    let desk = desk(&program).await;
    let bad = run(&desk, r#"{"panics": true}"#).await.id;
    let good = run(&desk, "{}").await.id;
    for id in [bad, good] {
        let asked = desk.asked(id).await;
        desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    }
    let (bad, good) = (desk.ended(bad).await, desk.ended(good).await);
    assert_eq!(failure(&bad), (Code::StepFailed, "the step panicked")); // R-258
    assert_eq!(bad.status(), Status::Failed); // R-258: its calls had ended, nothing is left behind
    assert_eq!(desk.result(&good).await, r#""fine""#); // R-258
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_lost_in_a_step_ends_the_run() {
    let at = Arc::new((Semaphore::new(0), Semaphore::new(0)));
    let gates = at.clone();
    let program = program(move |node, _, cx| {
        let gates = gates.clone();
        Box::pin(async move {
            if node == "first" {
                cx.gate("Go on?").await?;
                return Ok(next("second"));
            }
            gates.0.add_permits(1);
            gates.1.acquire().await?.forget();
            Ok(Step::End(Value::Null))
        })
    });
    let desk = desk(&program).await;
    let id = run(&desk, "{}").await.id;
    let asked = desk.asked(id).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    at.0.acquire().await.expect("open").forget();
    desk.lose(id).await;
    let lost = desk.ended(id).await;
    assert_eq!(failure(&lost), (Code::WorkerLost, "worker lost")); // R-299 R-298: its checkpoint is of another place
    at.1.add_permits(1);
    eventually("the hop is gone", async || desk.engine.guests().iter().all(|guest| guest.run != id)).await;
    assert_eq!(failure(&desk.ended(id).await).0, Code::WorkerLost); // R-111
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_lost_worker_become_questions() {
    let program = shopping(|_, _, cx| {
        Box::pin(async move {
            let bought: Value = cx.call("shop.buy", &json!({})).await?;
            Ok(Step::End(bought))
        })
    });
    let (desk, shop) = (Desk::with(setting(&program)).await, Shop::open().await);
    desk.apply(&shop.tools()).await;
    desk.engine.install(local()).await.expect("installed");
    shop.tell("/buy", [Reply::Holds]);
    let id = begin(&desk, "{}").await;
    shop.reached("/buy", 1).await;
    desk.lose(id).await;
    let lost = desk.ended(id).await;
    assert_eq!(failure(&lost), (Code::WorkerLost, "worker lost")); // R-288 R-299
    let question = desk.asked(id).await;
    assert_eq!(question.kind(), approval::Kind::Settle); // R-299
    assert!(matches!(desk.calls(id).await[0].state, protocol::call::State::Ambiguous(_))); // R-299
    shop.release();
    desk.decide(question.id, Verdict::DidNotHappen).await.expect("settled");
    assert_eq!(desk.ended(id).await.status(), Status::Failed); // R-307
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_outlives_its_worker() {
    let program = program(|_, _, cx| {
        Box::pin(async move {
            cx.gate("Go on?").await?;
            Ok(Step::End(json!("went on")))
        })
    });
    let desk = desk(&program).await;
    let id = run(&desk, "{}").await.id;
    desk.lose(id).await;
    let desk = desk.reopen(setting(&program)).await;
    let asked = desk.asked(id).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    let done = desk.ended(id).await;
    assert_eq!((done.seq, desk.result(&done).await.as_str()), (1, r#""went on""#)); // R-316 R-299: only outside a wait
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_ends_waits_for_the_job_that_it_left() {
    let program = program(|node, state, cx| {
        Box::pin(async move {
            state["entered"] = json!(state["entered"].as_u64().unwrap_or_default() + 1);
            if node == "last" {
                return Ok(Step::End(json!("ended")));
            }
            let job = cx.delegate::<Value>("reviewer", &json!({ "look": "at it" }));
            let gate = cx.gate("Or shall I not wait?");
            // Whatever the agent is doing, a yes is enough to go on.
            match tokio::join!(job, gate) {
                (_, Ok(_)) => Ok(next("last")),
                (Err(error), Err(_)) => Err(error.into()),
                (Ok(_), Err(error)) => Err(error.into()),
            }
        })
    });
    let desk = desk(&program).await;
    let id = run(&desk, "{}").await.id;
    let asked = desk.asked(id).await;
    let job = claim(&desk, "reviewer", "c", 1).await.pop().expect("a job");
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    eventually("a park on its job", async || desk.stopped(id).await.seq == 1).await;
    let parked = desk.stopped(id).await;
    assert_eq!(parked.status(), Status::AwaitingDelegate); // R-127
    let body = checkpoint(&desk, id).await;
    let entries = body["entries"].as_array().expect("entries");
    assert_eq!((entries.len(), &entries[0]["status"]), (2, &json!("success"))); // R-126
    let (entry, at) = (&entries[1], &entries[1]["at"]);
    let wanted = json!({"kind": "end", "id": 4, "seq": 1, "state": {"entered": 3}, "result": "ended", "at": at});
    assert_eq!(*entry, wanted); // R-121
    report(&desk, &job, success("1")).await.expect("completed");
    let done = desk.ended(id).await;
    assert_eq!((done.status(), desk.result(&done).await.as_str()), (Status::Done, r#""ended""#)); // R-127
    let entered = told(&desk, id, Kind::NodeEntered).await;
    assert_eq!(entered.len(), 3); // R-127: the returning hop ran no step
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_goes_on_without_is_withdrawn() {
    let program = program(|node, _, cx| {
        Box::pin(async move {
            if node == "last" {
                cx.gate("The last question").await?;
                return Ok(Step::End(Value::Null));
            }
            let refund = cx.call::<Value>("payments.refund", &json!({ "order_id": "a", "amount": 500 }));
            match tokio::join!(refund, cx.gate("Not needed?")) {
                (_, Ok(_)) => Ok(next("last")),
                (Err(error), Err(_)) => Err(error.into()),
                (Ok(_), Err(error)) => Err(error.into()),
            }
        })
    });
    let desk = desk(&program).await;
    let id = run(&desk, "{}").await.id;
    let asked = desk.pending(id).await;
    let of = |tool: &str| asked.iter().find(|one| one.binding.tool == tool).expect("asked").id;
    desk.decide(of("stasis.gate"), Verdict::Approve).await.expect("approved");
    eventually("the last question", async || desk.stopped(id).await.seq == 1).await;
    let pending = desk.pending(id).await;
    assert_eq!(pending.len(), 1);
    let status = desk.approval(of("payments.refund")).await.status;
    let by = matches!(&status, approval::Status::Cancelled { by, .. } if by == "system:abandoned");
    assert!(by, "{status:?}"); // R-188
    desk.decide(pending[0].id, Verdict::Approve).await.expect("approved");
    assert_eq!(desk.ended(id).await.status(), Status::Done);
    assert!(desk.payments.applied().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_drops_a_step_where_it_waits() {
    let program = program(|_, _, cx| {
        Box::pin(async move {
            let _: Value = cx.call("mail.send", &json!({ "to": "x" })).await?;
            std::future::pending().await
        })
    });
    let desk = desk(&program).await;
    let id = begin(&desk, "{}").await;
    eventually("a mail", async || desk.payments.applied().len() == 1).await;
    desk.engine.cancel(local(), id, None).await.expect("cancelled");
    assert_eq!(desk.ended(id).await.status(), Status::Cancelled); // R-265
}
