//! Calls that hand a job over: submitting it, and what their program gets when it has ended (W-123, R-229).

use super::state::{Hop, Out};
use crate::broker::Delegated;
use protocol::call::State;
use protocol::code::Code;
use protocol::command::{Rejoin, Submit};
use protocol::digest::Digest;
use protocol::id::{CallId, JobId};
use protocol::job::{self, End, Job};
use protocol::json::Canonical;
use protocol::rows::NewBody;
use protocol::wait::Owner;
use serde::Serialize;

/// Hands the job over with the next commit: nothing outside can begin before it.
pub(super) fn submit(hop: &mut Hop, call: CallId, place: u32, delegated: Delegated) {
    let Delegated { kind, task, plan, schema, timeout, retries } = delegated;
    let task = NewBody::new(task.as_bytes());
    let plan = plan.map(|plan| NewBody::new(plan.canonical().as_bytes()));
    let request =
        job::Request { kind, task: task.body, plan: plan.as_ref().map(|plan| plan.body), schema, timeout, retries };
    let bodies = std::iter::once(task).chain(plan).collect();
    hop.pending.jobs.push(Submit { job: hop.ids.mint(), wait: hop.ids.mint(), call, place, request, bodies });
    hop.call_mut(call).state = State::Asked;
}

/// What the program gets of a job.
pub(super) struct Ended {
    /// Among the things that its call waits for.
    pub(super) place: u32,
    pub(super) got: Result<Canonical, NoResult>,
}

/// Why there is no result.
pub(super) struct NoResult {
    pub(super) message: String,
    pub(super) detail: Detail,
}

/// How a job ended, by what its row says; none while it has not.
pub(super) async fn ended(hop: &mut Hop, id: JobId) -> Result<Option<Ended>, Out> {
    let Some(job) = hop.jobs.iter().find(|job| job.id == id).cloned() else { return Ok(None) };
    let job::State::Ended { end, .. } = job.state else { return Ok(None) };
    let told = match end.body() {
        Some(body) => Some(text(hop, body.digest).await?),
        None => None,
    };
    let got = match (end, told) {
        (End::Succeeded { .. }, Some(result)) => Ok(result),
        (_, error) => Err(NoResult {
            message: format!("job {id} ended {}", end.as_str()),
            detail: Detail { job: id, status: end.as_str(), error },
        }),
    };
    Ok(Some(Ended { place: job.place, got }))
}

/// What a program learns of a job that did not succeed (W-144).
#[derive(Serialize)]
pub(super) struct Detail {
    job: JobId,
    status: &'static str,
    error: Option<Canonical>,
}

/// Canonical, as whoever brought it had to write it.
async fn text(hop: &mut Hop, digest: Digest) -> Result<Canonical, Out> {
    let bytes = hop.body(digest).await?;
    Canonical::from_stored(&bytes)
        .ok_or_else(|| Out::fail(Code::CheckpointInvalid, "checkpoint invalid: what a job left is no canonical JSON"))
}

/// What of the jobs of a run a hop may have to read: those of calls that have not ended, and those that keep the run from
/// its end.
pub(super) fn awaited(jobs: Vec<Job>, open: impl Fn(CallId) -> bool) -> Vec<Job> {
    jobs.into_iter().filter(|job| open(job.call) || !job.is_ended()).collect()
}

/// Waits again for every job that has not ended, and whose wait another one closed. Whether there is any to wait for.
pub(super) fn rejoin(hop: &mut Hop) -> bool {
    let open: Vec<(JobId, CallId)> =
        hop.jobs.iter().filter(|job| !job.is_ended()).map(|job| (job.id, job.call)).collect();
    for &(job, call) in &open {
        if !hop.waits.iter().any(|wait| wait.owner == Owner::Job(job)) {
            let wait = hop.ids.mint();
            hop.pending.rejoins.push(Rejoin { job, wait, call });
        }
    }
    !open.is_empty()
}
