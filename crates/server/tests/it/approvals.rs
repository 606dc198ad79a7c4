//! Approvals and effects over HTTP (I-25 to I-27, I-30, I-43).

use crate::house::{House, problem, told};
use api::approval::{ApprovalQuery, ApprovalStatus, BatchItem, BatchRequest, ExtendRequest, Order};
use api::call::{CallState, EffectQuery};
use api::page::ListQuery;
use api::{Approval, DecisionRequest, Json, Verdict};
use protocol::digest::Digest;
use protocol::run::Status;
use reqwest::{Method, StatusCode};
use serde_json::json;
use std::time::Duration;

fn approve(approval: &Approval) -> DecisionRequest {
    DecisionRequest { arguments_digest: Some(approval.arguments_digest), ..DecisionRequest::of(Verdict::Approve) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_runs_what_was_shown_and_stands() {
    let house = House::open().await;
    let (run, approval) = house.asking().await;
    let arguments = approval.arguments.as_ref().expect("shown").as_str();
    assert_eq!(arguments, r#"{"text":"hello"}"#); // I-40
    assert_eq!(Digest::of(arguments), approval.arguments_digest); // C-285
    assert_eq!((approval.tool.as_str(), approval.requester.as_str()), ("notes.write", "rita")); // I-43
    assert_eq!((approval.rule.roles.as_slice(), approval.rule.quorum), (["finance".to_owned()].as_slice(), 1)); // I-43
    assert!(approval.dispatch.is_none() && approval.decided_at.is_none()); // I-43
    let maria = house.person("maria").await;
    let decided = maria.decide(approval.id, &approve(&approval)).await.unwrap();
    assert_eq!((decided.status, decided.decisions[0].principal.as_str()), (ApprovalStatus::Approved, "maria")); // C-180
    assert_eq!(decided.decisions[0].method, "api"); // C-176
    let run = house.ended(&run).await;
    assert_eq!((run.status, run.result.unwrap().as_str()), (Status::Done, r#"{"text":"hello"}"#));
    let shown = house.local.approval(approval.id).await.unwrap();
    let dispatch = shown.dispatch.expect("it was dispatched");
    assert!(dispatch.executed && dispatch.gate_at.is_some()); // I-43
    assert_eq!(dispatch.outcome.as_deref(), Some("ok")); // C-301
    let again = maria.decide(approval.id, &approve(&approval)).await.unwrap();
    assert_eq!(again.decisions.len(), 1); // C-168
    let late = house
        .local
        .decide(approval.id, &DecisionRequest { reason: Some("no".into()), ..DecisionRequest::of(Verdict::Reject) })
        .await;
    let api::ClientError::Problem(late) = late.unwrap_err() else { panic!("a problem") };
    assert_eq!((late.status, late.code.as_str()), (409, "already_decided")); // I-26
    assert_eq!(late.truth.expect("the decision that won").peek()["decided_by"], "maria"); // I-26
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_shows_what_the_content_it_names_was() {
    let ships = r#"
[[tool]]
name = "notes.ship"
effect = "write"
description = "Ship a file"
input = { type = "object" }
operands = [{ pointer = "/file", kind = "file" }]
command = { argv = ["/bin/cat"] }
approval = { roles = ["finance"] }
"#;
    let house = House::with(ships).await;
    let file = house.folder.path().join("rollout.yaml");
    std::fs::write(&file, "replicas: 3").unwrap();
    house.register("ships", "result = notes.ship(file=inputs['file'])").await;
    let run = house.run("ships", &json!({"file": file}).to_string()).await;
    let approval = house.pending(&run).await.remove(0);
    let [operand] = &approval.operands[..] else { panic!("{:?}", approval.operands) };
    assert_eq!((operand.pointer.as_str(), operand.name.as_deref()), ("/file", file.to_str())); // C-142
    assert_eq!(operand.digest, Digest::of("replicas: 3")); // C-142
    let vera = house.person("vera").await.approval(approval.id).await.unwrap();
    assert!(vera.withheld && vera.operands[0].name.is_none()); // C-282
    assert_eq!(vera.operands[0].digest, operand.digest); // C-282: digests are for everybody
    std::fs::write(&file, "replicas: 300").unwrap();
    house.person("maria").await.decide(approval.id, &approve(&approval)).await.unwrap();
    let failed = house.ended(&run).await;
    assert_eq!(failed.status, Status::Failed);
    let dispatch = house.local.approval(approval.id).await.unwrap().dispatch.unwrap();
    assert_eq!((dispatch.executed, dispatch.outcome.as_deref()), (false, Some("invalidated_before_dispatch"))); // C-109
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_decision_is_refused_by_its_own_code() {
    let house = House::open().await;
    let (_, approval) = house.asking().await;
    let path = format!("/v1/approvals/{}/decisions", approval.id);
    let (maria, rita) = (house.token("maria").await, house.token("rita").await);
    let post = |token: &str, body: serde_json::Value| house.raw(Method::POST, &path, Some(token)).json(&body);
    let other = Digest::of("other");
    problem(post(&maria, json!({"decision": "approve", "arguments_digest": other})), 409, "args_digest_mismatch").await; // C-171
    problem(post(&maria, json!({"decision": "approve"})), 400, "invalid_request").await; // C-171
    problem(post(&maria, json!({"decision": "reject"})), 422, "reason_required").await; // C-172
    let digest = approval.arguments_digest;
    problem(post(&maria, json!({"decision": "happened", "arguments_digest": digest})), 422, "invalid_answer").await; // C-172
    let edit = json!({"decision": "approve", "arguments_digest": digest, "edit": {"text": 5}});
    problem(post(&maria, edit), 422, "edit_refused").await; // C-173
    let named = json!({"decision": "approve", "arguments_digest": digest, "principal": "maria"});
    let refused = problem(post(&rita, named), 400, "unknown_field").await; // C-177
    assert_eq!(refused["errors"][0]["key"], "principal"); // I-37
    problem(post(&rita, json!({"decision": "approve", "arguments_digest": digest})), 403, "not_permitted").await; // C-166
    problem(
        post(&house.token("robot").await, json!({"decision": "approve", "arguments_digest": digest})),
        403,
        "not_permitted",
    )
    .await; // C-178
    assert_eq!(house.local.approval(approval.id).await.unwrap().status, ApprovalStatus::Pending); // R-2
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asked_cannot_decide_on_any_door() {
    let house = House::open().await;
    house.register("asks", crate::house::ASKS).await;
    // Not at the socket, where whoever owns the data directory answers the own runs.
    let local = house.person("local").await;
    let run = house.run_as(&local, "asks", r#"{"text":"mine"}"#).await;
    let approval = house.pending(&run).await.pop().unwrap();
    let own = local.decide(approval.id, &approve(&approval)).await.unwrap_err();
    assert_eq!(own.code(), Some("self_approval_forbidden")); // C-167, C-293
    let batch = BatchRequest {
        items: vec![BatchItem {
            approval: approval.id,
            decision: Verdict::Approve,
            arguments_digest: Some(approval.arguments_digest),
            answer: None,
            reason: None,
        }],
    };
    let answer = local.decide_batch(&batch).await.unwrap();
    assert_eq!(answer.items[0].problem.as_ref().unwrap().code, "self_approval_forbidden"); // C-293
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_is_a_new_revision_and_what_it_says_is_what_runs() {
    let house = House::open().await;
    let (run, approval) = house.asking().await;
    let maria = house.person("maria").await;
    let edit = DecisionRequest { edit: Some(Json::parse(r#"{ "text": "changed" }"#).unwrap()), ..approve(&approval) };
    let edited = maria.decide(approval.id, &edit).await.unwrap();
    assert_eq!((edited.revision, edited.arguments.unwrap().as_str()), (2, r#"{"text":"changed"}"#)); // C-184
    assert_eq!(edited.asked_arguments_digest, approval.arguments_digest); // C-186
    assert_ne!(edited.binding_digest, approval.binding_digest); // C-184
    let run = house.ended(&run).await;
    assert_eq!(run.result.unwrap().as_str(), r#"{"text":"changed"}"#); // C-186
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_decides_each_alone_and_one_refusal_stops_no_other() {
    let house = House::open().await;
    let (_, one) = house.asking().await;
    let (_, two) = house.asking().await;
    let maria = house.person("maria").await;
    let item = |approval: &Approval, digest| BatchItem {
        approval: approval.id,
        decision: Verdict::Approve,
        arguments_digest: digest,
        answer: None,
        reason: None,
    };
    let request = BatchRequest { items: vec![item(&one, None), item(&two, Some(two.arguments_digest))] };
    let answer = maria.decide_batch(&request).await.unwrap();
    assert_eq!(answer.items[0].problem.as_ref().unwrap().code, "invalid_request"); // C-200
    assert_eq!(answer.items[1].approval.as_ref().unwrap().status, ApprovalStatus::Approved); // C-199
    assert_eq!(house.local.approval(one.id).await.unwrap().status, ApprovalStatus::Pending); // C-200
    let none = maria.decide_batch(&BatchRequest { items: Vec::new() }).await.unwrap_err();
    assert_eq!(none.code(), Some("invalid_request")); // C-199
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_what_is_pending_and_what_is_mine() {
    let house = House::open().await;
    let (_, first) = house.asking().await;
    let (_, second) = house.asking().await;
    let list = |client: api::Client, query: ApprovalQuery| async move {
        client.approvals(&query).await.unwrap().items.into_iter().map(|approval| approval.id).collect::<Vec<_>>()
    };
    let mine = ApprovalQuery { mine: Some(true), ..ApprovalQuery::default() };
    assert_eq!(list(house.local.clone(), ApprovalQuery::default()).await, [second.id, first.id]); // I-25, I-37
    let oldest = ApprovalQuery { order: Some(Order::Oldest), ..ApprovalQuery::default() };
    assert_eq!(list(house.local.clone(), oldest).await, [first.id, second.id]); // I-25
    assert_eq!(list(house.person("maria").await, mine.clone()).await, [second.id, first.id]); // I-25
    assert!(list(house.person("vera").await, mine).await.is_empty()); // I-25
    assert!(list(house.person("otto").await, ApprovalQuery::default()).await.is_empty()); // C-165
    let reject = DecisionRequest { reason: Some("no".into()), ..DecisionRequest::of(Verdict::Reject) };
    house.person("maria").await.decide(first.id, &reject).await.unwrap();
    assert_eq!(list(house.local.clone(), ApprovalQuery::default()).await, [second.id]); // I-25
    let rejected = ApprovalQuery { status: Some("rejected".into()), ..ApprovalQuery::default() };
    assert_eq!(list(house.local.clone(), rejected).await, [first.id]); // I-25
    let all = ApprovalQuery { status: Some("all".into()), ..ApprovalQuery::default() };
    assert_eq!(list(house.local.clone(), all).await.len(), 2); // I-25
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_of_which_nobody_knows_is_asked_about_and_settled_by_a_person() {
    let house = House::open().await;
    house.register("loses", "result = notes.lose(text='x')\n").await;
    let run = house.run_as(&house.person("rita").await, "loses", "{}").await;
    assert_eq!(run.status, Status::AwaitingConsent); // C-237
    let effect = &run.effects[0];
    assert_eq!((effect.outcome.unwrap().as_str(), effect.applied.unwrap().as_str()), ("ambiguous", "unknown")); // C-249
    assert_eq!(effect.compensate.as_deref(), Some("stands")); // C-248
    let query = EffectQuery { state: Some(CallState::Ambiguous), ..EffectQuery::default() };
    let listed = house.local.effects(&query).await.unwrap().items;
    assert_eq!(listed.iter().map(|item| item.call).collect::<Vec<_>>(), [effect.call]); // I-30
    let question = house.local.approval(listed[0].approval.expect("a question")).await.unwrap();
    assert_eq!((question.kind.as_str(), question.expires_at), ("settle", None)); // C-241
    let about = question.settle.as_ref().expect("what is known of it");
    assert_eq!(
        (about.attempts, about.seen.as_deref(), &about.output, &about.earlier),
        (1, Some("exit 1"), &None, &None)
    );
    let calls = house.local.calls(run.id, &ListQuery::default()).await.unwrap().items;
    assert_eq!(calls[0].seen.as_deref(), Some("exit 1"));
    let path = format!("/v1/effects/{}/settle", effect.call);
    let settle = |token: &str, decision: &str, reason: Option<&str>| {
        let body = json!({"decision": decision, "arguments_digest": question.arguments_digest, "answer": {}, "reason": reason});
        house.raw(Method::POST, &path, Some(token)).json(&body)
    };
    let (rita, local) = (house.token("rita").await, house.token("local").await);
    problem(settle(&rita, "happened", Some("saw it")), 403, "not_permitted").await; // C-240
    problem(settle(&local, "approve", None), 422, "invalid_answer").await; // C-131
    problem(settle(&local, "happened", None), 422, "reason_required").await; // C-240
    let (status, settled) = told(settle(&local, "happened", Some("the note is there"))).await;
    assert_eq!((status, &settled["status"]), (StatusCode::OK, &json!("approved")), "{settled}"); // C-162
    let run = house.ended(&run).await;
    assert_eq!((run.status, run.effects[0].applied.unwrap().as_str()), (Status::Done, "yes")); // C-238
    // The next question about the tool shows what this one was told.
    let again = house.run_as(&house.person("rita").await, "loses", "{}").await;
    let question = house.pending(&again).await.pop().unwrap();
    let earlier = question.settle.and_then(|about| about.earlier).expect("an earlier answer");
    assert_eq!((earlier.run, earlier.result.as_str()), (run.id, "{}"));
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_knows_to_have_happened_comes_before_what_expires() {
    let house = House::open().await;
    let (_, call) = house.asking().await;
    house.register("loses", "result = notes.lose(text='x')\n").await;
    let run = house.run_as(&house.person("rita").await, "loses", "{}").await;
    let settle = house.pending(&run).await.pop().expect("a question");
    let mut query = ApprovalQuery { order: Some(Order::Expiring), limit: Some(1), ..ApprovalQuery::default() };
    let mut walked = Vec::new();
    loop {
        let page = house.local.approvals(&query).await.unwrap();
        walked.extend(page.items.iter().map(|approval| approval.id));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!(walked, [settle.id, call.id]); // I-25, I-37
    let whole = ApprovalQuery { limit: None, cursor: None, ..query };
    let whole = house.local.approvals(&whole).await.unwrap();
    assert_eq!(whole.items.iter().map(|approval| approval.id).collect::<Vec<_>>(), walked); // I-25
    assert_eq!(whole.next_cursor, None);
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_others_is_answered_like_what_is_not_there() {
    let house = House::open().await;
    let (run, approval) = house.asking().await;
    let otto = house.token("otto").await;
    let call = approval.call;
    let pairs = [
        (Method::GET, format!("/v1/runs/{}", run.id), "/v1/runs/run_01m8nwmbe0e00bsaekf59edd1r".to_owned()),
        (
            Method::GET,
            format!("/v1/approvals/{}", approval.id),
            "/v1/approvals/apr_01m8nwmc7ce009jh69rck9w39q".to_owned(),
        ),
        (Method::GET, format!("/v1/runs/{}/events?after=", run.id), "/v1/runs/nonsense/events?after=".to_owned()),
        (
            Method::POST,
            format!("/v1/runs/{}/cancel", run.id),
            "/v1/runs/run_01m8nwmbe0e00bsaekf59edd1r/cancel".to_owned(),
        ),
        (
            Method::POST,
            format!("/v1/approvals/{}/decisions", approval.id),
            "/v1/approvals/apr_01m8nwmc7ce009jh69rck9w39q/decisions".to_owned(),
        ),
        (
            Method::POST,
            format!("/v1/effects/{call}/settle"),
            "/v1/effects/call_01m8nwmc7be00865rzyjka792g/settle".to_owned(),
        ),
    ];
    for (method, theirs, nowhere) in pairs {
        let mut answers = Vec::new();
        for path in [&theirs, &nowhere] {
            let request = house.raw(method.clone(), path, Some(&otto));
            let body = if path.ends_with("/cancel") { json!({}) } else { json!({"decision": "approve", "edit": {}}) };
            let request = if method == Method::POST { request.json(&body) } else { request };
            let response = request.send().await.unwrap();
            let status = response.status();
            let mut value: serde_json::Value = response.json().await.unwrap();
            value["request_id"] = "".into();
            answers.push((status, value.to_string()));
        }
        assert_eq!(answers[0], answers[1], "{theirs}"); // C-165, R-12
        assert_eq!(answers[0].0, StatusCode::NOT_FOUND, "{theirs}"); // C-306
    }
    let (status, list) = told(house.raw(Method::GET, "/v1/runs", Some(&otto))).await;
    assert_eq!((status, list["items"].as_array().map(Vec::len)), (StatusCode::OK, Some(0))); // R-12
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_decide_gives_a_question_more_time() {
    let house = House::open().await;
    let (run, approval) = house.asking().await;
    let until = approval.expires_at.expect("it expires") + Duration::from_secs(3_600);
    let path = format!("/v1/approvals/{}/extend", approval.id);
    let rita = house.raw(Method::POST, &path, Some(&house.token("rita").await)).json(&json!({"until": until}));
    problem(rita, 403, "not_permitted").await; // C-192: she has the role and not the right
    let maria = house.token("maria").await;
    let wrong = house.raw(Method::POST, &path, Some(&maria)).json(&json!({"until": until, "untill": until}));
    problem(wrong, 400, "unknown_field").await; // I-37
    let request = ExtendRequest { until, reason: Some("she is away".into()) };
    let extended = house.person("maria").await.extend(approval.id, &request).await.expect("extended");
    assert_eq!((extended.expires_at, extended.status), (Some(until), ApprovalStatus::Pending)); // C-158 I-27
    let house = house.reopen().await;
    let kept = house.local.run(run.id).await.expect("a run");
    assert_eq!(kept.waiting_for[0].due_at, Some(until)); // C-158
    assert_eq!(house.local.approval(approval.id).await.expect("kept").expires_at, Some(until)); // C-158
    house.host.shutdown().await;
}
