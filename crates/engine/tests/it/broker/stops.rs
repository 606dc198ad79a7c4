//! Cancel tools: a run stops while a call is in flight, and the other side is asked to stop it (calls.md sections 2 and 12).

use super::{open, receipted};
use crate::desk::{Desk, Setting, eventually, manual};
use crate::shop::{Reply, Shop};
use protocol::call::State;
use protocol::code::Code;
use protocol::id::RunId;
use protocol::run::Status;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// `shop.ship` is stopped by `shop.halt`.
const TOOLS: &str = r#"
[[tool]]
name = "shop.ship"
version = "1"
effect = "write"
on_cancel = { tool = "shop.halt", arguments = { key = { "$key" = true }, n = { "$arguments" = "/n" } } }
description = "Ship, without leave; nobody can tell afterwards whether it happened"
input = { type = "object", required = ["n"] }
http = { method = "POST", url = "{url}/ship" }
approval = "never"

[[tool]]
name = "shop.halt"
version = "1"
effect = "write"
description = "Stop a shipment"
input = { type = "object", required = ["key", "n"] }
http = { method = "POST", url = "{url}/halt" }
limits = { concurrency = 1 }
approval = "{approval}"
"#;

async fn shipping(setting: Setting, approval: &str) -> (Desk, Shop) {
    let (desk, shop) = open(setting).await;
    let tools = TOOLS.replace("{url}", shop.url()).replace(r#""{approval}""#, approval);
    desk.apply(&format!("{}{tools}", shop.tools())).await;
    (desk, shop)
}

async fn status(desk: &Desk, run: RunId) -> Status {
    desk.engine.ledger().run(run).await.expect("read").expect("a run").status()
}

/// A run whose shipment is in flight.
async fn shipped(desk: &Desk, shop: &Shop, source: &str) -> RunId {
    shop.tell("/ship", [Reply::Holds]);
    let run = desk.begin(source, "{}").await;
    shop.reached("/ship", 1).await;
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_asks_the_other_side_to_stop_once_and_keeps_what_became_of_the_call() {
    let (desk, shop) = shipping(Setting::default(), r#""never""#).await;
    let run = shipped(&desk, &shop, "shop.ship(n=7)").await;
    assert_eq!(desk.cancel(run).await.status(), Status::Cancelling);
    shop.reached("/halt", 1).await;
    eventually("the other side has answered", async || receipted(&desk, run).await.len() == 1).await;
    assert_eq!(status(&desk, run).await, Status::Cancelling); // C-244: until the true outcome is there
    assert_eq!(desk.cancel(run).await.status(), Status::Cancelling);
    shop.release();
    let ended = desk.ended(run).await;
    assert_eq!((ended.status(), ended.budget.calls), (Status::Cancelled, 1)); // C-235: it uses no budget of the guest
    let (ship, halt) = (shop.seen("/ship"), shop.seen("/halt"));
    assert_eq!((ship.len(), halt.len()), (1, 1)); // C-22
    assert_eq!(halt[0].body, format!(r#"{{"key":"{}","n":7}}"#, ship[0].key)); // C-22
    assert!(halt[0].key.starts_with("stasis-") && halt[0].key != ship[0].key, "{halt:?}"); // C-227
    assert_eq!(receipted(&desk, run).await, ["engine/1 shop.halt ok", "main/1 shop.ship ok"]); // C-235 C-244 R-21
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_tool_for_which_somebody_would_have_to_be_asked_is_denied_and_the_call_is_waited_for() {
    let (desk, shop) = shipping(Setting::default(), r#"{ when = "args.n > 5" }"#).await;
    let run = shipped(&desk, &shop, "shop.ship(n=7)").await;
    desk.cancel(run).await;
    eventually("it is denied", async || receipted(&desk, run).await.len() == 1).await;
    assert_eq!(status(&desk, run).await, Status::Cancelling); // C-244
    shop.release();
    assert_eq!(desk.ended(run).await.status(), Status::Cancelled);
    let wanted = ["engine/1 shop.halt denied policy_denied", "main/1 shop.ship ok"];
    assert_eq!(receipted(&desk, run).await, wanted); // C-235
    assert!(shop.seen("/halt").is_empty() && desk.pending(run).await.is_empty()); // C-235
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_beside_a_call_asks_to_stop_it_too() {
    let (setting, clock) = manual();
    let (desk, shop) = shipping(Setting { hot: Duration::from_secs(50), ..setting }, r#""never""#).await;
    let source = "
stasis.parallel(stasis.gate.later('Go on?', lease='60s', on_expiry='fail'), shop.ship.later(n=7))
";
    let run = shipped(&desk, &shop, source).await;
    desk.asked(run).await;
    clock.fetch_add(60_000_000, Ordering::SeqCst);
    shop.reached("/halt", 1).await; // C-234
    shop.release();
    let failed = desk.ended(run).await;
    assert_eq!(failed.failure().map(|failure| failure.code), Some(Code::ApprovalExpired)); // R-255
    let receipts = receipted(&desk, run).await;
    assert!(receipts.contains(&"engine/1 shop.halt ok".to_owned()), "{receipts:?}"); // C-234 C-235
    assert!(receipts.contains(&"main/2 shop.ship ok".to_owned()), "{receipts:?}"); // C-244
    assert_eq!(shop.seen("/halt").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_tool_whose_outcome_nobody_told_is_a_question_of_its_own() {
    let (desk, shop) = shipping(Setting::default(), r#""never""#).await;
    shop.tell("/halt", [Reply::Says(500, "{}")]);
    let run = shipped(&desk, &shop, "shop.ship(n=7)").await;
    desk.cancel(run).await;
    eventually("it is unknown", async || desk.pending(run).await.len() == 1).await; // C-232
    shop.release();
    let ended = desk.ended(run).await;
    assert_eq!(ended.status(), Status::Cancelled); // R-269
    assert_eq!(receipted(&desk, run).await, ["engine/1 shop.halt ambiguous", "main/1 shop.ship ok"]); // C-235
    assert_eq!((shop.seen("/halt").len(), desk.pending(run).await.len()), (1, 1)); // C-232 R-268
}

/// Its outcome is stored though the hop had a question in hand that the run takes no more.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_hop_had_not_asked_yet_does_not_lose_the_outcome_of_what_it_had_sent() {
    let (desk, shop) = shipping(Setting::default(), r#""never""#).await;
    let source = "stasis.parallel(shop.ship.later(n=7), shop.pay.later(n=1), shop.look.later(n=1))";
    let run = shipped(&desk, &shop, source).await;
    shop.reached("/look", 1).await;
    desk.cancel(run).await;
    shop.reached("/halt", 1).await;
    shop.release();
    assert_eq!(desk.ended(run).await.status(), Status::Cancelled);
    let receipts = receipted(&desk, run).await;
    assert!(receipts.contains(&"main/1 shop.ship ok".to_owned()), "{receipts:?}"); // R-265 C-244
    assert!(desk.pending(run).await.is_empty() && shop.seen("/pay").is_empty()); // R-264
}

/// The hop is lost before it could ask: whoever recovers asks, once, and tells what came of it.
#[tokio::test(flavor = "multi_thread")]
async fn where_the_hop_is_gone_the_other_side_is_asked_all_the_same_and_once() {
    for (answer, last) in [(Reply::Says(200, "{}"), "ok"), (Reply::Says(500, "{}"), "ambiguous")] {
        let (mut setting, clock) = manual();
        setting.worker.renew_every = Duration::from_millis(50);
        let (desk, shop) = shipping(setting, r#""never""#).await;
        // The only place with the tool is taken, so the hop is in line as it is lost.
        shop.tell("/halt", [Reply::Holds, answer]);
        let other = desk.begin("shop.halt(n=7, key='other')", "{}").await;
        shop.reached("/halt", 1).await;
        let run = shipped(&desk, &shop, "shop.ship(n=7)").await;
        desk.cancel(run).await;
        desk.lose(run).await;
        let gone = eventually("the hop is gone", async || desk.engine.guests().len() == 1);
        tokio::time::timeout(Duration::from_secs(20), gone).await.expect("R-100: it drops what it has");
        assert_eq!(receipted(&desk, run).await, [""; 0]);
        shop.release();
        desk.ended(other).await;
        shop.reached("/halt", 2).await; // C-234
        let halt = format!("engine/1 shop.halt {last}");
        eventually("it is told", async || receipted(&desk, run).await == [halt.clone()]).await; // C-235 R-268
        assert_eq!(status(&desk, run).await, Status::Cancelling); // R-268: its call is still in its time
        clock.fetch_add(90_000_000, Ordering::SeqCst);
        assert_eq!(desk.ended(run).await.status(), Status::Cancelled);
        let receipts = receipted(&desk, run).await;
        assert_eq!(receipts, [halt, "main/1 shop.ship ambiguous".to_owned()]); // R-268
        assert_eq!(shop.seen("/halt").len(), 2); // C-22: the other run's, and this
        let unknown = desk.calls(run).await.iter().filter(|call| matches!(call.state, State::Ambiguous(_))).count();
        assert_eq!(desk.pending(run).await.len(), unknown); // R-268
    }
}
