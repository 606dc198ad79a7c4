//! What the client makes of answers, refusals, silence and streams that are cut.

use crate::peer;
use stasis_api::client::StreamItem;
use stasis_api::run::Until;
use stasis_api::{Client, ClientError};
use std::time::Duration;

const RUN: &str = "run_01m8nwmbe0e00bsaekf59edd1r";

fn client(url: &str, token: Option<&str>) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::tcp(url, token.map(str::to_owned)).unwrap()
}

fn event(seq: u64, kind: &str) -> String {
    let zero = format!("sha256:{}", "0".repeat(64));
    let object = format!(
        r#"{{"schema":"stasis.event.v1","run":"{RUN}","seq":{seq},"kind":"{kind}","at":"2026-11-30T09:30:00Z","facts":{{}},"prev":"{zero}","digest":"{zero}"}}"#
    );
    format!("event: {kind}\nid: {seq}\ndata: {object}\n\n")
}

#[tokio::test]
async fn a_stream_that_is_cut_goes_on_after_the_last_event_and_ends_with_the_run() {
    let first = format!(": hi\n\n{}{}", event(0, "run.queued"), event(1, "run.running"));
    let half = event(2, "run.done");
    let answers = [
        first.clone() + &half[..half.len() / 2],
        "event: gap\nid: 1\ndata: {\"from\":2,\"to\":4,\"reason\":\"retention\"}\n\n".to_owned()
            + &event(5, "run.done"),
    ];
    let answers = answers.iter().map(|body| peer::answer("200 OK", "text/event-stream", body)).collect();
    let (url, heads) = peer::tcp(answers).await;

    let mut stream = client(&url, None).follow(Some(RUN.parse().unwrap()), None);
    let mut seen = Vec::new();
    while let Some(item) = stream.next().await {
        seen.push(match item.unwrap() {
            StreamItem::Event(event) => format!("{} {}", event.seq, event.kind),
            StreamItem::Gap(gap) => format!("gap {}-{}", gap.from, gap.to),
            StreamItem::Live { kind, .. } => kind,
        });
    }
    assert_eq!(seen, ["0 run.queued", "1 run.running", "gap 2-4", "5 run.done"]); // R-363, R-364
    let heads = heads.await.unwrap().unwrap();
    assert!(!heads[0].contains("last-event-id"), "{}", heads[0]);
    assert!(heads[1].contains("last-event-id: 1\r\n"), "{}", heads[1]); // I-32
}

#[tokio::test]
async fn a_refusal_is_its_problem() {
    let problem = r#"{"type":"urn:stasis:error:not_found","title":"Not found","status":404,"code":"not_found","detail":"no such run","hint":null,"retryable":false,"retry_after_ms":null,"request_id":null,"errors":[],"truth":null}"#;
    let (url, heads) = peer::tcp(vec![peer::answer("404 Not Found", "application/problem+json", problem)]).await;
    let refused = client(&url, Some("secret")).run(RUN.parse().unwrap()).await.unwrap_err();
    assert_eq!(refused.code(), Some("not_found")); // I-36
    assert!(heads.await.unwrap().unwrap()[0].contains("authorization: Bearer secret\r\n"));
}

#[tokio::test]
async fn an_answer_of_somebody_else_is_told_from_a_refusal() {
    let (url, _heads) = peer::tcp(vec![peer::answer("502 Bad Gateway", "text/html", "<html>")]).await;
    let error = client(&url, None).run(RUN.parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = client(&format!("http://{free}"), None).run(RUN.parse().unwrap()).await.unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    assert!(error.to_string().contains(&free.to_string()), "{error}");
}

#[tokio::test]
async fn a_long_poll_that_ends_without_a_stop_is_none() {
    let (url, heads) = peer::tcp(vec![peer::answer("204 No Content", "text/plain", "")]).await;
    let poll = Duration::from_millis(50_000);
    let answer = client(&url, None).wait(RUN.parse().unwrap(), Until::Terminal, poll).await;
    assert_eq!(answer, Ok(None)); // I-23
    let head = &heads.await.unwrap().unwrap()[0];
    assert!(
        head.starts_with(&format!("GET /v1/runs/{RUN}/wait?timeout=50000ms&until=terminal HTTP/1.1\r\n")),
        "{head}"
    ); // I-23
}

#[tokio::test]
async fn a_socket_speaks_the_same_api() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stasis.sock");
    let ready = r#"{"ready":true,"recovering":false,"reason":null,"degraded":[],"lasting":true,"workers":true,"version":"0.1.0","pid":7}"#;
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let heads = peer::unix(listener, peer::answer("200 OK", "application/json", ready));
    let ready = Client::unix(&path, None).unwrap().ready().await.unwrap();
    assert_eq!(ready.pid, 7); // I-18
    assert!(heads.await.unwrap().unwrap()[0].starts_with("GET /readyz HTTP/1.1\r\n")); // I-18
}
