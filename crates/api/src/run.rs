//! A run and what is asked of it (I-21 to I-24, I-41, I-42).

use crate::approval::Approval;
use crate::job::Job;
use crate::json::Json;
use crate::twin::twin;
use protocol::digest::Digest;
use protocol::id::{CallId, RunId};
use protocol::run::Status;
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A run, as `stasis run show` and `GET /v1/runs/{id}` give it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Run {
    #[schema(value_type = String, example = "run_01m8nwmbe0e00bsaekf59edd1r")]
    pub id: RunId,
    pub namespace: String,
    /// The workflow's key.
    pub workflow: String,
    pub revision: u32,
    #[schema(value_type = String)]
    pub pattern_digest: Digest,
    #[schema(value_type = String)]
    pub plan_digest: Digest,
    pub kind: WorkflowKind,
    #[schema(value_type = String, example = "awaiting_consent")]
    pub status: Status,
    /// Since when it has this status.
    #[schema(value_type = String)]
    pub since_at: Time,
    /// The number of the hop.
    pub seq: u64,
    #[schema(value_type = String)]
    pub created_at: Time,
    #[schema(value_type = Option<String>)]
    pub started_at: Option<Time>,
    #[schema(value_type = Option<String>)]
    pub finished_at: Option<Time>,
    #[schema(value_type = Option<String>)]
    pub deadline_at: Option<Time>,
    pub queue: String,
    /// 0 to 100, higher is sooner.
    pub priority: u8,
    pub principal: String,
    pub session: Option<String>,
    pub labels: BTreeMap<String, String>,
    #[schema(value_type = Option<String>)]
    pub retry_of: Option<RunId>,
    pub forked_from: Option<ForkedFrom>,
    /// Each pause that lies over the run, whatever its scope.
    pub paused: Vec<Pause>,
    /// Why it cannot go on by itself.
    pub blocked: Option<String>,
    /// One entry for each open wait.
    pub waiting_for: Vec<WaitingFor>,
    pub budgets: Budgets,
    pub clocks_ms: Clocks,
    #[schema(value_type = String)]
    pub input_digest: Digest,
    pub result: Option<Json>,
    pub failure: Option<Failure>,
    pub obligations: Vec<Obligation>,
    /// The counted `write` calls.
    pub effects: Vec<Effect>,
    /// Only in the answer to an admission: whether it made this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<bool>,
    /// Only in the answer to a verb: whether it changed anything (I-24).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}

twin! {
    pub enum WorkflowKind = protocol::run::Kind { Script, Graph, Agent, Rust } words
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ForkedFrom {
    #[schema(value_type = String)]
    pub run: RunId,
    pub seq: u64,
}

/// A pause over a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Pause {
    pub scope: PauseScope,
    /// Id of the run, key of the workflow, or name of the queue.
    pub name: String,
    pub by: String,
    pub reason: Option<String>,
    #[schema(value_type = String)]
    pub since_at: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseScope {
    Run,
    Workflow,
    Queue,
}

/// One open wait of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct WaitingFor {
    pub kind: WaitKind,
    /// Id of the wait's owner; of a hardware hold the resource.
    pub id: String,
    /// The tool, gate title, job kind, signal or resource.
    pub name: Option<String>,
    #[schema(value_type = String)]
    pub since_at: Time,
    #[schema(value_type = Option<String>)]
    pub due_at: Option<Time>,
    /// Where the waiting guest lives; `null` when replay brings it back.
    pub tier: Option<Tier>,
    /// Of a wait for hardware: how many changes are made before its own.
    pub place: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    Approval,
    Job,
    Signal,
    Timer,
    Hardware,
}

impl WaitKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            WaitKind::Approval => "approval",
            WaitKind::Job => "job",
            WaitKind::Signal => "signal",
            WaitKind::Timer => "timer",
            WaitKind::Hardware => "hardware",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    Hot,
    Cold,
    Frozen,
}

impl Tier {
    pub const fn as_str(self) -> &'static str {
        match self {
            Tier::Hot => "hot",
            Tier::Cold => "cold",
            Tier::Frozen => "frozen",
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Budgets {
    pub calls: Budget,
    pub active_ms: Budget,
    pub hardware: HardwareBudget,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Budget {
    pub used: u64,
    pub of: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct HardwareBudget {
    pub total: u32,
    pub of: u32,
    pub resource: Option<String>,
    pub in_row: u32,
    pub in_row_of: u32,
}

/// The clocks of a run in milliseconds; exactly one runs at any moment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Clocks {
    pub queued: u64,
    pub active: u64,
    pub calls: u64,
    pub hold: u64,
    pub person: u64,
    pub machine: u64,
    pub paused: u64,
    pub stopping: u64,
}

/// Why a run failed, or is failing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    pub code: String,
    pub message: String,
    /// Of a script: `line` and `traceback`; of a limit: both numbers.
    pub detail: Option<Json>,
}

/// Something outside that has still to acknowledge that it stopped.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Obligation {
    pub kind: ObligationKind,
    /// The hop's number, the call's or the job's id.
    #[serde(rename = "ref")]
    pub of: String,
    /// The agent of a job, as `<principal> (<worker>)`.
    pub name: Option<String>,
    pub state: ObligationState,
    pub by: Option<String>,
    pub reason: Option<String>,
    pub attempts: u32,
    pub last_error: Option<String>,
    #[schema(value_type = Option<String>)]
    pub retry_at: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObligationKind {
    Hop,
    Call,
    Job,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObligationState {
    Open,
    Acknowledged,
    Attested,
}

/// A counted `write` call, as a run lists it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Effect {
    #[schema(value_type = String)]
    pub call: CallId,
    /// `<run>/<scope>/<n>` (C-57).
    pub identity: String,
    pub tool: String,
    /// `null` while it has none.
    pub outcome: Option<CallOutcome>,
    pub applied: Option<Applied>,
    pub code: Option<String>,
    /// The receipt's id.
    pub receipt: Option<String>,
    /// The tool that compensates it, or `stands`.
    pub compensate: Option<String>,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    Ok,
    Error,
    Denied,
    Ambiguous,
}

impl CallOutcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            CallOutcome::Ok => "ok",
            CallOutcome::Error => "error",
            CallOutcome::Denied => "denied",
            CallOutcome::Ambiguous => "ambiguous",
        }
    }
}

twin! {
    /// Whether an effect happened (C-120).
    pub enum Applied = protocol::call::Applied { Yes, No, Unknown } words
}

/// The outcome of a run that was carried or awaited (I-42): the run, its pending approvals and its jobs that are not
/// terminal, oldest first. Deciding commands add the approval they decided.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    pub run: Run,
    pub approvals: Vec<Approval>,
    pub jobs: Vec<Job>,
}

/// Body of `POST /v1/runs` and `PUT /v1/runs/{id}`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    pub workflow: String,
    /// `{}` if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub deadline: Option<Time>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub retry_of: Option<RunId>,
}

impl StartRun {
    /// The request that says nothing but what to run, on which input.
    pub fn of(workflow: impl Into<String>, input: Option<Json>) -> StartRun {
        StartRun {
            workflow: workflow.into(),
            input,
            revision: None,
            priority: None,
            queue: None,
            session: None,
            labels: BTreeMap::new(),
            deadline: None,
            held: false,
            retry_of: None,
        }
    }
}

/// Body of the verbs that only say why (`cancel`, `withdraw`, `revoke`).
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ActionRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of `fork`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// The number of an event of the run: what had ended by then is taken over.
    pub seq: u32,
    /// The id of the new run, which is the idempotency key too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub id: Option<RunId>,
    /// Those of the other run if they are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

/// Body of `move`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// The revision to go on under.
    pub revision: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of `attest`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttestRequest {
    /// `ref` of the obligation: the hop's number, the call's or the job's id.
    pub obligation: String,
    /// Why the caller knows that it has stopped.
    pub reason: String,
}

/// Query of `GET /v1/runs`.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    /// One status, or several joined by commas.
    pub status: Option<String>,
    pub workflow: Option<String>,
    /// `key=value`.
    pub label: Option<String>,
    /// A kind of wait: approval, job, signal, timer, hardware.
    pub waiting_for: Option<String>,
    /// RFC 3339, inclusive.
    pub created_after: Option<String>,
    /// RFC 3339, exclusive.
    pub created_before: Option<String>,
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

/// Query of `GET /v1/runs/{id}/wait`.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    pub until: Until,
    /// A duration (`50s`), at most 55 s (runs.md section 20); that much if left out.
    pub timeout: Option<String>,
}

/// What a waiter waits for.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// The next stop (I-19b): an end, a park, a pause, or a stop that waits for the outside.
    #[default]
    Stopped,
    /// An end.
    Terminal,
}

impl Until {
    pub const fn as_str(self) -> &'static str {
        match self {
            Until::Stopped => "stopped",
            Until::Terminal => "terminal",
        }
    }
}

/// What the current checkpoint of a run says of itself. Its body is for the next hop alone.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    #[schema(value_type = String)]
    pub run: RunId,
    /// Its number; each park replaces the one before.
    pub n: u32,
    /// The hop that wrote it.
    pub seq: u64,
    /// Id of the schema of the state in it.
    pub schema: String,
    /// How far the journal was.
    pub journal_length: u32,
    #[schema(value_type = String)]
    pub journal_digest: Digest,
    #[schema(value_type = String)]
    pub body_digest: Digest,
    pub body_bytes: u64,
    /// The frozen guest beside it; `null` when replay brings the guest back.
    pub snapshot: Option<SnapshotInfo>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SnapshotInfo {
    /// The engine that can thaw it.
    pub engine: String,
    #[schema(value_type = String)]
    pub image_digest: Digest,
    #[schema(value_type = String)]
    pub body_digest: Digest,
    pub bytes: u64,
    /// Whether a hop has taken it; it is thawed once.
    pub consumed: bool,
}
