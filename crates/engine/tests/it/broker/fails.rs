//! Runs that fail while a call of theirs is in flight, and runs that wait for a place (runs.md sections 5 and 12).

use super::{open, receipted};
use crate::desk::{Setting, eventually, manual};
use crate::shop::Reply;
use protocol::call::{Applied, OutcomeStatus};
use protocol::code::Code;
use protocol::obligation::Subject;
use protocol::run::Status;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_beside_a_call_keeps_its_hop_until_the_call_has_ended() {
    let (setting, clock) = manual();
    let (desk, shop) = open(Setting { hot: Duration::from_secs(50), ..setting }).await;
    shop.tell("/buy", [Reply::Holds]);
    let source = "
stasis.parallel(stasis.gate.later('Go on?', lease='60s', on_expiry='fail'), shop.buy.later(n=1))
";
    let run = desk.begin(source, "{}").await;
    shop.reached("/buy", 1).await;
    desk.asked(run).await;
    clock.fetch_add(60_000_000, Ordering::SeqCst);
    let row = async || desk.engine.ledger().run(run).await.expect("read").expect("a run");
    eventually("the failure", async || row().await.status() == Status::Failing).await;
    let failing = row().await;
    assert_eq!(failing.failure().map(|failure| failure.code), Some(Code::ApprovalExpired)); // R-255
    assert_eq!(failing.claim().map(|claim| claim.token), Some(1)); // R-256: the hop is an obligation
    let call = desk.calls(run).await.into_iter().find(|call| call.tool.name == "shop.buy").expect("a call");
    let rows = desk.engine.ledger().rows(run).await.expect("read").expect("a run");
    let open: Vec<_> = rows.obligations.iter().filter(|o| o.is_open()).map(|o| o.subject).collect();
    assert_eq!(open, [Subject::Hop(0), Subject::Call(call.id)]); // R-256
    shop.release();
    let failed = desk.ended(run).await;
    // By the hop itself, within the life of its claim: no time has passed on this clock.
    assert_eq!((failed.status(), failed.fence), (Status::Failed, 1)); // R-256: acknowledged
    assert_eq!(failed.failure(), failing.failure()); // R-255
    let call = desk.calls(run).await.into_iter().find(|c| c.id == call.id).expect("a call");
    let outcome = call.outcome().expect("R-256: its outcome is stored");
    assert_eq!((outcome.status, outcome.applied), (OutcomeStatus::Ok, Applied::Yes)); // R-256
    assert!(desk.pending(run).await.is_empty());
    assert_eq!(shop.seen("/buy").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_hop_is_lost_while_its_run_stops_is_looked_for_in_its_time() {
    let happened = r#"{"outcome":"happened","result":{"order":7}}"#;
    for (answer, last) in [(happened, "ok"), (r#"{"outcome":"pending"}"#, "ambiguous"), ("{}", "ambiguous")] {
        let (mut setting, clock) = manual();
        setting.worker.renew_every = Duration::from_millis(50);
        let (desk, shop) = open(setting).await;
        shop.tell("/order", [Reply::Holds]);
        shop.tell("/find", [Reply::Says(200, answer)]);
        let run = desk.begin("shop.order(n=1)", "{}").await;
        shop.reached("/order", 1).await;
        assert_eq!(desk.cancel(run).await.status(), Status::Cancelling);
        desk.lose(run).await;
        // Long before its handler's own time of 30 s.
        let gone = eventually("the hop is gone", async || desk.engine.guests().is_empty());
        tokio::time::timeout(Duration::from_secs(20), gone).await.expect("R-100: it drops what it has"); // R-100
        let rows = desk.engine.ledger().rows(run).await.expect("read").expect("a run");
        let open: Vec<_> = rows.obligations.iter().filter(|o| o.is_open()).map(|o| o.subject).collect();
        assert_eq!(open, [Subject::Call(rows.calls[0].id)]);
        // Its tool has 30 s, and a minute is borne beyond them.
        clock.fetch_add(89_999_000, Ordering::SeqCst);
        let passes = desk.engine.ledger().now();
        eventually("a pass", async || desk.engine.passes()[0].is_some_and(|pass| pass.blocked == 1)).await;
        assert!(shop.seen("/find").is_empty() && desk.engine.ledger().now() == passes); // R-268
        clock.fetch_add(1_000, Ordering::SeqCst);
        let ended = desk.ended(run).await;
        assert_eq!((ended.status(), ended.budget.calls), (Status::Cancelled, 1)); // R-268 C-235
        let (order, find) = (shop.seen("/order"), shop.seen("/find"));
        assert_eq!((order.len(), find.len()), (1, 1)); // R-268 R-304: it only reads
        assert_eq!(find[0].body, format!(r#"{{"key":"{}","n":1}}"#, order[0].key)); // C-231
        let looked = ["engine/1 shop.find ok".to_owned(), format!("main/1 shop.order {last}")];
        assert_eq!(receipted(&desk, run).await, looked, "{answer}"); // R-268
        // Nobody could tell: somebody is asked, and the run does not wait for it.
        assert_eq!(desk.pending(run).await.len(), usize::from(last == "ambiguous"), "{answer}"); // R-268 R-269
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_runs_are_active_than_may_be() {
    let mut setting = Setting::default();
    setting.worker.max_running = Some(2);
    let (desk, shop) = open(setting).await;
    shop.tell("/look", (0..5).map(|_| Reply::Holds));
    let parked = desk.run("stasis.gate('Go on?')", "{}").await;
    assert_eq!(parked.status(), Status::AwaitingConsent);
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(desk.begin("result = shop.look()", "{}").await);
    }
    let at = async |wanted: Status| {
        let mut found = 0;
        for run in &runs {
            let row = desk.engine.ledger().run(*run).await.expect("read").expect("a run");
            found += usize::from(row.status() == wanted);
        }
        found
    };
    for done in 0..5 {
        shop.reached("/look", (done + 2).min(5)).await;
        // Each that is not active waits in the queue; the parked one takes no place.
        assert_eq!(at(Status::Running).await, (5 - done).min(2)); // R-96
        assert_eq!(at(Status::Queued).await, (5 - done).saturating_sub(2)); // R-96
        assert_eq!(shop.seen("/look").len(), (done + 2).min(5)); // R-96
        shop.release();
        eventually("an end", async || at(Status::Done).await == done + 1).await;
    }
}
