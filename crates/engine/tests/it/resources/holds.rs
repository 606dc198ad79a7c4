//! What ends a hold from outside, and what a hold leaves to others.

use super::{House, settings};
use crate::desk::{eventually, local};
use protocol::code::Code;
use protocol::limits::WorkerSettings;
use protocol::run::Status;
use std::time::Duration;

async fn holds(house: &House, run: protocol::id::RunId) {
    eventually("a hold", async || house.read(run).await.status() == Status::AwaitingHardware).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_hands_a_hold_back_and_its_request_is_withdrawn() {
    let house = House::with(["--load 60", "--load 0.1"], settings()).await;
    let small = house.ask("small", 1).await;
    holds(&house, small).await;
    // The second waits in line for it; the first is under way.
    let large = house.ask("large", 1).await;
    holds(&house, large).await;
    eventually("its place in line", async || house.desk.engine.place_in_line(large) == Some(1)).await;
    assert_eq!(house.desk.engine.place_in_line(small), Some(0));
    house.desk.engine.pause(local(), large, None).await.expect("paused");
    let paused = house.desk.stopped(large).await;
    assert_eq!((paused.status(), paused.seq, paused.budget.hardware.total), (Status::Queued, 1, 1)); // R-151 R-145
    eventually("it left the line", async || house.desk.engine.place_in_line(large).is_none()).await;
    // A cancel ends the other: its hop stops and acknowledges.
    house.desk.engine.cancel(local(), small, None).await.expect("cancelled");
    assert_eq!(house.desk.ended(small).await.status(), Status::Cancelled);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_has_an_end_of_its_own() {
    let worker = WorkerSettings { hold_max: Duration::from_millis(300), ..settings() };
    let house = House::with(["--load 60", "--load 0.1"], worker).await;
    let run = house.ask("small", 1).await;
    let run = house.desk.ended(run).await;
    let failure = run.failure().expect("failed");
    assert_eq!(failure.code, Code::ResourceFailed);
    assert_eq!(failure.message, "resource 'chat:small' not ready: its turn did not come within 300ms");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_waits_for_no_person_and_a_verdict_comes_before_it() {
    let house = House::open().await;
    // The same model behind a gate: the lease is asked for after the answer, and the question holds none.
    let source = "small.ask(text='a')\nstasis.gate('go on?')\nresult = small.ask(text='b')['reply']";
    let run = house.desk.run(source, "{}").await;
    assert_eq!(run.status(), Status::AwaitingConsent);
    let all = house.desk.engine.resources();
    assert!(all.iter().all(|resource| resource.leases.is_empty())); // R-138 R-154 C-93
    // Others take the room meanwhile: a parked run blocks no drain.
    house.desk.register(super::PROGRAM).await.expect("registered");
    let large = house.ask("large", 1).await;
    assert_eq!(house.desk.ended(large).await.status(), Status::Done);
    assert_eq!(house.state("chat:large"), "warm");
    let asked = house.desk.asked(run.id).await;
    house.desk.decide(asked.id, protocol::approval::Verdict::Approve).await.expect("approved");
    let run = house.desk.ended(run.id).await;
    assert_eq!((run.status(), run.budget.hardware.in_row("chat:small")), (Status::Done, 2));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hop_lost_in_a_hold_is_continued_and_counts_on() {
    let house = House::with(["--load 1", "--load 0.1"], settings()).await;
    let run = house.ask("small", 1).await;
    holds(&house, run).await;
    house.desk.lose(run).await;
    let run = house.desk.ended(run).await;
    assert_eq!((run.status(), run.seq), (Status::Done, 1), "{:?}", run.failure());
    // The second hop found it warm, or asked once more.
    assert!((1..=2).contains(&run.budget.hardware.total));
    house.close().await;
}
