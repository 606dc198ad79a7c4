//! The chain: a program that calls from the strangest places of the language, frozen and thawed in a new process at every
//! call, ends as it does when nothing interrupts it; and so it does when a new process replays its journal at every call.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::time::Time;
use sandbox::{Binding, End, Event, Guest, Program};
use serde::{Deserialize, Serialize};

use crate::journal::Told;
use crate::support::{Lines, START, World, finish, program, sandbox};

const SOURCE: &str = include_str!("programs/chain.py");
const THIS_TEST: &str = "chain::each_process_takes_the_program_one_call_further";
const STATE: &str = "CHAIN_STATE";

fn chain() -> Program {
    program(SOURCE)
}

fn binding(calls: u64) -> Binding {
    Binding { run: *b"the chain's run.", hop: calls, position: calls }
}

/// Entropy of the answer to a call: every way of continuing gives the same.
fn entropy(call: u64) -> [u8; 32] {
    let mut entropy = [3; 32];
    entropy[..8].copy_from_slice(&call.to_le_bytes());
    entropy
}

fn world(calls: u64) -> World {
    World { now: START + calls as i64 * 1_000_000, next: calls + 1, ..World::default() }
}

fn answer(guest: &mut Guest, calls: &mut u64, next: &mut u64, request: &[u8]) {
    let mut world = world(*calls);
    world.next = *next;
    world.entropy = Some(entropy(*calls));
    guest.answer(world.answer(request));
    *calls += 1;
    *next = world.next;
}

/// What one process leaves to the next: one call further by a snapshot, and one by the journal.
#[derive(Serialize, Deserialize, Default)]
struct Left {
    calls: u64,
    next: u64,
    /// The result, once the program ended.
    result: Option<String>,
    lines: Vec<String>,
    replayed: Replayed,
}

#[derive(Serialize, Deserialize, Default)]
struct Replayed {
    journal: Vec<Told>,
    result: Option<String>,
    /// Of the last process, which printed everything again.
    lines: Vec<String>,
}

/// The unbroken run: its result, its log, and the requests it made.
async fn unbroken() -> (End, Vec<String>, Vec<Vec<u8>>) {
    let (lines, mut requests) = (Lines::default(), Vec::new());
    let mut guest = sandbox().start(&chain(), lines.limits()).await.unwrap();
    let (mut calls, mut next) = (0, 1);
    let end = loop {
        match guest.next().await {
            Event::Call(request) => {
                answer(&mut guest, &mut calls, &mut next, &request);
                requests.push(request);
            }
            Event::Ended(end) => break end,
            Event::Oversized { .. } => unreachable!("the chain sends nothing so long"),
        }
    };
    (end, lines.take(), requests)
}

#[tokio::test]
async fn thawed_or_replayed_in_a_new_process_at_every_call_the_program_ends_as_if_unbroken() {
    let (end, lines, requests) = unbroken().await;
    let End::Returned { result } = end else { panic!("{end:#?}\n{lines:#?}") };
    assert!(requests.len() > 340, "{} calls", requests.len());

    let folder = tempfile::tempdir().unwrap();
    let mut processes = 0;
    let left = loop {
        one_process(folder.path());
        processes += 1;
        let left = read(folder.path());
        if left.result.is_some() {
            break left;
        }
        assert!(processes <= requests.len(), "the chain has no end");
    };
    // W-137, W-242, W-250
    assert_eq!(processes, requests.len() + 1);
    assert_eq!(left.result.as_deref(), Some(result.as_str()));
    assert_eq!(left.lines, lines);
    let replayed = left.replayed;
    // W-172, W-250
    assert_eq!(replayed.result.as_deref(), Some(result.as_str()));
    assert_eq!(replayed.lines, lines);
    assert!(replayed.journal.iter().map(|told| told.request.as_bytes()).eq(requests.iter().map(Vec::as_slice)));
}

/// Starts this very test binary for one link of the chain.
fn one_process(folder: &Path) {
    let binary = std::env::current_exe().unwrap();
    let output = Command::new(binary).args([THIS_TEST, "--exact", "--nocapture"]).env(STATE, folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn read(folder: &Path) -> Left {
    serde_json::from_slice(&fs::read(folder.join("left.json")).unwrap()).unwrap()
}

/// One link: started by the test above with a folder, it continues what lies there; started alone, it begins a chain.
#[tokio::test]
async fn each_process_takes_the_program_one_call_further() {
    let alone = tempfile::tempdir().unwrap();
    let folder = std::env::var_os(STATE).map_or_else(|| alone.path().to_owned(), PathBuf::from);
    let snapshot = folder.join("snapshot");
    let mut left = if snapshot.exists() { read(&folder) } else { Left { next: 1, ..Left::default() } };
    by_journal(&mut left.replayed).await;
    by_snapshot(&mut left, &snapshot).await;
    fs::write(folder.join("left.json"), serde_json::to_vec(&left).unwrap()).unwrap();
}

async fn by_snapshot(left: &mut Left, snapshot: &Path) {
    let lines = Lines::default();
    let mut guest = if snapshot.exists() {
        let bytes = fs::read(snapshot).unwrap();
        let mut guest = sandbox().thaw(&bytes, &binding(left.calls), lines.limits()).await.unwrap();
        let Some(Event::Call(request)) = guest.pending() else { panic!("a thawed guest is in its call") };
        answer(&mut guest, &mut left.calls, &mut left.next, &request);
        guest
    } else {
        sandbox().start(&chain(), lines.limits()).await.unwrap()
    };
    match guest.next().await {
        Event::Call(_) => {
            let frozen = guest.freeze(&binding(left.calls)).await.unwrap();
            assert!(frozen.bytes().len() < 4 << 20, "{} bytes", frozen.bytes().len());
            fs::write(snapshot, frozen.bytes()).unwrap();
        }
        Event::Ended(End::Returned { result }) => left.result = Some(result),
        other => panic!("{other:#?}"),
    }
    left.lines.extend(lines.take());
}

/// Answers a fresh guest from the journal, and the call after that live.
async fn by_journal(left: &mut Replayed) {
    let lines = Lines::default();
    let mut guest = sandbox().start(&chain(), lines.limits()).await.unwrap();
    for told in &left.journal {
        let Event::Call(request) = guest.next().await else { panic!("a call") };
        assert_eq!(request, told.request.as_bytes());
        guest.answer(told.answer());
    }
    match guest.next().await {
        Event::Call(request) => {
            let calls = left.journal.len() as u64;
            let next = left.journal.last().map_or(1, |told| told.next);
            let mut world = World { entropy: Some(entropy(calls)), next, ..world(calls) };
            let answer = world.answer(&request);
            left.journal.push(Told::of(&request, answer));
        }
        Event::Ended(End::Returned { result }) => left.result = Some(result),
        other => panic!("{other:#?}"),
    }
    left.lines = lines.take();
}

#[tokio::test]
async fn a_replay_is_followed_by_a_snapshot_and_by_life_with_the_same_end() {
    let (end, _, requests) = unbroken().await;
    let half = requests.len() / 2;
    let mut guest = sandbox().start(&chain(), Lines::default().limits()).await.unwrap();
    let (mut calls, mut next) = (0, 1);
    for expected in &requests[..half] {
        let Event::Call(request) = guest.next().await else { panic!("a call") };
        assert_eq!(&request, expected);
        answer(&mut guest, &mut calls, &mut next, &request);
    }
    let Event::Call(request) = guest.next().await else { panic!("a call") };
    let frozen = guest.freeze(&binding(calls)).await.unwrap();
    let mut guest = sandbox().thaw(frozen.bytes(), &binding(calls), Lines::default().limits()).await.unwrap();
    answer(&mut guest, &mut calls, &mut next, &request);
    let last = loop {
        match guest.next().await {
            Event::Call(request) => answer(&mut guest, &mut calls, &mut next, &request),
            Event::Ended(last) => break last,
            Event::Oversized { .. } => unreachable!("the chain sends nothing so long"),
        }
    };
    // W-250
    assert_eq!(last, end);
}

#[tokio::test]
async fn the_same_wait_ten_times_gives_the_same_result_hot_and_frozen() {
    let source = "total = 0\nfor i in range(3):\n    total += demo.get(i=i)\n    print(total)\nresult = total";
    let mut hot = World::default();
    let mut guest = sandbox().start(&program(source), Lines::default().limits()).await.unwrap();
    let expected = finish(&mut guest, &mut hot).await;
    for _ in 0..10 {
        let mut world = World::default();
        let mut guest = sandbox().start(&program(source), Lines::default().limits()).await.unwrap();
        let end = loop {
            match guest.next().await {
                Event::Call(request) => {
                    let frozen = guest.freeze(&binding(0)).await.unwrap();
                    guest = sandbox().thaw(frozen.bytes(), &binding(0), Lines::default().limits()).await.unwrap();
                    world.entropy = Some([9; 32]);
                    guest.answer(world.answer(&request));
                }
                Event::Ended(end) => break end,
                Event::Oversized { .. } => unreachable!("short requests"),
            }
        };
        // W-250
        assert_eq!((&end, &world.requests), (&expected, &hot.requests));
        assert!(Time::from_micros(world.now) > Time::from_micros(START));
    }
}
