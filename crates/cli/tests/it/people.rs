//! A person at a terminal: the binary on a pseudo terminal, typed at and read from.

use crate::cycle::ASKS;
use crate::home::Home;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

struct Terminal {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    child: Child,
}

impl Terminal {
    fn start(home: &Home, words: &[&str]) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("the system has pseudo terminals");
        grantpt(&ours).expect("grantpt");
        unlockpt(&ours).expect("unlockpt");
        let name = ptsname(&ours, Vec::new()).expect("ptsname");
        let theirs =
            rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("the other end opens");
        let end = || Stdio::from(theirs.try_clone().expect("a descriptor can be copied"));
        let child = home.command(words).stdin(end()).stdout(end()).stderr(end()).spawn().expect("the binary starts");
        drop(theirs);
        let mut reader = File::from(ours.try_clone().expect("a descriptor can be copied"));
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails when the last writer has gone.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let _ = sender.send(buffer[..count].to_vec());
            }
        });
        Terminal { keyboard: File::from(ours), screen, seen: String::new(), child }
    }

    /// Reads until the text is on the screen.
    fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let bytes = self.screen.recv_timeout(PATIENCE);
            let bytes = bytes.unwrap_or_else(|_| panic!("waited for {text:?}, saw:\n{}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    /// What comes after this is looked for afresh.
    fn type_line(&mut self, line: &str) {
        self.seen.clear();
        writeln!(self.keyboard, "{line}").expect("the keyboard works");
    }

    fn end(mut self) -> (i32, String) {
        while let Ok(bytes) = self.screen.recv_timeout(PATIENCE) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        let status = self.child.wait().expect("a child can be waited for");
        (status.code().unwrap_or(-1), self.seen)
    }
}

#[test]
fn a_person_sees_the_log_and_approves_where_they_are() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let mut terminal = Terminal::start(&home, &["run", "asks.py"]);
    terminal.until("[l]ater?");
    assert!(terminal.seen.contains("| asking"), "{}", terminal.seen); // I-2
    assert!(terminal.seen.contains("sha256:"), "{}", terminal.seen); // I-2
    terminal.type_line("perhaps");
    terminal.until("[l]ater?");
    terminal.type_line("a");
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}"); // I-2
    assert!(seen.contains("| answered") && seen.contains("DONE"), "{seen}"); // I-2
}

#[test]
fn a_person_rejects_with_a_reason() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let mut terminal = Terminal::start(&home, &["run", "asks.py"]);
    terminal.until("[l]ater?");
    terminal.type_line("r");
    terminal.until("reason:");
    terminal.type_line("not today");
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("\"rejected\""), "{seen}"); // I-2
}

#[test]
fn later_leaves_the_run_where_it_is_and_another_command_goes_on() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let mut terminal = Terminal::start(&home, &["run", "asks.py"]);
    terminal.until("[l]ater?");
    terminal.type_line("l");
    let (code, seen) = terminal.end();
    assert_eq!(code, 3, "{seen}"); // I-2
    let pending = home.json(0, &["approvals"]);
    let id = pending["items"][0]["id"].as_str().expect("the question is still open"); // I-2
    assert_eq!(home.json(0, &["approve", id])["run"]["status"], "done");
}
