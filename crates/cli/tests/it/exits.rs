//! Every way to end, by its exit code and its problem (I-2, I-16, I-47).

use crate::cycle::ASKS;
use crate::home::{Home, text};

#[test]
fn a_run_that_ends_decides_the_exit() {
    let home = Home::new();
    home.write("good.py", "result = {\"n\": inputs[\"n\"]}\n");
    home.write("bad.py", "x = 1\nraise ValueError(\"no such order\")\n");
    let done = home.stasis(&["run", "good.py", "--input", r#"{"n":12345678901234567890}"#]);
    assert_eq!(done.code, 0); // I-2
    assert!(done.stdout.contains(r#""result":{"n":12345678901234567890}"#), "{}", done.stdout); // I-40
    let failed = home.json(4, &["run", "bad.py"]); // I-2
    assert_eq!(text(&failed, "/run/failure/code"), "step_failed"); // I-41
    assert_eq!(text(&failed, "/run/failure/message"), "ValueError: no such order"); // W-150
    assert_eq!(failed["run"]["failure"]["detail"]["line"], 2); // I-41
}

#[test]
fn a_cancelled_run_exits_5_and_cancelling_it_does_not() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let run = text(&home.json(3, &["run", "asks.py"]), "/run/id").to_owned();
    let cancelled = home.json(0, &["run", "cancel", &run, "--reason", "enough"]);
    assert_eq!(text(&cancelled, "/status"), "cancelled");
    assert_eq!(cancelled["changed"], true); // I-24
    let again = home.json(0, &["run", "cancel", &run]);
    assert_eq!(again["changed"], false); // R-273
    home.json(5, &["run", "wait", &run]); // I-2
}

#[test]
fn a_paused_run_is_stopped_until_somebody_lets_it_go_on() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let stopped = home.json(3, &["run", "asks.py"]);
    let (run, approval) = (text(&stopped, "/run/id").to_owned(), text(&stopped, "/approvals/0/id").to_owned());
    let told = home.stasis(&["run", "pause", &run, "--reason", "not today", "--output", "table"]);
    assert!(told.stdout.contains("paused (run ") && told.stdout.contains(": not today"), "{}", told.stdout); // R-368
    assert!(told.stdout.contains(&format!("goes on: approval {approval}, ")), "{}", told.stdout); // R-371
    home.json(0, &["approve", &approval]);
    let waited = home.json(3, &["run", "wait", &run]); // I-19b: a pause is a stop
    assert_eq!((text(&waited, "/run/status"), text(&waited, "/run/paused/0/scope")), ("queued", "run")); // R-369
    let resumed = home.json(0, &["run", "resume", &run]);
    assert_eq!((text(&resumed, "/status"), &resumed["changed"]), ("done", &true.into())); // I-5
    assert_eq!(text(&home.problem(8, &["run", "resume", &run]), "/code"), "run_terminal"); // R-372
}

#[test]
fn a_signal_brings_its_run_on_and_is_sent_once() {
    let home = Home::new();
    home.write("waits.py", "result = stasis.signal(\"paid\")\n");
    let run = text(&home.json(3, &["run", "waits.py"]), "/run/id").to_owned();
    let slip = home.stasis(&["signal", &run, "payed", "--no-run"]);
    assert_eq!(slip.code, 0);
    assert_eq!(slip.stderr, "nobody waits for `payed` yet, and the run keeps it; it waits for `paid` now\n");
    let send = ["signal", &run, "paid", "--payload", r#"{"amount":5}"#, "--id", "payment-77"];
    let sent = home.json(0, &send); // I-8
    assert_eq!((text(&sent, "/state"), text(&sent, "/id"), &sent["changed"]), ("taken", "payment-77", &true.into()));
    let done = home.json(0, &["run", "wait", &run]); // I-1b: the command carried it on
    assert_eq!(done["run"]["result"]["amount"], 5); // W-121
    assert_eq!(home.json(0, &send)["changed"], false); // R-233
    assert_eq!(text(&home.problem(8, &["signal", &run, "paid"]), "/code"), "run_terminal"); // R-240
}

#[test]
fn an_agent_does_a_job_from_the_command_line() {
    let home = Home::new();
    home.write("hands.py", "result = stasis.delegate(\"reviewer\", {\"look\": \"at it\"})\n");
    let stopped = home.json(3, &["run", "hands.py"]);
    let job = text(&stopped, "/jobs/0/id").to_owned(); // I-42
    assert_eq!((text(&stopped, "/run/status"), text(&stopped, "/jobs/0/state")), ("awaiting_delegate", "queued"));
    let claimed = home.json(0, &["job", "claim", "--kind", "reviewer", "--worker", "w-1"]); // I-7
    assert_eq!((text(&claimed, "/items/0/id"), text(&claimed, "/items/0/task/look")), (&*job, "at it"));
    let token = claimed["items"][0]["agent"]["token"].to_string();
    let verb = |exit, verb: &str, more: &[&str]| {
        let words = ["job", verb, &job, "--job-token", &token];
        home.json(exit, &[&words[..], more].concat())
    };
    let heard = verb(0, "heartbeat", &["--progress", "{\"done\":1}"]);
    assert_eq!((&heard["stop"], &heard["progress"]["done"]), (&false.into(), &1.into())); // R-218
    assert_eq!(text(&home.json(0, &["job", "list", "--open"]), "/items/0/agent/worker"), "w-1");
    assert_eq!(text(&verb(0, "complete", &["--result", "7"]), "/state"), "succeeded");
    let run = text(&stopped, "/run/id");
    assert_eq!(home.json(0, &["run", "wait", run])["run"]["result"], 7); // I-1b: the command carried it on
    let late = home.problem(8, &["job", "fail", &job, "--job-token", &token, "--error", "no"]);
    assert_eq!(text(&late, "/code"), "job_terminal"); // R-222
    assert_eq!(text(&verb(0, "ack-cancel", &[]), "/state"), "succeeded"); // R-231
}

#[test]
fn a_paused_workflow_or_queue_starts_nothing() {
    let home = Home::new();
    home.write("good.py", "result = 1\n");
    home.json(0, &["run", "good.py"]);
    assert_eq!(text(&home.json(0, &["workflow", "pause", "good"]), "/paused/0/scope"), "workflow"); // I-4
    assert_eq!(text(&home.json(0, &["queue", "pause", "default"]), "/paused/0/scope"), "queue"); // I-9
    let held = home.json(3, &["run", "start", "good", "--wait"]);
    assert_eq!(held["run"]["paused"].as_array().map(Vec::len), Some(2)); // R-60
    let queues = home.stasis(&["queue", "list", "--output", "table"]).stdout;
    assert!(queues.contains("default") && queues.contains("paused (queue default)"), "{queues}"); // I-9
    home.json(0, &["queue", "resume", "default"]);
    assert_eq!(home.json(0, &["workflow", "resume", "good"])["changed"], true); // I-4
    home.json(0, &["run", "wait", text(&held, "/run/id")]); // R-369
}

#[test]
fn a_wait_whose_time_is_over_tells_the_run_as_it_stands() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let run = text(&home.json(3, &["run", "asks.py"]), "/run/id").to_owned();
    let waited = home.json(3, &["run", "wait", &run, "--until", "terminal", "--timeout", "200ms"]);
    assert_eq!(text(&waited, "/run/status"), "awaiting_consent"); // I-5
    assert_eq!(waited["approvals"].as_array().map(Vec::len), Some(1)); // I-42
}

#[test]
fn what_is_refused_before_a_run_leaves_none() {
    let home = Home::new();
    home.write("broken.py", "x = 1\nif x\n    pass\n");
    home.write(
        "picky.py",
        "# /// script\n# [tool.stasis]\n# input = { type = \"object\", required = [\"id\"] }\n# ///\nresult = 1\n",
    );
    let broken = home.problem(2, &["run", "broken.py"]); // I-2
    assert_eq!(text(&broken, "/code"), "source_invalid"); // W-152
    assert_eq!(broken["errors"][0]["line"], 2); // W-152
    assert_eq!(broken["errors"][0]["file"], "broken.py");
    let told = home.stasis(&["run", "broken.py", "--output", "table"]).stderr;
    assert_eq!((told.matches("broken.py:2:").count(), told.matches("expected ':'").count()), (1, 1), "{told}");
    let picky = home.problem(2, &["run", "picky.py"]);
    assert_eq!(text(&picky, "/code"), "invalid_input"); // R-44
    let unreadable = home.problem(2, &["run", "absent.py"]);
    assert_eq!(text(&unreadable, "/code"), "input_unreadable"); // I-47
    let words = home.problem(2, &["run", "picky.py", "--input", "{"]);
    assert_eq!(text(&words, "/code"), "input_unreadable"); // I-47
    assert_eq!(home.json(0, &["run", "list"])["items"].as_array().map(Vec::len), Some(0)); // I-2
}

#[test]
fn a_verb_that_is_not_built_is_not_taken_for_a_file() {
    let home = Home::new();
    home.write("compensate", "result = 1\n");
    let refused = home.problem(2, &["run", "compensate"]);
    assert!(text(&refused, "/hint").contains("./compensate"), "{refused}"); // I-2
}

#[test]
fn what_is_not_there_exits_7() {
    let home = Home::new();
    let run = "run_01m8nwmbe0e00bsaekf59edd1r";
    let absent = home.problem(7, &["run", "show", run]);
    assert_eq!(text(&absent, "/code"), "store_absent"); // I-47
    assert!(!home.path().join(".stasis").exists()); // I-19
    home.write("good.py", "result = 1\n");
    home.json(0, &["run", "good.py"]);
    let unknown = home.problem(7, &["run", "show", run]);
    assert_eq!(text(&unknown, "/code"), "not_found"); // I-16
}

#[test]
fn a_configuration_with_faults_names_each_and_starts_nothing() {
    let home = Home::new();
    home.write("good.py", "result = 1\n");
    home.write("stasis.toml", "[server]\nlistn = \"127.0.0.1:1\"\n\n[worker]\nclaim_ttl = \"soon\"\n");
    let refused = home.problem(2, &["run", "good.py"]);
    assert_eq!(text(&refused, "/code"), "config_invalid"); // I-47
    assert_eq!(refused["errors"][0]["line"], 2); // I-47
    assert!(refused["errors"][0].to_string().contains("listen"), "{refused}"); // I-60
    assert_eq!(refused["errors"][1]["line"], 5); // I-47
    let checked = home.problem(2, &["config", "check"]);
    assert!(!text(&checked, "/hint").contains("config check"), "{checked}");
}

#[test]
fn a_check_names_what_is_probably_a_mistake() {
    let home = Home::new();
    let rule = "[[policy.rule]]\ntool = \"expenses.payy\"\noutcome = \"ask\"\nroles = [\"fnance\"]\n";
    let people = "[[principal]]\nid = \"maria\"\nroles = [\"finance\"]\n";
    home.write("stasis.toml", &format!("{rule}\n{people}"));
    home.write("good.py", "result = 1\n");
    let checked = home.json(0, &["config", "check"]);
    assert_eq!(checked["warnings"][1]["line"], 4);
    assert!(text(&checked, "/warnings/1/hint").contains("finance"), "{checked}");
    home.json(0, &["run", "good.py"]);
    let doctor = home.stasis(&["doctor", "--output", "table"]).stdout;
    assert!(doctor.contains("nobody has it") && !doctor.contains("all well"), "{doctor}"); // I-11
}

#[test]
fn for_people_an_error_is_two_lines() {
    let home = Home::new();
    let said = home.stasis(&["run", "show", "run_01m8nwmbe0e00bsaekf59edd1r", "--output", "table"]);
    let lines: Vec<&str> = said.stderr.lines().collect();
    assert!(lines[0].starts_with("error: ") && lines[1].starts_with("hint: "), "{said:?}"); // I-16
    assert_eq!(said.stdout, ""); // I-16
}

#[test]
fn the_version_names_the_guest_image() {
    let said = Home::new().stasis(&["--version"]);
    assert!(said.stdout.starts_with("stasis ") && said.stdout.contains("guest image"), "{said:?}"); // I-17
    let script = Home::new().stasis(&["completions", "bash"]);
    assert!(script.code == 0 && script.stdout.contains("stasis"), "{script:?}"); // I-17
}
