//! A hundred thousand parked runs: what a restart, the memory of a server and one decision cost beside them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::approval::{ApprovalQuery, DecisionRequest, Verdict};
use api::run::Until;
use protocol::run::Status;

use crate::parked::{count, is_any, park, register};
use crate::server::{Place, Server};
use crate::{Figures, clock, median, say, sources};

pub(crate) const FIGURES: &[&str] = &[
    "many_parked_restart_s",
    "many_parked_worker_bytes",
    "many_parked_decision_to_end_ms",
    "many_parked_starts_per_s",
];

const RUNS: u64 = 100_000;
/// Runs that are started between two words of progress.
const STRIDE: u64 = 10_000;
const DECISIONS: u32 = 51;
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn measure() -> Result<Figures> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let place = Place::new()?;
        let server = place.serve().await?;
        register(&server, sources::ASKS).await?;
        server.end()?;
        let server = place.serve().await?;
        let idle = server.memory()?;
        let start = clock();
        for done in (0..RUNS).step_by(STRIDE as usize) {
            say(&format!("many parked: {done} of {RUNS} runs after {} s", start.elapsed().as_secs()));
            park(&server, STRIDE).await?;
        }
        let per_s = RUNS as f64 / start.elapsed().as_secs_f64();
        server.kill()?;

        let server = place.serve().await?;
        let (ready, memory) = (server.ready, server.memory()?);
        ensure!(!is_any(&server, Status::Queued).await?, "a parked run was enqueued by a restart");
        let decisions = decide(&server).await?;
        let parked = count(&server, Status::AwaitingConsent).await?;
        ensure!(parked + u64::from(DECISIONS) == RUNS, "{parked} runs are parked after {DECISIONS} decisions");
        Ok(Figures::from([
            ("many_parked_restart_s", ready.as_secs_f64()),
            ("many_parked_worker_bytes", memory.saturating_sub(idle) as f64 / RUNS as f64),
            ("many_parked_decision_to_end_ms", decisions),
            ("many_parked_starts_per_s", per_s),
        ]))
    })
}

/// The middle time from an approval to the end of its run, in milliseconds: one after the other.
async fn decide(server: &Server) -> Result<f64> {
    let query = ApprovalQuery { limit: Some(DECISIONS), ..ApprovalQuery::default() };
    let page = server.client.approvals(&query).await?;
    let mut times = Vec::new();
    for approval in page.items {
        let request = DecisionRequest {
            arguments_digest: Some(approval.arguments_digest),
            ..DecisionRequest::of(Verdict::Approve)
        };
        let start = clock();
        server.client.decide(approval.id, &request).await?;
        let run = server.client.wait(approval.run, Until::Terminal, PATIENCE).await?;
        let run = run.with_context(|| format!("{} did not end", approval.run))?;
        ensure!(run.status == Status::Done, "{} is {}", run.id, run.status);
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}
