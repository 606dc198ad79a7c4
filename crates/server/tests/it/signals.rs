//! Signals over HTTP (I-29).

use crate::house::{House, problem, told};
use api::run::{RunQuery, WaitKind};
use api::{Json, SignalRequest, SignalState};
use protocol::run::Status;
use reqwest::{Method, StatusCode};
use serde_json::json;

const WAITS: &str = "result = stasis.signal('paid', schema={'type': 'object'})\n";

fn request(id: &str, payload: &str) -> SignalRequest {
    SignalRequest { id: Some(id.to_owned()), payload: Some(Json::parse(payload).unwrap()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_is_taken_in_or_refused_to_its_sender() {
    let house = House::open().await;
    house.register("waits", WAITS).await;
    let run = house.run("waits", "{}").await;
    assert_eq!(run.status, Status::AwaitingSignal);
    let wait = run.waiting_for[0].clone();
    assert_eq!((wait.kind, wait.name.as_deref()), (WaitKind::Signal, Some("paid"))); // I-41
    let query = RunQuery { waiting_for: Some("signal".to_owned()), ..RunQuery::default() };
    assert_eq!(house.local.runs(&query).await.unwrap().items.len(), 1); // I-22
    let explained = house.local.explain(run.id).await.unwrap();
    assert!(explained.why.contains("a signal `paid`"), "{}", explained.why); // R-380
    assert_eq!(explained.waits[0].ended_by, "a signal `paid`"); // R-380
    assert!(explained.moves.contains(&format!("stasis signal {} --payload JSON paid", run.id))); // R-380
    let early = house.local.signal(run.id, "other", &request("k-0", "7")).await.unwrap();
    assert_eq!((early.state, early.changed, early.wait), (SignalState::Kept, true, None)); // I-29: kept if early
    let token = house.token("rita").await;
    let path = format!("/v1/runs/{}/signals/paid", run.id);
    let post = |path: &str| house.raw(Method::POST, path, Some(&token));
    problem(post(&path).json(&json!({"payload": 7})), 422, "invalid_input").await; // R-238
    problem(post(&path.replace("run_", "run_0")).json(&json!({})), 404, "not_found").await; // R-240
    let (status, taken) = told(post(&path).json(&json!({"id": "k-1", "payload": {"amount": 250.50}}))).await;
    assert_eq!((status, &taken["state"], &taken["wait"]), (StatusCode::ACCEPTED, &json!("taken"), &json!(wait.id))); // I-29
    assert_eq!((&taken["principal"], &taken["changed"]), (&json!("rita"), &json!(true))); // I-38
    let done = house.ended(&run).await;
    assert_eq!(done.result.as_ref().map(Json::as_str), Some(r#"{"amount":250.5}"#)); // W-121
    let (status, again) = told(post(&path).json(&json!({"id": "k-1", "payload": {"amount": 250.50}}))).await;
    assert_eq!((status, &again["changed"]), (StatusCode::ACCEPTED, &json!(false))); // R-233
    problem(post(&path).json(&json!({"id": "k-1", "payload": {"amount": 1}})), 422, "idempotency_mismatch").await; // R-233
    problem(post(&path).json(&json!({"id": "k-2", "payload": {}})), 409, "run_terminal").await; // R-240
    let consumed =
        problem(post(&format!("/v1/waits/{}/signals", wait.id)).json(&json!({})), 409, "wait_consumed").await;
    assert_eq!(consumed["truth"]["signal"], "k-1"); // R-236
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_one_wait_ends_that_one() {
    let house = House::open().await;
    let source = "result = stasis.parallel(stasis.signal.later('paid'), stasis.signal.later('paid'))\n";
    house.register("both", source).await;
    let run = house.run("both", "{}").await;
    let waits: Vec<_> = run.waiting_for.iter().map(|wait| wait.id.parse().unwrap()).collect();
    assert_eq!(waits.len(), 2);
    house.local.signal_wait(waits[1], &request("a", "\"second\"")).await.unwrap(); // I-29
    house.local.signal(run.id, "paid", &request("b", "\"first\"")).await.unwrap();
    let done = house.ended(&run).await;
    assert_eq!(done.result.as_ref().map(Json::as_str), Some(r#"["first","second"]"#)); // R-237
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_a_program_chose_is_one_word_of_the_command_that_is_shown() {
    let house = House::open().await;
    let source = r#"
names = ["paid; rm -rf ~", "it's", "--id", "two\nlines", "order/7"]
result = stasis.parallel(*[stasis.signal.later(name) for name in names])
"#;
    house.register("names", source).await;
    let run = house.run("names", "{}").await;
    let moves = house.local.explain(run.id).await.unwrap().moves;
    let start = format!("stasis signal {} --payload JSON ", run.id);
    let mut words: Vec<_> = moves.iter().filter_map(|line| line.strip_prefix(&start)).collect();
    words.sort_unstable();
    assert_eq!(words, ["'it'\\''s'", "'paid; rm -rf ~'", "-- --id", "order/7"]); // R-380
    for word in words {
        // What a shell makes of it.
        let said = std::process::Command::new("sh").args(["-c", &format!("printf '%s|' {word}")]).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let name = said.strip_prefix("--|").unwrap_or(&said).trim_end_matches('|').to_owned();
        assert!(run.waiting_for.iter().any(|wait| wait.name.as_deref() == Some(name.as_str())), "{word}: {said}"); // R-380
    }
    house.host.shutdown().await;
}
