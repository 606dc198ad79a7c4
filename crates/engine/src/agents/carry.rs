//! One job at one agent, from its claim to its end.

use super::caller;
use super::talk::{Line, Silence, Stage, Told};
use crate::config::Agent;
use crate::failpoint;
use crate::failure::Failure;
use crate::inner::Inner;
use crate::jobs;
use crate::reading;
use protocol::code::Code;
use protocol::command::{JobAct, Reported};
use protocol::job::{Job, State};
use protocol::json::{Canonical, to_canonical};
use protocol::limits::PROGRESS_BYTES;
use protocol::rows::NewBody;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::Notify;

/// When this claim was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Begun {
    /// Just now: nothing was sent yet.
    Now,
    /// By a process that is gone: whether something was sent is not known here.
    Before,
}

/// What is kept with the job of the other side: how it names it, and what it last told.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Its name for the job.
    at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<serde_json::Value>,
}

/// That nothing more is to be done here.
struct Over;

/// Starts it, and asks what became of it until it has ended. Whatever cannot be said leaves the job as it is; nobody hears of
/// it then, and it is lost in time.
pub(super) async fn carry(inner: &Arc<Inner>, agent: &Agent, job: Job, begun: Begun, bell: &Notify) {
    let line = Line { inner, agent };
    let mut task = Task { line, inner, token: job.claims, key: key(&job), job, bell, cancelled: false };
    tokio::select! {
        // What becomes of it is learned by whoever has the ledger next.
        () = inner.stopping.cancelled() => {}
        _ = task.run(begun) => {}
    }
}

/// The same at every try of one claim. A job that is given out again is another one for the agent.
fn key(job: &Job) -> String {
    if job.claims > 1 { format!("{}.{}", job.id, job.claims) } else { job.id.to_string() }
}

struct Task<'a> {
    line: Line<'a>,
    inner: &'a Arc<Inner>,
    token: u32,
    key: String,
    job: Job,
    bell: &'a Notify,
    /// Whether it was asked to stop.
    cancelled: bool,
}

impl Task<'_> {
    async fn run(&mut self, begun: Begun) -> Result<(), Over> {
        let known = self.job.progress.as_ref().and_then(|kept| serde_json::from_str::<Kept>(kept.as_str()).ok());
        let at = match known {
            Some(kept) => kept.at,
            None if begun == Begun::Now || self.line.agent.idempotent => self.start(begun).await?,
            // a start whose answer never came, at an agent that cannot be asked by the request id.
            None => return Ok(()),
        };
        loop {
            if let Ok(told) = self.line.ask(&at).await {
                self.take(&at, &told).await?;
            }
            tokio::select! {
                () = self.bell.notified() => {}
                () = tokio::time::sleep(self.line.agent.poll_every) => {}
            }
        }
    }

    /// How the other side names the job, once it has begun.
    async fn start(&mut self, begun: Begun) -> Result<String, Over> {
        let task = self.task().await?;
        let until = self.inner.now() + self.line.agent.start_within;
        let mut asked_first = begun == Begun::Before;
        loop {
            // Whether an earlier try arrived is asked before another is made.
            if std::mem::take(&mut asked_first) {
                match self.line.ask(&self.key).await {
                    Ok(told) => return self.begins(told).await,
                    Err(Silence::Refused(404 | 410, _)) => {}
                    Err(_) => {
                        asked_first = true;
                        self.hold_on().await?;
                        continue;
                    }
                }
            }
            failpoint::hit("agent.start");
            match self.line.start(&self.job, &self.key, &task).await {
                Ok(told) => return self.begins(told).await,
                Err(Silence::Refused(status, text)) => {
                    let why = format!("the agent refused it with status {status}");
                    return self.fails(&why, Some(text)).await;
                }
                Err(Silence::Unsent(why)) if self.inner.now() >= until => {
                    return self.fails(&format!("the agent could not be reached: {why}"), None).await;
                }
                Err(Silence::Unsent(why)) => {
                    tracing::info!(job = %self.job.id, why, "an agent cannot be reached; trying again");
                    self.hold_on().await?;
                }
                Err(Silence::Unknown(why)) => {
                    tracing::warn!(job = %self.job.id, why, "whether an agent began a job is not known");
                    if !self.line.agent.idempotent {
                        return Err(Over);
                    }
                    asked_first = true;
                    tokio::time::sleep(self.line.agent.poll_every).await;
                }
            }
        }
    }

    async fn begins(&mut self, told: Told) -> Result<String, Over> {
        let at = match (&told.id, self.line.agent.idempotent) {
            (_, true) => self.key.clone(),
            (Some(id), false) if !id.is_empty() => id.clone(),
            _ => return self.fails("the agent began it and did not say by which id it can be asked", None).await,
        };
        // What it is called there outlives this process from here on.
        self.heard(&at, None).await?;
        failpoint::hit("agent.begun");
        self.take(&at, &told).await?;
        Ok(at)
    }

    /// Takes in what the other side says, by the commands of every agent.
    async fn take(&mut self, at: &str, told: &Told) -> Result<(), Over> {
        match told.status {
            Stage::Running => self.heard(at, told.progress()).await,
            Stage::Succeeded => match told.result() {
                Ok(text) => {
                    let reported = Reported::Succeeded { result: NewBody::new(text.as_bytes()), text };
                    match self.act(JobAct::Report { token: self.token, reported }).await {
                        // It would say the same again.
                        Err(Failure::Refused(refusal)) if refusal.code == Code::ResultInvalid => {
                            self.fails(&refusal.detail, None).await
                        }
                        other => over(other),
                    }
                }
                Err(why) => self.fails(&format!("its result is no JSON that can be kept: {why}"), None).await,
            },
            Stage::Failed => {
                let error = told.error().ok().filter(|error| error.as_str() != "null");
                match error {
                    Some(error) => self.report_failure(&error).await,
                    None => self.fails("the agent failed, and did not say why", None).await,
                }
            }
            Stage::Cancelled if self.cancelled => over(self.act(JobAct::AckCancel { token: self.token }).await),
            Stage::Cancelled => self.fails("the agent cancelled it by itself", None).await,
        }
    }

    /// It is at work: the next sign of life is due a lease from now. Whether it is to stop is in the answer.
    async fn heard(&mut self, at: &str, told: Option<Canonical>) -> Result<(), Over> {
        let told = told.and_then(|told| serde_json::from_str(told.as_str()).ok());
        let whole = to_canonical(&Kept { at: at.to_owned(), told }).ok();
        let fits = |kept: &Canonical| kept.len() <= PROGRESS_BYTES;
        let kept = whole.filter(fits).or_else(|| to_canonical(&Kept { at: at.to_owned(), told: None }).ok());
        match self.act(JobAct::Heartbeat { token: self.token, progress: kept }).await {
            Ok(job) if matches!(job.state, State::Cancelling { .. }) && !self.cancelled => {
                // A cancel that did not arrive is said again with the next look.
                self.cancelled = !matches!(self.line.cancel(at).await, Err(Silence::Unsent(_) | Silence::Unknown(_)));
                self.bell.notify_one();
                Ok(())
            }
            Ok(_) => Ok(()),
            other => over(other),
        }
    }

    /// Nothing is known of it yet, and it is not to be given up.
    async fn hold_on(&mut self) -> Result<(), Over> {
        let progress = self.job.progress.clone();
        match self.act(JobAct::Heartbeat { token: self.token, progress }).await {
            // Nothing of it was begun there, so that nothing has to be stopped.
            Ok(job) if matches!(job.state, State::Cancelling { .. }) => {
                over(self.act(JobAct::AckCancel { token: self.token }).await)?;
                Err(Over)
            }
            Ok(_) | Err(Failure::Unavailable(_) | Failure::Unknown) => {
                tokio::time::sleep(self.line.agent.poll_every).await;
                Ok(())
            }
            Err(_) => Err(Over),
        }
    }

    async fn fails<T>(&mut self, why: &str, said: Option<String>) -> Result<T, Over> {
        #[derive(Serialize)]
        struct Error<'a> {
            message: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            said: Option<String>,
        }
        if let Ok(error) = to_canonical(&Error { message: why, said: said.filter(|text| !text.is_empty()) }) {
            self.report_failure(&error).await?;
        }
        Err(Over)
    }

    async fn report_failure(&mut self, error: &Canonical) -> Result<(), Over> {
        let reported = Reported::Failed { error: NewBody::new(error.as_bytes()) };
        over(self.act(JobAct::Report { token: self.token, reported }).await)
    }

    async fn act(&self, act: JobAct) -> Result<Job, Failure> {
        let by = caller(self.inner, self.line.agent);
        jobs::act(self.inner, by, self.job.id, act).await.map(|(_, job, _)| job)
    }

    async fn task(&self) -> Result<String, Over> {
        let read = reading::read(|| self.inner.ledger.body(self.job.run, self.job.request.task.digest)).await;
        match read {
            Ok(Some(bytes)) => String::from_utf8(bytes.to_vec()).map_err(|_| Over),
            Ok(None) | Err(_) => {
                tracing::warn!(job = %self.job.id, "the task of a job could not be read");
                Err(Over)
            }
        }
    }
}

/// A job that has ended, or is somebody else's, is not looked after any more. What could not be committed is tried again.
fn over(done: Result<Job, Failure>) -> Result<(), Over> {
    match done {
        Ok(job) if job.is_ended() => Err(Over),
        Ok(_) | Err(Failure::Unavailable(_) | Failure::Unknown) => Ok(()),
        Err(failure) => {
            tracing::info!(%failure, "a job at an agent is not looked after any more");
            Err(Over)
        }
    }
}
