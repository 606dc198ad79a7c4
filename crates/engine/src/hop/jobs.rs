//! Calls that hand a job over: submitting it, and what their program gets when it has ended (W-123, R-229).

use super::outcome::{fail_with, succeed};
use super::state::{Hop, Out};
use crate::broker::Delegated;
use protocol::call::{Applied, State};
use protocol::code::Code;
use protocol::command::Submit;
use protocol::digest::Digest;
use protocol::id::{CallId, JobId};
use protocol::job::{self, End, Job};
use protocol::json::Canonical;
use protocol::rows::NewBody;
use serde::Serialize;

/// Hands the job over with the next commit: nothing outside can begin before it.
pub(super) fn submit(hop: &mut Hop, call: CallId, delegated: Delegated) {
    let Delegated { kind, task, plan, timeout } = delegated;
    let task = NewBody::new(task.as_bytes());
    let plan = plan.map(|plan| NewBody::new(plan.canonical().as_bytes()));
    let request =
        job::Request { kind, task: task.body, plan: plan.as_ref().map(|plan| plan.body), schema: None, timeout };
    let bodies = std::iter::once(task).chain(plan).collect();
    hop.pending.jobs.push(Submit { job: hop.ids.mint(), wait: hop.ids.mint(), call, request, bodies });
    hop.call_mut(call).state = State::Asked;
}

/// Ends a call whose job has ended, by what the job's row says.
pub(super) async fn ended(hop: &mut Hop, call: CallId, id: JobId) -> Result<(), Out> {
    let Some(job) = hop.jobs.iter().find(|job| job.id == id).cloned() else { return Ok(()) };
    let job::State::Ended { end, .. } = job.state else { return Ok(()) };
    let told = match end.body() {
        Some(body) => Some(text(hop, body.digest).await?),
        None => None,
    };
    match (end, told) {
        (End::Succeeded { .. }, Some(result)) => succeed(hop, call, &result, Applied::No, None),
        (_, error) => {
            let message = format!("job {id} ended {}", end.as_str());
            fail_with(hop, call, Code::JobEnded, &message, Detail { job: id, status: end.as_str(), error });
        }
    }
    Ok(())
}

/// What a program learns of a job that did not succeed (W-144).
#[derive(Serialize)]
struct Detail {
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

/// What of the jobs of a run a hop may have to read: those of calls that have not ended.
pub(super) fn awaited(jobs: Vec<Job>, open: impl Fn(CallId) -> bool) -> Vec<Job> {
    jobs.into_iter().filter(|job| open(job.call)).collect()
}
