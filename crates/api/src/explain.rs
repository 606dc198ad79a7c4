//! Why a run is where it is, and what would move it.

use crate::run::{Clocks, Obligation, Pause, WaitKind};
use protocol::id::RunId;
use protocol::run::Status;
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /v1/runs/{id}/explain`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Explain {
    #[schema(value_type = String)]
    pub run: RunId,
    #[schema(value_type = String)]
    pub status: Status,
    #[schema(value_type = String)]
    pub since_at: Time,
    /// Why it is where it is, in a sentence.
    pub why: String,
    /// What happens next by itself, in a sentence; `null` when nothing does.
    pub next: Option<String>,
    /// What somebody can do to move it; each a command or a sentence.
    pub moves: Vec<String>,
    pub paused: Vec<Pause>,
    pub waits: Vec<ExplainedWait>,
    pub clocks_ms: Clocks,
    pub obligations: Vec<Obligation>,
    pub debts: Vec<Debt>,
}

/// An open wait with who or what can end it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExplainedWait {
    pub kind: WaitKind,
    /// Id of the wait's owner.
    pub id: String,
    pub name: Option<String>,
    #[schema(value_type = String)]
    pub since_at: Time,
    #[schema(value_type = Option<String>)]
    pub due_at: Option<Time>,
    /// In words: `1 of 1 approvals by role finance, or its expiry (rejects)`.
    pub ended_by: String,
}

/// Cleanup left over after an end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Debt {
    pub kind: String,
    #[serde(rename = "ref")]
    pub of: String,
    pub attempts: u32,
    #[schema(value_type = Option<String>)]
    pub retry_at: Option<Time>,
}
