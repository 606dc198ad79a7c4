//! Event streams and pages (I-32, R-363 to R-366).

use crate::house::{ECHO, House, PATIENCE};
use api::client::StreamItem;
use api::event::TailQuery;
use api::{DecisionRequest, Event, Tail, Verdict};
use protocol::id::RunId;
use reqwest::Method;
use std::time::Duration;

async fn next(stream: &mut api::client::EventStream) -> Option<StreamItem> {
    let item = tokio::time::timeout(PATIENCE, stream.next()).await.expect("in time");
    item.map(|item| item.expect("a stream"))
}

async fn all(house: &House, run: RunId, after: Option<&str>) -> (Vec<Event>, Vec<StreamItem>) {
    let mut stream = house.local.follow(Some(run), after.map(str::to_owned));
    let (mut events, mut others) = (Vec::new(), Vec::new());
    while let Some(item) = next(&mut stream).await {
        match item {
            StreamItem::Event(event) => events.push(event),
            other => others.push(other),
        }
    }
    (events, others)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_gets_every_event_once_and_in_order_wherever_it_resumes() {
    let house = House::open().await;
    let (run, approval) = house.asking().await;
    let mut live = house.local.follow(Some(run.id), None);
    let Some(StreamItem::Event(first)) = next(&mut live).await else { panic!("an event") };
    assert_eq!((first.seq, first.kind.as_str()), (0, "run.queued"));
    let yes =
        DecisionRequest { arguments_digest: Some(approval.arguments_digest), ..DecisionRequest::of(Verdict::Approve) };
    house.person("maria").await.decide(approval.id, &yes).await.unwrap();
    let mut seen = vec![first];
    while let Some(item) = next(&mut live).await {
        let StreamItem::Event(event) = item else { panic!("an event: {item:?}") };
        seen.push(event);
    }
    assert_eq!(seen.iter().map(|event| event.seq).collect::<Vec<_>>(), (0..seen.len() as u64).collect::<Vec<_>>());
    assert_eq!(seen.last().unwrap().kind, "run.done");
    assert!(seen.iter().any(|event| event.kind == "approval.requested"));
    for (at, event) in seen.iter().enumerate().skip(1) {
        assert_eq!(event.prev, seen[at - 1].digest); // I-45
    }
    for after in 0..seen.len() as u64 {
        let (rest, others) = all(&house, run.id, Some(&after.to_string())).await;
        assert_eq!((rest.as_slice(), others.len()), (&seen[after as usize + 1..], 0), "after {after}");
    }
    let page = house.local.events(run.id, &TailQuery { after: Some("1".into()), limit: Some(2) }).await.unwrap();
    assert_eq!((page.items.as_slice(), page.next_after.as_deref()), (&seen[2..4], Some("3"))); // I-32
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_beyond_the_log_is_told_as_a_gap() {
    let house = House::open().await;
    house.register("echo", ECHO).await;
    let run = house.run("echo", "{}").await;
    let (events, _) = all(&house, run.id, None).await;
    let (rest, others) = all(&house, run.id, Some("5000")).await;
    let [StreamItem::Gap(gap)] = others.as_slice() else { panic!("a gap: {others:?}") };
    assert_eq!((gap.from, gap.to), (events.len() as u64, 5_000));
    assert!(rest.is_empty() && gap.reason.contains("beyond"));
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_all_runs_resumes_by_its_own_cursor_and_stays_in_its_namespace() {
    let house = House::open().await;
    house.register("echo", ECHO).await;
    let one = house.run("echo", "{}").await;
    let page = pages(&house, &house.token("vera").await).await;
    assert!(page.0.iter().all(|event| event.run == one.id));
    let mut live = house.local.follow(None, Some(page.1));
    let two = house.run("echo", "{}").await;
    let Some(StreamItem::Event(event)) = next(&mut live).await else { panic!("an event") };
    assert_eq!((event.run, event.seq), (two.id, 0)); // I-32
    assert!(pages(&house, &house.token("otto").await).await.0.is_empty());
    house.host.shutdown().await;
}

/// The pages of `/v1/events`, to their end.
async fn pages(house: &House, token: &str) -> (Vec<Event>, String) {
    let (mut events, mut after) = (Vec::new(), String::new());
    loop {
        let request = house.raw(Method::GET, &format!("/v1/events?limit=3&after={after}"), Some(token));
        let page: Tail<Event> = request.send().await.expect("answered").json().await.expect("a page");
        events.extend(page.items);
        match page.next_after {
            Some(next) if next != after => after = next,
            _ => return (events, after),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_stream_beats_and_says_what_it_is() {
    let house = House::with("[worker]\nstream_heartbeat = \"200ms\"\n").await;
    let (run, _) = house.asking().await;
    let token = house.token("vera").await;
    let request = house.raw(Method::GET, &format!("/v1/runs/{}/events", run.id), Some(&token));
    let mut answer = request.header("last-event-id", "0").send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream"); // I-32
    let mut text = String::new();
    let beats = async {
        while !text.contains("\n: beat") {
            text += &String::from_utf8_lossy(&answer.chunk().await.unwrap().expect("it stays open"));
        }
    };
    tokio::time::timeout(Duration::from_secs(30), beats).await.expect("a heartbeat in time"); // I-32
    assert!(text.contains("event: approval.requested\n") && text.contains("\nid: 1\n"), "{text}"); // I-32
    assert!(!text.contains("\nid: 0\n"), "{text}");
    house.host.shutdown().await;
}
