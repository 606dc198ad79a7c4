//! Steps that need a resource: they wait for it in their hop, and run again when it is warm.

use super::{MODELS, Program, begin, checkpoint, setting, thinking, told};
use crate::desk::{Setting, eventually, local};
use crate::resources::{House, settings};
use engine::workflow::Step;
use protocol::approval::Verdict;
use protocol::event::Kind;
use protocol::id::RunId;
use protocol::run::Status;
use serde_json::{Value, json};

async fn house(program: &Program<MODELS>, load: &str) -> House {
    let house = House::of([load, "--load 0.1"], Setting { worker: settings(), ..setting(program) }).await;
    house.desk.engine.install(local()).await.expect("installed");
    house
}

async fn holds(house: &House, run: RunId) {
    eventually("a hold", async || house.read(run).await.status() == Status::AwaitingHardware).await;
}

/// Counts how often it is executed, and asks a model.
fn asks() -> Program<MODELS> {
    thinking(|_, state, cx| {
        Box::pin(async move {
            state["times"] = json!(state["times"].as_u64().unwrap_or_default() + 1);
            let said: Value = cx.call("small.ask", &json!({ "text": "hello" })).await?;
            Ok(Step::End(json!([state["times"], said.is_object()])))
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_needs_what_is_cold_runs_its_step_again_in_the_same_hop() {
    let house = house(&asks(), "--load 0.3").await;
    let id = begin(&house.desk, "{}").await;
    holds(&house, id).await;
    let body = checkpoint(&house.desk, id).await;
    let call = house.desk.calls(id).await[0].id;
    let wanted = json!({
        "kind": "node", "id": 2, "seq": 0, "node": "first", "state": {"times": 1}, "status": "created", "waits": [],
        "resource": "chat:small", "calls": [{ "call": call }],
    });
    assert_eq!(body["entries"][1], wanted); // for a hold, the resource
    let done = house.desk.ended(id).await;
    assert_eq!(house.desk.result(&done).await, "[2,true]"); // again from its saved entry
    assert_eq!((done.seq, done.fence), (0, 1)); // same claim, same seq
    assert_eq!((done.budget.hardware.total, house.desk.calls(id).await.len()), (1, 1));
    let waiting = told(&house.desk, id, Kind::NodeWaiting).await;
    assert_eq!((&waiting[0]["kinds"], &waiting[0]["resource"]), (&json!(["hardware"]), &json!("chat:small")));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_lost_in_a_hold_goes_on_elsewhere() {
    let house = house(&asks(), "--load 1").await;
    let id = begin(&house.desk, "{}").await;
    holds(&house, id).await;
    house.desk.lose(id).await;
    let done = house.desk.ended(id).await;
    assert_eq!((done.status(), done.seq), (Status::Done, 1), "{:?}", done.failure());
    assert_eq!(house.desk.calls(id).await.len(), 1);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_ends_a_hold_at_once() {
    let house = house(&asks(), "--load 60").await;
    let id = begin(&house.desk, "{}").await;
    holds(&house, id).await;
    house.desk.engine.pause(local(), id, None).await.expect("paused");
    let paused = house.desk.stopped(id).await;
    assert_eq!((paused.status(), paused.seq), (Status::Queued, 1));
    eventually("it left the line", async || house.desk.engine.place_in_line(id).is_none()).await;
    house.desk.engine.resume(local(), id, None).await.expect("resumed");
    holds(&house, id).await;
    house.desk.engine.cancel(local(), id, None).await.expect("cancelled");
    assert_eq!(house.desk.ended(id).await.status(), Status::Cancelled);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_a_step_is_given_back_before_anybody_is_asked() {
    let program = thinking(|node, _, cx| {
        Box::pin(async move {
            if node == "first" {
                cx.lease("chat:small").await?;
                cx.gate("Go on?").await?;
                return Ok(super::next("last"));
            }
            Ok(Step::End(json!("leased")))
        })
    });
    let house = house(&program, "--load 0.2").await;
    let parked = super::run(&house.desk, "{}").await;
    assert_eq!((parked.status(), parked.budget.hardware.total), (Status::AwaitingConsent, 1));
    assert!(house.desk.engine.resources().iter().all(|resource| resource.leases.is_empty())); // R-154 R-174
    let asked = house.desk.asked(parked.id).await;
    house.desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    let done = house.desk.ended(parked.id).await;
    assert_eq!((done.status(), done.budget.hardware.total), (Status::Done, 1)); // found warm
    assert!(house.desk.engine.resources().iter().all(|resource| resource.leases.is_empty()));
    house.close().await;
}
