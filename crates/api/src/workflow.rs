//! Workflows, their patterns, and the tools they may plan with (I-20, I-31).

use crate::call::EffectClass;
use crate::json::Json;
use crate::run::{Pause, WorkflowKind};
use protocol::digest::Digest;
use protocol::id::PatternId;
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /v1/workflows`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterWorkflow {
    /// The key, unless the source names its own (I-68).
    pub key: String,
    pub kind: WorkflowKind,
    pub source: String,
    /// The keys of I-68; what the source says inline wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Json>,
    /// Whether new runs use it from now on; `true` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}

/// What registering answers: the pattern that now has this content.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    pub key: String,
    pub revision: u32,
    #[schema(value_type = String)]
    pub digest: Digest,
    #[schema(value_type = String)]
    pub pattern: PatternId,
    /// `false` when the same content was known already.
    pub created: bool,
    pub active: bool,
}

/// A workflow with its revisions, newest first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Workflow {
    pub key: String,
    pub kind: WorkflowKind,
    pub title: Option<String>,
    /// The revision that new runs use.
    pub revision: Option<u32>,
    pub queue: String,
    pub priority: u8,
    pub paused: Vec<Pause>,
    #[schema(value_type = String)]
    pub created_at: Time,
    pub revisions: Vec<Revision>,
    /// Only in the answer to `pause` and `resume`: whether it changed anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Revision {
    pub revision: u32,
    #[schema(value_type = String)]
    pub pattern: PatternId,
    #[schema(value_type = String)]
    pub digest: Digest,
    pub active: bool,
    #[schema(value_type = String)]
    pub created_at: Time,
}

/// One immutable revision of a workflow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Pattern {
    #[schema(value_type = String)]
    pub id: PatternId,
    pub key: String,
    pub revision: u32,
    #[schema(value_type = String)]
    pub digest: Digest,
    pub kind: WorkflowKind,
    pub active: bool,
    pub manifest: Json,
    pub source: String,
    #[schema(value_type = String)]
    pub source_digest: Digest,
    #[schema(value_type = Option<String>)]
    pub image_digest: Option<Digest>,
    #[schema(value_type = String)]
    pub created_at: Time,
}

/// Body of `POST /v1/workflows/{key}/activate`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivateRequest {
    pub revision: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A function the host offers to programs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Tool {
    pub name: String,
    pub version: String,
    #[schema(value_type = String)]
    pub digest: Digest,
    pub effect: EffectClass,
    /// `retry`, `idempotent`, `lookup` or `manual`.
    pub recovery: String,
    /// What a cancel does about a call in flight: `wait`, `abort`, or the tool by which the other side is asked to stop.
    pub on_cancel: String,
    pub description: Option<String>,
    /// `builtin`, `http`, `command`, ...
    pub connector: String,
    /// When it asks: `always`, `never`, `policy`, or its `when`.
    pub approval: String,
    pub input: Json,
    pub output: Option<Json>,
    /// Whether the configuration in force names this version: programs that register from now on get no other.
    pub configured: bool,
    /// Since when it is withdrawn.
    #[schema(value_type = Option<String>)]
    pub withdrawn_at: Option<Time>,
    pub withdrawn_by: Option<String>,
    pub withdrawn_reason: Option<String>,
}
