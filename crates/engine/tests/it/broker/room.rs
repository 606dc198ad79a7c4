//! How many questions one run, one minute and one namespace may ask; beyond it nothing is published and nothing starts.

use super::{open, open_with, receipted};
use crate::desk::{Setting, manual};
use protocol::approval::Verdict;
use protocol::run::Status;
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::time::Duration;

const BATCH: &str = "
done = stasis.parallel(*(shop.pay.later(n=n) for n in range(inputs['n'])), errors='return')
result = [error.code for error in done]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_a_most_of_open_questions_and_ended_ones_do_not_count() {
    let mut setting = Setting::default();
    setting.limits.open_approvals = 2;
    let (desk, shop) = open(setting).await;
    let run = desk.run(BATCH, r#"{"n": 3}"#).await;
    let pending = desk.pending(run.id).await;
    assert_eq!(pending.len(), 2); // C-143
    assert_eq!(receipted(&desk, run.id).await, ["main/3 shop.pay denied approval_unavailable"]); // C-143 C-80
    for approval in pending {
        desk.decide(approval.id, Verdict::Reject).await.expect("rejected");
    }
    let run = desk.ended(run.id).await;
    let told = desk.result(&run).await;
    assert_eq!(told, r#"["approval_rejected","approval_rejected","approval_unavailable"]"#); // C-143
    assert_eq!(desk.run(BATCH, r#"{"n": 2}"#).await.status(), Status::AwaitingConsent); // C-143
    assert!(shop.seen("/pay").is_empty()); // C-292
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_has_a_most_of_pending_questions() {
    let mut setting = Setting::default();
    setting.worker.pending_approvals = 2;
    let (desk, _) = open(setting).await;
    let first = desk.run(BATCH, r#"{"n": 1}"#).await;
    let second = desk.run(BATCH, r#"{"n": 2}"#).await;
    assert_eq!(desk.pending(second.id).await.len(), 1); // C-143
    assert_eq!(receipted(&desk, second.id).await, ["main/2 shop.pay denied approval_unavailable"]); // C-143
    desk.decide(desk.asked(first.id).await.id, Verdict::Reject).await.expect("rejected");
    desk.ended(first.id).await;
    let third = desk.run(BATCH, r#"{"n": 1}"#).await;
    assert_eq!(desk.pending(third.id).await.len(), 1); // C-143
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_is_kept_though_not_every_question_counts_the_pending_ones() {
    let mut setting = Setting::default();
    setting.worker.pending_approvals = 12;
    let (desk, _) = open(setting).await;
    for asked in [5, 4, 3] {
        let run = desk.run(BATCH, &format!(r#"{{"n": {asked}}}"#)).await;
        assert_eq!(desk.pending(run.id).await.len(), asked); // C-143
    }
    let run = desk.run(BATCH, r#"{"n": 1}"#).await;
    assert_eq!(receipted(&desk, run.id).await, ["main/1 shop.pay denied approval_unavailable"]); // C-143
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_questions_of_one_guest_are_few_rows_and_hold_up_nobody() {
    let (setting, clock) = manual();
    let more = "[[policy.rule]]\ntool = \"shop.pay\"\noutcome = \"ask\"\nlease = \"1s\"\n";
    let (desk, shop) = open_with(setting, more).await;
    let source = "
codes = {}
first = None
for batch in range(157):
    many = (shop.pay.later(n=n) for n in range(64 if batch < 156 else 15))
    for error in stasis.parallel(*many, errors='return'):
        codes[error.code] = codes.get(error.code, 0) + 1
        if error.code == 'approval_unavailable' and first is None:
            first = error.detail
stasis.sleep(60)
result = [codes, first]
";
    let source = format!("# /// script\n# [tool.stasis]\n# limits = {{ active = \"10m\" }}\n# ///\n{source}");
    let run = desk.begin(&source, "{}").await;
    // Two batches are published and expire, each in its time.
    for _ in 0..2 {
        crate::desk::eventually("a batch is asked", async || desk.pending(run).await.len() == 64).await;
        clock.fetch_add(Duration::from_secs(2).as_micros() as i64, Ordering::SeqCst);
        crate::desk::eventually("it expires", async || desk.pending(run).await.is_empty()).await;
    }
    // While it goes on asking, another run comes to its end.
    let other = desk.run_as_other("result = shop.look()").await;
    assert_eq!(other.status(), Status::Done); // C-300
    let parked = loop {
        // A debug build takes its time for ten thousand calls.
        let stopped = desk.engine.wait(run, engine::Until::Stopped, crate::desk::PATIENCE).await.expect("read");
        let Some(run) = stopped else { continue };
        break run;
    };
    assert_eq!(parked.status(), Status::AwaitingTimer, "{:?}", parked.phase);
    let approvals = desk.engine.ledger().rows(run).await.expect("read").expect("a run").approvals;
    assert_eq!(approvals.len(), 128); // C-300 C-144
    clock.fetch_add(Duration::from_secs(60).as_micros() as i64, Ordering::SeqCst);
    let ended = desk.ended(run).await;
    let told: Value = serde_json::from_str(&desk.result(&ended).await).expect("JSON");
    assert_eq!(told[0]["approval_expired"], 128, "{told}"); // C-144
    assert_eq!(told[0]["approval_unavailable"], 9_999 - 128, "{told}"); // C-144 C-300
    let retry = told[1]["retry_after_ms"].as_u64();
    assert!(retry.is_some_and(|ms| (1..=60_000).contains(&ms)), "{told}"); // C-144
    assert!(shop.seen("/pay").is_empty()); // C-300
}
