//! A thousand parked runs: what they cost while nothing happens, and how soon a killed server is ready again.

use anyhow::{Context, Result, ensure};
use api::approval::{ApprovalQuery, BatchItem, BatchRequest, Verdict};
use api::run::{RunQuery, StartRun, WorkflowKind};
use api::workflow::RegisterWorkflow;
use futures_util::{StreamExt, TryStreamExt, stream};
use protocol::run::Status;

use crate::server::{Place, Server};
use crate::{Figures, clock, say, sources};

pub(crate) const FIGURES: &[&str] = &[
    "parked_run_disk_kib_with_snapshot",
    "parked_run_disk_kib_without_snapshot",
    "parked_run_worker_bytes",
    "restart_with_1000_parked_s",
    "finish_1000_parked_s",
];

const RUNS: u64 = 1_000;
/// Commands in flight at once.
const AT_ONCE: usize = 64;
/// C-199
const BATCH: u32 = 100;

pub(crate) fn measure() -> Result<Figures> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut figures = without_snapshot().await?;
        figures.insert("parked_run_disk_kib_with_snapshot", disk(sources::WORKS, 200).await?);
        Ok(figures)
    })
}

async fn without_snapshot() -> Result<Figures> {
    let place = Place::new()?;
    let server = place.serve().await?;
    register(&server, sources::ASKS).await?;
    server.end()?;

    // What a server holds that has nothing to carry: the worker's share of a parked run is what comes on top.
    let (server, before) = (place.serve().await?, place.bytes()?);
    let idle = server.memory()?;
    say(&format!("parked: {RUNS} runs"));
    park(&server, RUNS).await?;
    server.end()?;
    let disk = kib_each(place.bytes()? - before, RUNS);

    let server = place.serve().await?;
    server.kill()?;
    let server = place.serve().await?;
    let (ready, memory) = (server.ready, server.memory()?);
    ensure!(count(&server, Status::Queued).await? == 0, "a parked run was enqueued by a restart");
    ensure!(count(&server, Status::AwaitingConsent).await? == RUNS, "not every run is parked after a restart");
    let held = memory.saturating_sub(idle) as f64 / RUNS as f64;

    let start = clock();
    finish(&server).await?;
    let finished = start.elapsed();
    Ok(Figures::from([
        ("parked_run_disk_kib_without_snapshot", disk),
        ("parked_run_worker_bytes", held),
        ("restart_with_1000_parked_s", ready.as_secs_f64()),
        ("finish_1000_parked_s", finished.as_secs_f64()),
    ]))
}

/// Kibibytes on disk for each of `runs` parked runs of a program.
async fn disk(source: &str, runs: u64) -> Result<f64> {
    let place = Place::new()?;
    let server = place.serve().await?;
    register(&server, source).await?;
    server.end()?;
    let (server, before) = (place.serve().await?, place.bytes()?);
    say(&format!("parked: {runs} runs whose guests are frozen"));
    park(&server, runs).await?;
    server.end()?;
    Ok(kib_each(place.bytes()? - before, runs))
}

fn kib_each(bytes: u64, runs: u64) -> f64 {
    bytes as f64 / 1024.0 / runs as f64
}

const WORKFLOW: &str = "asks";

pub(crate) async fn register(server: &Server, source: &str) -> Result<()> {
    let request = RegisterWorkflow {
        key: WORKFLOW.to_owned(),
        kind: WorkflowKind::Script,
        source: source.to_owned(),
        manifest: None,
        active: None,
    };
    server.client.register(&request).await?;
    Ok(())
}

/// Starts runs, and waits until each is parked.
pub(crate) async fn park(server: &Server, runs: u64) -> Result<()> {
    let started = stream::iter(0..runs).map(|_| async {
        let request = StartRun::of(WORKFLOW, None);
        server.client.start(&request, None).await
    });
    started.buffer_unordered(AT_ONCE).try_for_each(|_| std::future::ready(Ok(()))).await?;
    let start = clock();
    while is_any(server, Status::Queued).await? || is_any(server, Status::Running).await? {
        ensure!(start.elapsed().as_secs() < 300, "waited for long: {runs} runs to park");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    ensure!(!is_any(server, Status::Failed).await?, "a run failed");
    Ok(())
}

/// Approves every run in batches, and waits until each is done.
async fn finish(server: &Server) -> Result<()> {
    let mut left = RUNS;
    while left > 0 {
        let query = ApprovalQuery { limit: Some(BATCH), ..ApprovalQuery::default() };
        let page = server.client.approvals(&query).await?;
        ensure!(!page.items.is_empty(), "{left} questions are lost");
        let items = page.items.iter().map(|approval| BatchItem {
            approval: approval.id,
            decision: Verdict::Approve,
            arguments_digest: Some(approval.arguments_digest),
            answer: None,
            reason: None,
        });
        let answer = server.client.decide_batch(&BatchRequest { items: items.collect() }).await?;
        for item in &answer.items {
            let problem = item.problem.as_ref();
            ensure!(problem.is_none(), "an approval was refused: {}", problem.map_or("", |p| p.code.as_str()));
        }
        left = left.checked_sub(page.items.len() as u64).context("a question was asked twice")?;
    }
    until(server, Status::Done, RUNS).await
}

/// Looks until so many runs have a status.
async fn until(server: &Server, status: Status, runs: u64) -> Result<()> {
    let start = clock();
    while count(server, status).await? < runs {
        ensure!(count(server, Status::Failed).await? == 0, "a run failed");
        ensure!(start.elapsed().as_secs() < 300, "waited for long: {runs} runs {status}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Whether a run has this status.
pub(crate) async fn is_any(server: &Server, status: Status) -> Result<bool> {
    let query = RunQuery { status: Some(status.to_string()), limit: Some(1), ..RunQuery::default() };
    Ok(!server.client.runs(&query).await?.items.is_empty())
}

pub(crate) async fn count(server: &Server, status: Status) -> Result<u64> {
    let mut query = RunQuery { status: Some(status.to_string()), limit: Some(500), ..RunQuery::default() };
    let mut runs = 0;
    loop {
        let page = server.client.runs(&query).await?;
        runs += page.items.len() as u64;
        match page.next_cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return Ok(runs),
        }
    }
}
