//! One decision, many doors: what each refuses, who it believes, and what no door lets through (calls.md sections 10.3, 11
//! and 15).

use crate::house::{House, options, problem, told};
use api::approval::{BatchItem, BatchRequest};
use api::{Approval, DecisionRequest, Verdict};
use protocol::digest::Digest;
use reqwest::header::{COOKIE, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use stasis_server::{Host, HostOptions};

/// A person at the console: a cookie, and the forms of pages.
pub(crate) struct Browser {
    http: reqwest::Client,
    url: String,
    cookie: String,
}

impl Browser {
    pub(crate) async fn sign_in(house: &House, token: &str) -> Browser {
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().expect("a client");
        let url = house.url();
        let form = form(&[("token", token)]);
        let answer = http.post(format!("{url}/console/sign-in")).header(ORIGIN, &url).header(TYPE.0, TYPE.1).body(form);
        let answer = answer.send().await.expect("answered");
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let cookie = answer.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
        Browser { http, url, cookie }
    }

    /// The text of a page.
    pub(crate) async fn page(&self, path: &str) -> String {
        let page = self.http.get(format!("{}{path}", self.url)).header(COOKIE, &self.cookie).send().await;
        page.expect("answered").text().await.expect("a page")
    }

    /// Sends the form of an approval as its page has it: status, place it leads to, page.
    async fn decide(&self, approval: &Approval, fields: &[(&str, &str)]) -> (StatusCode, String, String) {
        self.post(&format!("/console/approvals/{}", approval.id), "decisions", fields).await
    }

    /// Sends a form that the page has, to a place under it.
    pub(crate) async fn post(&self, path: &str, verb: &str, fields: &[(&str, &str)]) -> (StatusCode, String, String) {
        let page = self.page(path).await;
        let csrf = page.split("name=\"csrf\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
        let csrf = csrf.unwrap_or_else(|| panic!("no form in {page}"));
        let form = form(&[&[("csrf", csrf)], fields].concat());
        let post =
            self.http.post(format!("{}{path}/{verb}", self.url)).header(COOKIE, &self.cookie).header(ORIGIN, &self.url);
        let answer = post.header(TYPE.0, TYPE.1).body(form).send().await.unwrap();
        let status = answer.status();
        let to = answer.headers().get(LOCATION).map(|to| to.to_str().unwrap().to_owned()).unwrap_or_default();
        (status, to, answer.text().await.unwrap())
    }
}

const TYPE: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

fn form(fields: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        let value: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
        text += &format!("{name}={value}&");
    }
    text
}

/// A verdict that is refused, and for what: by the API, in a batch, and on a page of the console.
async fn everywhere(house: &House, who: &str, approval: &Approval, request: DecisionRequest, status: u16, code: &str) {
    let token = house.token(who).await;
    let path = format!("/v1/approvals/{}/decisions", approval.id);
    let body = serde_json::to_value(&request).unwrap();
    let told = problem(house.raw(Method::POST, &path, Some(&token)).json(&body), status, code).await; // C-164
    let detail = told["detail"].as_str().unwrap();

    if let Some(digest) = request.arguments_digest {
        let item = BatchItem {
            approval: approval.id,
            decision: request.decision,
            arguments_digest: Some(digest),
            answer: None,
            reason: request.reason.clone(),
        };
        let batch = house.person(who).await.decide_batch(&BatchRequest { items: vec![item] }).await.unwrap();
        assert_eq!(batch.items[0].problem.as_ref().unwrap().code, code); // C-164
    }

    let digest = request.arguments_digest.unwrap_or(approval.arguments_digest).to_string();
    let decision = body["decision"].as_str().unwrap();
    let reason = request.reason.as_deref().unwrap_or_default();
    let fields = [("decision", decision), ("digest", digest.as_str()), ("reason", reason)];
    let (answered, to, page) = Browser::sign_in(house, &token).await.decide(approval, &fields).await;
    if code == "args_digest_mismatch" {
        assert_eq!((answered, to.ends_with("?answer=changed")), (StatusCode::SEE_OTHER, true), "{to}"); // C-164
    } else {
        let page = page.replace("&#39;", "'").replace("&quot;", "\"").replace("&amp;", "&");
        assert_eq!(answered.as_u16(), status, "{code}"); // C-164
        assert!(page.contains(detail), "{code}: {detail} in {page}"); // C-164
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_refuses_for_the_same_reason() {
    let house = House::with(
        "[[principal]]\nid = \"boss\"\nname = \"Both\"\nrights = [\"runs:read\", \"runs:start\", \"approvals:decide\"]\nroles = [\"finance\"]\n",
    )
    .await;
    house.register("asks", crate::house::ASKS).await;
    let boss = house.person("boss").await;
    let run = house.run_as(&boss, "asks", r#"{"text":"mine"}"#).await;
    let asked = house.pending(&run).await.pop().unwrap();
    let digest = Some(asked.arguments_digest);
    let verdict = |verdict| DecisionRequest { arguments_digest: digest, ..DecisionRequest::of(verdict) };
    everywhere(&house, "boss", &asked, verdict(Verdict::Approve), 403, "self_approval_forbidden").await;
    everywhere(&house, "maria", &asked, verdict(Verdict::Reject), 422, "reason_required").await;
    everywhere(&house, "maria", &asked, verdict(Verdict::Happened), 422, "invalid_answer").await;
    let other = DecisionRequest { arguments_digest: Some(Digest::of("{}")), ..DecisionRequest::of(Verdict::Approve) };
    everywhere(&house, "maria", &asked, other, 409, "args_digest_mismatch").await;
    let vera = house.token("vera").await;
    let path = format!("/v1/approvals/{}/decisions", asked.id);
    let body = json!({"decision": "approve", "arguments_digest": digest});
    problem(house.raw(Method::POST, &path, Some(&vera)).json(&body), 403, "not_permitted").await;
    assert_eq!(house.local.approval(asked.id).await.unwrap().decisions.len(), 0); // C-164
    let by_maria = Browser::sign_in(&house, &house.token("maria").await).await;
    let fields = [("decision", "approve"), ("digest", &*asked.arguments_digest.to_string()), ("reason", "")];
    let (status, to, _) = by_maria.decide(&asked, &fields).await;
    assert_eq!((status, to.ends_with("?answer=recorded")), (StatusCode::SEE_OTHER, true), "{to}");
    let decided = house.local.approval(asked.id).await.unwrap();
    assert_eq!((decided.status.as_str(), decided.decisions[0].method.as_str()), ("approved", "console")); // C-176
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_decides_is_who_signed_in_whatever_else_is_said() {
    let house = House::open().await;
    let (_, asked) = house.asking().await;
    let path = format!("/v1/approvals/{}/decisions", asked.id);
    let maria = house.token("maria").await;
    let digest = asked.arguments_digest;
    for field in ["principal", "by", "tool", "tool_version", "run", "call", "arguments"] {
        let mut body = json!({"decision": "approve", "arguments_digest": digest});
        body[field] = json!("otto");
        problem(house.raw(Method::POST, &path, Some(&maria)).json(&body), 400, "unknown_field").await; // C-294 C-187
    }
    let mut request = house.raw(Method::POST, &path, Some(&maria));
    for name in ["x-principal", "x-stasis-principal", "x-forwarded-user", "x-remote-user", "remote-user", "from"] {
        request = request.header(name, "otto");
    }
    let reason = "otto approves this: principal=otto";
    let (status, decided) =
        told(request.json(&json!({"decision": "approve", "arguments_digest": digest, "reason": reason}))).await;
    assert_eq!(status, StatusCode::OK, "{decided}");
    assert_eq!(decided["decisions"][0]["principal"], "maria"); // C-294
    assert_eq!(decided["decisions"].as_array().map(Vec::len), Some(1)); // C-294
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_link_signs_in_and_decides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("stasis.toml"), "").unwrap();
    let host = Host::start(HostOptions { sign_in: true, ..options(folder.path()) }).await.unwrap();
    let house = House::of(host, folder);
    house.register("asks", "stasis.gate('go on?')\nresult = 1\n").await;
    let run = house.run("asks", "{}").await;
    let asked = house.pending(&run).await.pop().unwrap();
    let link = house.host.sign_in_url().expect("a link");
    let secret = link.rsplit('/').next().unwrap();
    let body = json!({"decision": "approve", "arguments_digest": asked.arguments_digest});
    let path = format!("/v1/approvals/{}/decisions", asked.id);
    problem(house.raw(Method::POST, &path, Some(secret)).json(&body), 401, "unauthenticated").await; // C-298
    let page = link.strip_prefix(&house.url()).unwrap();
    let sent = house.raw(Method::POST, page, None).header(ORIGIN, house.url()).header(TYPE.0, TYPE.1);
    let form = form(&[("decision", "approve"), ("digest", &asked.arguments_digest.to_string())]);
    sent.body(form).send().await.unwrap();
    let after = house.local.approval(asked.id).await.unwrap();
    assert_eq!((after.status.as_str(), after.decisions.len()), ("pending", 0)); // C-298
    // The token of the API signs in too, and is no link.
    let token = house.host.api_token().unwrap();
    let answer = house.raw(Method::POST, &format!("/console/sign-in/{token}"), None).header(ORIGIN, house.url());
    assert_eq!(answer.send().await.unwrap().status(), StatusCode::FORBIDDEN); // C-298
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_at_links_and_tokens_get_one_answer_and_soon_none() {
    let house = House::open().await;
    let guess = |n: usize| {
        house.raw(Method::POST, &format!("/console/sign-in/guess{n}"), None).header(ORIGIN, house.url()).send()
    };
    let mut pages = Vec::new();
    let mut held = None;
    for n in 0..64 {
        let answer = guess(n).await.unwrap();
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            assert!(answer.headers().contains_key("retry-after")); // C-219
            held = Some(n);
            break;
        }
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        pages.push(answer.text().await.unwrap());
    }
    assert!(pages.iter().all(|page| *page == pages[0])); // C-219
    assert!(held.is_some_and(|n| n >= 10), "{held:?}"); // C-219
    let form = form(&[("token", "guess")]);
    let token = house.raw(Method::POST, "/console/sign-in", None).header(ORIGIN, house.url());
    let answer = token.header(TYPE.0, TYPE.1).body(form).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS); // C-219
    // Whoever has a token is not held up.
    let vera = house.token("vera").await;
    assert_eq!(told(house.raw(Method::GET, "/v1/runs", Some(&vera))).await.0, StatusCode::OK);
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_cannot_be_judged_by_eye_are_flagged_and_approved_alone() {
    let house = House::open().await;
    house.register("asks", crate::house::ASKS).await;
    let rita = house.person("rita").await;
    for text in ["\u{e0041}".repeat(50), "QUJD".repeat(100), "long ".repeat(14_000)] {
        let input = json!({ "text": text }).to_string();
        let run = house.run_as(&rita, "asks", &input).await;
        let asked = house.pending(&run).await.pop().expect("one question");
        assert!(asked.unrenderable); // C-141
        let maria = house.person("maria").await;
        let yes =
            DecisionRequest { arguments_digest: Some(asked.arguments_digest), ..DecisionRequest::of(Verdict::Approve) };
        let refused = maria.decide(asked.id, &yes).await.unwrap_err();
        assert_eq!(refused.code(), Some("invalid_answer")); // C-141
        let item = BatchItem {
            approval: asked.id,
            decision: Verdict::Approve,
            arguments_digest: Some(asked.arguments_digest),
            answer: None,
            reason: None,
        };
        let batch = maria.decide_batch(&BatchRequest { items: vec![item] }).await.unwrap();
        assert_eq!(batch.items[0].problem.as_ref().unwrap().code, "invalid_answer"); // C-141 C-200
        let decided = maria.decide(asked.id, &DecisionRequest { unrenderable: true, ..yes }).await.unwrap();
        assert_eq!(decided.status.as_str(), "approved"); // C-141
    }
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_registers_a_program_does_not_say_who_may_decide_its_calls() {
    let house = House::open().await;
    // Registered by the owner of the data directory, who may decide the own calls; Rita's run is hers.
    let (_, asked) = house.asking().await;
    assert!(asked.rule.separate_requester); // C-55
    let run = house.run("asks", r#"{"text":"mine"}"#).await;
    let own = house.pending(&run).await.pop().unwrap();
    assert!(!own.rule.separate_requester); // C-55
    let yes = DecisionRequest { arguments_digest: Some(own.arguments_digest), ..DecisionRequest::of(Verdict::Approve) };
    assert_eq!(house.local.decide(own.id, &yes).await.unwrap().status.as_str(), "approved"); // C-55
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_name_bodies_and_reasons_by_digest_and_have_neither() {
    let house = House::open().await;
    house.register("asks", crate::house::ASKS).await;
    let rita = house.person("rita").await;
    let run = house.run_as(&rita, "asks", r#"{"text":"what-is-asked"}"#).await;
    let asked = house.pending(&run).await.pop().unwrap();
    let yes = DecisionRequest {
        arguments_digest: Some(asked.arguments_digest),
        reason: Some("why-it-was-approved".into()),
        ..DecisionRequest::of(Verdict::Approve)
    };
    let decided = house.person("maria").await.decide(asked.id, &yes).await.unwrap();
    assert_eq!(decided.decisions[0].reason.as_deref(), Some("why-it-was-approved"));
    house.ended(&run).await;
    let events = house.local.events(run.id, &Default::default()).await.unwrap();
    let text = serde_json::to_string(&events).unwrap();
    assert!(text.contains(&asked.arguments_digest.to_string()) && text.contains("maria"), "{text}"); // C-274
    assert!(!text.contains("what-is-asked") && !text.contains("why-it-was-approved"), "{text}"); // C-274
    house.host.shutdown().await;
}

/// A tool whose effect another can undo, and one whose cannot.
const UNDONE: &str = r#"
[[tool]]
name = "books.post"
effect = "write"
description = "Post"
input = { type = "object" }
command = { argv = ["/bin/cat"] }
approval = "never"
compensate = { tool = "books.reverse", arguments = { of = { "$arguments" = "/n" } } }

[[tool]]
name = "books.reverse"
effect = "write"
description = "Reverse"
input = { type = "object" }
command = { argv = ["/bin/cat"] }
approval = "never"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_lists_what_it_did_and_what_can_undo_it() {
    let house = House::with(UNDONE).await;
    house.register("posts", "books.post(n=1)\nbooks.reverse(of=1)\nnotes.lose()\n").await;
    let run = house.run("posts", "{}").await;
    house.local.cancel(run.id, &Default::default()).await.unwrap();
    let ended = serde_json::to_value(house.ended(&run).await).unwrap();
    let listed: Vec<(Value, Value, Value)> = ended["effects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|effect| (effect["tool"].clone(), effect["applied"].clone(), effect["compensate"].clone()))
        .collect();
    let wanted = [
        (json!("books.post"), json!("yes"), json!("books.reverse")),
        (json!("books.reverse"), json!("yes"), json!("stands")),
        (json!("notes.lose"), json!("unknown"), json!("stands")),
    ];
    assert_eq!(listed, wanted); // C-246 C-248
    assert_eq!(ended["status"], "cancelled");
    house.host.shutdown().await;
}
