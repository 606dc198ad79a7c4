//! Messages to the outside: signed, sent again with the same bytes, given up for all to see (I-34, R-367).

use crate::desk::{Desk, Setting, eventually, local, manual};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::NewWebhook;
use protocol::approval::Verdict;
use protocol::webhook::{Message, MessageState, Topic, Webhook};
use serde_json::Value;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ASKS: &str = "answer = stasis.gate('go on?')\nresult = 'went on'\n";

/// A receiver that answers as it was told to, and else takes what comes.
#[derive(Clone, Default)]
struct Receiver {
    seen: Arc<Mutex<Vec<(HeaderMap, String)>>>,
    answers: Arc<Mutex<VecDeque<(u16, &'static str)>>>,
}

impl Receiver {
    async fn start(&self) -> String {
        async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: String) -> impl IntoResponse {
            receiver.seen.lock().unwrap().push((headers, body));
            let (status, to) = receiver.answers.lock().unwrap().pop_front().unwrap_or((204, ""));
            (StatusCode::from_u16(status).unwrap(), [("location", to)])
        }
        let router = Router::new().fallback(take).with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/in?team=a", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    fn seen(&self) -> Vec<(HeaderMap, String)> {
        self.seen.lock().unwrap().clone()
    }
}

async fn hook(desk: &Desk, url: &str, topics: &[Topic]) -> Webhook {
    let topics = topics.iter().copied().collect::<BTreeSet<_>>();
    desk.engine.add_webhook(local(), NewWebhook { url: url.to_owned(), topics, secret: None }).await.expect("made")
}

async fn messages(desk: &Desk, hook: &Webhook) -> Vec<Message> {
    desk.engine.messages(hook.id, None, 100).await.expect("read").items
}

/// As the receivers' libraries do it.
fn verifies(hook: &Webhook, headers: &HeaderMap, body: &str) -> bool {
    let text = |name: &str| headers[name].to_str().expect("text").to_owned();
    let key = STANDARD.decode(hook.secret.0.strip_prefix("whsec_").expect("a prefix")).expect("base64");
    let signed = format!("{}.{}.{body}", text("webhook-id"), text("webhook-timestamp"));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
    let tag = STANDARD.decode(text("webhook-signature").strip_prefix("v1,").expect("v1")).expect("base64");
    ring::hmac::verify(&key, signed.as_bytes(), &tag).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_to_a_run_is_told_signed() {
    let desk = Desk::open().await;
    let receiver = Receiver::default();
    let url = receiver.start().await;
    let hook = hook(&desk, &url, &[]).await;
    let run = desk.begin(ASKS, "{\"secret\": \"of the input\"}").await;
    let approval = desk.asked(run).await;
    desk.decide(approval.id, Verdict::Approve).await.expect("approved");
    eventually("all are delivered", async || {
        let all = messages(&desk, &hook).await;
        all.len() == 4 && all.iter().all(|message| matches!(message.state, MessageState::Delivered { .. }))
    })
    .await;
    let seen = receiver.seen();
    let mut types = Vec::new();
    for (headers, body) in &seen {
        assert!(verifies(&hook, headers, body), "{headers:?}"); // I-34
        assert!(!verifies(&hook, headers, &format!("{body} ")));
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["data"]["run"], run.to_string());
        assert!(!body.to_string().contains("of the input"));
        types.push(body["type"].as_str().expect("text").to_owned());
    }
    types.sort();
    assert_eq!(types, ["approval.decided", "approval.requested", "run.finished", "run.parked"]); // I-34
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_gets_the_same_bytes_again() {
    let (setting, clock) = manual();
    let desk = Desk::with(setting).await;
    let receiver = Receiver::default();
    let url = receiver.start().await;
    receiver.answers.lock().unwrap().extend([(500, ""), (302, "http://127.0.0.1:1/elsewhere")]);
    let hook = hook(&desk, &url, &[Topic::RunFinished]).await;
    desk.run("result = 1\n", "{}").await;
    let only = async || messages(&desk, &hook).await.pop().expect("a message");
    eventually("the first attempt", async || only().await.attempts == 1).await;
    assert_eq!(only().await.last_error.as_deref(), Some("status 500"));
    clock.fetch_add(5 * 1_000_000, Ordering::SeqCst);
    eventually("the second", async || only().await.attempts == 2).await;
    assert!(only().await.last_error.expect("told").contains("redirects are not followed")); // I-34
    clock.fetch_add(300 * 1_000_000, Ordering::SeqCst);
    eventually("the third is taken", async || matches!(only().await.state, MessageState::Delivered { .. })).await;
    let seen = receiver.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|(_, body)| *body == seen[0].1));
    assert!(seen.iter().all(|(headers, body)| verifies(&hook, headers, body))); // I-34
    assert!(seen.iter().all(|(headers, _)| headers["webhook-id"] == seen[0].0["webhook-id"]));
    // It is sent again when somebody asks for it.
    let mut nobody = local();
    nobody.principal.rights = protocol::principal::Rights::none();
    assert!(desk.engine.redeliver(&nobody, only().await.id).await.is_err());
    assert!(desk.engine.accept_restored(&nobody, "why").await.is_err());
    desk.engine.redeliver(&local(), only().await.id).await.expect("asked").expect("a message");
    eventually("it comes again", async || receiver.seen().len() == 4).await; // I-34
    assert_eq!(receiver.seen()[3].1, seen[0].1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_takes_is_given_up_and_says_why() {
    let (setting, clock) = manual();
    let desk = Desk::with(setting).await;
    // Nobody listens there.
    let hook = hook(&desk, "http://127.0.0.1:1/", &[Topic::RunFinished]).await;
    desk.run("result = 1\n", "{}").await;
    let only = async || messages(&desk, &hook).await.pop().expect("a message");
    for attempts in 1..=10 {
        eventually("an attempt", async || only().await.attempts >= attempts).await;
        clock.fetch_add(25 * 3_600 * 1_000_000, Ordering::SeqCst);
    }
    let message = only().await;
    assert!(matches!(message.state, MessageState::GivenUp { .. }), "{message:?}");
    assert!(message.last_error.expect("why").contains("127.0.0.1:1"), "what it tried is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn private_addresses_are_refused_unless_the_operator_allows_them() {
    let desk = Desk::with(Setting { private_webhooks: false, ..Setting::default() }).await;
    let receiver = Receiver::default();
    let url = receiver.start().await;
    let hook = hook(&desk, &url, &[Topic::RunFinished]).await;
    desk.run("result = 1\n", "{}").await;
    let only = async || messages(&desk, &hook).await.pop().expect("a message");
    eventually("an attempt", async || only().await.attempts == 1).await;
    assert!(only().await.last_error.expect("told").contains("loopback")); // I-34
    assert!(receiver.seen().is_empty()); // I-34
    for bad in ["ftp://example.com/", "https://me:pass@example.com/", "nonsense"] {
        let new = NewWebhook { url: bad.to_owned(), topics: BTreeSet::new(), secret: None };
        assert!(desk.engine.add_webhook(local(), new).await.is_err(), "{bad}");
    }
    let weak = NewWebhook { url, topics: BTreeSet::new(), secret: Some("whsec_AAAA".to_owned()) };
    assert!(desk.engine.add_webhook(local(), weak).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_hangs_keeps_no_other_waiting() {
    let desk = Desk::open().await;
    // It takes connections and never answers.
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let hangs = hook(&desk, &format!("http://{}/", deaf.local_addr().expect("an address")), &[]).await;
    let receiver = Receiver::default();
    let url = receiver.start().await;
    let good = hook(&desk, &url, &[Topic::RunFinished]).await;
    for n in 0..12 {
        desk.run("result = inputs\n", &n.to_string()).await;
    }
    eventually("the other has all of them", async || receiver.seen().len() == 12).await; // I-34
    assert!(messages(&desk, &hangs).await.iter().all(|message| message.attempts == 0));
    eventually("and says so", async || {
        messages(&desk, &good).await.iter().all(|message| matches!(message.state, MessageState::Delivered { .. }))
    })
    .await;
    drop(deaf);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_sent_before_a_restart_is_sent_after_it() {
    let desk = Desk::with(Setting { carry: false, ..Setting::default() }).await;
    let receiver = Receiver::default();
    let url = receiver.start().await;
    let hook = hook(&desk, &url, &[Topic::RunFinished]).await;
    desk.register("result = 1\n").await.expect("registered");
    let run = desk.engine.start_run(local(), crate::desk::request("{}")).await.expect("started").run.id;
    desk.engine.cancel(local(), run, None).await.expect("cancelled");
    let _ = tokio::time::timeout(Duration::from_millis(50), std::future::pending::<()>()).await;
    assert!(receiver.seen().is_empty());
    let desk = desk.reopen(Setting::default()).await;
    eventually("it is sent", async || receiver.seen().len() == 1).await;
    let (headers, body) = &receiver.seen()[0];
    assert!(verifies(&hook, headers, body)); // I-34
    drop(desk);
}
