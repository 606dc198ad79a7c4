//! Secrets: sent, never seen.

use super::server::{Server, answer, json};
use super::*;

const TOKEN: &str = "t0p/\"secret\"";

fn spec(port: u16) -> ToolSpec {
    let headers = json!({"Authorization": {"secret": "env:PAY_TOKEN", "prefix": "Bearer "}, "x-kind": "test"});
    tool(
        "write",
        json!({"http": {"method": "POST", "url": format!("http://127.0.0.1:{port}/"), "headers": headers}}),
        json!({}),
    )
}

#[tokio::test]
async fn a_secret_reaches_the_server_and_comes_back_as_its_name() {
    let echo = serde_json::to_string(&json!({"saw": format!("Bearer {TOKEN}"), TOKEN: 1})).expect("JSON");
    let mut server = Server::start([
        json(200, &echo),
        answer(200, "text/plain", &format!("you said {TOKEN}")),
        answer(400, "text/plain", &format!("bad token {TOKEN}")),
        answer(500, "text/plain", TOKEN),
    ])
    .await;
    let connectors = connectors_with(&[("PAY_TOKEN", TOKEN)], &[]);
    let spec = spec(server.port);
    let outcome = call(&connectors, &spec, json!({})).await;
    assert_eq!(result(&outcome), r#"{"[secret PAY_TOKEN]":1,"saw":"Bearer [secret PAY_TOKEN]"}"#); // C-271
    let request = server.request().await;
    assert_eq!(request.header("authorization"), Some(format!("Bearer {TOKEN}").as_str())); // C-269
    assert_eq!(request.header("x-kind"), Some("test"));
    assert_eq!(result(&call(&connectors, &spec, json!({})).await), r#"{"text":"you said [secret PAY_TOKEN]"}"#); // C-271
    assert_eq!(
        detail(&call(&connectors, &spec, json!({})).await),
        "status 400 Bad Request: bad token [secret PAY_TOKEN]"
    ); // C-271
    assert_eq!(
        detail(&call(&connectors, &spec, json!({})).await),
        "status 500 Internal Server Error: [secret PAY_TOKEN]"
    ); // C-271
}

#[tokio::test]
async fn a_tool_whose_secret_is_missing_is_unavailable_and_contacts_nobody() {
    let mut server = Server::start([json(200, "{}")]).await;
    let (connectors, spec) = (connectors_with(&[("PAY_TOKEN", "")], &[]), spec(server.port));
    for connectors in [super::connectors(), connectors] {
        let unready = connectors.ready(&spec, &default_grant(&spec)).expect_err("no secret");
        assert!(unready.detail.contains("PAY_TOKEN"), "{unready}"); // C-272
        assert_error(&call(&connectors, &spec, json!({})).await, Code::ToolUnavailable, Applied::No);
    }
    assert_eq!(server.contacts(), 0); // C-272
}

#[tokio::test]
async fn the_next_dispatch_after_a_rotation_sends_the_new_value() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    let mut server = Server::start([json(200, "{}"), json(200, "{}")]).await;
    let headers = json!({"x-token": {"secret": format!("file:{}", path.display())}});
    let url = format!("http://127.0.0.1:{}/", server.port);
    let spec = tool("write", json!({"http": {"method": "POST", "url": url, "headers": headers}}), json!({}));
    let connectors = connectors();
    assert!(connectors.ready(&spec, &default_grant(&spec)).is_err());
    for value in ["first", "second"] {
        std::fs::write(&path, format!("{value}\n")).expect("written");
        assert!(connectors.ready(&spec, &default_grant(&spec)).is_ok());
        call(&connectors, &spec, json!({})).await;
        assert_eq!(server.request().await.header("x-token"), Some(value)); // C-272
    }
}

#[tokio::test]
async fn a_secret_in_arguments_is_a_name_that_the_grant_lists() {
    let mut server = Server::start([json(200, r#"{"key":"k-123"}"#)]).await;
    let more = json!({"secret_params": ["/login/key"]});
    let url = format!("http://127.0.0.1:{}/", server.port);
    let spec = tool("write", json!({"http": {"method": "POST", "url": url}}), more);
    let connectors = connectors_with(&[("API_KEY", "k-123"), ("OTHER", "o")], &[]);
    let grant = Grant { secrets: vec!["env:API_KEY".to_owned()], ..default_grant(&spec) };
    for (value, good) in [(json!("API_KEY"), true), (json!("OTHER"), false), (json!("k-123"), false), (json!(1), false)]
    {
        let asked = arguments(json!({"login": {"key": value}}));
        assert_eq!(connectors.fit(&spec, &grant, &asked).is_ok(), good, "{}", asked.as_str()); // C-270
    }
    assert!(connectors.fit(&spec, &grant, &arguments(json!({}))).is_ok());
    let outcome = call_with(&connectors, &spec, &grant, json!({"login": {"key": "API_KEY"}})).await;
    assert_eq!(server.request().await.body, r#"{"login":{"key":"k-123"}}"#); // C-270
    assert_eq!(result(&outcome), r#"{"key":"[secret API_KEY]"}"#); // C-271
}
