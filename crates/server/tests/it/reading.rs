//! Who sees what a call was given and what it answered: whoever asked, who may decide, and auditors, who leave a trace
//! (C-282).

use crate::doors::Browser;
use crate::house::{House, problem, told};
use api::event::TailQuery;
use api::page::ListQuery;
use api::run::ActionRequest;
use api::{Approval, Client, DecisionRequest, Run, Verdict};
use reqwest::Method;
use serde_json::json;
use stasis_server::ROUTES;

const AUDITOR: &str =
    "[[principal]]\nid = \"aude\"\nname = \"Aude, who audits\"\nrights = [\"runs:read\", \"audit:read\"]\n";

/// Stands in every body: arguments, result, title and reason.
const HUSH: &str = "hush-4711";

/// A note and a question, whose bodies are no part of what the program prints or returns.
const PROGRAM: &str = "notes.write(text=inputs['text'])\nstasis.gate(inputs['text'])\nresult = 1\n";

/// A run of Rita's that was given leave for its note, and waits with its question.
async fn story(house: &House) -> (Run, Approval, Approval) {
    house.register("quiet", PROGRAM).await;
    let run = house.run_as(&house.person("rita").await, "quiet", &format!(r#"{{"text":"{HUSH}"}}"#)).await;
    let note = house.pending(&run).await.pop().expect("one question");
    let yes = DecisionRequest {
        arguments_digest: Some(note.arguments_digest),
        reason: Some(format!("because {HUSH}")),
        ..DecisionRequest::of(Verdict::Approve)
    };
    house.person("maria").await.decide(note.id, &yes).await.expect("approved");
    let run = house.gated(&run).await;
    let gate = house.pending(&run).await.pop().expect("another question");
    (run, note, gate)
}

impl House {
    /// The run, once it waits for the second time.
    async fn gated(&self, run: &Run) -> Run {
        loop {
            let run = self.stopped(run).await;
            if run.waiting_for.iter().any(|wait| wait.name.as_deref() == Some(HUSH)) {
                return run;
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn reads(client: &Client, run: &Run, note: &Approval) -> [bool; 3] {
    let approval = client.approval(note.id).await.expect("answered");
    let calls = client.calls(run.id, &ListQuery::default()).await.expect("answered").items;
    let call = calls.iter().find(|call| call.id == note.call).expect("listed");
    assert_eq!(approval.withheld, approval.arguments.is_none());
    assert_eq!(call.withheld, call.arguments.is_none());
    assert_eq!(approval.arguments_digest, note.arguments_digest); // C-282: a digest is no body
    [approval.arguments.is_some(), approval.decisions[0].reason.is_some(), call.result.is_some()]
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_for_who_asked_and_who_may_decide() {
    let house = House::with(AUDITOR).await;
    let (run, note, _) = story(&house).await;
    for (who, sees) in [("rita", true), ("maria", true), ("vera", false), ("aude", false)] {
        assert_eq!(reads(&house.person(who).await, &run, &note).await, [sees; 3], "{who}"); // C-282
    }
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_door_gives_a_stranger_a_body() {
    let house = House::with(AUDITOR).await;
    let (run, note, gate) = story(&house).await;
    let pattern = house.local.workflow("quiet").await.unwrap().revisions[0].pattern.to_string();
    let (vera, rita) = (house.token("vera").await, house.token("rita").await);
    let mut seen = 0;
    for route in ROUTES.iter().filter(|route| route.method == "GET") {
        for approval in [&note, &gate] {
            let id = match route.path.split('/').nth(2).unwrap_or_default() {
                "approvals" => approval.id.to_string(),
                "patterns" => pattern.clone(),
                _ => run.id.to_string(),
            };
            let path = route.path.replace("{id}", &id).replace("{key}", "quiet").replace("{name}", "notes.write");
            let more = match route.path {
                "/v1/runs/{id}/wait" => "?timeout=1ms",
                "/v1/events" | "/v1/runs/{id}/events" => "?after=",
                "/v1/approvals" => "?status=all",
                _ => "",
            };
            let text = |token: String| {
                let request = house.raw(Method::GET, &format!("{path}{more}"), Some(&token));
                async move { request.send().await.expect("answered").text().await.expect("a text") }
            };
            let told = text(vera.clone()).await;
            assert!(!told.contains(HUSH), "{path}: {told}"); // C-282
            seen += usize::from(text(rita.clone()).await.contains(HUSH));
        }
    }
    assert!(seen >= 6, "Rita, who asked, sees them at the same doors: {seen}"); // C-282
    let browser = Browser::sign_in(&house, &vera).await;
    let pages = [
        format!("/console/approvals/{}", note.id),
        format!("/console/approvals/{}", gate.id),
        format!("/console/runs/{}", run.id),
        "/console/approvals?status=approved".to_owned(),
        "/console/approvals".to_owned(),
        "/console/runs".to_owned(),
    ];
    for path in pages {
        let page = browser.page(&path).await;
        assert!(page.contains("Vera, who looks") && !page.contains(HUSH), "{path}: {page}"); // C-282
        assert!(!page.contains("Read them as an auditor"), "{path}");
    }
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auditor_reads_by_a_request_that_is_an_event() {
    let house = House::with(AUDITOR).await;
    let (run, note, gate) = story(&house).await;
    let (aude, token) = (house.person("aude").await, house.token("aude").await);
    let events = async || house.local.events(run.id, &TailQuery::default()).await.expect("answered").items;
    let before = events().await.len();
    reads(&aude, &run, &note).await;
    assert_eq!(events().await.len(), before); // C-214: looking at what is withheld leaves no trace

    let why = ActionRequest { reason: Some("a review".into()) };
    let read = aude.read_approval(note.id, &why).await.expect("an auditor reads");
    assert_eq!(read.arguments.expect("shown").peek()["text"], HUSH); // C-282
    let call = aude.read_call(note.call, &ActionRequest::default()).await.expect("an auditor reads");
    assert_eq!(call.result.expect("shown").peek()["text"], HUSH); // C-282
    let browser = Browser::sign_in(&house, &token).await;
    let page = format!("/console/approvals/{}", gate.id);
    let (status, _, opened) = browser.post(&page, "read", &[]).await;
    assert!(status.is_success() && opened.contains(HUSH), "{opened}"); // C-282
    let told = events().await.split_off(before);
    let facts = |at: usize| told[at].facts.peek().clone();
    let kinds: Vec<&str> = told.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["approval.read", "call.read", "approval.read"]); // C-282
    assert_eq!((&facts(0)["principal"], &facts(0)["approval"]), (&json!("aude"), &json!(note.id))); // C-282 I-38
    assert!(facts(0)["reason_digest"].is_string() && facts(0)["request"].is_string()); // I-38
    assert_eq!(facts(1)["call"], json!(note.call)); // C-282

    // Whose business it is reads without being an auditor; nobody else reads at all.
    house.local.read_approval(note.id, &why).await.expect("everything is the owner's to decide");
    assert_eq!(events().await.len(), before + 3); // C-282
    for who in ["vera", "maria", "rita"] {
        let token = house.token(who).await;
        for path in [format!("/v1/approvals/{}/read", note.id), format!("/v1/calls/{}/read", note.call)] {
            problem(house.raw(Method::POST, &path, Some(&token)), 403, "not_permitted").await; // C-282
        }
    }
    let unknown = house.raw(Method::POST, "/v1/approvals/apr_none/read", Some(&token));
    assert_eq!(told_code(unknown).await, "not_found"); // C-165
    house.host.shutdown().await;
}

async fn told_code(request: reqwest::RequestBuilder) -> String {
    told(request).await.1["code"].as_str().unwrap_or_default().to_owned()
}
