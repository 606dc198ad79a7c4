//! The proof that the record is what it was (I-10, I-33).

use protocol::audit::{Break, Link};
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /v1/audit/head`: how the ledger stands to what was exported of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditHead {
    /// Number of the last exported anchor; `null` if none was.
    pub anchor: Option<u64>,
    #[schema(value_type = Option<String>)]
    pub digest: Option<Digest>,
    #[schema(value_type = Option<String>)]
    pub anchored_at: Option<Time>,
    /// The file of the export, on the server.
    pub export: String,
    /// What signatures are verified with, 64 hex digits; `null` until the first anchor.
    pub public_key: Option<String>,
    /// Why the ledger is behind its export, so that nothing is claimed; `null` if it is not.
    pub behind: Option<String>,
    /// Why the last anchor could not be exported.
    pub last_error: Option<String>,
    /// Only in the answer to `accept`: whether it was behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}

/// Body of `POST /v1/audit/verify`.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerifyRequest {
    /// One run, and what was exported of it; without it the whole ledger, in pages.
    #[schema(value_type = Option<String>)]
    pub run: Option<RunId>,
    /// Go on where an earlier answer ended.
    pub cursor: Option<String>,
}

/// What was verified by one request.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VerifyAnswer {
    /// Runs whose chains of events, receipts and journal were recomputed.
    pub runs: u64,
    pub events: u64,
    /// Exported anchors that were read; `null` where this request read none.
    pub anchors: Option<u64>,
    /// Runs that were compared with what was exported of them.
    pub anchored: u64,
    /// The first break.
    pub broken: Option<Broken>,
    /// Go on with this; `null` is the end.
    pub next_cursor: Option<String>,
}

/// The first link that does not fit (C-278).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Broken {
    /// The run, or else the anchor.
    #[schema(value_type = Option<String>)]
    pub run: Option<RunId>,
    pub anchor: Option<u64>,
    /// Number of the event or receipt.
    pub seq: Option<u32>,
    /// `altered`, `missing`, `inserted`, `reordered`, `truncated` or `bad_signature`.
    pub kind: String,
    pub field: String,
    pub expected: String,
    pub found: String,
}

impl From<&Break> for Broken {
    fn from(found: &Break) -> Broken {
        let (run, seq, anchor) = match found.at {
            Link::Run { run, seq } => (Some(run), seq, None),
            Link::Anchor { n } => (None, None, Some(n)),
        };
        Broken {
            run,
            anchor,
            seq,
            kind: found.kind.as_str().to_owned(),
            field: found.field.to_owned(),
            expected: found.expected.clone(),
            found: found.found.clone(),
        }
    }
}

/// Body of `POST /v1/audit/compare`: what some export says of runs, for the ledger to stand by.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareRequest {
    /// At most 1,000.
    pub heads: Vec<ClaimedHead>,
    /// When the last anchor of that export was made.
    #[schema(value_type = String)]
    pub until: Time,
}

/// The newest head of one run in an export.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimedHead {
    #[schema(value_type = String)]
    pub run: RunId,
    pub anchor: u64,
    /// How many events it had.
    pub events: u32,
    /// Digest of the last of them.
    #[schema(value_type = String)]
    pub head: Digest,
    /// Whether an anchor tells of its removal.
    pub removed: bool,
}
