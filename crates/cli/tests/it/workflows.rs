//! Registering what can be run, and which revision runs (I-4).

use crate::home::{Home, text};

#[test]
fn the_same_content_is_the_same_pattern_and_an_inactive_revision_waits_to_be_activated() {
    let home = Home::new();
    home.write("flow.py", "result = 1\n");
    let first = home.json(0, &["workflow", "register", "flow.py"]);
    assert_eq!(
        (first["revision"].as_u64(), first["created"].as_bool(), first["active"].as_bool()),
        (Some(1), Some(true), Some(true))
    ); // I-4
    let again = home.json(0, &["workflow", "register", "flow.py"]);
    assert_eq!((&again["pattern"], &again["digest"]), (&first["pattern"], &first["digest"])); // I-4
    assert_eq!(again["created"], false); // I-4

    home.write("flow.py", "result = 2\n");
    let second = home.json(0, &["workflow", "register", "flow.py", "--inactive"]);
    assert_eq!((second["revision"].as_u64(), second["active"].as_bool()), (Some(2), Some(false))); // I-4
    let run = |wanted: u64| {
        let outcome = home.json(0, &["run", "start", "flow", "--wait"]);
        assert_eq!(outcome["run"]["result"], wanted, "{outcome}"); // R-46
    };
    run(1);
    let shown = home.json(0, &["workflow", "activate", "flow", "2"]);
    assert_eq!(shown["revision"], 2); // I-4
    run(2);
    let shown = home.json(0, &["workflow", "show", "flow"]);
    assert_eq!(shown["revisions"].as_array().map(Vec::len), Some(2)); // I-4
    let list = home.json(0, &["workflow", "list"]);
    assert_eq!(text(&list, "/items/0/key"), "flow"); // I-4
    home.problem(7, &["workflow", "show", "absent"]);
}

#[test]
fn a_start_with_a_key_is_one_run_however_often_it_is_asked_for() {
    let home = Home::new();
    home.write("flow.py", "result = inputs\n");
    home.json(0, &["workflow", "register", "flow.py"]);
    let words = ["run", "start", "flow", "--input", r#"{"n":1}"#, "--idempotency-key", "k", "--label", "team=a"];
    let first = home.json(0, &words);
    assert_eq!((text(&first, "/status"), first["created"].as_bool()), ("done", Some(true))); // I-5
    assert_eq!(text(&first, "/labels/team"), "a"); // I-5
    let again = home.json(0, &words);
    assert_eq!((&again["id"], again["created"].as_bool()), (&first["id"], Some(false))); // I-21
    let other = ["run", "start", "flow", "--input", r#"{"n":2}"#, "--idempotency-key", "k"];
    assert_eq!(text(&home.problem(2, &other), "/code"), "idempotency_mismatch"); // I-21
    let unknown = home.problem(2, &["run", "start", "absent"]);
    assert_eq!(text(&unknown, "/code"), "unknown_workflow");
}
