//! Effects in the world: the refund example against its real server (I-8, I-2).

use crate::home::{Home, text};
use crate::payments::Payments;

#[test]
fn a_refund_waits_for_a_person_and_is_paid_once() {
    let mut home = Home::new();
    let payments = Payments::start(&mut home, &[]);
    let outcome = home.json(3, &["run", "refund.py", "--input", "@order.json"]); // I-2
    assert_eq!(outcome["approvals"][0]["arguments"]["amount"], 250.5); // C-68
    assert_eq!(payments.ledger(), [] as [serde_json::Value; 0]);
    let decided = home.json(0, &["approve", text(&outcome, "/approvals/0/id")]);
    assert_eq!(text(&decided, "/run/status"), "done", "{decided}");
    assert_eq!(text(&decided, "/approval/dispatch/outcome"), "ok"); // C-136
    assert_eq!(payments.ledger().len(), 1); // C-117
    let shown = home.json(0, &["run", "show", text(&outcome, "/run/id")]);
    assert_eq!(text(&shown, "/effects/0/applied"), "yes"); // I-41
}

#[test]
fn an_edit_pays_what_the_approver_wrote() {
    let mut home = Home::new();
    let payments = Payments::start(&mut home, &[]);
    let outcome = home.json(3, &["run", "refund.py", "--input", "@order.json"]);
    let approval = text(&outcome, "/approvals/0/id");
    let stale = text(&outcome, "/approvals/0/plan_digest");
    let refused = home.problem(8, &["approve", approval, "--digest", stale]);
    assert_eq!(text(&refused, "/code"), "args_digest_mismatch"); // I-6
    let said = home.stasis(&["approve", approval, "--edit", r#"{"order_id":"o-7","amount":100.50}"#]);
    let decided = said.object();
    assert_eq!(said.code, 0, "{said:?}");
    let digests = format!(
        "{} -> {}",
        text(&outcome, "/approvals/0/arguments_digest"),
        text(&decided, "/approval/arguments_digest")
    );
    assert!(said.stderr.contains("+   \"amount\": 100.50") && said.stderr.contains(&digests), "{said:?}"); // I-6
    assert_eq!(decided["approval"]["revision"], 2); // C-184
    assert_eq!(text(&decided, "/run/status"), "done", "{decided}");
    assert_eq!(payments.ledger()[0]["amount"], 100.5); // I-6
    let shown = home.json(0, &["approval", "show", approval]);
    assert_eq!(shown["asked_arguments"]["amount"], 250.5); // C-186
    assert_eq!(shown["decisions"][0]["edited"], true); // C-184
    let page = home.stasis(&["approval", "show", approval, "--output", "table"]).stdout;
    assert!(page.contains("-   \"amount\": 250.5") && page.contains("+   \"amount\": 100.50"), "{page}"); // C-186
    assert!(page.contains("approved with an edit by local"), "{page}");
    let events = home.json(0, &["run", "events", text(&outcome, "/run/id")]);
    let edited = events["items"].as_array().into_iter().flatten().find(|event| event["kind"] == "approval.edited");
    assert_eq!(edited.expect("an event")["facts"]["principal"], "local"); // I-38
}

#[test]
fn an_effect_whose_outcome_is_lost_is_settled_by_a_person() {
    let mut home = Home::new();
    let payments = Payments::start(&mut home, &["--die-after-apply", "1"]);
    let manual = std::fs::read_to_string(home.path().join("stasis.toml")).expect("the configuration is there");
    home.write("stasis.toml", &manual.replacen("recovery = \"idempotent\"", "recovery = \"manual\"", 1));
    let outcome = home.json(3, &["run", "refund.py", "--input", "@order.json"]);
    let decided = home.json(0, &["approve", text(&outcome, "/approvals/0/id")]);
    assert_eq!(text(&decided, "/run/status"), "awaiting_consent", "{decided}"); // C-237
    assert_eq!(text(&decided, "/approvals/0/kind"), "settle"); // C-232
    assert_eq!(payments.ledger().len(), 1);

    let open = home.json(0, &["effect", "list", "--ambiguous"]);
    let call = text(&open, "/items/0/call"); // I-8
    let show = ["approval", "show", text(&decided, "/approvals/0/id")];
    let question = home.json(0, &show);
    assert_eq!(question["settle"]["output"]["required"], serde_json::json!(["id", "amount"])); // C-238
    let seen = text(&question, "/settle/seen").to_owned();
    let run = text(&outcome, "/run/id");
    let calls = home.stasis(&["run", "calls", run, "--output", "table"]).stdout;
    assert!(calls.contains("outcome unknown") && calls.contains(&seen), "{calls}");
    let inbox = home.stasis(&["approvals", "--output", "table"]).stdout;
    assert!(inbox.contains("did it happen?"), "{inbox}");
    let wrong = home.problem(2, &["effect", "settle", call, "--happened", "{}", "--reason", "seen"]);
    assert_eq!(text(&wrong, "/code"), "invalid_answer"); // C-238
    let unreasoned = home.problem(2, &["effect", "settle", call, "--did-not-happen"]);
    assert_eq!(text(&unreasoned, "/code"), "reason_required"); // C-240
    let words = ["effect", "settle", call, "--happened", r#"{"id":"refund-1","amount":250.5}"#, "--reason", "seen"];
    let settled = home.json(0, &words); // I-8
    assert_eq!(text(&settled, "/approval/answer/id"), "refund-1");
    assert_eq!(payments.ledger().len(), 1); // C-239
    assert!(home.json(0, &["effect", "list", "--ambiguous"])["items"].as_array().is_some_and(Vec::is_empty)); // I-8
}

#[test]
fn a_call_that_failed_says_why() {
    let mut home = Home::new();
    let _payments = Payments::start(&mut home, &[]);
    home.write(
        "over.py",
        "result = payments.refund(order_id='o-7', amount=99.5)\nresult = payments.order(order_id='o-9')\n",
    );
    let failed = home.json(4, &["run", "over.py"]);
    let run = text(&failed, "/run/id");
    let shown = home.stasis(&["run", "show", run, "--output", "table"]).stdout;
    assert!(shown.contains("payments.order: handler_error: ") && shown.contains("404"), "{shown}"); // C-90, C-91
    let calls = home.json(0, &["run", "calls", run]);
    assert_eq!(calls["items"][1]["code"], "handler_error"); // C-91
}

#[test]
fn an_attempt_that_never_arrived_does_not_undo_the_one_before_it() {
    let mut home = Home::new();
    let payments = Payments::start(&mut home, &["--die-after-apply", "1"]);
    let outcome = home.json(3, &["run", "refund.py", "--input", "@order.json"]);
    let decided = home.json(0, &["approve", text(&outcome, "/approvals/0/id")]);
    assert_eq!(payments.ledger().len(), 1);
    // The refund was applied, and every later attempt finds nobody there.
    assert_eq!(text(&decided, "/run/status"), "awaiting_consent", "{decided}"); // R-301
    assert_eq!(text(&decided, "/approvals/0/kind"), "settle"); // C-230
    assert_eq!(text(&decided, "/run/effects/0/applied"), "unknown"); // C-120
    // Whoever is asked sees what the first attempt met, and not the last one alone.
    let question = home.json(0, &["approval", "show", text(&decided, "/approvals/0/id")]);
    let seen = text(&question, "/settle/seen");
    let (first, rest) = seen.split_once("; attempts 2, 3, 4: ").unwrap_or_else(|| panic!("{seen}"));
    assert!(first.starts_with("attempt 1: ") && rest.contains("refused") && !first.contains("refused"), "{seen}");
}

#[test]
fn tools_are_listed_shown_and_withdrawn() {
    let mut home = Home::new();
    let payments = Payments::start(&mut home, &[]);
    let outcome = home.json(3, &["run", "refund.py", "--input", "@order.json"]);
    let tools = home.json(0, &["tool", "list"]).to_string();
    assert!(tools.contains("payments.refund") && tools.contains("stasis.gate"), "{tools}"); // I-9
    let tool = home.json(0, &["tool", "show", "payments.refund@1"]);
    assert_eq!(text(&tool, "/effect"), "write"); // I-9
    home.problem(7, &["tool", "show", "payments.refund@9"]);
    home.json(0, &["tool", "withdraw", "payments.refund", "--reason", "wrong account"]);
    let decided = home.json(0, &["approve", text(&outcome, "/approvals/0/id")]);
    assert_ne!(text(&decided, "/run/status"), "awaiting_consent", "{decided}");
    assert_eq!(payments.ledger().len(), 0); // C-45
}

#[test]
fn the_doctor_looks_at_everything_and_exits_by_what_it_found() {
    let mut home = Home::new();
    let _payments = Payments::start(&mut home, &[]);
    home.stasis(&["run", "refund.py", "--input", "@order.json"]);
    let said = home.stasis(&["doctor"]);
    let report = said.object();
    assert_eq!(said.code, i32::from(report["ok"] != true), "{said:?}"); // I-11
    assert!(report["checks"].as_array().is_some_and(|checks| checks.len() > 3), "{report}"); // I-11
}
