//! A ledger that was damaged while nothing had it open.

use crate::home::{Home, text};
use std::process::Command;

/// Changes bytes of the ledger, each place where they stand, to others of the same length.
fn damage(home: &Home, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let path = home.path().join(".stasis/stasis.db");
    // What the log still holds would stand for the page that is damaged here.
    let program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)')";
    let emptied = Command::new("python3").args(["-c", program]).arg(&path).status();
    assert!(emptied.is_ok_and(|status| status.success()));
    let mut bytes = std::fs::read(&path).expect("a ledger");
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty(), "`{from}` is not in the ledger");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    std::fs::write(&path, bytes).expect("the ledger is writable");
}

#[test]
fn one_damaged_body_takes_no_other_with_it() {
    let home = Home::new();
    let ask = |name: &str, title: &str| {
        home.write(name, &format!("stasis.gate('{title}')\n"));
        let outcome = home.json(3, &["run", name]);
        (text(&outcome, "/run/id").to_owned(), text(&outcome, "/approvals/0/id").to_owned())
    };
    let (damaged_run, damaged) = ask("first.py", "first question");
    let (_, sound) = ask("other.py", "other question");
    damage(&home, "{\"title\":\"first question\"}", "{\"title\":\"worst question\"}");

    let listed = home.json(0, &["approvals"]);
    let ids: Vec<&str> = listed["items"].as_array().expect("a list").iter().map(|item| text(item, "/id")).collect();
    assert_eq!(ids, [sound.as_str()]);
    assert_eq!(listed["unreadable"], 1); // I-37
    let table = home.stasis(&["approvals", "--output", "table", "--quiet"]);
    assert_eq!(
        table.stderr,
        "warning: a row of this page cannot be read; `stasis audit verify` names what is damaged\n"
    );
    assert_eq!(home.json(0, &["run", "list"])["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(text(&home.problem(1, &["approval", "show", &damaged]), "/code"), "internal");
    assert_eq!(text(&home.json(0, &["approve", &sound]), "/run/status"), "done");
    assert_eq!(text(&home.json(0, &["run", "show", &damaged_run]), "/status"), "awaiting_consent");
}
