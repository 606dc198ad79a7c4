//! Seeing a run to its next stop, and what it came to (I-42).

use crate::clock;
use crate::door::Door;
use crate::failure::Failure;
use crate::output::Out;
use api::approval::{ApprovalQuery, Order};
use api::job::JobQuery;
use api::run::{Outcome, Until};
use api::{Approval, Run};
use protocol::id::RunId;
use std::time::Duration;

/// How long a wait goes on without a word.
const SILENCE: Duration = Duration::from_secs(3);
/// One long poll; the server's own bound is 55 s (runs.md section 20).
const POLL: Duration = Duration::from_secs(50);
/// A run has at most 256 open waits, so one page holds its approvals, and another its jobs.
const OPEN_WAITS: u32 = 256;

/// Waits until the run stops or ends, `limit` at most. The run as it then is, and whether it got there.
///
/// Whoever waits longer than [`SILENCE`] is told what for, and again when that has changed.
pub(crate) async fn wait(
    out: &Out,
    door: &Door,
    id: RunId,
    until: Until,
    limit: Option<Duration>,
) -> Result<(Run, bool), Failure> {
    let start = clock::instant();
    let mut told = String::new();
    let mut patience = SILENCE;
    loop {
        let poll = limit.map_or(patience, |limit| clock::left(start, limit).min(patience));
        if let Some(run) = door.client.wait(id, until, poll).await? {
            return Ok((run, true));
        }
        if limit.is_some_and(|limit| clock::left(start, limit).is_zero()) {
            return Ok((door.client.run(id).await?, false));
        }
        let explain = door.client.explain(id).await?;
        if explain.why != told {
            out.say(&format!("{id} is {}: {}", explain.status, explain.why));
            told = explain.why;
        }
        patience = POLL;
    }
}

/// The run with all that is still asked of somebody.
pub(crate) async fn outcome(door: &Door, run: Run, decided: Option<Approval>) -> Result<Outcome, Failure> {
    let approvals = pending(door, run.id).await?;
    let query = JobQuery { run: Some(run.id), open: Some(true), limit: Some(OPEN_WAITS), ..JobQuery::default() };
    let mut jobs = door.client.jobs(&query).await?.items;
    jobs.reverse();
    Ok(Outcome { approval: decided, run, approvals, jobs })
}

/// The run's pending approvals, oldest first.
pub(crate) async fn pending(door: &Door, run: RunId) -> Result<Vec<Approval>, Failure> {
    let query = ApprovalQuery {
        run: Some(run),
        order: Some(Order::Oldest),
        limit: Some(OPEN_WAITS),
        ..ApprovalQuery::default()
    };
    Ok(door.client.approvals(&query).await?.items)
}
