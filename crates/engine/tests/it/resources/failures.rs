//! Servers that misbehave: each failure is told, nothing of it stays, and what was stopped for it comes back.

use super::{House, LIMIT, message, runs, settings};
use crate::desk::{Setting, eventually, local};
use protocol::code::Code;
use protocol::limits::WorkerSettings;
use protocol::run::{Run, Status};
use std::process::{Command, Stdio};

fn code(run: &Run) -> Option<Code> {
    run.failure().map(|failure| failure.code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_while_it_loads_fails_its_run_and_brings_back_what_was_there() {
    let house = House::with(["--load 0.1", "--load 0.2 --die-loading"], settings()).await;
    let small = house.ask("small", 1).await;
    assert_eq!(house.desk.ended(small).await.status(), Status::Done);
    let large = house.ask("large", 1).await;
    let large = house.desk.ended(large).await;
    assert_eq!((large.status(), code(&large)), (Status::Failed, Some(Code::ResourceFailed))); // R-149
    let told = "resource 'chat:large' not ready: it ended while it was loading: exit status: 1";
    assert_eq!(message(&large), told); // R-381
    assert_eq!(large.budget.hardware.total, 1); // R-146: it failed, and counts
    assert_eq!((house.state("chat:small"), house.state("chat:large")), ("warm", "cold")); // R-161
    let expected =
        ["start small", "ready small", "end small", "start large", "died large", "start small", "ready small"];
    assert_eq!(house.told(), expected); // R-161
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_gets_ready_is_given_up_and_ended() {
    let worker = WorkerSettings { start_limit: LIMIT, ..settings() };
    let house = House::with(["--load 0.1", "--never-ready"], worker).await;
    let large = house.ask("large", 1).await;
    let large = house.desk.ended(large).await;
    assert_eq!(message(&large), "resource 'chat:large' not ready: it was not ready within 4s"); // R-149 R-381
    assert_eq!(house.told(), ["start large", "end large"]);
    assert!(!house.pids().into_iter().any(runs)); // R-161: nothing of it stays
    // Asking again executes again.
    let again = house.ask("large", 1).await;
    assert_eq!(code(&house.desk.ended(again).await), Some(Code::ResourceFailed)); // R-157
    assert_eq!(house.told().len(), 4); // R-157
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ignores_its_end_is_killed() {
    let house = House::with(["--load 0.1 --deaf", "--load 0.1"], settings()).await;
    let small = house.ask("small", 1).await;
    house.desk.ended(small).await;
    let large = house.ask("large", 1).await;
    assert_eq!(house.desk.ended(large).await.status(), Status::Done);
    assert_eq!(house.told(), ["start small", "ready small", "start large", "ready large"]);
    assert_eq!(house.pids().into_iter().map(runs).collect::<Vec<_>>(), [false, true]); // R-158: stopped, then started
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_over_after_each_answer_uses_up_three_calls_and_no_more() {
    let house = House::with(["--load 0.1 --die-after-answer", "--load 0.1"], settings()).await;
    // An answer, or that nobody is there any more: it asks again.
    let again =
        "for n in range(500):\n    try:\n        small.ask(text='a')\n    except stasis.ToolError:\n        pass";
    let run = house.desk.run(again, "{}").await;
    let run = house.desk.ended(run.id).await;
    assert_eq!(code(&run), Some(Code::HardwareBudgetExhausted), "{:?}", run.failure()); // R-148
    let told = "hardware budget exhausted: resource 'chat:small': 3 calls in a row, and no more";
    assert_eq!(message(&run), told); // R-148 R-381
    assert_eq!(run.budget.hardware.in_row("chat:small"), 3); // R-145: each of its successes reset nothing
    assert_eq!(house.pids().len(), 3); // R-148: the manager was called three times
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reversal_that_fails_contains_until_somebody_resets_it() {
    let house = House::with(["--load 0.1 --fail-from 2", "--load 0.1 --die-loading"], settings()).await;
    let small = house.ask("small", 1).await;
    house.desk.ended(small).await;
    let large = house.ask("large", 1).await;
    house.desk.ended(large).await;
    assert_eq!(house.state("chat:small"), "contained"); // R-162
    // To the program it is an answer that it may handle; nothing is waited for.
    let source = "try:\n    small.ask(text='a')\nexcept stasis.ToolError as e:\n    result = e.code";
    let denied = house.desk.run(source, "{}").await;
    assert_eq!(denied.budget.hardware.total, 0); // R-146 C-82
    assert_eq!(house.desk.result(&denied).await, r#""resource_contained""#); // R-162 C-82
    let started = house.pids().len();
    assert!(house.desk.engine.reset_resource(&local(), "chat:small").await.expect("reset")); // R-162
    assert!(!house.desk.engine.reset_resource(&local(), "chat:small").await.expect("nothing to do"));
    assert_eq!((house.state("chat:small"), house.pids().len()), ("cold", started)); // R-162
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeclared_resource_and_one_that_is_away_are_no_wait() {
    let house = House::open().await;
    let url = format!("http://127.0.0.1:{}/ask", house.ports[0]);
    let tool = |name: &str, resource: &str| {
        format!(
            "[[tool]]\nname = \"{name}.ask\"\neffect = \"read\"\ndescription = \"Ask\"\ninput = {{ type = \"object\" }}
             http = {{ method = \"POST\", url = \"{url}\" }}\nresource = \"{resource}\"\n"
        )
    };
    house.desk.apply(&tool("lost", "chat:none")).await;
    let source = "try:\n    lost.ask()\nexcept stasis.ToolError as e:\n    result = [type(e).__name__, e.code]";
    let run = house.desk.run(source, "{}").await;
    assert_eq!(house.desk.result(&run).await, r#"["Denied","resource_failed"]"#); // R-141 C-82
    assert_eq!((run.budget.hardware.total, house.told().len()), (0, 0)); // R-141
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_server_left_running_is_ended_by_the_next_one() {
    let house = House::open().await;
    let owner = house.desk.ledger_path().display().to_string();
    let leaves = || {
        let mut command = Command::new("/bin/sh");
        // Its child has left every group, as daemons do.
        command.args(["-c", "setsid sleep 600 & exec sleep 600"]).stdin(Stdio::null());
        command.env("STASIS_RESOURCE", "chat:small").env("STASIS_RESOURCE_OWNER", &owner);
        command.spawn().expect("a process")
    };
    let mut left = leaves();
    let stranger = Command::new("sleep").arg("600").env("STASIS_RESOURCE", "chat:small").spawn();
    let mut stranger = stranger.expect("a process");
    let resources = house.resources.clone();
    let desk = house.desk.reopen(Setting { worker: settings(), resources, ..Setting::default() }).await;
    eventually("what was left is ended", async || !runs(left.id())).await; // R-163
    eventually("it is known to be cold", async || {
        desk.engine.resources().iter().all(|resource| resource.state.as_str() == "cold")
    })
    .await; // R-162: a new manager has looked
    left.wait().expect("reaped");
    assert!(runs(stranger.id()), "the mark of another ledger, or none, is nobody's here");
    stranger.kill().expect("killed");
    stranger.wait().expect("reaped");
    desk.engine.shutdown().await;
}
