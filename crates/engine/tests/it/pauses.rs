//! Pauses, as workers heed them: of a run that executes, one that waits, and of everything that waits in line.

use crate::desk::{Desk, Setting, eventually, local, request};
use protocol::approval::Verdict;
use protocol::id::RunId;
use protocol::pause::Shared;
use protocol::run::{Run, Status};
use std::time::Duration;

const REFUND: &str = r#"
receipt = payments.refund(order_id=inputs["id"], amount=250.5)
result = receipt["applied"]
"#;

async fn read(desk: &Desk, run: RunId) -> Run {
    desk.engine.ledger().run(run).await.expect("read").expect("a run")
}

async fn pause(desk: &Desk, run: RunId) -> (Run, bool) {
    desk.engine.pause(local(), run, Some("the bank is closed")).await.expect("paused")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_program_is_handed_back_and_stays_so_until_it_may_go_on() {
    let desk = Desk::open().await;
    let run = desk.begin("while True: pass", "{}").await;
    eventually("a guest at work", async || desk.engine.guests().iter().any(|guest| guest.resident)).await;
    let (_, changed) = pause(&desk, run).await;
    assert!(changed);
    let stopped = desk.stopped(run).await; // I-19b
    assert_eq!((stopped.status(), stopped.seq), (Status::Queued, 1)); // R-370: E-8
    eventually("no guest is left", async || desk.engine.guests().is_empty()).await; // R-370
    desk.engine.resume(local(), run, None).await.expect("resumed");
    eventually("the hop after it", async || read(&desk, run).await.status() == Status::Running).await; // R-369
    desk.engine.cancel(local(), run, None).await.expect("cancelled");
    assert_eq!(desk.ended(run).await.status(), Status::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_in_place_parks_and_its_answer_waits_for_the_end_of_the_pause() {
    let desk = Desk::with(Setting::hot(Duration::from_secs(60))).await;
    let run = desk.begin(REFUND, r#"{"id": "o-7"}"#).await;
    let asked = desk.asked(run).await;
    pause(&desk, run).await;
    let stopped = desk.stopped(run).await;
    assert_eq!((stopped.status(), stopped.seq), (Status::AwaitingConsent, 0)); // R-370: it parks
    assert_eq!(desk.pending(run).await, std::slice::from_ref(&asked)); // R-173: nothing is asked again
    let decided = desk.decide(asked.id, Verdict::Approve).await.expect("approved"); // R-369
    assert_eq!((decided.run.status(), decided.run.seq), (Status::Queued, 1)); // R-369: it returned, and waits
    let stopped = desk.stopped(run).await;
    assert_eq!((stopped.status(), desk.payments.applied().len()), (Status::Queued, 0)); // R-369
    desk.engine.resume(local(), run, None).await.expect("resumed");
    let run = desk.ended(run).await;
    assert_eq!((run.status(), desk.payments.applied().len()), (Status::Done, 1)); // R-369: once
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_flight_ends_before_its_run_is_handed_back() {
    let desk = Desk::open().await;
    let source = "payments.order(order_id='slow-1')\npayments.order(order_id='o-2')\nresult = 'read'";
    let run = desk.begin(source, "{}").await;
    desk.payments.reached().await;
    desk.engine.pause_all(local(), Shared::Workflow("program".to_owned()), None).await.expect("paused");
    // The hop holds its claim for as long as the call takes.
    assert_eq!(read(&desk, run).await.status(), Status::Running); // R-370
    desk.payments.release();
    let stopped = desk.stopped(run).await;
    assert_eq!(stopped.status(), Status::Queued); // R-370
    let calls = desk.calls(run).await;
    assert!(calls.len() == 1 && calls[0].is_ended(), "{calls:?}"); // R-370: never interrupted
    desk.engine.resume_all(local(), Shared::Workflow("program".to_owned())).await.expect("resumed");
    let run = desk.ended(run).await;
    assert_eq!(desk.result(&run).await, "\"read\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_workflow_or_queue_admits_and_all_of_it_goes_on_afterwards() {
    let desk = Desk::open().await;
    let waiting = desk.run(REFUND, r#"{"id": "o-7"}"#).await;
    let asked = desk.asked(waiting.id).await;
    for scope in [Shared::Workflow("program".to_owned()), Shared::Queue("default".to_owned())] {
        assert!(desk.engine.pause_all(local(), scope, Some("an incident")).await.expect("paused"));
    }
    let new = desk.engine.start_run(local(), request(r#"{"id": "o-8"}"#)).await.expect("admitted").run; // R-60
    assert_eq!(new.status(), Status::Queued); // R-60
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    desk.engine.resume_all(local(), Shared::Queue("default".to_owned())).await.expect("resumed");
    for run in [new.id, waiting.id] {
        assert_eq!(desk.stopped(run).await.status(), Status::Queued); // R-368: the other pause stands
    }
    assert!(desk.payments.applied().is_empty()); // R-369
    let desk = desk.reopen(Setting::default()).await;
    desk.engine.recovered().await;
    assert_eq!(desk.stopped(waiting.id).await.status(), Status::Queued); // R-368: a pause is a row
    desk.engine.resume_all(local(), Shared::Workflow("program".to_owned())).await.expect("resumed");
    assert_eq!(desk.ended(waiting.id).await.status(), Status::Done);
    assert_eq!(desk.stopped(new.id).await.status(), Status::AwaitingConsent);
}
