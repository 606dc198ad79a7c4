//! `stasis run fork` (I-5, R-16).

use crate::home::{Home, text};

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
