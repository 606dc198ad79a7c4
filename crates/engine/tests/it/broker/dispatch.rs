//! The dispatch gate: what is between a yes and the handler, and what no cancel and no clock changes after it.

use super::{caller, open, open_with, receipted};
use crate::desk::{Desk, Setting, local, manual};
use crate::shop::{Reply, Shop};
use protocol::approval::{Ending, Phase, Status as Asked, Verdict};
use protocol::call::{Applied, State};
use protocol::code::Code;
use protocol::id::ApprovalId;
use protocol::run::{Run, Status};
use std::sync::atomic::Ordering;
use std::time::Duration;

const PAYS: &str = "
try:
    shop.pay(n=1)
except stasis.Denied as error:
    shop.look()
    result = error.code
else:
    result = 'paid'
";

/// How a yes ended, if it has.
async fn ending(desk: &Desk, id: ApprovalId) -> Option<Ending> {
    match desk.approval(id).await.status {
        Asked::Approved { phase: Phase::Ended { how, .. }, .. } => Some(how),
        _ => None,
    }
}

/// A run whose payment was approved, in an engine that dispatches nothing.
async fn approved(desk: Desk, source: &str, idle: Setting) -> (Desk, Run, ApprovalId) {
    let run = desk.run(source, "{}").await;
    let approval = desk.asked(run.id).await.id;
    let desk = desk.reopen(Setting { carry: false, ..idle }).await;
    desk.decide(approval, Verdict::Approve).await.expect("approved");
    (desk, run, approval)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_and_the_delivery_that_follows_are_one_commit() {
    let (desk, shop) = open(Setting::default()).await;
    let run = desk.run(PAYS, "{}").await;
    let approval = desk.asked(run.id).await.id;
    let desk = desk.reopen(Setting::idle()).await;
    let before = desk.engine.ledger().commits();
    let decided = desk.decide(approval, Verdict::Approve).await.expect("approved");
    assert_eq!((decided.run.status(), decided.run.seq), (Status::Queued, 1)); // C-201
    assert_eq!(desk.engine.ledger().commits() - before, 1); // C-201
    let again = desk.decide(approval, Verdict::Approve).await.expect("it stands");
    assert_eq!((again.changed, again.run.status(), again.run.seq), (false, Status::Queued, 1)); // C-202
    assert!(shop.seen("/pay").is_empty());
    // Another process, later.
    let desk = desk.reopen(Setting::default()).await;
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "\"paid\""); // C-201
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_after_the_gate_changes_nothing_about_the_call() {
    let (desk, shop) = open(Setting::default()).await;
    shop.tell("/pay", [Reply::Holds]);
    let run = desk.run("shop.pay(n=1)\nshop.send(n=2)", "{}").await;
    let approval = desk.asked(run.id).await.id;
    desk.decide(approval, Verdict::Approve).await.expect("approved");
    shop.reached("/pay", 1).await;
    let cancelled = desk.cancel(run.id).await;
    assert_eq!(cancelled.status(), Status::Cancelling); // C-244
    let gated = desk.approval(approval).await;
    assert!(matches!(gated.status, Asked::Approved { phase: Phase::Gated { .. }, .. }), "{:?}", gated.status); // C-152
    shop.release();
    let run = desk.ended(run.id).await;
    assert_eq!(run.status(), Status::Cancelled);
    let call = &desk.calls(run.id).await[0];
    assert_eq!(call.outcome().map(|outcome| outcome.applied), Some(Applied::Yes)); // C-112 C-113 C-244
    assert_eq!(receipted(&desk, run.id).await, ["main/1 shop.pay ok"]); // C-113
    assert_eq!(ending(&desk, approval).await, Some(Ending::Ok)); // C-157
    assert!(shop.seen("/send").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_the_gate_means_that_the_handler_never_starts() {
    let (desk, shop) = open(Setting::default()).await;
    let (desk, run, approval) = approved(desk, PAYS, Setting::idle()).await;
    desk.cancel(run.id).await;
    let desk = desk.reopen(Setting::default()).await;
    let run = desk.ended(run.id).await;
    assert_eq!(run.status(), Status::Cancelled);
    assert_eq!(ending(&desk, approval).await, Some(Ending::CancelledBeforeDispatch)); // C-152
    let wanted = ["main/1 shop.pay denied cancelled_before_dispatch"];
    assert_eq!(receipted(&desk, run.id).await, wanted); // C-105 C-112
    assert!(shop.seen("/pay").is_empty()); // C-112 C-244
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_that_is_too_old_at_the_gate_starts_nothing() {
    let (setting, clock) = manual();
    let more = "[[policy.rule]]\ntool = \"shop.pay\"\noutcome = \"ask\"\nlease = \"1h\"\ndispatch_within = \"0ms\"\n";
    let (desk, shop) = open_with(setting.clone(), more).await;
    let (desk, run, approval) = approved(desk, PAYS, setting.clone()).await;
    clock.fetch_add(Duration::from_secs(3_600).as_micros() as i64, Ordering::SeqCst);
    let desk = desk.reopen(setting).await;
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "\"expired_before_dispatch\""); // C-290 C-83
    assert_eq!(ending(&desk, approval).await, Some(Ending::ExpiredBeforeDispatch)); // C-290
    assert_eq!(receipted(&desk, run.id).await[0], "main/1 shop.pay denied expired_before_dispatch"); // C-83
    assert!(shop.seen("/pay").is_empty()); // C-290
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_was_withdrawn_and_a_policy_that_says_no_start_nothing() {
    let (desk, shop) = open(Setting::default()).await;
    let (desk, run, approval) = approved(desk, PAYS, Setting::idle()).await;
    desk.engine.withdraw(local(), "shop.pay", None, None).await.expect("withdrawn");
    let desk = desk.reopen(Setting::default()).await;
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "\"tool_unavailable\""); // C-303 C-83
    let how = Ending::InvalidatedBeforeDispatch(Code::ToolUnavailable);
    assert_eq!(ending(&desk, approval).await, Some(how)); // C-303
    assert!(shop.seen("/pay").is_empty()); // C-303

    let (desk, shop) = open(Setting::default()).await;
    let (desk, run, approval) = approved(desk, PAYS, Setting::idle()).await;
    let no = "[[policy.rule]]\ntool = \"shop.pay\"\noutcome = \"deny\"\nreason = \"closed\"\n";
    desk.apply(&format!("{}{no}", shop.tools())).await;
    let desk = desk.reopen(Setting::default()).await;
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "\"policy_denied\""); // C-83
    let how = Ending::InvalidatedBeforeDispatch(Code::PolicyDenied);
    assert_eq!(ending(&desk, approval).await, Some(how));
    assert_eq!(receipted(&desk, run.id).await[0], "main/1 shop.pay denied policy_denied"); // C-83
    assert!(shop.seen("/pay").is_empty());
}

const PEOPLE: &str = r#"
[[principal]]
id = "maria"
name = "Maria"
roles = ["finance"]

[[principal]]
id = "rita"
name = "Rita"
roles = ["audit"]
"#;

/// The policy asks somebody else than the last who said yes.
async fn turn(desk: &Desk, shop: &Shop, role: &str) {
    let rule = format!("[[policy.rule]]\ntool = \"shop.pay\"\noutcome = \"ask\"\nroles = [\"{role}\"]\n");
    desk.apply(&format!("{}{PEOPLE}{rule}", shop.tools())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_asks_for_more_asks_the_same_call_again_three_times() {
    let (desk, shop) = open(Setting::default()).await;
    turn(&desk, &shop, "finance").await;
    let run = desk.run(PAYS, "{}").await;
    let mut desk = desk;
    let mut seen = Vec::new();
    for (who, next) in [("maria", "audit"), ("rita", "finance"), ("maria", "audit"), ("rita", "finance")] {
        let asked = desk.asked(run.id).await;
        desk = desk.reopen(Setting::idle()).await;
        let yes = desk.verdict(asked.id, Verdict::Approve).await;
        desk.decide_as(caller(&desk, who), yes).await.expect("approved");
        turn(&desk, &shop, next).await;
        desk = desk.reopen(Setting::default()).await;
        desk.stopped(run.id).await;
        let how = Ending::InvalidatedBeforeDispatch(Code::PolicyChanged);
        assert_eq!(ending(&desk, asked.id).await, Some(how)); // C-115: the old record stays as it ended
        seen.push(asked.id);
    }
    seen.dedup();
    assert_eq!(seen.len(), 4); // C-115: a new approval each time
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "\"policy_changed\""); // C-115 C-83
    let wanted = ["main/1 shop.pay denied policy_changed", "main/2 shop.look ok"];
    assert_eq!(receipted(&desk, run.id).await, wanted); // C-115: one call, one receipt
    assert!(shop.seen("/pay").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_yes_to_a_gate_does_not_lapse_and_what_follows_meets_its_own_policy() {
    let (setting, clock) = manual();
    let (desk, shop) = open(setting.clone()).await;
    let source = "decision = stasis.gate('go on?', lease='1h')\nshop.pay(n=1)\nresult = decision.status";
    let (desk, run, gate) = approved(desk, source, setting.clone()).await;
    clock.fetch_add(Duration::from_secs(90 * 86_400).as_micros() as i64, Ordering::SeqCst);
    let desk = desk.reopen(setting).await;
    let run = desk.stopped(run.id).await;
    assert_eq!(run.status(), Status::AwaitingConsent, "{:?}", run.phase); // C-163
    assert_eq!(ending(&desk, gate).await, Some(Ending::Delivered)); // C-156 C-163
    let asked = desk.asked(run.id).await;
    assert_eq!(asked.binding.tool, "shop.pay"); // C-163
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "\"approved\"");
    assert_eq!(shop.seen("/pay").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_never_outlives_the_deadline_of_its_run() {
    let (setting, clock) = manual();
    let (desk, shop) = open(setting).await;
    desk.register(PAYS).await.expect("registered");
    let deadline = desk.engine.ledger().now() + Duration::from_secs(60);
    let request = engine::StartRun { deadline: Some(deadline), ..crate::desk::request("{}") };
    let run = desk.engine.start_run(local(), request).await.expect("started").run.id;
    desk.stopped(run).await;
    let asked = desk.asked(run).await;
    assert_eq!(asked.expires_at, Some(deadline)); // C-194
    clock.fetch_add(Duration::from_secs(60).as_micros() as i64, Ordering::SeqCst);
    let run = desk.ended(run).await;
    assert_eq!(run.status(), Status::Failed, "{:?}", run.phase);
    let late = desk.decide(asked.id, Verdict::Approve).await.expect_err("too late");
    assert!(late.to_string().contains("expired") || late.to_string().contains("withdrawn"), "{late}"); // C-194
    assert!(desk.calls(run.id).await.iter().all(|call| !matches!(call.state, State::Dispatched(_))));
    assert!(shop.seen("/pay").is_empty()); // C-292
}
