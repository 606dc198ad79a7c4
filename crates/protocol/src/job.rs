//! Work that a run hands over to an agent outside (runs.md section 9).
//!
//! Owns: the row of a job, what makes two submissions equal, and what an agent may still do with it. Invariant: what is
//! known only in one state lives in that state's variant, so that a job with a result that did not succeed, or an error
//! beside a result, cannot be written. That an agent has stopped is a fact of its own, beside how the job ended
//!

use crate::digest::Digest;
use crate::event::Kind;
use crate::id::{CallId, JobId, RunId, WaitId};
use crate::json::Canonical;
use crate::run::Body;
use crate::time::Time;
use serde::Serialize;
use std::time::Duration;

/// A job as stored. Task, plan, result and error are bodies of its run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    pub id: JobId,
    pub run: RunId,
    pub wait: WaitId,
    /// The call that handed it over: its identity, with the place, is the request id.
    pub call: CallId,
    /// Its place among the things that the call waits for (W-124).
    pub place: u32,
    pub request: Request,
    /// That of the run, higher is sooner.
    pub priority: u8,
    pub created_at: Time,
    pub deadline: Option<Time>,
    pub state: State,
    /// The agent that has it, or had it last; none before its first claim, and none while it is to be claimed again.
    pub agent: Option<Agent>,
    /// How often it was claimed: the token of the last claim.
    pub claims: u32,
    /// When the agent was known to have stopped, or that there was none to stop.
    pub stopped_at: Option<Time>,
    /// The latest that the agent told of it.
    pub progress: Option<Canonical>,
    /// What was told too late to count, oldest first.
    pub late: Vec<Late>,
}

/// What is handed over. Two submissions of one call with equal content are one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The agents that may claim it, by name.
    pub kind: String,
    pub task: Body,
    /// The tools that it may call, sealed (W-136); without one it may call none.
    pub plan: Option<Body>,
    /// What its result has to fit.
    pub schema: Option<Canonical>,
    /// Counted from its submission; none is no limit.
    pub timeout: Option<Duration>,
    /// How often it is given to another agent where nothing is heard of the one that has it: never, unless whoever made it
    /// said that it may be done twice.
    pub retries: u32,
}

/// The claim of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agent {
    pub principal: String,
    /// As it names itself.
    pub worker: String,
    /// Larger at every claim of the job; every verb of the agent carries it.
    pub token: u32,
    /// The key under which it was claimed.
    pub claim_id: String,
    pub claimed_at: Time,
    /// How long after each heartbeat the next is due.
    pub lease: Duration,
    /// When it is lost unless it is heard of.
    pub due_at: Time,
}

/// Where a job stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    Queued,
    Running,
    /// It is to stop; the agent has not said that it did.
    Cancelling {
        since: Time,
    },
    Ended {
        end: End,
        at: Time,
    },
}

/// How a job ended. It never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Succeeded {
        result: Body,
    },
    Failed {
        error: Body,
    },
    /// Nothing was heard of its agent: what came of it is unknown.
    Lost {
        error: Body,
    },
    TimedOut {
        error: Body,
    },
    Cancelled,
}

/// A completion that came after the end. It changes nothing and is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Late {
    pub by: String,
    pub at: Time,
    pub report: Report,
}

/// What an agent says came of its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    Succeeded { result: Body },
    Failed { error: Body },
}

impl Request {
    /// The request digest: what makes a second submission of the same call the same job.
    pub fn digest(&self) -> Digest {
        #[derive(Serialize)]
        struct Record<'a> {
            schema: &'static str,
            kind: &'a str,
            task: Digest,
            plan: Option<Digest>,
            result: Option<&'a Canonical>,
            timeout_ms: Option<u64>,
            retries: u32,
        }
        let Request { kind, task, plan, schema, timeout, retries } = self;
        Digest::record(&Record {
            schema: "stasis.job.v1",
            kind,
            task: task.digest,
            plan: plan.map(|plan| plan.digest),
            result: schema.as_ref(),
            timeout_ms: timeout.map(|span| span.as_millis() as u64),
            retries: *retries,
        })
    }

    /// Why a result does not fit. It was compiled when the job was made, so a schema that is none refuses nothing.
    pub fn refuses(&self, result: &Canonical) -> Option<String> {
        let schema = crate::schema::Schema::compile(self.schema.as_ref()?).ok()?;
        let violation = schema.check(result).err()?;
        Some(format!("the result at `{}`: {}", violation.pointer, violation.message))
    }
}

impl Job {
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended { .. })
    }

    /// Whether it goes back to whoever claims it next, when nothing is heard of its agent.
    pub fn is_retried(&self) -> bool {
        self.state == State::Running && self.claims <= self.request.retries
    }

    /// Whether an agent took it and nobody knows that it stopped.
    pub fn may_run(&self) -> bool {
        self.agent.is_some() && self.stopped_at.is_none()
    }

    /// When it ends by itself, whichever comes first; none once it has ended.
    pub fn due_at(&self) -> Option<Time> {
        let heard = match self.state {
            State::Queued => None,
            State::Running | State::Cancelling { .. } => self.agent.as_ref().map(|agent| agent.due_at),
            State::Ended { .. } => return None,
        };
        heard.into_iter().chain(self.open_deadline()).min()
    }

    /// Whether its deadline comes before its agent is missed.
    pub fn deadline_is_next(&self) -> bool {
        self.open_deadline().is_some_and(|deadline| Some(deadline) == self.due_at())
    }

    /// A job that is to stop has no deadline any more: it has to be heard of.
    fn open_deadline(&self) -> Option<Time> {
        self.deadline.filter(|_| !matches!(self.state, State::Cancelling { .. }))
    }
}

impl State {
    pub const fn as_str(&self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Running => "running",
            State::Cancelling { .. } => "cancelling",
            State::Ended { end, .. } => end.as_str(),
        }
    }
}

impl End {
    pub const fn as_str(&self) -> &'static str {
        match self {
            End::Succeeded { .. } => "succeeded",
            End::Failed { .. } => "failed",
            End::Lost { .. } => "lost",
            End::TimedOut { .. } => "timed_out",
            End::Cancelled => "cancelled",
        }
    }

    /// The kind of the event that tells of it.
    pub const fn event(self) -> Kind {
        match self {
            End::Succeeded { .. } => Kind::JobSucceeded,
            End::Failed { .. } => Kind::JobFailed,
            End::Lost { .. } => Kind::JobLost,
            End::TimedOut { .. } => Kind::JobTimedOut,
            End::Cancelled => Kind::JobCancelled,
        }
    }

    /// The result, or the error.
    pub const fn body(&self) -> Option<Body> {
        match self {
            End::Succeeded { result } => Some(*result),
            End::Failed { error } | End::Lost { error } | End::TimedOut { error } => Some(*error),
            End::Cancelled => None,
        }
    }
}

impl Report {
    pub const fn end(self) -> End {
        match self {
            Report::Succeeded { result } => End::Succeeded { result },
            Report::Failed { error } => End::Failed { error },
        }
    }
}
