//! Steps 1 to 18, one after the other: what each refuses, what is counted, what has a receipt, and what is durable when.

use super::{open, open_with, receipted};
use crate::desk::{Setting, local, request};
use crate::shop::Reply;
use protocol::approval::Verdict;
use protocol::call::State;
use protocol::run::Status;
use serde_json::{Value, json};

/// Python: makes a call, and tells its code instead of raising it.
const TRY: &str = "
import json, _host
from stasis._calls import Pending, call

def tried(make, *args, **kw):
    try:
        return make(*args, **kw)
    except stasis.ToolError as error:
        return [type(error).__name__, error.code]

def raw(text):
    reply = json.loads(_host.send(text.encode()))
    return [reply['n'], reply['status'], (reply.get('error') or {}).get('code')]
";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_malformed_or_out_of_turn_is_neither_counted_nor_receipted() {
    let (desk, shop) = open(Setting::default()).await;
    let source = format!(
        r#"# /// script
# [tool.stasis]
# max_calls = 2
# ///
{TRY}
result = [
    raw('{{"n":1,"n":1}}'),
    raw('{{"n":1,"tool":"shop.look","arguments":{{}},"approval":"apr_x"}}'),
    raw('{{"n":2,"tool":"shop.look","arguments":{{}}}}'),
    raw('{{"n":1,"tool":"shop.look","arguments":{{}}}}'),
    raw('{{"n":1,"tool":"shop.look","arguments":{{}}}}'),
    tried(shop.look),
    tried(shop.look),
    tried(stasis.parallel, shop.look.later(), shop.look.later()),
]
"#
    );
    let run = desk.run(&source, "{}").await;
    let told: Value = serde_json::from_str(&desk.result(&run).await).expect("JSON");
    let wanted = json!([
        [1, "error", "invalid_json"],
        [1, "error", "invalid_request"],
        [1, "denied", "call_identity_mismatch"],
        [1, "ok", null],
        [2, "denied", "call_identity_mismatch"],
        {"done": true},
        ["BudgetExceeded", "call_budget_exceeded"],
        ["BudgetExceeded", "call_budget_exceeded"],
    ]);
    assert_eq!(told, wanted); // C-73 C-74
    assert_eq!((run.budget.calls, shop.seen("/look").len()), (2, 2)); // C-73 C-74
    assert_eq!(receipted(&desk, run.id).await, ["main/1 shop.look ok", "main/2 shop.look ok"]); // C-75
    assert!(run.plan != protocol::digest::Digest::ZERO);
    for receipt in desk.receipts(run.id).await {
        assert_eq!(receipt["plan"], run.plan.to_string()); // C-44
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_refused_after_it_was_counted_is_denied_and_has_its_one_receipt() {
    let more = r#"
[[tool]]
name = "shop.rare"
effect = "read"
description = "Once a run"
input = { type = "object", required = ["id"], properties = { id = { type = "string" } } }
limits = { calls = 1 }
command = { argv = ["/bin/cat"] }

[[tool]]
name = "shop.four"
effect = "write"
description = "Needs somebody else, and there is nobody"
input = { type = "object" }
command = { argv = ["/bin/cat"] }
approval = { separate_requester = true }

[[policy.rule]]
tool = "shop.send"
outcome = "deny"
reason = "not on Sundays"
"#;
    let (desk, shop) = open_with(Setting::default(), more).await;
    let source = format!(
        r#"{TRY}
result = [
    tried(call, Pending("shop.none", {{}})),
    tried(shop.rare, id=7),
    tried(shop.rare, id="a"),
    tried(shop.send, n=1),
    tried(shop.four),
    shop.look(),
    tried(shop.buy),
    tried(shop.pay),
]
"#
    );
    shop.tell("/look", [Reply::Holds]);
    let run = desk.begin(&source, "{}").await;
    shop.reached("/look", 1).await;
    desk.engine.withdraw(local(), "shop.buy", None, None).await.expect("withdrawn");
    shop.release();
    let run = desk.stopped(run).await;
    assert_eq!(run.status(), Status::AwaitingConsent, "{:?}", run.phase);
    desk.decide(desk.asked(run.id).await.id, Verdict::Reject).await.expect("rejected");
    let run = desk.ended(run.id).await;
    let told: Value = serde_json::from_str(&desk.result(&run).await).expect("JSON");
    let wanted = json!([
        ["Denied", "tool_not_in_plan"],
        ["Denied", "invalid_arguments"],
        ["BudgetExceeded", "tool_budget_exceeded"],
        ["Denied", "policy_denied"],
        ["Denied", "no_approver"],
        {"done": true},
        ["Denied", "tool_unavailable"],
        ["Rejected", "approval_rejected"],
    ]);
    assert_eq!(told, wanted);
    let wanted = [
        "main/1 shop.none denied tool_not_in_plan",     // C-76
        "main/2 shop.rare denied invalid_arguments",    // C-77
        "main/3 shop.rare denied tool_budget_exceeded", // C-76: a refused call is one, too
        "main/4 shop.send denied policy_denied",        // C-79
        "main/5 shop.four denied no_approver",          // C-80 C-145
        "main/6 shop.look ok",
        "main/7 shop.buy denied tool_unavailable",  // C-76
        "main/8 shop.pay denied approval_rejected", // C-81
    ];
    assert_eq!(receipted(&desk, run.id).await, wanted); // C-75
    assert_eq!(run.budget.calls, 8); // C-75
    let started: usize = ["/send", "/buy", "/pay"].iter().map(|path| shop.seen(path).len()).sum();
    assert_eq!(started, 0); // C-292
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_an_approval_reaches_the_program_with_its_code_and_detail() {
    let (desk, shop) = open(Setting::default()).await;
    let source = "
try:
    shop.pay(n=1)
except stasis.Failed as error:
    result = [error.code, error.detail, error.applied]
";
    shop.tell("/pay", [Reply::Says(422, r#"{"why":"no such account"}"#)]);
    let run = desk.run(source, "{}").await;
    desk.decide(desk.asked(run.id).await.id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    let told: Value = serde_json::from_str(&desk.result(&run).await).expect("JSON");
    assert_eq!(told[0], "handler_error"); // C-91
    assert!(told[1].as_str().is_some_and(|detail| detail.contains("no such account")), "{told}"); // C-91
    assert_eq!(told[2], false); // C-257
    assert_eq!(receipted(&desk, run.id).await, ["main/1 shop.pay error handler_error"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_guest_was_told_of_a_write_is_stored_and_so_is_every_read_before_it() {
    let (desk, shop) = open(Setting::default()).await;
    let source = "shop.look(n=1)\nshop.look(n=2)\nshop.buy(n=3)\nshop.look(n=4)\nresult = 1";
    shop.tell("/buy", [Reply::Holds]);
    let before = desk.engine.ledger().commits();
    desk.register(source).await.expect("registered");
    let registered = desk.engine.ledger().commits() - before;
    let run = desk.engine.start_run(local(), request("{}")).await.expect("started").run.id;
    shop.reached("/buy", 1).await;
    // The admission, and one commit for the reads, the intent of the write and its gate.
    assert_eq!(desk.engine.ledger().commits() - before - registered, 2); // C-97 C-95
    let calls = desk.calls(run).await;
    let ended: Vec<bool> = calls.iter().map(|call| call.is_ended()).collect();
    assert_eq!(ended, [true, true, false]); // C-99
    assert!(matches!(calls[2].state, State::Dispatched(_))); // C-97
    assert_eq!(desk.receipts(run).await.len(), 2); // C-99
    shop.tell("/look", [Reply::Holds]);
    shop.release();
    shop.reached("/look", 3).await;
    // The program has gone on, so it was told; what it was told is there.
    assert_eq!(receipted(&desk, run).await[2], "main/3 shop.buy ok"); // C-87 C-97
    assert_eq!(desk.engine.ledger().commits() - before - registered, 3); // C-97
    shop.release();
    let run = desk.ended(run).await;
    assert_eq!(run.status(), Status::Done);
    assert_eq!(desk.engine.ledger().commits() - before - registered, 4); // C-95
}

#[tokio::test(flavor = "multi_thread")]
async fn an_asked_read_stores_its_gate_and_not_its_outcome() {
    let (desk, shop) = open(Setting::default()).await;
    shop.tell("/look", [Reply::Holds]);
    let run = desk.run("shop.peek()\nshop.look()\nresult = 1", "{}").await;
    let parked = desk.engine.ledger().commits();
    desk.decide(desk.asked(run.id).await.id, Verdict::Approve).await.expect("approved");
    shop.reached("/look", 1).await;
    assert_eq!(desk.engine.ledger().commits() - parked, 2); // C-96: the decision, then the gate
    let calls = desk.calls(run.id).await;
    assert!(matches!(calls[0].state, State::Dispatched(_)) && calls.len() == 1); // C-96
    shop.release();
    let run = desk.ended(run.id).await;
    assert_eq!(desk.engine.ledger().commits() - parked, 3); // C-96: the rest rides with the end
    assert_eq!(receipted(&desk, run.id).await, ["main/1 shop.peek ok", "main/2 shop.look ok"]); // C-96
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_of_a_run_that_is_cancelled_gets_no_answer_and_does_nothing_more() {
    let (desk, shop) = open(Setting::default()).await;
    let source = "
try:
    shop.look()
finally:
    shop.buy()
";
    shop.tell("/look", [Reply::Holds]);
    let run = desk.begin(source, "{}").await;
    shop.reached("/look", 1).await;
    desk.cancel(run).await;
    shop.release();
    let run = desk.ended(run).await;
    assert_eq!(run.status(), Status::Cancelled);
    assert!(shop.seen("/buy").is_empty()); // C-72
    assert!(desk.calls(run.id).await.iter().all(|call| call.tool.name != "shop.buy")); // C-72
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_larger_than_the_places_of_its_tool_is_served_in_turn() {
    let (desk, shop) = open(Setting::default()).await;
    let source = "result = len(stasis.parallel(*(shop.look.later(n=n) for n in range(40))))";
    let run = desk.run(source, "{}").await;
    assert_eq!(desk.result(&run).await, "40"); // C-250
    assert_eq!(shop.seen("/look").len(), 40);
}
