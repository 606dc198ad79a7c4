//! A process that dies, or a disk that fills up, while a call is under way: what the ledger says of it, and what the next
//! process makes of it (calls.md section 12).

use crate::home::{Home, said, text};
use crate::servers::until;
use crate::teller::Teller;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

const PAYS: &str = "
desk.pay(n=1)
desk.tell(n=2)
result = 'paid'
";

struct Story {
    home: Home,
    teller: Teller,
    run: String,
    approval: String,
}

/// A program parked on its question.
fn asked(source: &str) -> Story {
    let home = Home::new();
    let teller = Teller::start(&home);
    home.write("program.py", source);
    let outcome = home.json(3, &["run", "program.py"]);
    let (run, approval) = (text(&outcome, "/run/id").to_owned(), text(&outcome, "/approvals/0/id").to_owned());
    Story { home, teller, run, approval }
}

impl Story {
    fn spawn(&self, mut command: std::process::Command) -> Child {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
    }

    fn kill(&self, child: Child) {
        kill_process(pid(&child), Signal::KILL).expect("it runs");
        assert_eq!(said(child, &["killed"]).code, -1);
    }

    fn show(&self) -> Value {
        self.home.json(0, &["run", "show", &self.run])
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[test]
fn a_crash_after_the_gate_leaves_the_approval_gated_and_the_key_settles_the_call() {
    let story = asked(PAYS);
    let approving = story.spawn(story.home.command(&["approve", &story.approval]));
    story.teller.reached("/pay", 1);
    story.kill(approving);
    let approval = story.home.json(0, &["approval", "show", &story.approval]);
    assert_eq!(text(&approval, "/status"), "approved"); // C-160
    assert!(!approval["dispatch"]["gate_at"].is_null(), "{approval}"); // C-160
    story.teller.release_all();
    let done = story.home.json(0, &["run", "wait", &story.run]);
    assert_eq!(text(&done, "/run/result"), "paid", "{done}"); // C-228
    let seen = story.teller.seen("/pay");
    assert!(seen.len() == 2 && seen[0] == seen[1], "{seen:?}"); // C-228 C-12
    assert_eq!(story.teller.seen("/tell").len(), 1);
}

#[test]
fn an_outcome_that_cannot_be_stored_is_not_told_to_the_program() {
    let story = asked(PAYS);
    let approving = story.spawn(story.home.limited("", &["approve", &story.approval]));
    story.teller.reached("/pay", 1);
    // From here on nothing more fits on the disk of this process.
    let full = Rlimit { current: Some(1), maximum: Some(1) };
    prlimit(Some(pid(&approving)), Resource::Fsize, full).expect("its limits can be set");
    story.teller.release(1);
    let socket = story.home.path().join(".stasis/stasis.sock");
    until("the store has met its end", || ready(&socket).is_some_and(|answer| answer.starts_with("HTTP/1.1 503")));
    assert!(story.teller.seen("/tell").is_empty()); // C-94
    story.kill(approving);
    // it could not learn what became of its commit, and neither sent again nor went on.
    assert_eq!((story.teller.seen("/pay").len(), story.teller.seen("/tell").len()), (1, 0)); // R-113 C-94
    story.teller.release_all();
    let done = story.home.json(0, &["run", "wait", &story.run]);
    assert_eq!(text(&done, "/run/result"), "paid", "{done}"); // C-94: what is stored is read, and the key settles the rest
    assert_eq!((story.teller.seen("/pay").len(), story.teller.seen("/tell").len()), (2, 1)); // C-94
    assert_eq!(text(&story.show(), "/effects/0/applied"), "yes");
}

/// The head of what `/readyz` answers on a socket.
fn ready(socket: &std::path::Path) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_read_is_started_three_times_at_most() {
    let story = asked("result = desk.look(n=1)\n");
    story.teller.release_all();
    let dies = |words: &[&str]| {
        let mut command = story.home.command(words);
        command.env("STASIS_CRASH_AT", "handler.after:1");
        assert_eq!(Home::ends(command).code, -1, "{words:?}");
    };
    dies(&["approve", &story.approval]);
    for starts in [1, 2] {
        assert_eq!(story.teller.seen("/look").len(), starts);
        dies(&["run", "wait", &story.run]);
    }
    let failed = story.home.json(4, &["run", "wait", &story.run]);
    assert_eq!(story.teller.seen("/look").len(), 3); // C-229
    assert!(text(&failed, "/run/failure/message").contains("handler_error"), "{failed}"); // C-229
    let calls = story.home.json(0, &["run", "calls", &story.run]);
    assert_eq!(text(&calls, "/items/0/applied"), "no"); // C-229
}
