//! The agents' side of jobs: giving them out, and taking in what agents say.
//!
//! Invariant: claims are served one after the other, so that two requests of one claim id take one set of jobs. Which agent
//! gets a job is decided in its commit all the same.

use crate::engine::Engine;
use crate::failpoint;
use crate::failure::Failure;
use crate::inner::Inner;
use crate::worker;
use protocol::code::Code;
use protocol::command::{Answer, Caller, Command, JobAct, JobCommand};
use protocol::id::{JobId, RunId};
use protocol::job::Job;
use protocol::json::Canonical;
use protocol::limits::{JOB_CLAIMS, NAME_BYTES};
use protocol::refusal::Refusal;
use protocol::run::Run;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

/// A claim of up to `limit` jobs.
#[derive(Clone, Debug)]
pub struct ClaimJobs {
    pub kind: String,
    /// As the agent names itself.
    pub worker: String,
    /// How long after each heartbeat the next is due; `job_heartbeat` if there is none.
    pub lease: Option<Duration>,
    /// The same again answers the same jobs.
    pub claim_id: String,
    pub limit: usize,
}

/// What an agent told of its job just now. It is told on and not stored as an event.
#[derive(Clone, Debug)]
pub struct JobProgress {
    pub run: RunId,
    pub job: JobId,
    pub progress: Canonical,
}

impl Engine {
    /// What agents tell of their jobs from now on; who is behind loses the oldest.
    pub fn job_progress(&self) -> broadcast::Receiver<JobProgress> {
        self.inner.job_progress.subscribe()
    }

    /// Gives an agent the jobs of highest priority, oldest first.
    pub async fn claim_jobs(&self, by: Caller, request: ClaimJobs) -> Result<Vec<Job>, Failure> {
        claim(&self.inner, by, request).await
    }

    /// One verb of an agent; false if what it says stood already.
    pub async fn job(&self, by: Caller, job: JobId, act: JobAct) -> Result<(Run, Job, bool), Failure> {
        self::act(&self.inner, by, job, act).await
    }
}

pub(crate) async fn claim(inner: &Arc<Inner>, by: Caller, request: ClaimJobs) -> Result<Vec<Job>, Failure> {
    let ClaimJobs { kind, worker, lease, claim_id, limit } = request;
    if limit == 0 || limit > JOB_CLAIMS {
        return Err(invalid(format!("`limit` is 1 to {JOB_CLAIMS}")));
    }
    if claim_id.is_empty() || claim_id.len() > NAME_BYTES {
        return Err(invalid(format!("`claim_id` has 1 to {NAME_BYTES} bytes")));
    }
    let _one_by_one = inner.claims.lock().await;
    let known = inner.ledger.claimed_jobs(&claim_id).await?.items;
    let own = |of: &store::JobOf| {
        let namespace = of.run.namespace == by.principal.namespace;
        namespace && of.job.agent.as_ref().is_some_and(|agent| agent.principal == by.principal.id)
    };
    let known: Vec<Job> = known.into_iter().filter(own).map(|of| of.job).collect();
    if !known.is_empty() {
        return Ok(known);
    }
    if let Some(why) = inner.behind() {
        return Err(Failure::Unavailable(why));
    }
    let lease = lease.unwrap_or(inner.settings.job_heartbeat);
    let queued = inner.ledger.queued_jobs(&kind, &by.principal.namespace, limit).await?;
    let mut claimed = Vec::new();
    for id in queued {
        let claim = JobAct::Claim { worker: worker.clone(), lease, claim_id: claim_id.clone() };
        match act(inner, by.clone(), id, claim).await {
            Ok((_, job, _)) => claimed.push(job),
            // Its run was cancelled, or its time was over, while we looked.
            Err(Failure::Refused(refusal)) if matches!(refusal.code, Code::JobTerminal | Code::NotFound) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(claimed)
}

/// See [`Engine::job`].
pub(crate) async fn act(inner: &Arc<Inner>, by: Caller, job: JobId, act: JobAct) -> Result<(Run, Job, bool), Failure> {
    let told = match &act {
        JobAct::Heartbeat { progress, .. } => progress.clone(),
        _ => None,
    };
    let command = JobCommand { by, job, act, taker: inner.crew.taker(inner) };
    failpoint::hit("job.before");
    let answer = inner.ledger.transact(Command::Job(Box::new(command))).await?;
    failpoint::hit("job.after");
    match answer {
        Answer::Job { run, job, changed } => {
            worker::adopt(inner, &run);
            if let Some(progress) = told {
                // Nobody listens, or somebody is behind: the row has the latest all the same.
                let _ = inner.job_progress.send(JobProgress { run: run.id, job: job.id, progress });
            }
            Ok((*run, *job, changed))
        }
        other => unreachable!("a verb on a job is answered with it: {other:?}"),
    }
}

fn invalid(detail: String) -> Failure {
    Refusal::new(Code::InvalidRequest, detail).into()
}
