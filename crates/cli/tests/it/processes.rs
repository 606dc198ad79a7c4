//! Several processes on one data directory, and processes that are interrupted (I-18, I-19b).

use crate::cycle::ASKS;
use crate::home::{Home, said, text};
use std::process::{Command, Stdio};

#[test]
fn commands_at_once_on_one_data_directory_all_succeed() {
    let home = Home::new();
    home.write("good.py", "result = inputs[\"n\"]\n");
    let words = |n: &str| ["run".to_owned(), "good.py".into(), "--input".into(), format!("{{\"n\":{n}}}")];
    let numbers = ["1", "2", "3", "4"];
    let children = numbers.map(|n| {
        let words = words(n);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
    });
    for (child, n) in children.into_iter().zip(numbers) {
        let said = said(child, &["run", "good.py", n]);
        assert_eq!(said.code, 0, "{said:?}"); // I-1b
        assert_eq!(said.object()["run"]["result"].to_string(), n);
    }
    assert_eq!(home.json(0, &["run", "list"])["items"].as_array().map(Vec::len), Some(4)); // I-1b
}

#[test]
fn an_interrupted_command_exits_130_and_leaves_the_run() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let outcome = home.json(3, &["run", "asks.py"]);
    let (run, approval) = (text(&outcome, "/run/id"), text(&outcome, "/approvals/0/id"));
    let words = ["run", "wait", run, "--until", "terminal"];
    let waiting =
        home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let socket = home.path().join(".stasis/stasis.sock");
    crate::servers::until("the socket answers", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let interrupt = Command::new("kill").args(["-INT", &waiting.id().to_string()]).status();
    assert!(interrupt.is_ok_and(|status| status.success()));
    assert_eq!(said(waiting, &words).code, 130); // I-19b
    assert_eq!(text(&home.json(0, &["run", "show", run]), "/status"), "awaiting_consent"); // I-19b
    assert_eq!(text(&home.json(0, &["approve", approval]), "/run/status"), "done");
}

#[test]
fn a_server_that_dies_under_a_command_does_not_take_the_name_of_its_run_along() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let server = crate::servers::Server::start(&home, &["dev"]);
    let words = ["run", "asks.py"];
    let waiting =
        home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    crate::servers::until("the question is asked", || {
        home.json(0, &["approvals"])["items"].as_array().is_some_and(|items| items.len() == 1)
    });
    server.signal("-KILL");
    drop(server);
    let told = said(waiting, &words);
    assert_eq!((told.code, text(&told.told(), "/code")), (1, "server_unreachable")); // I-16
    let runs = home.json(0, &["run", "list"]);
    let run = text(&runs, "/items/0/id");
    assert_eq!(
        text(&told.told(), "/hint"),
        format!("{run} may be there and go on: `stasis run show {run}` once the server is back")
    );
}

#[test]
fn a_process_killed_in_a_hot_wait_loses_nothing_and_what_is_replayed_is_not_printed_twice() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let server = crate::servers::Server::start(&home, &["dev"]);
    home.json(0, &["workflow", "register", "asks.py"]);
    let run = text(&home.json(0, &["run", "start", "asks"]), "/id").to_owned();
    let mut asked = serde_json::Value::Null;
    crate::servers::until("the question is asked", || {
        asked = home.json(0, &["approvals"]);
        asked["items"].as_array().is_some_and(|items| items.len() == 1)
    });
    server.signal("-KILL");
    drop(server);
    assert_eq!(home.json(0, &["approvals"])["items"][0]["id"], asked["items"][0]["id"]); // C-209
    let decided = home.json(0, &["approve", text(&asked, "/items/0/id")]);
    assert_eq!(text(&decided, "/run/status"), "done", "{decided}");
    let log = home.stasis(&["run", "log", &run, "--output", "table"]);
    assert_eq!(log.stdout, "asking\nanswered\n"); // W-177
}

#[test]
fn a_lock_that_nobody_answers_for_is_named_with_its_process() {
    let home = Home::new();
    home.write("good.py", "result = 1\n");
    home.json(0, &["run", "good.py"]);
    let server = crate::servers::Server::start(&home, &["serve"]);
    server.signal("-STOP");
    let refused = home.problem(1, &["run", "list"]);
    server.signal("-CONT");
    assert_eq!(text(&refused, "/code"), "store_locked"); // I-18
    assert!(text(&refused, "/detail").contains(&server.id().to_string()), "{refused}"); // I-18
}
