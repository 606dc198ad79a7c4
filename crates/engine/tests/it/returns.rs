//! What a returned hop finds, and what its time is charged to.

use crate::desk::{Desk, Setting, eventually, manual};
use crate::shop::{Reply, Shop};
use protocol::approval::{Status as Question, Verdict};
use protocol::call::{OutcomeStatus, State};
use protocol::code::Code;
use protocol::run::Status;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn tool(shop: &Shop, name: &str, lease: &str) -> String {
    format!(
        r#"
        [[tool]]
        name = "shop.{name}"
        effect = "write"
        description = "Something that is asked for"
        input = {{ type = "object" }}
        http = {{ method = "POST", url = "{}/{name}" }}
        approval = {{ lease = "{lease}" }}
        limits = {{ timeout = "300ms" }}
        "#,
        shop.url()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returned_hop_reads_each_verdict_and_waits_for_what_is_left() {
    let shop = Shop::open().await;
    let (setting, clock) = manual();
    let desk = Desk::with(setting.clone()).await;
    let tools = ["yes", "no", "late", "more"].map(|name| tool(&shop, name, if name == "late" { "60s" } else { "24h" }));
    desk.apply(&tools.concat()).await;
    let source = "
told = stasis.parallel(shop.yes.later(), shop.no.later(), shop.late.later(), shop.more.later(), errors='return')
result = [getattr(t, 'code', 'ok') for t in told]
";
    let run = desk.run(source, "{}").await;
    assert_eq!(run.status(), Status::AwaitingConsent);
    let questions = desk.pending(run.id).await;
    // Nobody carries it while they answer, so one hop finds all of it.
    let desk = desk.reopen(Setting { carry: false, ..setting.clone() }).await;
    let of = |name: &str| questions.iter().find(|a| a.binding.tool == format!("shop.{name}")).expect("asked").id;
    desk.decide(of("yes"), Verdict::Approve).await.expect("approved");
    desk.decide(of("no"), Verdict::Reject).await.expect("rejected");
    clock.fetch_add(60_000_000, Ordering::SeqCst);
    let expired = async || matches!(desk.approval(of("late")).await.status, Question::Expired { .. });
    eventually("the expiry", expired).await;
    let desk = desk.reopen(setting).await;
    let parked = async || {
        let run = desk.engine.ledger().run(run.id).await.expect("read").expect("a run");
        run.seq == 1 && run.status().is_parked()
    };
    eventually("the second park", parked).await;
    let told = |name: &'static str| {
        let desk = &desk;
        async move {
            let calls = desk.calls(run.id).await;
            let call = calls.iter().find(|call| call.tool.name == format!("shop.{name}")).expect("a call").clone();
            call.outcome().map(|outcome| (outcome.status, outcome.code)).ok_or(call.state)
        }
    };
    assert_eq!(told("yes").await, Ok((OutcomeStatus::Ok, None))); // R-189: to the gate
    assert_eq!(told("no").await, Ok((OutcomeStatus::Denied, Some(Code::ApprovalRejected)))); // R-189: not run
    assert_eq!(told("late").await, Ok((OutcomeStatus::Denied, Some(Code::ApprovalExpired)))); // R-189: not run
    assert_eq!(told("more").await, Err(State::Asked)); // R-189: waited for
    assert_eq!(["yes", "no", "late", "more"].map(|name| shop.seen(&format!("/{name}")).len()), [1, 0, 0, 0]); // R-189
    assert_eq!(desk.pending(run.id).await.iter().map(|a| a.id).collect::<Vec<_>>(), [of("more")]);
    desk.decide(of("more"), Verdict::Approve).await.expect("approved");
    let done = desk.ended(run.id).await;
    assert_eq!(desk.result(&done).await, r#"["ok","approval_rejected","approval_expired","ok"]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tools_time_runs_from_its_gate_and_not_from_its_question() {
    let shop = Shop::open().await;
    let (setting, clock) = manual();
    let desk = Desk::with(setting).await;
    desk.apply(&tool(&shop, "wait", "24h")).await;
    let run = desk.run("result = shop.wait()", "{}").await;
    // Hours of thinking, for a tool that has a third of a second.
    let hours = Duration::from_secs(3 * 3_600);
    clock.fetch_add(hours.as_micros() as i64, Ordering::SeqCst);
    let question = desk.asked(run.id).await;
    desk.decide(question.id, Verdict::Approve).await.expect("approved");
    let done = desk.ended(run.id).await;
    assert_eq!((done.status(), shop.seen("/wait").len()), (Status::Done, 1)); // R-378
    let call = desk.calls(run.id).await.remove(0);
    let (asked, gate) = (call.at, call.gate().expect("dispatched").at);
    assert!(gate.since(asked) >= hours); // R-378: none of it was the tool's
    // Past the gate it runs: a handler that does not answer is cut at its limit.
    shop.tell("/wait", [Reply::Holds]);
    let run = desk.begin("result = shop.wait()", "{}").await;
    let question = desk.asked(run).await;
    desk.decide(question.id, Verdict::Approve).await.expect("approved");
    let cut = async || matches!(desk.calls(run).await[0].state, State::Ambiguous(_));
    eventually("the limit", cut).await; // R-378
    shop.release();
}
