//! Killing a writer: what was answered is there, and nothing is half there.
//!
//! The child is this test binary again, told by the environment to write until it is killed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use protocol::id::RunId;
use protocol::journal;
use stasis_store::{Ledger, StoreConfig, failpoint};

use crate::home::Home;

const CHILD: &str = "STASIS_TEST_WRITER";

/// Does nothing, unless this process is the child.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let ledger = Ledger::open(StoreConfig::new(path)).unwrap();
        let clock = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
        let world = std::sync::Arc::new(stasis_store::conformance::World::on(ledger, clock, ()).await);
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let world = std::sync::Arc::clone(&world);
            writers.spawn(async move {
                loop {
                    let (run, _) = world.parked().await;
                    assert!(world.pause(run.id, true).await);
                    world.send(world.named(run.id, "paid"), "k", "1").await.unwrap();
                    say(&format!("parked {}", run.id));
                }
            });
        }
        // None of them ends by itself.
        writers.join_next().await.unwrap().unwrap();
    });
}

#[allow(clippy::print_stdout, reason = "the parent reads what was answered")]
fn say(line: &str) {
    println!("{line}");
}

/// Lets a child write, kills it after `answers` lines or lets it die at `point`, and gives what it was answered.
fn write_and_die(home: &Home, answers: usize, point: Option<&str>) -> Vec<RunId> {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "crash::child", "--nocapture", "--test-threads=1"]).env(CHILD, home.path());
    if let Some(point) = point {
        child.env("STASIS_CRASH_AT", point);
    }
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut told = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let Ok(line) = line else { break };
        // The test harness writes its own words before the first answer.
        if let Some((_, id)) = line.split_once("parked ") {
            told.push(id.parse().unwrap());
        }
        if told.len() == answers {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    told
}

async fn everything_is_whole(home: &Home, told: &[RunId]) {
    let ledger = home.open().unwrap();
    assert_eq!(ledger.check().await.unwrap().faults, Vec::<String>::new());
    for id in told {
        let run = ledger.run(*id).await.unwrap().expect("what was answered is there");
        assert!(run.status().is_parked() && run.pause.is_some() && run.signals == 1);
    }
    let runs = ledger.runs(stasis_store::RunFilter::default(), None, 100_000).await.unwrap();
    assert!(runs.faults.is_empty());
    for run in runs.items {
        let events = ledger.events(run.id, None, 1_000).await.unwrap().unwrap();
        assert_eq!(events.last().map(|event| event.digest), Some(run.events.digest)); // R-34 C-273: no change without its events
        assert_eq!(events.len() as u32, run.events.len);
        let entries = ledger.journal(run.id).await.unwrap().unwrap();
        assert!(journal::verify(&entries, run.journal));
        assert!(ledger.body(run.id, run.input.digest).await.unwrap().is_some());
        if run.checkpoint.is_some() {
            assert!(ledger.checkpoint(run.id).await.unwrap().is_some());
        }
    }
}

#[tokio::test]
async fn a_killed_writer_loses_nothing_that_it_answered() {
    let home = Home::new();
    let mut told = Vec::new();
    for answers in [1, 17, 60] {
        told.extend(write_and_die(&home, answers, None));
        everything_is_whole(&home, &told).await;
    }
    assert!(told.len() >= 78);
}

#[tokio::test]
async fn a_crash_at_every_point_leaves_whole_commands() {
    let home = Home::new();
    let mut told = Vec::new();
    // The points of a checkpoint of the log are reached only once the log is long.
    for point in failpoint::NAMES.iter().filter(|name| !name.ends_with("_checkpoint")) {
        told.extend(write_and_die(&home, usize::MAX, Some(&format!("{point}:40"))));
        everything_is_whole(&home, &told).await;
    }
    assert!(!told.is_empty());
}
