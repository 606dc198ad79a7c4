//! Waiting for people: hot, parked, and between the two (calls.md section 10.4).

use super::{open, open_with, receipted};
use crate::desk::{Desk, Setting, eventually, local, manual, request};
use protocol::approval::Verdict;
use protocol::id::{ApprovalId, RunId};
use protocol::limits::WorkerSettings;
use protocol::run::Status;
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::broadcast::error::TryRecvError;

const LONG: Duration = Duration::from_secs(50);
const PAYS: &str = "shop.look()\nshop.pay(n=1)\nresult = 'paid'";

async fn status(desk: &Desk, run: RunId) -> Status {
    desk.engine.ledger().run(run).await.expect("read").expect("a run").status()
}

/// On one thread: whatever held it while it waits would hold up everything else.
#[tokio::test]
async fn a_call_that_waits_hot_keeps_its_guest_and_holds_no_thread() {
    let (desk, shop) = open(Setting::hot(LONG)).await;
    desk.register(PAYS).await.expect("registered");
    let mut waiting = Vec::new();
    for _ in 0..6 {
        let run = desk.engine.start_run(local(), request("{}")).await.expect("started").run.id;
        waiting.push((run, desk.asked(run).await.id));
    }
    eventually("all wait hot", async || {
        desk.engine.guests().iter().filter(|guest| guest.resident && guest.waiting_since.is_some()).count() == 6
    })
    .await;
    assert_eq!(desk.run_as_other("result = shop.look()").await.status(), Status::Done); // C-204 C-93
    for (run, approval) in waiting {
        assert_eq!(status(&desk, run).await, Status::Running); // C-204
        desk.decide(approval, Verdict::Approve).await.expect("approved");
        let run = desk.ended(run).await;
        assert_eq!((run.status(), run.seq), (Status::Done, 0)); // C-204: the same hop
    }
    assert_eq!(shop.seen("/look").len(), 7); // C-204: the same guest
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hot_window_is_the_smaller_of_the_rule_and_the_engine() {
    let never = "[[policy.rule]]\ntool = \"shop.pay\"\noutcome = \"ask\"\nhot = \"0ms\"\n";
    let (desk, _) = open_with(Setting::hot(LONG), never).await;
    assert_eq!(desk.run(PAYS, "{}").await.status(), Status::AwaitingConsent); // C-204
    let long = "[[policy.rule]]\ntool = \"shop.pay\"\noutcome = \"ask\"\nhot = \"10m\"\n";
    let (desk, _) = open_with(Setting::hot(Duration::ZERO), long).await;
    assert_eq!(desk.run(PAYS, "{}").await.status(), Status::AwaitingConsent); // C-204
}

/// No test has the patience for such a window, or for such a scan.
const HOURS: Duration = Duration::from_secs(7_200);

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_nobody_was_told_of_is_found_by_the_scan() {
    let deaf = Setting { hints: false, ..Setting::hot(HOURS) };
    assert!(deaf.worker.scan_every <= Duration::from_secs(1)); // C-207
    let (desk, shop) = open(deaf).await;
    let run = desk.begin(PAYS, "{}").await;
    let asked = desk.asked(run).await.id;
    desk.decide(asked, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run).await;
    assert_eq!((run.status(), run.seq), (Status::Done, 0)); // C-207: the hop in its window, and whoever waits for its run
    assert_eq!((shop.seen("/look").len(), shop.seen("/pay").len()), (1, 1));
}

/// The listener and the test share a thread, which the test holds until the one hint that matters is lost among others.
#[tokio::test]
async fn a_waiter_is_woken_by_the_commit_even_where_its_own_hint_was_lost() {
    let blind = WorkerSettings { scan_every: HOURS, ..Setting::default().worker };
    let (desk, _) = open(Setting { worker: blind, ..Setting::hot(HOURS) }).await;
    let first = desk.begin(PAYS, "{}").await;
    let asked = desk.asked(first).await.id;
    desk.decide(asked, Verdict::Approve).await.expect("approved");
    assert_eq!(desk.ended(first).await.seq, 0); // C-207: no scan comes in time, so its commit woke it

    let run = desk.begin(PAYS, "{}").await;
    let asked = desk.asked(run).await;
    eventually("it waits hot", async || desk.engine.guests().iter().any(|guest| guest.waiting_since.is_some())).await;
    let mut hints = desk.engine.ledger().subscribe();
    let yes = desk.verdict(asked.id, Verdict::Approve).await;
    let engine = desk.engine.clone();
    let until = asked.expires_at.expect("it expires") + Duration::from_secs(60);
    let decided = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            engine.decide(local(), yes).await.expect("approved");
            let attempt = |_| engine.extend(local(), asked.id, until, None);
            let refused = futures_util::future::join_all((0..4_200).map(attempt)).await;
            assert!(refused.iter().all(Result::is_err), "whoever asked keeps nothing open");
        });
    });
    decided.join().expect("decided");
    assert!(matches!(hints.try_recv(), Err(TryRecvError::Lagged(_))), "every listener missed some");
    assert_eq!(desk.ended(run).await.seq, 0); // C-207
}

/// The store's clock stands still: the window is the machine's own time.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_gets_cold_parks_and_its_question_keeps_its_time() {
    let (setting, clock) = manual();
    let (desk, _) = open(Setting { hot: Duration::from_millis(150), ..setting.clone() }).await;
    let run = desk.begin(PAYS, "{}").await;
    let hot = desk.asked(run).await;
    let parked = desk.stopped(run).await;
    assert_eq!(parked.status(), Status::AwaitingConsent); // C-212
    clock.fetch_add(Duration::from_secs(3_600).as_micros() as i64, Ordering::SeqCst);
    let desk = desk.reopen(setting).await;
    let cold = desk.asked(run).await;
    assert_eq!((cold.id, cold.expires_at), (hot.id, hot.expires_at)); // C-210
    assert_eq!(cold.expires_at, Some(cold.binding.created_at + cold.obligation.lease)); // C-210 C-2
}

#[tokio::test(flavor = "multi_thread")]
async fn what_expired_stays_so_when_the_clock_is_set_back() {
    let (setting, clock) = manual();
    let (desk, shop) = open(setting).await;
    let run = desk.run("try:\n    shop.pay(n=1)\nexcept stasis.Expired as error:\n    result = error.code", "{}").await;
    let asked = desk.asked(run.id).await;
    let week = Duration::from_secs(7 * 86_400).as_micros() as i64;
    clock.fetch_add(week, Ordering::SeqCst);
    let ended = desk.ended(run.id).await;
    let committed = desk.engine.ledger().now();
    clock.fetch_sub(2 * week, Ordering::SeqCst);
    assert!(desk.engine.ledger().now() >= committed); // C-212
    let late = desk.decide(asked.id, Verdict::Approve).await.expect_err("expired");
    assert!(late.to_string().contains("expired"), "{late}"); // C-212
    assert_eq!(desk.result(&ended).await, "\"approval_expired\""); // C-81
    assert!(shop.seen("/pay").is_empty()); // C-292
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_open_holds_no_place_of_its_tool() {
    let lone = r#"
[[tool]]
name = "shop.lone"
version = "1"
effect = "write"
description = "One at a time"
input = { type = "object" }
limits = { concurrency = 1 }
command = { argv = ["/bin/cat"] }
approval = { when = "args.n > 1" }
"#;
    let (desk, _) = open_with(Setting::hot(LONG), lone).await;
    let run = desk.begin("result = shop.lone(n=2)", "{}").await;
    let asked = desk.asked(run).await.id;
    let other = desk.run_as_other("result = shop.lone(n=1)").await;
    assert_eq!(other.status(), Status::Done); // C-93
    assert_eq!(status(&desk, run).await, Status::Running);
    desk.decide(asked, Verdict::Approve).await.expect("approved");
    assert_eq!(desk.ended(run).await.status(), Status::Done);
}

/// One program with every kind of answer; what is told of it, and its receipts without times, ids and hops.
async fn told(desk: &Desk, clock: &std::sync::atomic::AtomicI64) -> (Value, Vec<Value>) {
    let source = "
told = []
for n in range(4):
    try:
        told.append(shop.pay(n=n))
        told.append(stasis.last()['edited'])
    except stasis.ToolError as error:
        told.append([type(error).__name__, error.code, getattr(error, 'reason', None), getattr(error, 'by', None)])
result = told
";
    let run = desk.begin(source, "{}").await;
    for answer in 0..4 {
        let asked: ApprovalId = desk.asked(run).await.id;
        match answer {
            0 => drop(desk.decide(asked, Verdict::Approve).await.expect("approved")),
            1 => drop(desk.decide(asked, Verdict::Reject).await.expect("rejected")),
            2 => drop(desk.decide_with(asked, Verdict::Approve, Some(r#"{"n":20}"#)).await.expect("edited")),
            _ => drop(clock.fetch_add(Duration::from_secs(8 * 86_400).as_micros() as i64, Ordering::SeqCst)),
        }
        eventually("it is answered", async || !desk.approval(asked).await.is_pending()).await;
    }
    let ended = desk.ended(run).await;
    let mut receipts = desk.receipts(run).await;
    for receipt in &mut receipts {
        let object = receipt.as_object_mut().expect("an object");
        let call = object["call"].as_str().unwrap_or_default().split_once('/').expect("a run").1.to_owned();
        object["call"] = call.into();
        let changing = ["approval", "ended_at", "gate_at", "hop", "key", "prev", "receipt_digest", "receipt_id", "run"];
        changing.iter().for_each(|field| drop(object.remove(*field)));
    }
    (serde_json::from_str(&desk.result(&ended).await).expect("JSON"), receipts)
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_and_parked_are_the_same_to_the_program_and_in_the_receipts() {
    let (setting, clock) = manual();
    let (mut desk, _shop) = open(Setting { hot: LONG, ..setting.clone() }).await;
    let mut seen = vec![told(&desk, &clock).await];
    desk = desk.reopen(setting).await;
    seen.push(told(&desk, &clock).await);
    let [hot, parked] = seen.try_into().unwrap_or_else(|_| panic!("two"));
    assert_eq!(hot.0[1], false);
    assert_eq!(hot.0[2], serde_json::json!(["Rejected", "approval_rejected", "because", ["local"]]));
    assert_eq!(hot, parked); // C-206
}

/// The window ends about when the answer comes: before it, after it, or while the run parks.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_meets_the_park_is_found_by_it() {
    let (desk, shop) = open(Setting::hot(Duration::from_millis(5))).await;
    desk.register(PAYS).await.expect("registered");
    for n in 0..24_u32 {
        let run = desk.engine.start_run(local(), request("{}")).await.expect("started").run.id;
        let asked = desk.asked(run).await.id;
        for _ in 0..n * n {
            tokio::task::yield_now().await;
        }
        desk.decide(asked, Verdict::Approve).await.expect("approved");
        let run = desk.ended(run).await;
        assert_eq!(run.status(), Status::Done); // C-203
        assert!(run.seq <= 1, "{}", run.seq); // C-203: the same hop, or the next at once
    }
    assert_eq!(shop.seen("/pay").len(), 24); // C-203
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_and_an_expiry_that_meet_leave_one_answer() {
    let (setting, clock) = manual();
    let rule = "[[policy.rule]]\ntool = \"shop.pay\"\noutcome = \"ask\"\nlease = \"10s\"\n";
    let (desk, shop) = open_with(Setting { hot: LONG, ..setting }, rule).await;
    desk.register("try:\n    shop.pay(n=1)\n    result = 'paid'\nexcept stasis.Expired:\n    result = 'expired'")
        .await
        .expect("registered");
    let mut paid = 0;
    for _ in 0..12 {
        let run = desk.engine.start_run(local(), request("{}")).await.expect("started").run.id;
        let asked = desk.asked(run).await.id;
        let yes = desk.verdict(asked, Verdict::Approve).await;
        let pass = async {
            clock.fetch_add(Duration::from_secs(10).as_micros() as i64, Ordering::SeqCst);
            tokio::task::yield_now().await;
        };
        let (decided, ()) = tokio::join!(desk.decide_as(local(), yes), pass);
        let ended = desk.ended(run).await;
        let events = desk.engine.ledger().events(run, None, 1_000).await.expect("read").expect("a run");
        let ends =
            events.iter().filter(|event| ["approval.approved", "approval.expired"].contains(&event.kind.as_str()));
        assert_eq!(ends.count(), 1); // C-208
        let wanted = if decided.is_ok() { "\"paid\"" } else { "\"expired\"" };
        assert_eq!(desk.result(&ended).await, wanted); // C-208
        paid += usize::from(decided.is_ok());
    }
    assert_eq!(shop.seen("/pay").len(), paid); // C-208
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_is_not_charged_to_the_time_a_program_may_work() {
    let (desk, shop) = open(Setting::hot(LONG)).await;
    shop.tell("/look", [crate::shop::Reply::Holds]);
    let source = "# /// script
# [tool.stasis]
# limits = { active = \"1s\" }
# ///
stasis.sleep(1.2)
shop.look()
shop.pay(n=1)
result = 1
";
    let run = desk.begin(source, "{}").await;
    shop.reached("/look", 1).await;
    shop.release();
    let asked = desk.asked(run).await.id;
    desk.decide(asked, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run).await;
    assert_eq!((run.status(), run.seq), (Status::Done, 0), "{:?}", run.phase); // C-211
    assert!(run.budget.active_us < 1_000_000, "{}", run.budget.active_us); // C-211
    let spent = run.finished_at().expect("it ended").since(run.created_at);
    assert!(spent > Duration::from_millis(1_200)); // C-211
    assert_eq!(receipted(&desk, run.id).await.len(), 3);
}
