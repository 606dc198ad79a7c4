//! What steps ask of people and tools, and how they come back to it.

use super::{begin, checkpoint, desk, desk_with, next, program, run, setting, told};
use crate::desk::{Setting, eventually, local};
use crate::jobs::{claim, report, success};
use engine::workflow::{CallError, Either, Step, Won};
use protocol::approval::{self, Verdict};
use protocol::call::{OutcomeStatus, State};
use protocol::code::Code;
use protocol::event::Kind;
use protocol::run::Status;
use serde_json::{Value, json};
use std::time::Duration;

/// A gate, and then a refund that somebody has to say yes to as well.
fn refund() -> super::Program {
    program(|node, state, cx| {
        Box::pin(async move {
            match node.as_str() {
                "first" => {
                    let decision = cx.gate("Look into it?").await?;
                    state["by"] = json!(decision.by);
                    Ok(next("pay"))
                }
                _ => {
                    let order: Value = cx.call("payments.order", &json!({ "order_id": state["id"] })).await?;
                    let paid: Value =
                        cx.call("payments.refund", &json!({ "order_id": state["id"], "amount": 500 })).await?;
                    Ok(Step::End(json!([state["by"], order.is_object(), paid.is_object()])))
                }
            }
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_parks_at_each_question_and_comes_back_in_another_process() {
    let program = refund();
    let mut desk = desk(&program).await;
    let id = run(&desk, r#"{"id": "o-7"}"#).await.id;
    for question in ["stasis.gate", "payments.refund"] {
        // R-344: the process that asked is gone.
        desk = desk.reopen(setting(&program)).await;
        let parked = desk.stopped(id).await;
        assert_eq!(parked.status(), Status::AwaitingConsent); // R-174
        let asked = desk.asked(id).await;
        assert_eq!(asked.binding.tool, question);
        desk.decide(asked.id, Verdict::Approve).await.expect("approved");
        desk.engine.wait(id, engine::Until::Stopped, crate::desk::PATIENCE).await.expect("read");
    }
    let done = desk.ended(id).await;
    assert_eq!(desk.result(&done).await, r#"[["local"],true,true]"#); // R-121 R-189
    assert_eq!(desk.payments.applied().len(), 1); // R-300: nothing was asked or done twice
    let calls = desk.calls(id).await;
    let made: Vec<&str> = calls.iter().map(|call| call.tool.name.as_str()).collect();
    assert_eq!(made, ["stasis.gate", "payments.order", "payments.refund"]); // R-300: met again, not made again
    // R-125: the node that ended well was not entered again; the one that waited was.
    let nodes: Vec<_> = told(&desk, id, Kind::NodeEntered).await;
    let entered: Vec<_> = nodes.iter().map(|node| (node["node"].as_str(), node["occurrence"].as_u64())).collect();
    let wanted = [("first", 1), ("first", 2), ("pay", 3), ("pay", 4)].map(|(node, n)| (Some(node), Some(n)));
    assert_eq!(entered, wanted); // R-125 R-134
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_the_typed_state_as_the_step_left_it() {
    let program = refund();
    let desk = desk(&program).await;
    let id = run(&desk, r#"{"id": "o-7"}"#).await.id;
    let gate = desk.asked(id).await;
    let body = checkpoint(&desk, id).await;
    assert_eq!((body["schema"].as_str(), body["run"].as_str()), (Some("program.state.v1"), Some(&*id.to_string()))); // R-320
    let entries = body["entries"].as_array().expect("entries").clone();
    let call = desk.calls(id).await[0].id;
    let entry = |n: u32, status: &str| json!({"kind": "node", "id": n, "seq": 0, "node": "first", "state": {"id": "o-7"}, "status": status, "waits": []});
    let mut created = entry(2, "created");
    created["waits"] = json!([gate.wait]);
    created["calls"] = json!([{ "call": call }]);
    assert_eq!(entries, [entry(1, "suspended"), created]); // R-120 R-123 R-124: the exact waits
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    let refund = desk.asked(id).await;
    eventually("parked again", async || desk.stopped(id).await.seq == 1).await;
    let entries = checkpoint(&desk, id).await["entries"].as_array().expect("entries").clone();
    let state = json!({ "id": "o-7", "by": ["local"] });
    assert_eq!(entries.len(), 2); // R-126: what finished before is gone
    assert!(entries.iter().all(|entry| entry["node"] == "pay" && entry["state"] == state)); // R-119
    assert_eq!(entries[1]["waits"], json!([refund.wait])); // R-124
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_what_the_step_left_when_it_had_to_wait() {
    let program = program(|_, state, cx| {
        Box::pin(async move {
            state["times"] = json!(state["times"].as_u64().unwrap_or_default() + 1);
            cx.sleep(Duration::from_millis(1)).await?;
            Ok(Step::End(state.clone()))
        })
    });
    let desk = desk(&program).await;
    let id = begin(&desk, "{}").await;
    let done = desk.ended(id).await;
    assert_eq!(desk.result(&done).await, r#"{"times":2}"#); // R-124: the same node, in the state as the step left it
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_is_an_answer_to_the_step() {
    let program = program(|_, _, cx| {
        Box::pin(async move {
            let decision = cx.gate("Go on?").await?;
            let told = match cx.call::<Value>("payments.refund", &json!({ "order_id": "a", "amount": 500 })).await {
                Err(CallError::Ended(ended)) => json!(ended.code.as_str()),
                other => other?,
            };
            Ok(Step::End(json!([decision.approved(), decision.reason, told])))
        })
    });
    let desk = desk(&program).await;
    let id = begin(&desk, "{}").await;
    for _ in 0..2 {
        let asked = desk.asked(id).await;
        desk.decide(asked.id, Verdict::Reject).await.expect("rejected");
        eventually("it goes on", async || !desk.pending(id).await.iter().any(|a| a.id == asked.id)).await;
    }
    let done = desk.ended(id).await;
    assert_eq!(desk.result(&done).await, r#"[false,"because","approval_rejected"]"#); // R-189
    assert!(desk.payments.applied().is_empty()); // R-189: not run
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_made_together_are_asked_together_and_each_is_decided_alone() {
    let program = program(|_, _, cx| {
        Box::pin(async move {
            let call = |id: &str| cx.call::<Value>("payments.refund", &json!({ "order_id": id, "amount": 500 }));
            let results = cx.all([call("a"), call("b"), call("c").key("again"), call("c")]).await;
            let mut told = Vec::new();
            for result in results {
                match result {
                    Err(CallError::Ended(ended)) => told.push(json!(ended.code.as_str())),
                    other => told.push(json!(other?.is_object())),
                }
            }
            Ok(Step::End(json!(told)))
        })
    });
    let desk = desk(&program).await;
    let id = run(&desk, "{}").await.id;
    let asked = desk.pending(id).await;
    assert_eq!(asked.len(), 4); // R-178: a key makes an equal call another one
    for (n, one) in asked.iter().enumerate() {
        assert_eq!(desk.stopped(id).await.seq, 0); // R-181: each earlier end is only an event
        let verdict = if n == 1 { Verdict::Reject } else { Verdict::Approve };
        desk.decide(one.id, verdict).await.expect("decided");
    }
    let done = desk.ended(id).await;
    assert_eq!((done.seq, desk.result(&done).await.as_str()), (1, r#"[true,"approval_rejected",true,true]"#)); // R-181 R-186
    assert_eq!(desk.payments.applied().len(), 3); // R-186
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_a_time_and_an_agent_bring_a_run_back() {
    let program = program(|node, state, cx| {
        Box::pin(async move {
            match node.as_str() {
                "first" => {
                    state["note"] = cx.signal("note").await?;
                    Ok(next("first of two"))
                }
                "first of two" => {
                    let won: Won =
                        cx.first(&[Either::Signal("never"), Either::Sleep(Duration::from_millis(5))]).await?;
                    state["won"] = json!(won.index);
                    Ok(next("hand over"))
                }
                _ => {
                    let done: Value = cx.delegate("reviewer", &json!({ "look": "at it" })).await?;
                    Ok(Step::End(json!([state["note"], state["won"], done])))
                }
            }
        })
    });
    let desk = desk(&program).await;
    let parked = run(&desk, "{}").await;
    assert_eq!(parked.status(), Status::AwaitingSignal); // R-183
    let to = protocol::command::Target::Name { run: parked.id, name: "note".to_owned() };
    let payload = protocol::json::canonicalize(b"7").expect("JSON");
    desk.engine.send(local(), engine::SendSignal { to, id: None, payload }).await.expect("sent");
    eventually("a job", async || {
        desk.engine.ledger().run(parked.id).await.expect("read").expect("there").status() == Status::AwaitingDelegate
    })
    .await;
    let job = claim(&desk, "reviewer", "c", 1).await.pop().expect("a job");
    report(&desk, &job, success(r#""fine""#)).await.expect("completed");
    let done = desk.ended(parked.id).await;
    assert_eq!(desk.result(&done).await, r#"[7,1,"fine"]"#); // R-229 R-234 R-241
}

#[tokio::test(flavor = "multi_thread")]
async fn time_and_randomness_are_those_of_the_first_asking() {
    let program = program(|_, state, cx| {
        Box::pin(async move {
            let seen = json!([cx.now().await?, cx.random(8).await?]);
            let first = state.get("seen").cloned();
            state["seen"] = seen.clone();
            cx.gate("Go on?").await?;
            Ok(Step::End(json!([first == Some(seen), state["seen"][1].as_array().map(Vec::len)])))
        })
    });
    let desk = desk(&program).await;
    let id = run(&desk, "{}").await.id;
    let asked = desk.asked(id).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    let done = desk.ended(id).await;
    assert_eq!(desk.result(&done).await, "[true,8]");
    let recorded = desk.calls(id).await.iter().filter(|call| call.tool.name != "stasis.gate").count();
    assert_eq!(recorded, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_policy_now_forbids_is_not_run_on_return() {
    let program = refund();
    let desk = desk(&program).await;
    let id = run(&desk, r#"{"id": "o-7"}"#).await.id;
    let gate = desk.asked(id).await;
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    let refund = desk.asked(id).await;
    eventually("parked again", async || desk.stopped(id).await.seq == 1).await;
    desk.apply("[[policy.rule]]\ntool = \"payments.refund\"\noutcome = \"deny\"\n").await;
    desk.decide(refund.id, Verdict::Approve).await.expect("approved");
    let failed = desk.ended(id).await;
    let failure = failed.failure().expect("an error that the step gave on");
    assert_eq!(failure.code, Code::StepFailed);
    assert!(failure.message.contains("policy_denied"), "{}", failure.message); // R-190 R-191
    assert!(desk.payments.applied().is_empty()); // R-190
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_settled_before_the_step_goes_on() {
    let program = program(|_, _, cx| {
        Box::pin(async move {
            let told = match cx.call::<Value>("mail.drop", &json!({})).await {
                Err(CallError::Ended(ended)) => (ended.code.as_str(), ended.applied),
                other => return Ok(Step::End(other?)),
            };
            Ok(Step::End(json!(told)))
        })
    });
    let desk = desk(&program).await;
    let id = run(&desk, "{}").await.id;
    let question = desk.asked(id).await;
    assert_eq!(question.kind(), approval::Kind::Settle); // R-302
    desk.decide(question.id, Verdict::DidNotHappen).await.expect("settled");
    let done = desk.ended(id).await;
    assert_eq!(desk.result(&done).await, r#"["effect_not_executed",false]"#); // R-305
    assert_eq!(desk.payments.applied().len(), 1); // R-306: nothing was sent again
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_may_not_make_more_calls_than_it_was_given() {
    let program = program(|_, state, cx| {
        Box::pin(async move {
            let mut made = 0;
            loop {
                match cx.call::<Value>("payments.order", &json!({ "order_id": format!("o-{made}") })).await {
                    Ok(_) => made += 1,
                    Err(CallError::Ended(ended)) => return Ok(Step::End(json!([made, ended.code.as_str(), state]))),
                    Err(waits) => return Err(waits.into()),
                }
            }
        })
    });
    let mut setting = setting(&program);
    setting.limits.calls = 3;
    let desk = desk_with(Setting { ..setting }).await;
    let done = run(&desk, "1").await;
    assert_eq!(desk.result(&done).await, r#"[3,"call_budget_exceeded",1]"#); // C-63
    let ended = desk.calls(done.id).await;
    assert!(ended.iter().all(|call| matches!(&call.state, State::Ended(o) if o.status == OutcomeStatus::Ok)));
}
