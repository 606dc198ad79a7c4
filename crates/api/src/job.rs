//! Delegated jobs (I-7, I-28).

use crate::json::Json;
use protocol::digest::Digest;
use protocol::id::{CallId, JobId, RunId};
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A job, as lists and its agent's verbs show it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Job {
    #[schema(value_type = String)]
    pub id: JobId,
    #[schema(value_type = String)]
    pub run: RunId,
    /// The call that handed it over.
    #[schema(value_type = String)]
    pub call: CallId,
    /// The agents that may claim it, by name.
    pub kind: String,
    pub state: JobState,
    pub priority: u8,
    pub agent: Option<JobAgent>,
    /// Whether its agent is asked to stop.
    pub stop: bool,
    /// An agent took it, and nobody knows that it stopped.
    pub may_still_run: bool,
    #[schema(value_type = String)]
    pub created_at: Time,
    #[schema(value_type = Option<String>)]
    pub deadline_at: Option<Time>,
    #[schema(value_type = Option<String>)]
    pub ended_at: Option<Time>,
    #[schema(value_type = Option<String>)]
    pub stopped_at: Option<Time>,
    /// The latest that its agent told.
    pub progress: Option<Json>,
    #[schema(value_type = String)]
    pub task_digest: Digest,
    #[schema(value_type = Option<String>)]
    pub result_digest: Option<Digest>,
    #[schema(value_type = Option<String>)]
    pub error_digest: Option<Digest>,
    /// What came too late to count, oldest first.
    pub late: Vec<LateReport>,
    /// What is to be done; for the agent that claims it alone.
    pub task: Option<Json>,
    /// The tools that it may call, sealed; for the agent that claims it alone.
    pub plan: Option<Json>,
    /// What its result has to fit, as a JSON Schema; none is anything.
    pub schema: Option<Json>,
    /// Whether this request changed it; `null` in lists.
    pub changed: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    Queued,
    Running,
    Cancelling,
    Succeeded,
    Failed,
    /// Nothing was heard of its agent: what came of it is unknown.
    Lost,
    TimedOut,
    Cancelled,
}

/// The agent that has a job, or had it last.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobAgent {
    pub principal: String,
    /// As it names itself.
    pub worker: String,
    /// What each of its verbs carries.
    pub token: u32,
    #[schema(value_type = String)]
    pub claimed_at: Time,
    pub lease_ms: u64,
    /// When it is missed unless it is heard of.
    #[schema(value_type = String)]
    pub due_at: Time,
}

/// A completion that came after the end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LateReport {
    pub by: String,
    #[schema(value_type = String)]
    pub at: Time,
    pub outcome: JobState,
    #[schema(value_type = String)]
    pub digest: Digest,
}

/// Body of `POST /v1/jobs/claim`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    pub kind: String,
    /// As the agent names itself; shown to people.
    pub worker: String,
    /// How soon after each heartbeat the next is due, such as `60s`; the server's own if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// The same again answers the same jobs.
    pub claim_id: String,
    /// 1 to 64; one if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Jobs that a claim got.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClaimedJobs {
    pub items: Vec<Job>,
}

/// Body of `POST /v1/jobs/{id}/heartbeat`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    pub token: u32,
    /// 4 KiB at most; the latest is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Json>,
}

/// Body of `POST /v1/jobs/{id}/complete`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteRequest {
    pub token: u32,
    pub result: Json,
}

/// Body of `POST /v1/jobs/{id}/fail`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    pub token: u32,
    /// What went wrong; the program is told.
    pub error: Json,
}

/// Body of `POST /v1/jobs/{id}/ack-cancel`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AckRequest {
    pub token: u32,
}

/// Query of `GET /v1/jobs`, newest first.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct JobQuery {
    #[param(value_type = Option<String>)]
    pub run: Option<RunId>,
    pub kind: Option<String>,
    /// Only those that have not ended.
    pub open: Option<bool>,
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

impl JobState {
    pub const fn as_str(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Cancelling => "cancelling",
            JobState::Succeeded => "succeeded",
            JobState::Failed => "failed",
            JobState::Lost => "lost",
            JobState::TimedOut => "timed out",
            JobState::Cancelled => "cancelled",
        }
    }
}
