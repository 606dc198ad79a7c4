//! The proof of the record over HTTP (I-33).

use crate::house::{House, problem};
use api::audit::{ClaimedHead, CompareRequest, VerifyAnswer, VerifyRequest};
use api::event::TailQuery;
use protocol::digest::Digest;
use protocol::time::Time;
use reqwest::Method;
use serde_json::json;

const AUDITORS: &str = r#"
[[principal]]
id = "ada"
name = "Ada, who audits"
rights = ["audit:read"]

[[principal]]
id = "olga"
name = "Olga, who audits elsewhere"
namespace = "elsewhere"
rights = ["audit:read"]
"#;

/// All pages of a verification.
async fn verified(client: &api::Client) -> Vec<VerifyAnswer> {
    let (mut request, mut pages) = (VerifyRequest::default(), Vec::new());
    loop {
        let page = client.verify(&request).await.expect("verified");
        request.cursor = page.next_cursor.clone();
        pages.push(page);
        if request.cursor.is_none() {
            return pages;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auditor_verifies_the_whole_ledger_in_pages_and_compares_it_with_another_export() {
    let house = House::with(AUDITORS).await;
    let (run, _) = house.asking().await;
    let ada = house.person("ada").await;
    let before = ada.audit_head().await.unwrap();
    assert_eq!(before.behind, None);
    let head = ada.anchor().await.unwrap();
    let anchor = head.anchor.expect("an anchor"); // I-33
    assert!(head.digest.is_some() && head.public_key.as_deref().is_some_and(|key| key.len() == 64), "{head:?}"); // I-33
    let pages = verified(&ada).await;
    let last = pages.last().unwrap();
    assert_eq!((pages[0].runs, last.anchors, last.anchored), (1, Some(anchor), 1)); // I-33
    assert!(pages.iter().all(|page| page.broken.is_none()), "{pages:?}");

    let lines = ada.anchors(&TailQuery::default()).await.unwrap();
    assert_eq!(lines.next_after, Some(anchor.to_string()));
    let newest = lines.items.last().unwrap().peek();
    let said = &newest["anchor"]["heads"][0];
    assert_eq!(said["run"], json!(run.id)); // R-361
    assert!(ada.anchors(&TailQuery { after: lines.next_after, limit: None }).await.unwrap().items.is_empty());
    let claimed = |events: u32, head: &str| CompareRequest {
        heads: vec![ClaimedHead { run: run.id, anchor, events, head: head.parse::<Digest>().unwrap(), removed: false }],
        until: Time::EPOCH,
    };
    let (events, digest) = (said["events"].as_u64().unwrap() as u32, said["head"].as_str().unwrap());
    assert_eq!(ada.compare(&claimed(events, digest)).await.unwrap().anchored, 1); // I-33
    let more = ada.compare(&claimed(events + 1, digest)).await.unwrap().broken.unwrap();
    assert_eq!((more.kind.as_str(), more.run, more.seq), ("truncated", Some(run.id), Some(events))); // C-279
    let other = ada.compare(&claimed(events, &Digest::of("other").to_string())).await.unwrap().broken.unwrap();
    assert_eq!((other.kind.as_str(), other.field.as_str()), ("altered", "event digest")); // C-279
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_names_runs_of_every_namespace_is_not_for_auditors_of_one() {
    let house = House::with(AUDITORS).await;
    let (run, _) = house.asking().await;
    let (ada, olga) = (house.token("ada").await, house.token("olga").await);
    for (method, path) in [
        (Method::GET, "/v1/audit/head"),
        (Method::GET, "/v1/audit/anchors"),
        (Method::POST, "/v1/audit/anchor"),
        (Method::POST, "/v1/audit/verify"),
    ] {
        problem(house.raw(method, path, Some(&olga)), 403, "not_permitted").await; // I-33
    }
    let one = json!({"run": run.id});
    problem(house.raw(Method::POST, "/v1/audit/verify", Some(&olga)).json(&one), 404, "not_found").await; // C-165
    let told = house.raw(Method::POST, "/v1/audit/verify", Some(&ada)).json(&one).send().await.unwrap();
    let answer: VerifyAnswer = told.json().await.unwrap();
    assert_eq!((answer.runs, answer.broken), (1, None));
    // To go on from an old copy is the operator's word, not an auditor's.
    let accept = house.raw(Method::POST, "/v1/audit/accept", Some(&ada)).json(&json!({"reason": "r"}));
    problem(accept, 403, "not_permitted").await; // R-362
    let bad = json!({"cursor": "nonsense"});
    problem(house.raw(Method::POST, "/v1/audit/verify", Some(&ada)).json(&bad), 400, "invalid_request").await;
    house.host.shutdown().await;
}
