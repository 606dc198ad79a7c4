//! What an operator reads and does: guests, tokens, queues, the doctor, readiness (I-9, I-11, I-35).

use protocol::digest::Digest;
use protocol::id::{RunId, TokenId};
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::run::{Pause, Tier};

/// One interpreter that is alive in this process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Guest {
    #[schema(value_type = String)]
    pub run: RunId,
    pub tier: Tier,
    /// Measured, not estimated; `null` where it is not measured.
    pub resident_bytes: Option<u64>,
    /// `null` while it executes.
    #[schema(value_type = Option<String>)]
    pub waiting_since_at: Option<Time>,
    /// What it waits for.
    pub waits_for: Option<String>,
}

/// A token. The secret itself is told once, when the token is made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Token {
    #[schema(value_type = String)]
    pub id: TokenId,
    pub principal: String,
    pub rights: Vec<String>,
    #[schema(value_type = String)]
    pub created_at: Time,
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<Time>,
    #[schema(value_type = Option<String>)]
    pub revoked_at: Option<Time>,
    /// The bearer token; only in the answer that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Only in the answer to a revocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}

/// Body of `POST /v1/tokens`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    pub principal: String,
    /// The principal's own rights if left empty; never more than these (I-65).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rights: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<Time>,
}

/// What must be warm before work that needs it, in this process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Resource {
    pub name: String,
    /// `cold`, `starting`, `warm`, `draining`, `stopping`, `unsettled`, `contained` or `remote`.
    pub state: String,
    /// Why it is contained; else what went wrong with it last.
    pub last_error: Option<String>,
    /// What it takes of the host; `null` where it is not of this host.
    pub memory_mib: Option<u64>,
    pub slots: Option<u64>,
    /// Live leases; none is held by a run that waits.
    pub leases: u64,
    /// Runs that wait for it to become warm.
    pub waiting: u64,
    /// Whose the leases are, of the runs that the caller may know of.
    #[schema(value_type = Vec<String>)]
    pub lease_runs: Vec<RunId>,
    /// Who waits, in the order of their turns, of the runs that the caller may know of.
    #[schema(value_type = Vec<String>)]
    pub waiting_runs: Vec<RunId>,
    /// Only in the answer to a reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}

/// A queue, as `stasis queue list` shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    pub name: String,
    /// Runs that wait in it, paused ones too.
    pub queued: u64,
    /// Most runs that may wait in it; `null` is no bound.
    pub max_queued: Option<u64>,
    pub paused: Vec<Pause>,
    /// Only in the answer to `pause` and `resume`: whether it changed anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}

/// Answer of `GET /v1/doctor`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DoctorReport {
    /// Whether no check failed.
    pub ok: bool,
    pub version: String,
    pub checks: Vec<Check>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Check {
    pub name: String,
    pub verdict: CheckVerdict,
    /// What was found, with numbers.
    pub found: String,
    pub hint: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    Ok,
    Warning,
    Failed,
}

impl CheckVerdict {
    pub const fn as_str(self) -> &'static str {
        match self {
            CheckVerdict::Ok => "ok",
            CheckVerdict::Warning => "warning",
            CheckVerdict::Failed => "failed",
        }
    }
}

/// Answer of `GET /readyz`, 200 or 503.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Ready {
    pub ready: bool,
    /// Until one full recovery pass is done.
    pub recovering: bool,
    /// Why it is not ready.
    pub reason: Option<String>,
    /// What does not work as it should while it is ready, one a line; `stasis doctor` names it.
    pub degraded: Vec<String>,
    /// Whether this process stays (`dev`, `serve`), or is a command that holds the store while it works (I-18).
    pub lasting: bool,
    /// Whether this process carries runs.
    pub workers: bool,
    /// Of the text of the configuration that it was started with; `null` where it found none.
    #[schema(value_type = Option<String>)]
    pub config_digest: Option<Digest>,
    pub version: String,
    pub pid: u32,
}
