//! `stasis run fork` and `stasis run move` (I-5).

use crate::home::{Home, said, text};
use std::process::Stdio;

#[test]
fn a_run_that_was_refused_is_tried_again_from_before_the_question() {
    let home = Home::new();
    home.write(
        "asks.py",
        "import secrets\nfirst = stasis.random_bytes(4).hex()\nsaid = stasis.ask('go on?').status\nresult = [first, said]\n",
    );
    let stopped = home.json(3, &["run", "asks.py", "--input", "{}"]);
    let (run, approval) = (text(&stopped, "/run/id").to_owned(), text(&stopped, "/approvals/0/id").to_owned());
    home.json(0, &["reject", &approval, "--reason", "not today"]);
    let events = home.json(0, &["run", "events", &run]);
    let asked = events["items"].as_array().expect("a list").iter().find(|event| event["kind"] == "approval.requested");
    let seq = asked.expect("it asked")["seq"].to_string();

    let forked = home.json(3, &["run", "fork", &run, "--from", &seq, "--wait"]); // I-5
    assert_eq!(text(&forked, "/run/forked_from/run"), run);
    assert_eq!(forked["run"]["forked_from"]["seq"].to_string(), seq);
    let new = text(&forked, "/run/id").to_owned();
    assert_ne!(new, run);
    let done = home.json(0, &["approve", text(&forked, "/approvals/0/id")]);
    assert_eq!(done["run"]["result"][1], "approved");
    let shown = home.stasis(&["run", "show", &new, "--output", "table"]).stdout;
    assert!(shown.lines().any(|line| line.contains("forked from") && line.contains(&run)), "{shown}");
    let refused = home.problem(2, &["run", "fork", &run, "--from", "9999"]);
    assert!(text(&refused, "/hint").contains("stasis run events"), "{refused}");
    home.json(0, &["audit", "verify"]);
}

#[test]
fn a_parked_run_goes_on_under_the_repaired_program() {
    let home = Home::new();
    home.write("asks.py", "said = stasis.ask('go on?').status\nresult = ['old', said]\n");
    let stopped = home.json(3, &["run", "asks.py"]);
    let (run, approval) = (text(&stopped, "/run/id").to_owned(), text(&stopped, "/approvals/0/id").to_owned());
    home.write("asks.py", "said = stasis.ask('really?').status\nresult = ['new', said]\n");
    home.json(0, &["workflow", "register", "asks.py"]);
    let refused = home.problem(8, &["run", "move", &run, "--to", "2"]);
    assert_eq!(text(&refused, "/code"), "move_refused");
    assert!(text(&refused, "/detail").contains("main/1 the arguments differ"), "{refused}");
    home.write("asks.py", "said = stasis.ask('go on?').status\nresult = ['new', said]\n");
    home.json(0, &["workflow", "register", "asks.py"]);
    let moved = home.json(0, &["run", "move", &run, "--to", "3", "--reason", "the old one was old"]); // I-5
    assert_eq!((moved["revision"].as_u64(), &moved["changed"]), (Some(3), &true.into()));
    let done = home.json(0, &["approve", &approval]);
    assert_eq!(done["run"]["result"], serde_json::json!(["new", "approved"]));
    let events = home.stasis(&["run", "events", &run, "--output", "table"]).stdout;
    assert!(events.contains("run.moved"), "{events}");
    home.json(0, &["audit", "verify"]);
}

#[test]
fn killed_beside_their_commits_a_move_and_a_fork_are_whole_or_not_there() {
    for (point, there) in [("move.before", false), ("move.after", true)] {
        let home = Home::new();
        home.write("asks.py", "said = stasis.ask('go on?').status\nresult = ['old', said]\n");
        let stopped = home.json(3, &["run", "asks.py"]);
        let (run, approval) = (text(&stopped, "/run/id").to_owned(), text(&stopped, "/approvals/0/id").to_owned());
        home.write("asks.py", "said = stasis.ask('go on?').status\nresult = ['new', said]\n");
        home.json(0, &["workflow", "register", "asks.py"]);
        let killed = |words: &[&str], at: &str| {
            let mut command = home.command(words);
            let child = command.env("STASIS_CRASH_AT", at).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            assert_eq!(said(child.expect("the binary starts"), words).code, -1, "{words:?} {at}");
        };
        killed(&["run", "move", &run, "--to", "2"], point);
        let after = home.json(0, &["run", "show", &run]);
        assert_eq!(after["revision"].as_u64(), Some(if there { 2 } else { 1 }), "{point}");
        assert_eq!(text(&after, "/status"), "awaiting_consent");
        let before = home.json(0, &["run", "list"])["items"].as_array().map_or(0, Vec::len);
        killed(&["run", "fork", &run, "--from", "1", "--no-run"], if there { "admit.after" } else { "admit.before" });
        let forks = home.json(0, &["run", "list"])["items"].as_array().map_or(0, Vec::len) - before;
        assert_eq!(forks, usize::from(there), "{point}");
        home.json(0, &["audit", "verify"]);
        let done = home.json(0, &["approve", &approval]);
        let says = if there { "new" } else { "old" };
        assert_eq!(done["run"]["result"], serde_json::json!([says, "approved"]), "{point}");
    }
}
