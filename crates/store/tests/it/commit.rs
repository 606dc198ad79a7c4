//! A commit whose write fails: the caller is told that its fate is unknown, finds the truth by reading, and goes on.
//!
//! The child is this test binary again, with the signal for a file that is too long ignored, so that writing fails instead.

use std::process::{Command, Stdio};

use protocol::command::{Act, Progress};
use protocol::rows::NewBody;
use protocol::run::Status;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stasis_store::TransactError;

use crate::home::Home;

const CHILD: &str = "STASIS_TEST_SHORT_FILES";

/// Does nothing, unless this process is the child.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let home = Home::new();
        let world = home.world().await;
        let run = world.running().await;
        let before = world.shown(run.id).await;
        let log = std::fs::metadata(home.path().with_extension("db-wal")).unwrap().len();
        let unlimited = getrlimit(Resource::Fsize);
        setrlimit(Resource::Fsize, Rlimit { current: Some(log + 20_000), ..unlimited }).unwrap();
        let noise: Vec<u8> =
            (0..4_000u32).flat_map(|n| *protocol::digest::Digest::of(n.to_le_bytes()).as_bytes()).collect();
        let large = || Progress { bodies: vec![NewBody::new(noise.clone())], ..Progress::default() };
        let told = world.hop(&run, large(), Act::Record).await;
        assert!(matches!(told, Err(TransactError::Unknown { .. })), "{told:?}");
        assert_eq!(world.shown(run.id).await, before);
        setrlimit(Resource::Fsize, unlimited).unwrap();
        // The writer has opened the store again.
        let done = world.step(&run, large(), world.finish("{}")).await.unwrap();
        assert_eq!(done.status(), Status::Done);
        assert!(world.ledger.ready());
        assert_eq!(world.ledger.check().await.unwrap().faults, Vec::<String>::new());
    });
    say("the child is through");
}

#[allow(clippy::print_stdout, reason = "the parent reads how far the child came")]
fn say(line: &str) {
    println!("{line}");
}

#[test]
fn a_commit_that_errors_is_unknown_and_the_truth_is_read() {
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" --exact commit::child --nocapture --test-threads=1"])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, "1")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("the child is through"), "{said}");
}
