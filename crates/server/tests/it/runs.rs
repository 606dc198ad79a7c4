//! Runs over HTTP (I-21 to I-24, I-41).

use crate::house::{ECHO, House, PATIENCE, problem, told};
use api::event::TailQuery;
use api::page::ListQuery;
use api::run::{ActionRequest, RunQuery, Tier, Until, WaitKind, WorkflowKind};
use api::{Json, RegisterWorkflow, StartRun};
use protocol::command::Command;
use protocol::id::RunId;
use protocol::run::Status;
use protocol::time::Time;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn of_a_run_that_was_removed_its_end_and_its_head_are_told() {
    let house = House::open().await;
    house.register("echo", ECHO).await;
    let run = house.run("echo", "{}").await;
    let ended = house.ended(&run).await;
    let events = house.local.events(run.id, &TailQuery::default()).await.unwrap().items;
    let path = format!("/v1/runs/{}", run.id);
    let (vera, otto) = (house.token("vera").await, house.token("otto").await);
    house.ended(&house.run("echo", "{}").await).await;
    let house = house
        .reopen_after(async |ledger| {
            let remove = Command::Remove { run: run.id, retention: Duration::ZERO };
            ledger.transact(remove).await.unwrap();
        })
        .await;
    for path in [path.clone(), format!("{path}/events"), format!("{path}/calls"), format!("{path}/explain")] {
        let told = problem(house.raw(Method::GET, &path, Some(&vera)), 404, "not_found").await;
        let truth = &told["truth"];
        assert_eq!((&truth["id"], &truth["status"]), (&json!(run.id), &json!("done")), "{path}"); // R-251
        assert_eq!(truth["head_digest"], events.last().unwrap().digest.to_string()); // R-251
        assert_eq!((&truth["events"], &truth["finished_at"]), (&json!(events.len()), &json!(ended.finished_at)));
        assert!(told["detail"].as_str().unwrap().contains("was removed at"), "{told}");
    }
    // Elsewhere it is as what was never there.
    let other = problem(house.raw(Method::GET, &path, Some(&otto)), 404, "not_found").await;
    assert_eq!(other["truth"], serde_json::Value::Null); // C-165
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_comes_back_byte_for_byte_and_the_run_has_every_field() {
    let house = House::open().await;
    house.register("echo", ECHO).await;
    let input = r#"{"a":[1,2.5,"é"],"z":null}"#;
    let run = house.run("echo", input).await;
    assert_eq!(run.status, Status::Done);
    let (status, shown) =
        told(house.raw(Method::GET, &format!("/v1/runs/{}", run.id), Some(&house.token("vera").await))).await;
    assert_eq!(status, StatusCode::OK); // I-22
    let whole = serde_json::to_value(&run).unwrap();
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&shown), fields(&whole)); // I-41
    assert!(shown["failure"].is_null() && shown["deadline_at"].is_null() && shown["forked_from"].is_null()); // I-40
    assert_eq!(run.result.as_ref().map(Json::as_str), Some(input)); // I-40
    assert_eq!((run.workflow.as_str(), run.revision, run.kind), ("echo", 1, WorkflowKind::Script));
    assert!(run.waiting_for.is_empty() && run.obligations.is_empty() && run.effects.is_empty());
    let clocks = run.clocks_ms;
    let age = run.finished_at.unwrap().since(run.created_at).as_millis() as u64;
    let sum = clocks.queued
        + clocks.active
        + clocks.calls
        + clocks.hold
        + clocks.person
        + clocks.machine
        + clocks.paused
        + clocks.stopping;
    assert_eq!(sum, age); // R-373
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equal_request_under_a_key_makes_one_run_and_another_is_refused() {
    let house = House::open().await;
    house.register("echo", ECHO).await;
    let token = house.token("rita").await;
    let start = |key: &str, body: Value| {
        house.raw(Method::POST, "/v1/runs", Some(&token)).header("idempotency-key", key).json(&body)
    };
    let (first, made) = told(start("k", json!({"workflow": "echo", "input": {"n": 1}}))).await;
    assert_eq!((first, &made["created"]), (StatusCode::CREATED, &json!(true))); // I-21
    let (again, same) = told(start("k", json!({"input": {"n": 1}, "workflow": "echo", "labels": {"a": "b"}}))).await;
    assert_eq!((again, &same["created"], &same["id"]), (StatusCode::OK, &json!(false), &made["id"])); // I-21
    problem(start("k", json!({"workflow": "echo", "input": {"n": 2}})), 422, "idempotency_mismatch").await; // I-21
    problem(start(&"k".repeat(257), json!({"workflow": "echo"})), 400, "invalid_request").await;
    let id: RunId = "run_01m8nwmbe0e00bsaekf59edd1r".parse().unwrap();
    let request = StartRun::of("echo", None);
    let rita = house.person("rita").await;
    let put = rita.put_run(id, &request).await.unwrap();
    assert_eq!((put.id, put.created), (id, Some(true))); // R-41
    assert_eq!(rita.put_run(id, &request).await.unwrap().created, Some(false)); // R-41
    let two_keys = house
        .raw(Method::PUT, &format!("/v1/runs/{id}"), Some(&token))
        .header("idempotency-key", "k")
        .json(&json!({"workflow": "echo"}));
    problem(two_keys, 400, "invalid_request").await;
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_run_says_what_it_waits_for_and_explains_itself() {
    let house = House::open().await;
    let (run, approval) = house.asking().await;
    assert_eq!(run.status, Status::AwaitingConsent);
    let wait = &run.waiting_for[0];
    assert_eq!((wait.kind, wait.id.as_str()), (WaitKind::Approval, approval.id.to_string().as_str())); // I-41
    assert_eq!((wait.name.as_deref(), wait.due_at), (Some("notes.write"), approval.expires_at)); // I-41
    assert!(matches!(wait.tier, None | Some(Tier::Frozen)), "{:?}", wait.tier); // I-41
    assert_eq!(run.principal, "rita"); // C-139
    let effect = &run.effects[0];
    assert_eq!((effect.tool.as_str(), effect.outcome, effect.applied), ("notes.write", None, None)); // I-41
    let explain = house.local.explain(run.id).await.unwrap();
    assert!(explain.why.contains("an approval of notes.write"), "{explain:?}"); // R-380
    assert!(explain.moves.contains(&format!("stasis approve {}", approval.id)), "{explain:?}"); // R-380
    assert!(explain.waits[0].ended_by.contains("role finance"), "{explain:?}"); // R-380
    let checkpoint =
        house.raw(Method::GET, &format!("/v1/runs/{}/checkpoint", run.id), Some(&house.token("vera").await));
    let (status, checkpoint) = told(checkpoint).await;
    assert_eq!((status, &checkpoint["n"]), (StatusCode::OK, &json!(1)), "{checkpoint}"); // I-24
    let log = house.local.log(run.id, &TailQuery::default()).await.unwrap();
    assert_eq!((log.items[0].text.as_str(), log.next_after.as_deref()), ("asking", Some("0"))); // I-24
    let calls = house.local.calls(run.id, &ListQuery::default()).await.unwrap().items;
    assert_eq!(calls[0].arguments.as_ref().unwrap().as_str(), r#"{"text":"hello"}"#); // I-40
    assert_eq!(calls[0].approval, Some(approval.id)); // I-24
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_stops_at_once_or_says_that_it_was_over() {
    let house = House::open().await;
    let (run, approval) = house.asking().await;
    let rita = house.person("rita").await;
    let token = house.token("rita").await;
    let cancel = || house.raw(Method::POST, &format!("/v1/runs/{}/cancel", run.id), Some(&token));
    let (status, first) = told(cancel().json(&json!({"reason": "not wanted"}))).await;
    assert_eq!((status, &first["changed"], &first["status"]), (StatusCode::OK, &json!(true), &json!("cancelled"))); // I-24
    let (status, again) = told(cancel()).await;
    assert_eq!((status, &again["changed"]), (StatusCode::OK, &json!(false))); // R-273
    assert_eq!(again["failure"], Value::Null); // R-274
    let closed = house.local.approval(approval.id).await.unwrap();
    assert_eq!(closed.status.as_str(), "cancelled");
    let gone = rita.cancel("run_01m8nwmbe0e00bsaekf59edd1r".parse().unwrap(), &ActionRequest::default()).await;
    assert_eq!(gone.unwrap_err().code(), Some("not_found")); // R-273
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_newest_first_and_filters_say_what_they_do_not_know() {
    let house = House::open().await;
    house.register("echo", ECHO).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        let mut request = StartRun::of("echo", None);
        request.labels.insert("n".into(), n.to_string());
        ids.insert(0, house.local.start(&request, None).await.unwrap().id);
    }
    for id in &ids {
        house.local.wait(*id, Until::Terminal, PATIENCE).await.unwrap().unwrap();
    }
    let client = &house.local;
    let page = |query: RunQuery| async move { client.runs(&query).await.unwrap() };
    let first = page(RunQuery { limit: Some(2), ..RunQuery::default() }).await;
    let second = page(RunQuery { limit: Some(2), cursor: first.next_cursor.clone(), ..RunQuery::default() }).await;
    let seen: Vec<RunId> = first.items.iter().chain(&second.items).map(|run| run.id).collect();
    assert_eq!((seen, second.next_cursor), (ids.clone(), None)); // I-37, I-44
    let found =
        page(RunQuery { label: Some("n=1".into()), status: Some("done,failed".into()), ..RunQuery::default() }).await;
    assert_eq!(found.items.iter().map(|run| run.id).collect::<Vec<_>>(), [ids[1]]); // I-22
    assert!(page(RunQuery { waiting_for: Some("approval".into()), ..RunQuery::default() }).await.items.is_empty()); // I-22
    let later = (Time::from_millis(0) + Duration::from_secs(9_000_000_000)).to_string();
    assert!(page(RunQuery { created_after: Some(later), ..RunQuery::default() }).await.items.is_empty()); // I-22
    let token = house.token("vera").await;
    for wrong in [
        "status=sleeping",
        "limit=0",
        "limit=501",
        "cursor=nonsense",
        "label=x",
        "created_after=yesterday",
        "waiting_for=godot",
    ] {
        problem(house.raw(Method::GET, &format!("/v1/runs?{wrong}"), Some(&token)), 400, "invalid_request").await;
    }
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_ends_with_its_time_or_with_the_run() {
    let house = House::open().await;
    let (run, approval) = house.asking().await;
    let token = house.token("vera").await;
    let wait = |query: &str| house.raw(Method::GET, &format!("/v1/runs/{}/wait?{query}", run.id), Some(&token));
    assert_eq!(told(wait("until=terminal&timeout=10ms")).await.0, StatusCode::NO_CONTENT); // I-23
    assert_eq!(told(wait("timeout=50s")).await.1["status"], "awaiting_consent"); // I-23
    problem(wait("timeout=soon"), 400, "invalid_request").await;
    problem(wait("until=later"), 400, "invalid_request").await;
    let maria = house.person("maria").await;
    let decide = api::DecisionRequest {
        arguments_digest: Some(approval.arguments_digest),
        ..api::DecisionRequest::of(api::Verdict::Approve)
    };
    let (ended, decided) = tokio::join!(told(wait("until=terminal&timeout=50s")), maria.decide(approval.id, &decide));
    assert_eq!(decided.unwrap().status.as_str(), "approved");
    assert_eq!((ended.0, &ended.1["status"]), (StatusCode::OK, &json!("done")), "{}", ended.1); // I-23
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_names_line_and_traceback_and_a_bad_program_is_not_registered() {
    let house = House::open().await;
    house.register("breaks", "x = 1\nraise ValueError('no such order')\n").await;
    let run = house.run("breaks", "{}").await;
    let failure = run.failure.expect("it failed");
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("step_failed", "ValueError: no such order"));
    let detail = failure.detail.expect("a detail").peek();
    assert_eq!(detail["line"], 2); // I-41
    assert!(detail["traceback"].as_str().is_some_and(|text| text.contains("line 2")), "{detail}"); // I-41
    let body = json!({"key": "bad", "kind": "script", "source": "x = 1\nif x\n"});
    let token = house.token("rita").await;
    let refused =
        problem(house.raw(Method::POST, "/v1/workflows", Some(&token)).json(&body), 422, "source_invalid").await;
    assert_eq!(refused["errors"][0]["line"], 2, "{refused}"); // I-46
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_content_is_the_same_pattern_and_revisions_are_activated() {
    let house = House::open().await;
    let token = house.token("rita").await;
    let register = |source: &str, active: Value| {
        let body = json!({"key": "echo", "kind": "script", "source": source, "active": active});
        house.raw(Method::POST, "/v1/workflows", Some(&token)).json(&body)
    };
    let (status, first) = told(register(ECHO, Value::Null)).await;
    assert_eq!(
        (status, &first["revision"], &first["created"], &first["active"]),
        (StatusCode::CREATED, &json!(1), &json!(true), &json!(true))
    ); // I-20
    let (status, again) = told(register(ECHO, Value::Null)).await;
    assert_eq!((status, &again["pattern"], &again["created"]), (StatusCode::OK, &first["pattern"], &json!(false))); // I-20
    let (_, second) = told(register("result = [inputs]\n", json!(false))).await;
    assert_eq!((&second["revision"], &second["active"]), (&json!(2), &json!(false))); // R-345
    let workflow = house.local.workflow("echo").await.unwrap();
    assert_eq!((workflow.revision, workflow.revisions[0].revision), (Some(1), 2)); // I-20
    let named = StartRun { revision: Some(2), ..StartRun::of("echo", None) };
    assert_eq!(house.local.start(&named, None).await.unwrap_err().code(), Some("revision_not_active")); // R-46
    let activate = house.raw(Method::POST, "/v1/workflows/echo/activate", Some(&token)).json(&json!({"revision": 2}));
    assert_eq!(told(activate).await.1["revision"], 2); // I-20
    let pattern = house.local.pattern(second["pattern"].as_str().unwrap().parse().unwrap()).await.unwrap();
    assert_eq!((pattern.source.as_str(), pattern.active), ("result = [inputs]\n", true)); // I-20
    let manifest = Json::parse(r#"{"title":"Echo","inpt":{}}"#).unwrap();
    let request = RegisterWorkflow {
        key: "m".into(),
        kind: WorkflowKind::Script,
        source: ECHO.into(),
        manifest: Some(manifest),
        active: None,
    };
    let refused = house.local.register(&request).await.unwrap_err();
    assert_eq!(refused.code(), Some("invalid_request")); // I-68
    house.host.shutdown().await;
}
