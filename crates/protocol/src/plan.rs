//! Plans: the sealed set of tools and grants that a run may use (calls.md section 4).
//!
//! A plan holds digests; what they stand for is stored beside it, so a parked run reads exactly what was sealed (C-43).
//! Nothing here looks a tool up or seals anything: sealing is a transition of the ledger.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::time::Time;

/// The kind of record a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanSchema {
    #[serde(rename = "stasis.plan.v1")]
    V1,
}

/// A sealed plan (C-41).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub schema: PlanSchema,
    /// Counted calls that a run may make: 1 to 10,000.
    pub max_calls: u32,
    /// When the plan expires, if it does.
    pub not_after: Option<Time>,
    /// Sorted bytewise by name.
    pub tools: Vec<PlanTool>,
}

/// One tool of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanTool {
    pub name: String,
    pub version: String,
    pub tool_digest: Digest,
    pub grant_digest: Digest,
}
