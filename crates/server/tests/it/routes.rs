//! Walks the table of routes: each against each kind of caller, each GET for changing nothing, each for refusing what it
//! does not know (C-305, C-214, I-37).

use crate::house::{ECHO, House, problem, told};
use api::{Approval, Run};
use protocol::id::{MessageId, WebhookId};
use protocol::time::Time;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use stasis_server::{Needs, ROUTES, Route};
use std::time::Duration;

/// Things of the namespace `default` that routes can be asked for.
struct Subjects {
    run: Run,
    approval: Approval,
    pattern: String,
    token: String,
    /// One for a signal.
    wait: String,
    job: String,
}

impl Subjects {
    async fn of(house: &House) -> Subjects {
        house.register("echo", ECHO).await;
        let (run, approval) = house.asking().await;
        let pattern = house.local.workflow("echo").await.unwrap().revisions[0].pattern.to_string();
        let token = house.local.tokens(&Default::default()).await.unwrap().items[0].id.to_string();
        house.register("waits", "stasis.signal('paid')").await;
        let wait = house.run("waits", "{}").await.waiting_for[0].id.clone();
        house.register("delegates", "stasis.delegate('reviewer', 1)").await;
        let job = house.run("delegates", "{}").await.waiting_for[0].id.clone();
        Subjects { run, approval, pattern, token, wait, job }
    }

    fn path(&self, route: &Route) -> String {
        let id = match route.path.split('/').nth(2).unwrap_or_default() {
            "runs" => self.run.id.to_string(),
            "approvals" => self.approval.id.to_string(),
            "waits" => self.wait.clone(),
            "jobs" => self.job.clone(),
            "calls" => self.approval.call.to_string(),
            "patterns" => self.pattern.clone(),
            "tokens" => self.token.clone(),
            // None of these people may see one, so none is there.
            "webhooks" => WebhookId::mint(Time::from_millis(1), 0, 1).to_string(),
            _ => String::new(),
        };
        let call = self.approval.call.to_string();
        route
            .path
            .replace("{id}", &id)
            .replace("{call}", &call)
            .replace("{msg}", &MessageId::mint(Time::from_millis(1), 0, 1).to_string())
            .replace("{key}", "echo")
            .replace("{name}", if route.path.starts_with("/v1/queues") { "default" } else { "notes.lose" })
    }

    fn body(&self, route: &Route) -> Option<Value> {
        let digest = self.approval.arguments_digest;
        Some(match (route.method, route.path) {
            ("GET", _) => return None,
            (_, "/v1/workflows") => json!({"key": "echo", "kind": "script", "source": ECHO}),
            (_, "/v1/workflows/{key}/activate") => json!({"revision": 1}),
            (_, "/v1/runs" | "/v1/runs/{id}") => json!({"workflow": "echo"}),
            (_, "/v1/approvals/{id}/decisions") => json!({"decision": "approve", "arguments_digest": digest}),
            (_, "/v1/approvals/{id}/extend") => {
                json!({"until": self.approval.expires_at.unwrap() + Duration::from_secs(60)})
            }
            (_, "/v1/approvals:decide") => {
                json!({"items": [{"approval": self.approval.id, "decision": "approve", "arguments_digest": digest}]})
            }
            (_, "/v1/effects/{call}/settle") => {
                json!({"decision": "give_up", "arguments_digest": digest, "reason": "r"})
            }
            // All that wait, those of earlier callers too.
            (_, "/v1/jobs/claim") => json!({"kind": "reviewer", "worker": "w", "claim_id": "c", "limit": 64}),
            (_, "/v1/jobs/{id}/complete") => json!({"token": 1, "result": 1}),
            (_, "/v1/jobs/{id}/fail") => json!({"token": 1, "error": "e"}),
            (_, "/v1/jobs/{id}/heartbeat" | "/v1/jobs/{id}/ack-cancel") => json!({"token": 1}),
            (_, "/v1/audit/compare") => json!({"heads": [], "until": self.approval.created_at}),
            (_, "/v1/webhooks") => json!({"url": "https://example.com/"}),
            (_, "/v1/runs/{id}/fork") => json!({"seq": 0}),
            (_, "/v1/runs/{id}/move") => json!({"revision": 1}),
            (_, "/v1/runs/{id}/attest") => json!({"obligation": "0", "reason": "r"}),
            (_, "/v1/tokens") => json!({"principal": "vera"}),
            _ => json!({}),
        })
    }

    fn request(&self, house: &House, route: &Route, token: Option<&str>) -> RequestBuilder {
        let method: Method = route.method.parse().unwrap();
        let wait = if route.path.ends_with("/wait") { "?timeout=1ms" } else { "" };
        let page = if route.path.ends_with("/events") { "?after=" } else { "" };
        let request = house.raw(method, &format!("{}{wait}{page}", self.path(route)), token);
        match self.body(route) {
            Some(body) => request.json(&body),
            None => request,
        }
    }
}

/// The rights of the people of the house, as the configuration gives them.
const RIGHTS: [(&str, &[&str]); 4] = [
    ("agent", &["jobs:claim"]),
    ("vera", &["runs:read"]),
    ("rita", &["runs:read", "runs:start", "runs:cancel", "runs:pause", "signals:send", "workflows:write"]),
    ("maria", &["runs:read", "approvals:decide"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_route_gives_each_caller_what_its_rights_allow() {
    let house = House::open().await;
    let subjects = Subjects::of(&house).await;
    let otto = house.token("otto").await;
    for route in ROUTES {
        let ask = |token: Option<&str>| told(subjects.request(&house, route, token));
        let name = format!("{} {}", route.method, route.path);
        if route.needs == Needs::Nothing {
            assert_eq!(ask(None).await.0, StatusCode::OK, "{name}"); // I-35
            continue;
        }
        assert_eq!(ask(None).await.0, StatusCode::UNAUTHORIZED, "{name}"); // C-305
        // Otto has every right, elsewhere: what is named by its id is not there for him, and lists are empty.
        let (status, answer) = ask(Some(&otto)).await;
        let named = route.path.contains("{id}") && !route.path.contains("patterns") || route.path.contains("{call}");
        if named && route.method != "PUT" {
            assert_eq!(
                (status, answer["code"].as_str()),
                (StatusCode::NOT_FOUND, Some("not_found")),
                "{name}: {answer}"
            ); // C-305, R-12
        } else {
            let text = answer.to_string();
            assert!(!text.contains(&subjects.approval.id.to_string()) || text.contains("not_found"), "{name}: {text}"); // R-12
        }
    }
    for (person, has) in RIGHTS {
        let subjects = Subjects::of(&house).await;
        let token = house.token(person).await;
        // What ends the run comes last: its checkpoint goes with it.
        let mut routes: Vec<&Route> = ROUTES.iter().collect();
        routes.sort_by_key(|route| route.path.ends_with("/cancel"));
        for route in routes {
            let Needs::OneOf(rights) = route.needs else { continue };
            let allowed = rights.iter().any(|right| has.contains(&right.as_str()));
            let (status, answer) = told(subjects.request(&house, route, Some(&token))).await;
            let name = format!("{person}: {} {}: {status} {answer}", route.method, route.path);
            match allowed {
                false => assert_eq!(status, StatusCode::FORBIDDEN, "{name}"), // C-305, R-12
                true if route.path.contains("settle") => assert_eq!(answer["code"], "not_dispatched", "{name}"), // I-30
                true if route.path.ends_with("/fail") => assert_eq!(answer["code"], "job_terminal", "{name}"), // R-222
                true if route.method == "PUT" => assert_eq!(answer["code"], "idempotency_mismatch", "{name}"), // R-41
                true => assert!(status.is_success(), "{name}"),               // C-305
            }
        }
        let question = house.local.approval(subjects.approval.id).await.unwrap().status.as_str();
        let wanted = match person {
            "vera" | "agent" => "pending",
            // Her cancel of the run withdrew it.
            "rita" => "cancelled",
            _ => "approved",
        };
        assert_eq!(question, wanted, "{person}"); // C-305
    }
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_get_and_no_head_changes_anything() {
    let house = House::open().await;
    let subjects = Subjects::of(&house).await;
    let token = house.token("rita").await;
    let admin = house.token("local").await;
    let before = (house.metric("stasis_commits_total").await, house.local.run(subjects.run.id).await.unwrap().seq);
    for route in ROUTES.iter().filter(|route| route.method == "GET") {
        for token in [None, Some(&token), Some(&admin)] {
            for prefetch in [false, true] {
                let request = subjects.request(&house, route, token.map(String::as_str));
                let request = if prefetch { request.header("purpose", "prefetch") } else { request };
                let status = request.send().await.unwrap().status();
                assert!(status != StatusCode::INTERNAL_SERVER_ERROR, "{}", route.path);
                let head = house.raw(Method::HEAD, &subjects.path(route), token.map(String::as_str));
                if !route.path.ends_with("/events") && !route.path.ends_with("/wait") {
                    head.send().await.unwrap();
                }
            }
        }
    }
    let after = (house.metric("stasis_commits_total").await, house.local.run(subjects.run.id).await.unwrap().seq);
    assert_eq!(after, before); // C-214
    assert_eq!(house.pending(&subjects.run).await.len(), 1); // C-214
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_refuses_a_query_and_a_field_that_nobody_knows() {
    let house = House::open().await;
    let subjects = Subjects::of(&house).await;
    let admin = house.token("local").await;
    for route in ROUTES {
        let method: Method = route.method.parse().unwrap();
        let path = subjects.path(route);
        let query = house.raw(method.clone(), &format!("{path}?zzz=1"), Some(&admin));
        let query = match subjects.body(route) {
            Some(body) => query.json(&body),
            None => query,
        };
        problem(query, 400, "unknown_field").await; // I-37
        if let Some(mut body) = subjects.body(route) {
            body["zzz"] = json!(1);
            problem(house.raw(method, &path, Some(&admin)).json(&body), 400, "unknown_field").await; // I-37
        }
    }
    house.host.shutdown().await;
}
