//! Bad input of every kind, through the real binary: a typed error that says what to do, and nothing half done.

use crate::home::{Home, text};
use crate::teller::Teller;
use serde_json::Value;
use std::path::Path;

/// The command is refused with this exit code and code, and says what to do.
fn refused(home: &Home, exit: i32, code: &str, words: &[&str]) -> Value {
    let problem = home.problem(exit, words);
    assert_eq!(text(&problem, "/code"), code, "{words:?}: {problem}"); // I-47
    assert!(!text(&problem, "/hint").is_empty(), "{words:?}: {problem}"); // I-46
    problem
}

fn runs(home: &Home) -> usize {
    home.json(0, &["run", "list"])["items"].as_array().map_or(0, Vec::len)
}

#[test]
fn what_is_wrong_before_a_run_leaves_none() {
    let home = Home::new();
    let _teller = Teller::start(&home);
    home.write("good.py", "result = inputs\n");
    home.json(0, &["run", "good.py"]);
    home.write("syntax.py", "x = 1\nif x\n    pass\n");
    home.write("tools.py", "# /// script\n# [tool.stasis]\n# tools = [\"desk.pai\"]\n# ///\nresult = 1\n");
    home.write("large.json", &format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20)));
    home.write("unknown.toml", "[server]\nlistn = \"127.0.0.1:1\"\n");
    home.write("broken.toml", "[server\n");
    home.write("later.toml", "[[policy.rule]]\noutcome = \"ask\"\nremind = [\"1d\"]\n");

    let syntax = refused(&home, 2, "source_invalid", &["run", "syntax.py"]);
    assert_eq!(syntax["errors"][0]["line"], 2); // W-152
    let tools = refused(&home, 2, "tool_invalid", &["run", "tools.py"]);
    assert!(text(&tools, "/hint").contains("desk.pay"), "{tools}");
    refused(&home, 2, "limit_exceeded", &["run", "good.py", "--input", "@large.json"]);
    refused(&home, 2, "limit_exceeded", &["run", "start", "good", "--input", "@large.json"]);
    refused(&home, 2, "input_unreadable", &["run", "good.py", "--input", "{"]);
    refused(&home, 2, "input_unreadable", &["run", "absent.py"]);
    for (file, line) in [("unknown.toml", 2), ("broken.toml", 1), ("later.toml", 3)] {
        let config = refused(&home, 2, "config_invalid", &["run", "good.py", "--config", file]);
        assert_eq!(config["errors"][0]["line"], line, "{config}"); // I-47
    }
    assert_eq!(runs(&home), 1); // I-2
    home.json(0, &["run", "good.py"]);
}

#[test]
fn what_a_program_does_wrong_is_told_with_its_place_and_starts_no_handler() {
    let home = Home::new();
    let teller = Teller::start(&home);
    teller.release_all();
    home.write("name.py", "desk.pai(n=1)\n");
    home.write("arguments.py", "desk.tell(7)\n");
    home.write("schema.py", "stasis.gate('')\n");
    for (file, said) in [
        ("name.py", "the nearest is 'pay'"),
        ("arguments.py", "takes keyword arguments only"),
        ("schema.py", "(invalid_arguments)"),
    ] {
        let failed = home.json(4, &["run", file]);
        assert_eq!(text(&failed, "/run/failure/code"), "step_failed");
        assert!(text(&failed, "/run/failure/message").contains(said), "{failed}"); // W-150
        assert_eq!(failed["run"]["failure"]["detail"]["line"], 1); // I-41
    }
    assert!(teller.seen("/tell").is_empty() && teller.seen("/pay").is_empty()); // C-88
}

#[test]
fn a_tool_server_that_is_not_there_is_named() {
    let home = Home::new();
    let teller = Teller::start(&home);
    let config = std::fs::read_to_string(home.path().join("stasis.toml")).expect("just written");
    // Nobody listens on the port of discarded bytes.
    home.write("stasis.toml", &config.replace(&format!(":{}/", teller.port()), ":9/"));
    home.write("tell.py", "desk.tell(n=1)\n");
    let failed = home.json(4, &["run", "tell.py"]);
    assert!(text(&failed, "/run/failure/message").contains("(connector_unreachable)"), "{failed}"); // C-259
    assert_eq!(text(&failed, "/run/effects/0/applied"), "no"); // C-122
    let shown = home.stasis(&["run", "show", text(&failed, "/run/id"), "--output", "table"]);
    assert!(shown.stdout.contains("127.0.0.1:9"), "{}", shown.stdout);
    let told = home.stasis(&["run", "tell.py", "--output", "table"]);
    assert!(told.stdout.contains("hint: stasis run show "), "{}", told.stdout);
}

#[test]
fn a_missing_image_is_said_and_nothing_is_registered() {
    let mut home = Home::new();
    home.write("good.py", "result = 1\n");
    let none = home.path().join("no-cache").display().to_string();
    home.env("STASIS_CACHE", &none);
    refused(&home, 1, "image_unavailable", &["run", "good.py"]); // I-69
    assert_eq!(runs(&home), 0);
    assert_eq!(home.json(0, &["workflow", "list"])["items"].as_array().map(Vec::len), Some(0));
}

#[test]
fn without_the_image_what_waits_goes_on_waiting() {
    let mut home = Home::new();
    home.write("asks.py", "stasis.gate('Go on?')\nresult = 1\n");
    let outcome = home.json(3, &["run", "asks.py"]);
    let (run, approval) = (text(&outcome, "/run/id"), text(&outcome, "/approvals/0/id"));
    let none = home.path().join("no-cache").display().to_string();
    home.env("STASIS_CACHE", &none);
    refused(&home, 1, "image_unavailable", &["approve", approval]); // I-47
    assert_eq!(text(&home.json(0, &["approval", "show", approval]), "/status"), "pending");
    // A decision needs no image; a server without one takes it and leaves the run where it is.
    let server = crate::servers::Server::start(&home, &["serve"]);
    assert_eq!(text(&home.json(0, &["approve", approval]), "/approval/status"), "approved");
    assert!(text(&home.json(0, &["run", "explain", run]), "/why").contains("the guest image")); // I-5
    drop(server);
    home.env("STASIS_CACHE", &std::env::var("STASIS_CACHE").unwrap_or_default());
    assert_eq!(text(&home.json(0, &["run", "wait", run]), "/run/status"), "done"); // I-69
}

/// Overwrites the pages of a database from the second one on; its log, which has newer ones, is copied into it first.
fn damage(path: &Path) {
    let copied = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)')";
    let done = std::process::Command::new("python3").args(["-c", copied]).arg(path).status();
    assert!(done.is_ok_and(|status| status.success()));
    use std::io::{Seek, SeekFrom, Write};
    let mut file = std::fs::OpenOptions::new().write(true).open(path).expect("the store is there");
    let len = file.metadata().expect("a file").len();
    file.seek(SeekFrom::Start(4_096)).expect("seekable");
    file.write_all(&vec![0xA5; (len - 4_096) as usize]).expect("writable");
}

#[test]
fn damaged_pages_are_said_with_the_file_and_no_command_goes_on() {
    let home = Home::new();
    home.write("good.py", "result = 1\n");
    home.json(0, &["run", "good.py"]);
    let store = home.path().join(".stasis/stasis.db");
    damage(&store);
    for words in [vec!["run", "good.py"], vec!["run", "list"]] {
        let problem = refused(&home, 1, "store_damaged", &words);
        assert!(text(&problem, "/detail").contains("stasis.db"), "{problem}"); // I-47
    }
}

#[test]
fn a_full_disk_is_said_and_what_was_there_is_there_when_it_has_room_again() {
    let home = Home::new();
    home.write("good.py", "result = inputs\n");
    home.json(0, &["run", "good.py"]);
    let full = Home::ends(home.limited("ulimit -f 1;", &["run", "good.py", "--input", r#"{"n":2}"#]));
    assert_eq!(full.code, 1, "{full:?}");
    let problem = full.told();
    assert_eq!(text(&problem, "/code"), "store_unavailable"); // I-47
    assert!(text(&problem, "/hint").contains("room"), "{problem}");
    assert_eq!(runs(&home), 1); // R-9
    home.json(0, &["run", "good.py", "--input", r#"{"n":3}"#]);
    assert_eq!(runs(&home), 2); // R-9
}
