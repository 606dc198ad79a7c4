//! Webhooks over HTTP (I-34).

use crate::house::{House, PATIENCE, problem};
use api::page::ListQuery;
use api::webhook::{MessageState, NewWebhook};
use reqwest::Method;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_tells_its_secret_once_and_its_messages_what_became_of_them() {
    let house = House::open().await;
    // This port is nobody's; this house does not allow private addresses anyway.
    let new =
        NewWebhook { url: "http://127.0.0.1:9/in".into(), types: vec!["approval.requested".into()], secret: None };
    let made = house.local.new_webhook(&new).await.unwrap();
    assert!(made.secret.as_deref().is_some_and(|secret| secret.starts_with("whsec_")), "{made:?}"); // I-34
    let listed = house.local.webhooks().await.unwrap().items;
    assert_eq!((listed.len(), listed[0].id, &listed[0].secret), (1, made.id, &None)); // I-34
    assert_eq!(listed[0].types, ["approval.requested"]);
    let (run, _) = house.asking().await;
    let only = async || house.local.messages(made.id, &ListQuery::default()).await.unwrap().items.remove(0);
    let tried = async {
        while only().await.attempts == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, tried).await.expect("it is tried");
    let message = only().await;
    assert_eq!(
        (message.run, message.topic.as_str(), message.state),
        (run.id, "approval.requested", MessageState::Pending)
    );
    assert!(message.last_error.as_deref().is_some_and(|why| why.contains("loopback")), "{message:?}"); // I-34
    assert!(message.retry_at > Some(message.created_at) && message.ended_at.is_none()); // I-34
    let again = house.local.redeliver(made.id, message.id).await.unwrap();
    assert_eq!((again.id, again.attempts, &again.body), (message.id, 0, &message.body)); // I-34
    // It is of this namespace, and of this webhook.
    let otto = house.token("otto").await;
    let path = format!("/v1/webhooks/{}/messages", made.id);
    problem(house.raw(Method::GET, &path, Some(&otto)), 404, "not_found").await; // C-165
    problem(house.raw(Method::DELETE, &format!("/v1/webhooks/{}", made.id), Some(&otto)), 404, "not_found").await;
    let other = house.local.new_webhook(&NewWebhook { types: vec![], ..new }).await.unwrap();
    assert_eq!(other.types.len(), 5); // I-34
    let foreign = format!("/v1/webhooks/{}/messages/{}/redeliver", other.id, message.id);
    problem(house.raw(Method::POST, &foreign, Some(&house.token("local").await)), 404, "not_found").await;
    // A removed one is gone with its messages.
    assert_eq!(house.local.remove_webhook(made.id).await.unwrap().id, made.id);
    assert_eq!(house.local.webhooks().await.unwrap().items.len(), 1);
    let gone = house.raw(Method::GET, &path, Some(&house.token("local").await));
    problem(gone, 404, "not_found").await;
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_webhook_is_refused_with_what_would_be() {
    let house = House::open().await;
    let token = house.token("local").await;
    let refused = async |body: serde_json::Value| {
        problem(house.raw(Method::POST, "/v1/webhooks", Some(&token)).json(&body), 400, "invalid_request").await
    };
    let told = refused(json!({"url": "https://example.com/", "types": ["run.started"]})).await;
    assert!(told["hint"].as_str().is_some_and(|hint| hint.contains("run.finished")), "{told}"); // I-37
    refused(json!({"url": "file:///etc/passwd"})).await;
    refused(json!({"url": "https://a:b@example.com/"})).await;
    refused(json!({"url": "https://example.com/", "secret": "plain"})).await;
    assert!(house.local.webhooks().await.unwrap().items.is_empty());
    house.host.shutdown().await;
}
