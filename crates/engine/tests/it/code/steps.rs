//! What a step answers, and what is made of it.

use super::{begin, checkpoint, desk, desk_with, next, program, run, setting, told};
use crate::desk::{Setting, eventually, local};
use engine::workflow::{About, CallError, Cx, Errors, InstallError, Step, StepError, Workflow, Workflows};
use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::event::Kind;
use protocol::run::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// An error with a cause that it names.
#[derive(Debug, thiserror::Error)]
#[error("the refund could not be made")]
struct Because(#[source] CallError);

/// The same, but its cause is only a part of its text.
#[derive(Debug, thiserror::Error)]
#[error("suppressed: {0}")]
struct Suppressed(CallError);

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_taken_only_from_an_error_that_leads_to_it_without_doubt() {
    let program = program(|_, state, cx| {
        Box::pin(async move {
            let waits = match cx.gate("Go on?").await {
                Ok(decision) => return Ok(Step::End(json!(decision.approved()))),
                Err(waits) => waits,
            };
            match state.as_str().unwrap_or_default() {
                "cause" => Err(Because(waits).into()),
                "group" => {
                    let other = cx.gate("Go on?").await.expect_err("the same wait");
                    Err(Errors::new([Because(waits), Because(other)]).into())
                }
                "in part" => {
                    let other: Box<dyn std::error::Error + Send + Sync> = "and this".into();
                    Err(Errors::new([Box::new(Because(waits)) as _, other]).into())
                }
                _ => Err(Suppressed(waits).into()),
            }
        })
    });
    let desk = desk(&program).await;
    for input in [r#""cause""#, r#""group""#] {
        let parked = run(&desk, input).await;
        assert_eq!(parked.status(), Status::AwaitingConsent, "{input}"); // R-129 R-130
        let asked = desk.asked(parked.id).await;
        desk.decide(asked.id, Verdict::Approve).await.expect("approved");
        assert_eq!(desk.result(&desk.ended(parked.id).await).await, "true");
    }
    let text = [
        (r#""in part""#, Code::AmbiguousWait, "ambiguous wait signal"), // R-131
        (r#""suppressed""#, Code::StepFailed, "suppressed: the step waits"), // R-129
    ];
    for (input, code, message) in text {
        let failed = run(&desk, input).await;
        let failure = failed.failure().expect("failed");
        assert_eq!((failure.code, failure.message.as_str()), (code, message));
        assert!(told(&desk, failed.id, Kind::ApprovalRequested).await.is_empty(), "{input}"); // R-131: no wait is made
        assert!(told(&desk, failed.id, Kind::NodeWaiting).await.is_empty(), "{input}"); // R-131
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_of_an_earlier_step_is_no_wait_of_this_one() {
    let kept = Arc::new(std::sync::Mutex::new(None));
    let program = program(move |node, _, cx| {
        let kept = kept.clone();
        Box::pin(async move {
            if node == "first" {
                *kept.lock().expect("held by nobody else") = cx.gate("Go on?").await.err();
                return Ok(next("second"));
            }
            let old = kept.lock().expect("held by nobody else").take();
            Err(old.expect("kept before").into())
        })
    });
    let desk = desk(&program).await;
    let failed = run(&desk, "{}").await;
    let failure = failed.failure().expect("failed");
    assert_eq!((failure.code, failure.message.as_str()), (Code::AmbiguousWait, "ambiguous wait signal")); // R-131
    assert!(desk.pending(failed.id).await.is_empty()); // R-131
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_run_one_after_the_other_and_cost_no_commit() {
    let program = program(|node, state, _| {
        Box::pin(async move {
            let list = state.as_array_mut().ok_or("a list")?;
            list.push(json!(node));
            if list.len() == 2_000 { Ok(Step::End(json!(list.len()))) } else { Ok(next(&format!("n{}", list.len()))) }
        })
    });
    let desk = desk(&program).await;
    let before = desk.engine.ledger().commits();
    let done = run(&desk, "[]").await;
    assert_eq!(desk.result(&done).await, "2000"); // R-119
    // Admission, end, and one for each 512 events that nobody has to wait for.
    let spent = desk.engine.ledger().commits() - before;
    assert!((2..=10).contains(&spent), "{spent} commits"); // R-117
    let entered = told(&desk, done.id, Kind::NodeEntered).await;
    assert_eq!(entered[1]["node"], "n1"); // R-119 R-134
}

/// Two steps with a moment between them in which a test does something.
fn paced(gates: Arc<(Semaphore, Semaphore)>) -> super::Program {
    program(move |node, state, _| {
        let gates = gates.clone();
        Box::pin(async move {
            if node == "first" {
                gates.0.add_permits(1);
                gates.1.acquire().await?.forget();
                state["first"] = json!(true);
                return Ok(next("second"));
            }
            Ok(Step::End(state.clone()))
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_and_a_shutdown_wait_for_the_end_of_a_step() {
    let gates = Arc::new((Semaphore::new(0), Semaphore::new(0)));
    let program = paced(gates.clone());
    let desk = desk(&program).await;
    let id = begin(&desk, "{}").await;
    gates.0.acquire().await.expect("open").forget();
    desk.engine.pause(local(), id, None).await.expect("paused");
    let row = desk.engine.ledger().run(id).await.expect("read").expect("there");
    assert_eq!(row.status(), Status::Running); // R-115 R-370: no boundary inside a step
    gates.1.add_permits(1);
    let paused = desk.stopped(id).await;
    assert_eq!((paused.status(), paused.seq), (Status::Queued, 1)); // R-370: handed back between steps
    let entries = checkpoint(&desk, id).await["entries"].clone();
    assert_eq!(entries[0]["status"], "success"); // R-126: of what finished the last one stays
    assert_eq!((&entries[1]["node"], &entries[1]["state"]["first"]), (&json!("second"), &json!(true))); // R-115
    let desk = desk.reopen(setting(&program)).await;
    desk.engine.resume(local(), id, None).await.expect("resumed");
    let done = desk.ended(id).await;
    assert_eq!(desk.result(&done).await, r#"{"first":true}"#);
    assert_eq!(told(&desk, id, Kind::NodeEntered).await.len(), 2); // R-125: the first step was not run again
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_calls_under_a_pause_gives_way_and_makes_the_call_later() {
    let gates = Arc::new((Semaphore::new(0), Semaphore::new(0)));
    let at = gates.clone();
    let program = program(move |_, state, cx| {
        let gates = at.clone();
        Box::pin(async move {
            gates.0.add_permits(1);
            gates.1.acquire().await?.forget();
            state["tries"] = json!(state["tries"].as_u64().unwrap_or_default() + 1);
            let _: Value = cx.call("mail.send", &json!({ "to": "x" })).await?;
            Ok(Step::End(state.clone()))
        })
    });
    let desk = desk(&program).await;
    let id = begin(&desk, "{}").await;
    gates.0.acquire().await.expect("open").forget();
    desk.engine.pause(local(), id, None).await.expect("paused");
    gates.1.add_permits(2);
    let paused = desk.stopped(id).await;
    assert_eq!(paused.status(), Status::Queued); // R-369 R-370
    assert!(desk.payments.applied().is_empty()); // R-369
    desk.engine.resume(local(), id, None).await.expect("resumed");
    let done = desk.ended(id).await;
    assert_eq!(desk.result(&done).await, r#"{"tries":2}"#);
    assert_eq!((desk.payments.applied().len(), desk.calls(id).await.len()), (1, 1)); // R-300
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_had_more_than_its_time_goes_no_further() {
    let program = program(|node, _, _| {
        Box::pin(async move {
            if node == "second" {
                return Ok(Step::End(Value::Null));
            }
            // A step of its own pace: nothing stops it inside.
            let _ = tokio::time::timeout(Duration::from_millis(60), std::future::pending::<()>()).await;
            Ok(next("second"))
        })
    });
    let mut setting = setting(&program);
    setting.limits.active_limit = Duration::from_millis(50);
    let desk = desk_with(setting).await;
    let failed = run(&desk, "{}").await;
    let failure = failed.failure().expect("failed");
    assert_eq!(failure.code, Code::StepTime); // R-376
    let numbers: Vec<u64> = failure.message.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(matches!(numbers[..], [spent, 50] if spent >= 60), "{}", failure.message); // R-376: both numbers
    assert!(failure.message.starts_with("active time exceeded"), "{}", failure.message); // R-376
    assert_eq!(told(&desk, failed.id, Kind::NodeEntered).await.len(), 1); // R-376: at the next step boundary
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_or_node_that_is_not_of_the_code_is_an_invalid_checkpoint() {
    let program = Counts;
    let workflows = || Workflows::default().with(Counts);
    let _ = program;
    let desk = desk_with(Setting { workflows: workflows(), ..Setting::default() }).await;
    let id = desk
        .engine
        .start_run(local(), engine::StartRun { workflow: "counts".to_owned(), ..crate::desk::request("1") })
        .await
        .expect("started")
        .run
        .id;
    desk.stopped(id).await;
    let asked = desk.asked(id).await;
    let desk = desk.reopen(Setting { workflows: Workflows::default().with(Renamed), ..Setting::default() }).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    let failed = desk.ended(id).await;
    let failure = failed.failure().expect("failed");
    assert_eq!(failure.code, Code::CheckpointInvalid); // R-326
    assert!(failure.message.starts_with("checkpoint invalid: entry 2: node: "), "{}", failure.message); // R-326
    assert_eq!(told(&desk, id, Kind::NodeEntered).await.len(), 1); // R-328: no step has run
}

/// Two builds that say that they are the same code, and are not.
struct Counts;
struct Renamed;

#[derive(Clone, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Before {
    Counting,
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum After {
    Numbering,
}

macro_rules! counts {
    ($name:ident, $node:ident :: $first:ident, $implementation:literal) => {
        impl Workflow for $name {
            const KEY: &'static str = "counts";
            const REVISION: u32 = 1;
            const IMPLEMENTATION: &'static str = $implementation;
            const SCHEMA: &'static str = "counts.v1";
            type Input = u32;
            type Output = u32;
            type Node = $node;
            type State = u32;

            fn about() -> About {
                About { title: Some("Counts".to_owned()), ..About::default() }
            }

            fn start(&self, input: u32) -> ($node, u32) {
                ($node::$first, input)
            }

            async fn step(&self, _: $node, state: &mut u32, cx: &Cx) -> Result<Step<Self>, StepError> {
                cx.gate("Go on?").await?;
                Ok(Step::End(*state))
            }
        }
    };
}

counts!(Counts, Before::Counting, "one");
counts!(Renamed, After::Numbering, "one");

struct Other;
counts!(Other, Before::Counting, "two");

#[tokio::test(flavor = "multi_thread")]
async fn a_build_with_other_code_under_a_revision_is_refused_at_start() {
    let desk = desk_with(Setting { workflows: Workflows::default().with(Counts), ..Setting::default() }).await;
    let registered = desk.engine.ledger().registry().workflows["counts"].active().expect("active").clone();
    assert_eq!(registered.manifest.source, protocol::digest::Digest::of("one")); // R-347
    assert!(desk.engine.install(local()).await.expect("nothing to do").is_empty()); // R-347: it is there
    let refused =
        desk.refused_with(Setting { workflows: Workflows::default().with(Other), ..Setting::default() }).await;
    let conflict = InstallError { key: "counts".to_owned(), revision: 1, implementation: "two".to_owned() };
    assert!(matches!(refused, engine::StartError::Workflow(told) if told == conflict)); // R-347
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_not_of_the_code_fails_the_run() {
    let desk = desk_with(Setting { workflows: Workflows::default().with(Counts), ..Setting::default() }).await;
    let start = engine::StartRun { workflow: "counts".to_owned(), ..crate::desk::request(r#""seven""#) };
    let id = desk.engine.start_run(local(), start).await.expect("started").run.id;
    let failed = desk.ended(id).await;
    let failure = failed.failure().expect("failed");
    assert_eq!(failure.code, Code::StepFailed);
    assert!(failure.message.starts_with("the input: "), "{}", failure.message);
    eventually("it is told", async || !told(&desk, id, Kind::NodeFailed).await.is_empty()).await;
}
