//! One approval cycle, each step in a process of its own: start, look, decide, look again.

use crate::home::{Home, Said, said, text};
use std::process::Stdio;

/// Asks once, then answers with what was decided.
pub(crate) const ASKS: &str = r#"
print("asking")
decision = stasis.ask("Go on?", {"n": 1})
print("answered")
result = {"said": decision.status, "by": list(decision.by)}
"#;

#[test]
fn a_first_program_runs_as_init_wrote_it() {
    let home = Home::new();
    let written = home.json(0, &["init"]);
    assert_eq!(written["written"].as_array().map(Vec::len), Some(2)); // I-14a
    let outcome = home.json(3, &["run", "hello.py", "--input", r#"{"name":"Ada"}"#]);
    assert_eq!(text(&outcome, "/run/status"), "awaiting_consent"); // I-2
    let approval = text(&outcome, "/approvals/0/id");
    let decided = home.json(0, &["approve", approval]);
    assert_eq!(text(&decided, "/run/result/greeting"), "Hello, Ada!"); // I-14a
}

#[test]
fn a_run_stops_for_a_person_and_is_finished_by_another_process() {
    let home = Home::new();
    home.write("asks.py", ASKS);

    let outcome = home.json(3, &["run", "asks.py"]); // I-2
    let run = text(&outcome, "/run/id").to_owned();
    let approval = text(&outcome, "/approvals/0/id").to_owned();
    assert_eq!(text(&outcome, "/approvals/0/status"), "pending"); // I-42
    assert_eq!(outcome["jobs"].as_array().map(Vec::len), Some(0)); // I-42
    assert!(outcome.get("approval").is_none()); // I-42

    let list = home.json(0, &["approvals"]);
    assert_eq!(text(&list, "/items/0/id"), approval); // I-6
    assert!(list["next_cursor"].is_null()); // I-37
    let shown = home.json(0, &["approval", "show", &approval]);
    assert_eq!(text(&shown, "/run"), run);

    let decided = home.json(0, &["approve", &approval]); // I-19b
    assert_eq!(text(&decided, "/approval/status"), "approved"); // I-42
    assert_eq!(text(&decided, "/approval/decisions/0/principal"), "local"); // I-19a
    assert_eq!(text(&decided, "/approval/decisions/0/method"), "cli");
    assert_eq!(text(&decided, "/run/status"), "done"); // I-1b
    assert_eq!(text(&decided, "/run/result/said"), "approved");

    let shown = home.json(0, &["run", "show", &run]);
    assert_eq!(text(&shown, "/status"), "done"); // I-5
    assert_eq!(home.json(0, &["approvals"])["items"].as_array().map(Vec::len), Some(0)); // I-6
    let again = home.json(0, &["approve", &approval]);
    assert_eq!(text(&again, "/approval/status"), "approved"); // R-166
}

#[test]
fn the_story_can_be_read_in_every_form() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let run = text(&home.json(3, &["run", "asks.py"]), "/run/id").to_owned();

    let log = home.stasis(&["run", "log", &run, "--output", "table"]);
    assert_eq!((log.code, log.stdout.as_str()), (0, "asking\n")); // I-5
    let explain = home.json(0, &["run", "explain", &run]);
    assert_eq!(text(&explain, "/waits/0/kind"), "approval"); // R-380
    assert!(!text(&explain, "/why").is_empty());
    let table = home.stasis(&["run", "show", &run, "--output", "table"]);
    assert!(table.stdout.contains("AWAITING_CONSENT") && table.stdout.contains("Go on?"), "{table:?}"); // I-15

    let events = home.stasis(&["run", "events", &run, "--output", "ndjson"]);
    let lines: Vec<serde_json::Value> = events.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seqs: Vec<u64> = lines.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>()); // R-355
    assert_eq!(lines[0]["kind"], "run.queued");
    assert!(lines.iter().any(|event| event["kind"] == "approval.requested")); // R-356

    let calls = home.json(0, &["run", "calls", &run]);
    assert_eq!(text(&calls, "/items/0/identity"), format!("{run}/main/1")); // C-57
    let one = home.stasis(&["run", "list", "--output", "ndjson", "--limit", "1"]);
    assert_eq!(one.stdout.lines().count(), 1); // I-15
}

#[test]
fn what_grows_can_be_followed_while_another_process_carries_the_run() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let outcome = home.json(3, &["run", "asks.py"]);
    let (run, approval) = (text(&outcome, "/run/id"), text(&outcome, "/approvals/0/id"));
    let follow = |words: &[&str]| {
        let words = [words, &["--follow", "--output", "ndjson"]].concat();
        home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
    };
    let (log, events) = (follow(&["run", "log", run]), follow(&["run", "events", run]));
    home.json(0, &["approve", approval]); // I-18
    let lines = |said: Said| -> Vec<serde_json::Value> {
        assert_eq!(said.code, 0, "{said:?}");
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let printed = lines(said(log, &["log"]));
    let printed: Vec<&str> = printed.iter().map(|line| text(line, "/text")).collect();
    assert_eq!(printed, ["asking", "answered"]); // I-5
    let events = lines(said(events, &["events"]));
    assert!(events.iter().enumerate().all(|(i, event)| event["seq"] == i), "{events:?}"); // R-363
    assert_eq!(events.last().map(|event| text(event, "/kind")), Some("run.done")); // R-357
}

#[test]
fn a_rejection_is_told_to_the_program_and_the_command_succeeds() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let approval = text(&home.json(3, &["run", "asks.py"]), "/approvals/0/id").to_owned();
    let refused = home.problem(2, &["reject", &approval]);
    assert_eq!(text(&refused, "/code"), "reason_required"); // C-172
    let decided = home.json(0, &["reject", &approval, "--reason", "no"]); // I-19b
    assert_eq!(text(&decided, "/approval/status"), "rejected");
    assert_eq!(text(&decided, "/run/result/said"), "rejected");
    let late = home.problem(8, &["approve", &approval]);
    assert_eq!(text(&late, "/code"), "already_decided"); // I-16, R-166
}

#[test]
fn abstaining_leaves_the_question_open() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let approval = text(&home.json(3, &["run", "asks.py"]), "/approvals/0/id").to_owned();
    let decided = home.json(0, &["approval", "abstain", &approval]);
    assert_eq!(text(&decided, "/approval/status"), "pending"); // C-150
    assert_eq!(decided["approval"]["progress"]["abstain"], 1);
}

#[test]
fn a_decision_names_an_approval_and_a_run_is_refused_with_its_approvals() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let outcome = home.json(3, &["run", "asks.py"]);
    let refused = home.problem(2, &["approve", text(&outcome, "/run/id")]);
    assert!(text(&refused, "/hint").contains(text(&outcome, "/approvals/0/id")), "{refused}"); // I-6
}

#[test]
fn without_run_a_decision_leaves_the_run_queued_and_wait_carries_it_on() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let outcome = home.json(3, &["run", "asks.py"]);
    let (run, approval) = (text(&outcome, "/run/id"), text(&outcome, "/approvals/0/id"));
    let decided = home.json(0, &["approve", approval, "--no-run"]);
    assert_eq!(text(&decided, "/run/status"), "queued"); // I-1b
    let shown = home.stasis(&["run", "show", run, "--output", "table"]);
    assert!(shown.stdout.contains(&format!("hint: stasis run wait {run}")), "{shown:?}"); // I-19
    assert_eq!(text(&home.json(0, &["run", "show", run]), "/status"), "queued"); // I-19
    let outcome = home.json(0, &["run", "wait", run]); // I-5
    assert_eq!(text(&outcome, "/run/status"), "done");
}
