//! What a run left behind, line by line: its events (I-45, R-359) and what its program printed.

use crate::json::Json;
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One line of a run's timeline, and one link of its audit chain.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// `stasis.event.v1`.
    pub schema: String,
    #[schema(value_type = String)]
    pub run: RunId,
    /// The place in the run's timeline, from 0 and without holes.
    pub seq: u64,
    /// `run.done`, `approval.requested`, ....
    pub kind: String,
    #[schema(value_type = String)]
    pub at: Time,
    /// Ids, digests, states, numbers and short texts; never arguments, results or secrets.
    pub facts: Json,
    /// The digest of the event before; event 0 is bound to run and pattern.
    #[schema(value_type = String)]
    pub prev: Digest,
    #[schema(value_type = String)]
    pub digest: Digest,
}

/// A line of a stream that is not stored, has no place in the timeline and may be lost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LiveLine {
    /// `stasis.live.v1`.
    pub schema: String,
    #[schema(value_type = String)]
    pub run: RunId,
    /// `job.progress`.
    pub kind: String,
    /// When it was told on.
    #[schema(value_type = String)]
    pub at: Time,
    pub facts: Json,
}

impl Event {
    /// Whether a stream ends after this one.
    pub fn is_terminal(&self) -> bool {
        matches!(self.kind.as_str(), "run.done" | "run.failed" | "run.cancelled")
    }
}

/// Sent by a stream where events cannot be given any more, before it goes on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Gap {
    pub from: u64,
    pub to: u64,
    pub reason: String,
}

/// A line the program printed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// The place in the run's log, from 0 and without holes.
    pub n: u64,
    #[schema(value_type = String)]
    pub at: Time,
    pub text: String,
}

/// Query of events and log: what came after a place. For one run the place is a sequence number, for all runs an
/// opaque cursor.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct TailQuery {
    pub after: Option<String>,
    pub limit: Option<u32>,
}
