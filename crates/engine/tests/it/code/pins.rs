//! Builds and their revisions: who may run what, what is registered, and states of another shape.

use super::{begin, desk, program, run, setting, told};
use crate::desk::{Desk, Setting, eventually, local, request};
use engine::workflow::{About, Cx, Step, StepError, Workflow, Workflows};
use engine::{Cause, Failure, Migrator, Migrators, StartRun};
use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::event::Kind;
use protocol::limits::WorkerSettings;
use protocol::run::{Run, Status};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

/// A workflow with a gate in the middle, whose state changed its shape from one build to the other.
macro_rules! tally {
    ($name:ident, $state:ident, $field:ident, $revision:literal, $implementation:literal, $schema:literal) => {
        struct $name;

        #[derive(Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $state {
            $field: u64,
        }

        impl Workflow for $name {
            const KEY: &'static str = "tally";
            const REVISION: u32 = $revision;
            const IMPLEMENTATION: &'static str = $implementation;
            const SCHEMA: &'static str = $schema;
            const CONTINUES: &'static [u32] = if $revision == 3 { &[1] } else { &[] };
            type Input = u64;
            type Output = u64;
            type Node = String;
            type State = $state;

            fn about() -> About {
                About { title: Some("Tally".to_owned()), ..About::default() }
            }

            fn start(&self, $field: u64) -> (String, $state) {
                ("count".to_owned(), $state { $field })
            }

            async fn step(&self, _: String, state: &mut $state, cx: &Cx) -> Result<Step<Self>, StepError> {
                cx.gate("Go on?").await?;
                Ok(Step::End(state.$field))
            }
        }
    };
}

tally!(Before, CountState, count, 1, "one", "tally.v1");
tally!(After, TotalState, total, 1, "one", "tally.v2");
tally!(Second, SecondState, total, 2, "two", "tally.v2");
tally!(Third, ThirdState, total, 3, "three", "tally.v2");

fn with(workflows: Workflows) -> Setting {
    Setting { workflows, ..Setting::default() }
}

fn renames() -> Migrators {
    let migrate = |state: serde_json::Value| match state["count"].as_u64() {
        Some(13) => Err("thirteen is unlucky".to_owned()),
        Some(count) => Ok(json!({ "total": count * 10 })),
        None => Err("no count".to_owned()),
    };
    [Migrator { from: "tally.v1".to_owned(), to: "tally.v2".to_owned(), migrate }].into_iter().collect()
}

async fn tally(desk: &Desk, input: &str) -> Run {
    let start = StartRun { workflow: "tally".to_owned(), ..request(input) };
    let run = desk.engine.start_run(local(), start).await.expect("started").run.id;
    desk.stopped(run).await
}

async fn approve(desk: &Desk, run: &Run) {
    let asked = desk.asked(run.id).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_an_older_shape_is_migrated_as_it_is_read() {
    let desk = super::desk_with(with(Workflows::default().with(Before))).await;
    let (fine, unlucky) = (tally(&desk, "4").await, tally(&desk, "13").await);
    let setting = Setting { migrators: renames(), ..with(Workflows::default().with(After)) };
    let desk = desk.reopen(setting).await;
    approve(&desk, &fine).await;
    approve(&desk, &unlucky).await;
    let done = desk.ended(fine.id).await;
    assert_eq!(desk.result(&done).await, "40");
    let failed = desk.ended(unlucky.id).await;
    let failure = failed.failure().expect("failed");
    assert_eq!(failure.message, "checkpoint invalid: thirteen is unlucky"); // R-330 R-326
    assert_eq!(told(&desk, unlucky.id, Kind::NodeEntered).await.len(), 1); // no step has run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_here_can_run_waits_and_is_then_refused() {
    let often = Duration::from_millis(20);
    let worker = WorkerSettings {
        scan_every: often,
        recover_every: often,
        pin_grace: Duration::from_secs(86_400),
        ..Setting::default().worker
    };
    let setting =
        |workflows, pin_grace| Setting { worker: WorkerSettings { pin_grace, ..worker.clone() }, ..with(workflows) };
    let day = Duration::from_secs(86_400);
    let desk = super::desk_with(setting(Workflows::default().with(Before), day)).await;
    let (first, second) = (tally(&desk, "4").await, tally(&desk, "5").await);
    // A build without that code takes the answer, and not the run.
    let desk = desk.reopen(setting(Workflows::default(), day)).await;
    approve(&desk, &first).await;
    approve(&desk, &second).await;
    eventually("it is told", async || desk.engine.blocked(first.id).is_some()).await;
    let blocked = desk.engine.blocked(first.id).expect("just seen");
    let why = "no worker for tally@1: this build has no code of that revision";
    assert_eq!((blocked.cause, blocked.detail.as_str()), (Cause::WithoutWorker, why));
    let waits = desk.engine.ledger().run(first.id).await.expect("read").expect("there");
    assert_eq!((waits.status(), waits.fence), (Status::Queued, 1)); // it was not even claimed
    // The build that has it goes on where it was.
    let desk = desk.reopen(setting(Workflows::default().with(Before), day)).await;
    assert_eq!(desk.result(&desk.ended(first.id).await).await, "4");
    assert_eq!(desk.ended(second.id).await.status(), Status::Done);
    assert!(desk.engine.blocked(first.id).is_none());
    // Without the grace it is refused.
    let third = tally(&desk, "6").await;
    let desk = desk.reopen(setting(Workflows::default(), Duration::ZERO)).await;
    approve(&desk, &third).await;
    let refused = desk.ended(third.id).await;
    let failure = refused.failure().expect("refused");
    assert_eq!(failure.code, Code::PinnedPatternUnavailable); // R-95 E-4
    assert_eq!(failure.message, "pinned Pattern unavailable: tally@1");
    assert_eq!(refused.fence, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_has_the_code_of_every_revision_that_runs_wait_on() {
    let desk = super::desk_with(with(Workflows::default().with(Before))).await;
    let old = tally(&desk, "4").await;
    let desk = desk.reopen(with(Workflows::default().with(Before).with(Second))).await;
    let installed = desk.engine.install(local()).await.expect("installed");
    let told: Vec<_> = installed.iter().map(|pattern| (pattern.manifest.key.as_str(), pattern.revision)).collect();
    assert_eq!(told, [("tally", 2)]); // a known revision is not registered again
    let new = tally(&desk, "5").await;
    assert_eq!((old.pattern.revision, new.pattern.revision), (1, 2)); // R-46 R-345
    for (run, result) in [(old, "4"), (new, "5")] {
        approve(&desk, &run).await;
        assert_eq!(desk.result(&desk.ended(run.id).await).await, result);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_this_build_lacks_is_not_started() {
    let program = program(|_, _, _| Box::pin(async move { Ok(Step::End(json!(1))) }));
    let desk = desk(&program).await;
    assert_eq!(run(&desk, "{}").await.status(), Status::Done);
    let desk = desk.reopen(Setting::default()).await;
    let refused = desk.engine.start_run(local(), request("{}")).await.expect_err("refused");
    let Failure::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.code, Code::UnknownWorkflow);
    assert!(refusal.detail.contains("this build has no code of that revision"), "{}", refusal.detail);
    let desk = desk.reopen(setting(&program)).await;
    let id = begin(&desk, "{}").await;
    assert_eq!(desk.ended(id).await.status(), Status::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn code_goes_on_with_an_older_run_where_it_says_so_and_a_migrator_leads_there() {
    let desk = super::desk_with(with(Workflows::default().with(Before))).await;
    let run = tally(&desk, "5").await;
    assert_eq!(run.status(), Status::AwaitingConsent);
    let refused = async |desk: &Desk, revision| match desk.engine.move_run(local(), run.id, revision, None).await {
        Err(Failure::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let both = || Workflows::default().with(Before).with(Second).with(Third);
    let desk = desk.reopen(with(both())).await;
    desk.engine.install(local()).await.expect("installed");
    let undeclared = refused(&desk, 2).await;
    assert_eq!(undeclared.code, Code::MoveRefused);
    assert!(undeclared.detail.contains("does not declare"), "{}", undeclared.detail);
    let unreadable = refused(&desk, 3).await;
    assert_eq!(unreadable.code, Code::MoveRefused);
    assert!(
        unreadable.detail.contains("no migrator leads here from its checkpoint schema tally.v1"),
        "{}",
        unreadable.detail
    );
    let desk = desk.reopen(Setting { migrators: renames(), ..with(both()) }).await;
    let (moved, changed) = desk.engine.move_run(local(), run.id, 3, None).await.expect("moved");
    assert_eq!((changed, moved.pattern.revision), (true, 3));
    approve(&desk, &run).await;
    let done = desk.ended(run.id).await;
    assert_eq!(desk.result(&done).await, "50"); // the state as the migrator made it
}
