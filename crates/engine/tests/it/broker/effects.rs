//! Effects whose outcome nobody told: keys, lookups, people, and a run that is cancelled meanwhile (calls.md section 12).

use super::{open, open_with, receipted};
use crate::desk::{Desk, Setting, eventually, local};
use crate::shop::Reply;
use protocol::approval::{Kind, Verdict};
use protocol::call::{Applied, State};
use protocol::id::RunId;
use protocol::run::{Run, Status};

/// The other side failed; whether it did anything, nobody knows.
const LOST: Reply = Reply::Says(500, "{}");

async fn attempt(desk: &Desk, run: RunId) -> Option<u8> {
    desk.calls(run).await.first().and_then(|call| call.gate().map(|gate| gate.attempt))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_settles_what_was_lost_and_the_other_side_applies_it_once() {
    let (desk, shop) = open(Setting::default()).await;
    shop.tell("/send", [LOST, Reply::Holds]);
    let run = desk.begin("result = shop.send(n=1)", "{}").await;
    shop.reached("/send", 2).await;
    assert_eq!(attempt(&desk, run).await, Some(2)); // C-233: stored before it was made
    assert!(matches!(desk.calls(run).await[0].state, State::Ambiguous(_))); // C-228
    shop.release();
    let run = desk.ended(run).await;
    assert_eq!(desk.result(&run).await, r#"{"done":true}"#); // C-85: the program waited on
    let seen = shop.seen("/send");
    assert!(seen[0] == seen[1] && seen[0].key.starts_with("stasis-"), "{seen:?}"); // C-12: one key, the same bytes
    assert_eq!(receipted(&desk, run.id).await, ["main/1 shop.send ambiguous", "main/1 shop.send ok"]); // C-85
    let receipts = desk.receipts(run.id).await;
    assert_eq!(receipts[1]["settles"], receipts[0]["receipt_digest"]); // C-85
    assert_eq!(receipts[1]["attempt"], 2); // C-233
}

/// Between two attempts no wait of the ledger brings the run back: only this process knows that one is due.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_between_two_attempts_leaves_the_next_one_to_another() {
    let found = Reply::Says(200, r#"{"outcome":"happened","result":{"done":true}}"#);
    let beside = "stasis.parallel(shop.pay.later(n=1), shop.send.later(n=1))";
    for (source, status) in [
        ("result = shop.send(n=1)", Status::Done),
        ("result = shop.order(n=1)", Status::Done),
        (beside, Status::AwaitingConsent),
    ] {
        let (desk, shop) = open(Setting::default()).await;
        shop.tell("/send", [LOST, LOST]);
        shop.tell("/order", [LOST]);
        shop.tell("/find", [LOST, found.clone()]);
        let run = desk.begin(source, "{}").await;
        eventually("one is ambiguous", async || {
            desk.calls(run).await.iter().any(|call| matches!(call.state, State::Ambiguous(_)))
        })
        .await;
        let desk = desk.reopen(Setting::default()).await;
        let settled = async || {
            let calls = desk.calls(run).await;
            calls.iter().filter(|call| call.tool.name != "shop.pay").all(protocol::call::Call::is_ended)
        };
        eventually("it is settled", settled).await;
        let run = desk.stopped(run).await;
        assert_eq!(run.status(), status, "{source}: {:?}", run.phase); // R-114
        assert!(run.status() != Status::Done || desk.result(&run).await == r#"{"done":true}"#, "{source}"); // C-85
        assert!(shop.seen("/order").len() <= 1, "{source}"); // C-231
        assert!(shop.seen("/send").windows(2).all(|pair| pair[0] == pair[1]), "{source}"); // C-12
    }
}

/// A run that is cancelled while its first call is ambiguous, once it has ended.
async fn cancelled_while_ambiguous(desk: &Desk, source: &str) -> Run {
    let run = desk.begin(source, "{}").await;
    eventually("it is ambiguous", async || {
        desk.calls(run).await.first().is_some_and(|call| matches!(call.state, State::Ambiguous(_)))
    })
    .await;
    desk.cancel(run).await;
    desk.ended(run).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_is_made_once_authority_is_gone() {
    let (desk, shop) = open(Setting::default()).await;
    shop.tell("/send", [LOST]);
    let run = desk.begin("shop.send(n=1)", "{}").await;
    eventually("it is ambiguous", async || {
        desk.calls(run).await.first().is_some_and(|call| matches!(call.state, State::Ambiguous(_)))
    })
    .await;
    desk.engine.withdraw(local(), "shop.send", None, None).await.expect("withdrawn");
    let run = desk.stopped(run).await;
    assert_eq!(run.status(), Status::AwaitingConsent, "{:?}", run.phase);
    assert_eq!(desk.asked(run.id).await.kind(), Kind::Settle); // C-233
    assert_eq!(shop.seen("/send").len(), 1); // C-233
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_is_made_once_the_run_is_stopping_and_a_person_is_asked() {
    let (desk, shop) = open(Setting::default()).await;
    shop.tell("/send", [LOST]);
    let run = cancelled_while_ambiguous(&desk, "shop.send(n=1)").await;
    assert_eq!(run.status(), Status::Cancelled);
    assert_eq!(shop.seen("/send").len(), 1); // C-233
    let asked = desk.asked(run.id).await;
    assert_eq!(asked.kind(), Kind::Settle);
    desk.decide(asked.id, Verdict::DidNotHappen).await.expect("settled"); // C-242
    let wanted = ["main/1 shop.send ambiguous", "main/1 shop.send error effect_not_executed"];
    assert_eq!(receipted(&desk, run.id).await, wanted); // C-242
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_says_what_became_of_a_call() {
    let happened = r#"{"outcome":"happened","result":{"order":7}}"#;
    let never = r#"{"outcome":"did_not_happen"}"#;
    let source = "
try:
    result = shop.order(n=1)
except stasis.Failed as error:
    result = [error.code, error.applied]
";
    for (answer, told, last) in [
        (happened, r#"{"order":7}"#, "main/1 shop.order ok"),
        (never, r#"["effect_not_executed",false]"#, "main/1 shop.order error effect_not_executed"),
    ] {
        let (desk, shop) = open(Setting::default()).await;
        shop.tell("/order", [LOST]);
        shop.tell("/find", [Reply::Says(200, answer)]);
        let run = desk.begin(source, "{}").await;
        let run = desk.ended(run).await;
        assert_eq!(desk.result(&run).await, told); // C-231 R-304
        assert_eq!(receipted(&desk, run.id).await, ["main/1 shop.order ambiguous", "engine/1 shop.find ok", last]); // C-235
        assert_eq!(run.budget.calls, 1); // C-235
        let (order, find) = (shop.seen("/order"), shop.seen("/find"));
        assert_eq!(order.len(), 1); // C-231 R-304: it only reads
        assert_eq!(find[0].body, format!(r#"{{"key":"{}","n":1}}"#, order[0].key)); // C-231
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_that_knows_nothing_or_may_not_be_asked_leaves_it_to_a_person() {
    let deny = "[[policy.rule]]\ntool = \"shop.find\"\noutcome = \"deny\"\nreason = \"no\"\n";
    let ask = "[[policy.rule]]\ntool = \"shop.find\"\noutcome = \"ask\"\n";
    for (more, looked) in [("", "ok"), (deny, "denied policy_denied"), (ask, "denied policy_denied")] {
        let (desk, shop) = open_with(Setting::default(), more).await;
        shop.tell("/order", [LOST]);
        shop.tell("/find", [Reply::Says(200, r#"{"outcome":"unknown"}"#)]);
        let run = desk.run("shop.order(n=1)", "{}").await;
        assert_eq!(run.status(), Status::AwaitingConsent, "{more}: {:?}", run.phase);
        assert_eq!(desk.asked(run.id).await.kind(), Kind::Settle, "{more}"); // C-231 C-235 R-304
        let receipts = receipted(&desk, run.id).await;
        assert_eq!(receipts[1], format!("engine/1 shop.find {looked}"), "{more}"); // C-235
        assert_eq!(shop.seen("/find").len(), usize::from(more.is_empty()), "{more}"); // C-235
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_that_is_not_sure_yet_is_asked_again_while_the_run_is_parked() {
    let (desk, shop) = open(Setting::default()).await;
    shop.tell("/order", [LOST]);
    let pending = Reply::Says(200, r#"{"outcome":"pending"}"#);
    shop.tell("/find", [pending, Reply::Says(200, r#"{"outcome":"happened","result":{"order":7}}"#)]);
    let run = desk.run("result = shop.order(n=1)", "{}").await;
    assert_eq!(run.status(), Status::AwaitingTimer, "{:?}", run.phase); // C-236
    assert!(desk.engine.guests().iter().all(|guest| guest.run != run.id || !guest.resident)); // C-236
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"{"order":7}"#); // C-236 R-304
    assert_eq!(shop.seen("/find").len(), 2);
    let wanted =
        ["main/1 shop.order ambiguous", "engine/1 shop.find ok", "engine/2 shop.find ok", "main/1 shop.order ok"];
    assert_eq!(receipted(&desk, run.id).await, wanted); // C-235 C-236
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_that_is_not_sure_for_a_day_leaves_it_to_a_person() {
    let (setting, clock) = crate::desk::manual();
    let (desk, shop) = open(setting).await;
    shop.tell("/order", [LOST]);
    shop.tell("/find", (0..40).map(|_| Reply::Says(200, r#"{"outcome":"pending"}"#)));
    let run = desk.run("shop.order(n=1)", "{}").await;
    assert_eq!(run.status(), Status::AwaitingTimer);
    clock.fetch_add(86_400_000_000, std::sync::atomic::Ordering::SeqCst);
    eventually("a person is asked", async || !desk.pending(run.id).await.is_empty()).await;
    assert_eq!(desk.asked(run.id).await.kind(), Kind::Settle); // C-236
    assert_eq!(shop.seen("/order").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_looks_once_more_before_it_asks_anybody() {
    let happened = Reply::Says(200, r#"{"outcome":"happened","result":{"order":7}}"#);
    let pending = Reply::Says(200, r#"{"outcome":"pending"}"#);
    for (answer, last) in [(happened, Some("main/1 shop.order ok")), (pending, None)] {
        let (desk, shop) = open(Setting::default()).await;
        shop.tell("/order", [LOST]);
        shop.tell("/find", [answer]);
        let run = cancelled_while_ambiguous(&desk, "shop.order(n=1)\nshop.buy(n=2)").await;
        assert_eq!(run.status(), Status::Cancelled);
        let receipts = receipted(&desk, run.id).await;
        assert_eq!(receipts[..2], ["main/1 shop.order ambiguous", "engine/1 shop.find ok"]);
        assert_eq!(receipts.get(2).map(String::as_str), last);
        assert_eq!(desk.pending(run.id).await.len(), usize::from(last.is_none()));
        assert!(shop.seen("/buy").is_empty());
    }
}

const SLOW: &str = r#"
[[tool]]
name = "shop.slow"
version = "1"
effect = "write"
description = "One at a time, and nobody can tell what became of it"
input = { type = "object" }
limits = { concurrency = 1, timeout = "400ms" }
http = { method = "POST", url = "{url}/slow" }
approval = "never"

[[tool]]
name = "shop.stop"
version = "1"
effect = "write"
on_cancel = "abort"
description = "Cut by a cancel"
input = { type = "object" }
http = { method = "POST", url = "{url}/stop" }
approval = "never"
"#;

async fn with_slow() -> (Desk, crate::shop::Shop) {
    let (desk, shop) = open(Setting::default()).await;
    desk.apply(&format!("{}{}", shop.tools(), SLOW.replace("{url}", shop.url()))).await;
    (desk, shop)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_effect_is_not_started_again_while_it_is_unknown() {
    let (desk, shop) = with_slow().await;
    shop.tell("/slow", [LOST]);
    let source = "
calls = [shop.slow.later(n=n) for n in (1, 1, 2)]
done = stasis.parallel(*calls, errors='return')
result = [getattr(one, 'code', 'ok') for one in done] + [shop.slow(n=1)]
";
    let run = desk.run(source, "{}").await;
    let asked = desk.asked(run.id).await;
    assert_eq!(asked.kind(), Kind::Settle);
    let wanted = [
        "main/1 shop.slow ambiguous",
        "main/2 shop.slow denied effect_ambiguous", // C-243 C-78
        "main/3 shop.slow ok",
    ];
    let mut receipts = receipted(&desk, run.id).await;
    receipts.sort();
    assert_eq!(receipts, wanted);
    assert_eq!(shop.seen("/slow").len(), 2); // C-243
    desk.decide(asked.id, Verdict::DidNotHappen).await.expect("settled");
    let run = desk.ended(run.id).await;
    let told = r#"["effect_not_executed","effect_ambiguous","ok",{"done":true}]"#;
    assert_eq!(desk.result(&run).await, told); // C-243: once it is settled it may be asked for again
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_end_in_its_time_is_unknown_and_the_run_is_cancelled_all_the_same() {
    let (desk, shop) = with_slow().await;
    shop.tell("/slow", [Reply::Holds]);
    let run = desk.begin("shop.slow(n=1)", "{}").await;
    shop.reached("/slow", 1).await;
    desk.cancel(run).await;
    let run = desk.ended(run).await;
    assert_eq!(run.status(), Status::Cancelled); // C-245
    let call = &desk.calls(run.id).await[0];
    assert!(matches!(call.state, State::Ambiguous(_)), "{:?}", call.state); // C-245 C-113
    assert_eq!(receipted(&desk, run.id).await, ["main/1 shop.slow ambiguous"]); // C-113
    let effects = desk.engine.ledger().effects(true, Some(run.id), None, 10).await.expect("read");
    assert_eq!(effects.items.len(), 1); // C-245
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_says_so_is_cut_by_a_cancel() {
    let (desk, shop) = with_slow().await;
    shop.tell("/stop", [Reply::Holds]);
    let run = desk.begin("shop.stop(n=1)", "{}").await;
    shop.reached("/stop", 1).await;
    desk.cancel(run).await;
    // Long before its own time of 30 s, and nobody lets it go.
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), desk.ended(run)).await.expect("cut");
    assert_eq!(ended.status(), Status::Cancelled); // C-244
    assert_eq!(receipted(&desk, run).await, ["main/1 shop.stop ambiguous"]); // C-244 C-121
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_needs_leave_though_its_program_asks_for_none() {
    let more = "
[[tool]]
name = \"shop.plain\"
effect = \"write\"
description = \"A write about which nobody said anything\"
input = { type = \"object\" }
command = { argv = [\"/bin/cat\"] }
";
    let (desk, _) = open_with(Setting::default(), more).await;
    let run = desk.run("result = shop.plain(n=1)", "{}").await;
    assert_eq!(run.status(), Status::AwaitingConsent); // C-284
    let asked = desk.asked(run.id).await;
    assert_eq!((asked.kind(), asked.binding.tool.as_str()), (Kind::Call, "shop.plain")); // C-284
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    let applied = desk.calls(run.id).await[0].outcome().map(|outcome| outcome.applied);
    assert_eq!(applied, Some(Applied::Yes));
}
