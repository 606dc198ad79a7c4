//! Jobs over HTTP, as an agent that is nobody's friend uses it (I-28).

use crate::house::{House, problem, told};
use api::client::StreamItem;
use api::event::TailQuery;
use api::job::{ClaimRequest, HeartbeatRequest, JobQuery, JobState};
use api::run::{ObligationKind, RunQuery, WaitKind};
use api::{Json, Run};
use protocol::run::Status;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

const DELEGATES: &str = "result = stasis.delegate('reviewer', {'look': 'at it'}, tools=['notes.write'], max_calls=2)\n";

/// A run that is parked on a job, the agent's token at the door, and what its claim got.
async fn claimed(house: &House) -> (Run, String, Value) {
    house.register("delegates", DELEGATES).await;
    let run = house.run("delegates", "{}").await;
    let token = house.token("agent").await;
    let (status, claimed) = told(house.raw(Method::POST, "/v1/jobs/claim", Some(&token)).json(&claim("c-1"))).await;
    assert_eq!(status, StatusCode::OK);
    (run, token, claimed["items"][0].clone())
}

fn claim(id: &str) -> Value {
    json!({"kind": "reviewer", "worker": "w-1", "lease": "10m", "claim_id": id, "limit": 5})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_claims_a_job_and_brings_its_result() {
    let house = House::open().await;
    let (run, token, job) = claimed(&house).await;
    assert_eq!(run.status, Status::AwaitingDelegate);
    let wait = &run.waiting_for[0];
    assert_eq!((wait.kind, wait.name.as_deref(), &json!(wait.id)), (WaitKind::Job, Some("reviewer"), &job["id"])); // I-41
    assert_eq!((&job["task"], &job["state"]), (&json!({"look": "at it"}), &json!("running"))); // I-28
    assert_eq!((&job["plan"]["max_calls"], &job["plan"]["tools"][0]["name"]), (&json!(2), &json!("notes.write"))); // W-136
    assert_eq!((&job["agent"]["worker"], &job["agent"]["lease_ms"]), (&json!("w-1"), &json!(600_000))); // R-217
    let text = job.to_string();
    assert!(!text.contains(&token)); // R-216
    let query = RunQuery { waiting_for: Some("job".to_owned()), ..RunQuery::default() };
    assert_eq!(house.local.runs(&query).await.unwrap().items.len(), 1); // I-22
    let explained = house.local.explain(run.id).await.unwrap();
    assert!(explained.why.contains("a job of reviewer"), "{}", explained.why); // R-380
    assert_eq!(explained.waits[0].ended_by, "agent agent (w-1)"); // R-380
    let post = |verb: &str| {
        let path = format!("/v1/jobs/{}/{verb}", job["id"].as_str().unwrap());
        house.raw(Method::POST, &path, Some(&token))
    };
    let (_, heard) = told(post("heartbeat").json(&json!({"token": 1, "progress": {"done": 0.5}}))).await;
    assert_eq!((&heard["stop"], &heard["changed"]), (&json!(false), &json!(true))); // R-218
    let listed = house.local.jobs(&JobQuery { run: Some(run.id), ..JobQuery::default() }).await.unwrap().items;
    assert_eq!(listed[0].progress.as_ref().map(Json::as_str), Some(r#"{"done":0.5}"#)); // R-218
    assert!(listed[0].task.is_none() && listed[0].plan.is_none() && listed[0].may_still_run); // R-232
    problem(post("complete").json(&json!({"token": 2, "result": 1})), 409, "job_not_owner").await; // R-219
    let (status, done) = told(post("complete").json(&json!({"token": 1, "result": {"amount": 250.5}}))).await;
    assert_eq!((status, &done["state"], &done["changed"]), (StatusCode::OK, &json!("succeeded"), &json!(true))); // R-220
    let ended = house.ended(&run).await;
    assert_eq!(ended.result.as_ref().map(Json::as_str), Some(r#"{"amount":250.5}"#)); // W-123
    let (status, again) = told(post("complete").json(&json!({"token": 1, "result": {"amount": 250.5}}))).await;
    assert_eq!((status, &again["changed"]), (StatusCode::OK, &json!(false))); // R-222
    let other = problem(post("complete").json(&json!({"token": 1, "result": 2})), 409, "job_terminal").await;
    assert_eq!(other["truth"]["state"], "succeeded"); // R-222
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_an_agent_ignores_names_it_until_it_acknowledges() {
    let house = House::open().await;
    let (run, token, job) = claimed(&house).await;
    let cancelled = house.local.cancel(run.id, &Default::default()).await.unwrap();
    assert_eq!(cancelled.status, Status::Cancelling); // R-273
    let owed = &cancelled.obligations[0];
    assert_eq!((owed.kind, &json!(owed.of)), (ObligationKind::Job, &job["id"])); // R-272
    assert_eq!(owed.name.as_deref(), Some("agent (w-1)")); // R-272
    let explained = house.local.explain(run.id).await.unwrap();
    assert!(explained.why.contains("of agent (w-1)"), "{}", explained.why); // R-272
    let agent = house.person("agent").await;
    let id = job["id"].as_str().unwrap().parse().unwrap();
    let heard = agent.heartbeat(id, &HeartbeatRequest { token: 1, progress: None }).await.unwrap();
    assert!(heard.stop && heard.state == JobState::Cancelling); // R-218
    assert_eq!(house.local.run(run.id).await.unwrap().status, Status::Cancelling); // R-270
    let path = format!("/v1/jobs/{id}/ack-cancel");
    let (_, stopped) = told(house.raw(Method::POST, &path, Some(&token)).json(&json!({"token": 1}))).await;
    assert_eq!((&stopped["state"], &stopped["may_still_run"]), (&json!("cancelled"), &json!(false))); // R-209
    assert_eq!(house.local.run(run.id).await.unwrap().status, Status::Cancelled); // R-270
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_claim_gets_no_job() {
    let house = House::open().await;
    let (_, _, job) = claimed(&house).await;
    let path = format!("/v1/jobs/{}/complete", job["id"].as_str().unwrap());
    let body = json!({"token": 1, "result": 1});
    let vera = house.token("vera").await;
    problem(house.raw(Method::POST, "/v1/jobs/claim", Some(&vera)).json(&claim("c-2")), 403, "not_permitted").await; // R-12
    problem(house.raw(Method::POST, &path, Some(&vera)).json(&body), 403, "not_permitted").await; // R-12
    let otto = house.token("otto").await;
    let (_, none) = told(house.raw(Method::POST, "/v1/jobs/claim", Some(&otto)).json(&claim("c-1"))).await;
    assert_eq!(none["items"], json!([])); // R-12: another namespace
    problem(house.raw(Method::POST, &path, Some(&otto)).json(&body), 404, "not_found").await; // R-12
    let request = ClaimRequest {
        kind: "reviewer".to_owned(),
        worker: "w".to_owned(),
        lease: Some("ten".to_owned()),
        claim_id: "c-3".to_owned(),
        limit: None,
    };
    let refused = house.local.claim_jobs(&request).await.unwrap_err();
    assert!(refused.to_string().contains("lease"), "{refused}");
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_on_to_who_follows_and_stands_in_no_timeline() {
    let house = House::open().await;
    let (run, token, job) = claimed(&house).await;
    let stored = house.local.events(run.id, &TailQuery::default()).await.unwrap().items;
    let mut stream = house.local.follow(Some(run.id), None);
    for event in &stored {
        let item = stream.next().await.expect("it goes on").expect("a stream");
        assert!(matches!(item, StreamItem::Event(told) if told == *event));
    }
    let path = format!("/v1/jobs/{}/heartbeat", job["id"].as_str().unwrap());
    let (mut told_so_far, mut heard) = (0, None);
    while heard.is_none() {
        told_so_far += 1;
        assert!(told_so_far < 60, "it was told for long and never heard");
        let beat = json!({"token": 1, "progress": {"page": told_so_far}});
        assert_eq!(told(house.raw(Method::POST, &path, Some(&token)).json(&beat)).await.0, StatusCode::OK);
        // It may be lost, so it is told again until it is heard.
        heard = tokio::time::timeout(Duration::from_secs(1), stream.next()).await.ok();
    }
    let Some(Some(Ok(StreamItem::Live { kind, data }))) = heard else { panic!("a live line: {heard:?}") }; // R-365: no id
    let line: Value = serde_json::from_str(&data).unwrap();
    assert_eq!((kind.as_str(), &line["schema"]), ("job.progress", &json!("stasis.live.v1"))); // R-365: marked so
    assert_eq!((&line["run"], &line["facts"]["job"]), (&json!(run.id), &job["id"]));
    assert!(line["facts"]["progress"]["page"].is_u64() && line.get("seq").is_none(), "{line}"); // R-365: no seq
    let after = house.local.events(run.id, &TailQuery::default()).await.unwrap().items;
    assert_eq!(after, stored); // R-365: not stored
    house.host.shutdown().await;
}
