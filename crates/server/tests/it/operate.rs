//! Tools, tokens, guests, the doctor, health (I-11, I-31, I-35).

use crate::house::{House, problem, told};
use api::operate::{CheckVerdict, NewToken};
use api::page::ListQuery;
use api::run::ActionRequest;
use protocol::run::Status;
use protocol::time::Time;
use reqwest::{Method, StatusCode};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_with_their_rules_and_withdrawn() {
    let house = House::open().await;
    let tools = house.local.tools(&ListQuery::default()).await.unwrap().items;
    let note = tools.iter().find(|tool| tool.name == "notes.write").expect("configured");
    assert_eq!((note.connector.as_str(), note.effect.as_str(), note.recovery.as_str()), ("command", "write", "manual")); // I-31
    assert_eq!(note.approval, "exists(args.text)"); // I-63
    assert!(tools.iter().any(|tool| tool.name == "stasis.gate" && tool.connector == "builtin")); // C-268
    let first = house.local.tools(&ListQuery { limit: Some(1), cursor: None }).await.unwrap();
    let second = house.local.tools(&ListQuery { limit: Some(100), cursor: first.next_cursor }).await.unwrap();
    assert_eq!(first.items.len() + second.items.len(), tools.len()); // I-44
    let why = |reason: &str| ActionRequest { reason: Some(reason.to_owned()) };
    let withdrawn = house.local.withdraw_tool("notes.write", &why(" wrong account ")).await.unwrap().items.remove(0);
    assert!(withdrawn.withdrawn_at.is_some()); // I-31
    assert_eq!(withdrawn.withdrawn_by.as_deref(), Some("local")); // I-38
    assert_eq!(withdrawn.withdrawn_reason.as_deref(), Some("wrong account")); // I-38
    let again = house.local.withdraw_tool("notes.write", &why("another reason")).await.unwrap().items.remove(0);
    assert_eq!(again, withdrawn); // R-3
    let vera = house.token("vera").await;
    problem(house.raw(Method::GET, "/v1/tools/nothing.here", Some(&vera)), 404, "not_found").await;
    problem(house.raw(Method::POST, "/v1/tools/notes.lose/withdraw", Some(&vera)), 403, "not_permitted").await; // R-12
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_elsewhere_makes_and_revokes_tokens_of_its_own_namespace_alone() {
    let house = House::open().await;
    let otto = house.token("otto").await;
    let maria = NewToken { principal: "maria".into(), rights: vec![], expires_at: None };
    let marias = house.local.new_token(&maria).await.unwrap();
    let mint = |whose: &str| house.raw(Method::POST, "/v1/tokens", Some(&otto)).json(&json!({"principal": whose}));
    for whose in ["maria", "local", "nobody"] {
        problem(mint(whose), 404, "not_found").await; // I-65
    }
    let (made, own) = told(mint("otto")).await;
    assert_eq!((made, own["principal"].as_str()), (StatusCode::CREATED, Some("otto")));
    let path = format!("/v1/tokens/{}/revoke", marias.id);
    problem(house.raw(Method::POST, &path, Some(&otto)), 404, "not_found").await; // I-65
    assert_eq!(told(house.raw(Method::GET, "/v1/runs", marias.secret.as_deref())).await.0, StatusCode::OK); // I-65
    let (_, listed) = told(house.raw(Method::GET, "/v1/tokens", Some(&otto))).await;
    let whose: Vec<&str> = listed["items"].as_array().unwrap().iter().filter_map(|t| t["principal"].as_str()).collect();
    assert_eq!(whose, ["otto", "otto"]); // I-65
    // Who has the machine made his first one, and takes it back.
    let all = house.local.tokens(&ListQuery::default()).await.unwrap().items;
    for token in all.iter().filter(|token| token.principal == "otto") {
        house.local.revoke_token(token.id, &Default::default()).await.unwrap();
    }
    problem(mint("otto"), 401, "unauthenticated").await; // I-76
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_works_with_its_rights_until_it_is_revoked() {
    let house = House::open().await;
    let request = NewToken { principal: "rita".into(), rights: vec!["runs:read".into()], expires_at: None };
    let token = house.local.new_token(&request).await.unwrap();
    assert_eq!(token.rights, ["runs:read"]); // I-65
    let secret = token.secret.expect("told once");
    let start = || house.raw(Method::POST, "/v1/runs", Some(&secret)).json(&json!({"workflow": "x"}));
    assert_eq!(told(house.raw(Method::GET, "/v1/runs", Some(&secret))).await.0, StatusCode::OK);
    problem(start(), 403, "not_permitted").await; // I-65
    let listed = house.local.tokens(&ListQuery::default()).await.unwrap().items;
    assert!(listed.iter().any(|found| found.id == token.id && found.secret.is_none())); // I-11 I-76
    let revoked = house.local.revoke_token(token.id, &Default::default()).await.unwrap();
    assert_eq!((revoked.changed, revoked.revoked_at.is_some()), (Some(true), true)); // I-11 I-76
    assert_eq!(house.local.revoke_token(token.id, &Default::default()).await.unwrap().changed, Some(false)); // R-3
    problem(start(), 401, "unauthenticated").await; // I-65
    let wide = NewToken { principal: "vera".into(), rights: vec!["admin".into()], expires_at: None };
    assert!(house.local.new_token(&wide).await.is_err()); // I-65
    let nobody = NewToken { principal: "nobody".into(), rights: vec![], expires_at: None };
    assert!(house.local.new_token(&nobody).await.is_err());
    let late = NewToken { principal: "vera".into(), rights: vec![], expires_at: Some(Time::from_millis(1)) };
    assert_eq!(house.local.new_token(&late).await.unwrap_err().code(), Some("invalid_request")); // I-65
    let nonsense = NewToken { principal: "vera".into(), rights: vec!["runs:reed".into()], expires_at: None };
    assert_eq!(house.local.new_token(&nonsense).await.unwrap_err().code(), Some("invalid_request"));
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_says_who_is_here_and_the_doctor_what_is_wrong() {
    let house = House::open().await;
    let (status, ready) = told(house.raw(Method::GET, "/readyz", None)).await;
    assert_eq!(
        (status, &ready["ready"], &ready["lasting"], &ready["workers"]),
        (StatusCode::OK, &json!(true), &json!(true), &json!(true))
    ); // I-35
    assert!(ready["reason"].is_null() && ready["pid"] == std::process::id()); // I-35
    assert_eq!(told(house.raw(Method::GET, "/healthz", None)).await.0, StatusCode::OK); // I-35
    let report = house.local.doctor().await.unwrap();
    let verdict =
        |name: &str| report.checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("{name}")).verdict;
    for name in ["store", "durability", "clock", "data directory", "guest image", "approvers", "stuck runs"] {
        assert_eq!(verdict(name), CheckVerdict::Ok, "{report:?}"); // I-11 I-76
    }
    assert!(report.ok);
    problem(house.raw(Method::GET, "/v1/doctor", Some(&house.token("vera").await)), 403, "not_permitted").await;
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_answers_and_runs() {
    let house = House::open().await;
    let (run, _) = house.asking().await;
    assert_eq!(run.status, Status::AwaitingConsent);
    assert_eq!(house.metric("stasis_pending_approvals").await, 1.0); // I-35
    assert!(house.metric("stasis_commits_total").await >= 2.0); // I-35
    let answer = house.raw(Method::GET, "/metrics", None).send().await.unwrap();
    assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4")); // I-35
    let page = answer.text().await.unwrap();
    assert!(page.contains(r#"stasis_http_requests_total{method="POST",route="/v1/runs",status="201"} 1"#), "{page}"); // I-35
    assert!(!page.contains(&run.id.to_string()), "no ids among the labels");
    house.host.shutdown().await;
}
