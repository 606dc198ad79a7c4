//! The calls of a run and the effects that are open (I-24 `calls`, I-30).

use crate::json::Json;
use crate::run::{Applied, CallOutcome};
use crate::twin::twin;
use protocol::digest::Digest;
use protocol::id::{ApprovalId, CallId, RunId};
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One tool call of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Call {
    #[schema(value_type = String, example = "call_01m8nwmc7be00865rzyjka792g")]
    pub id: CallId,
    #[schema(value_type = String)]
    pub run: RunId,
    /// `<run>/<scope>/<n>` (C-57).
    pub identity: String,
    pub parent: Option<String>,
    pub tool: String,
    pub tool_version: String,
    pub effect: EffectClass,
    pub state: CallState,
    /// Whether the bodies are left out: they are for whoever asked, for who may decide, and for auditors (C-282). A POST to
    /// its `read` gives them to an auditor.
    #[serde(default)]
    pub withheld: bool,
    /// The arguments in force: those dispatched, or to be dispatched.
    pub arguments: Option<Json>,
    #[schema(value_type = String)]
    pub arguments_digest: Digest,
    #[schema(value_type = String)]
    pub asked_arguments_digest: Digest,
    /// The latest approval that was asked for it.
    #[schema(value_type = Option<String>)]
    pub approval: Option<ApprovalId>,
    pub outcome: Option<CallOutcome>,
    pub applied: Option<Applied>,
    /// The code of an outcome that is not `ok`.
    pub code: Option<String>,
    pub detail: Option<Json>,
    /// What the attempts of a call with unknown outcome saw; there for such a call only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    pub result: Option<Json>,
    /// How often its handler was started or its request sent.
    pub attempts: u32,
    /// The receipt's id.
    pub receipt: Option<String>,
    #[schema(value_type = String)]
    pub created_at: Time,
    /// When it passed its dispatch gate.
    #[schema(value_type = Option<String>)]
    pub gate_at: Option<Time>,
    #[schema(value_type = Option<String>)]
    pub completed_at: Option<Time>,
}

twin! {
    pub enum EffectClass = protocol::tool::Effect { Pure, Read, Write } words
}

/// Where a call stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Asked for; nothing has started.
    Intended,
    /// Waits for an approval.
    Asked,
    /// Past its dispatch gate, without outcome.
    Dispatched,
    /// Past its dispatch gate, outcome unknown; its settle question is open or was given up.
    Ambiguous,
    /// Has its outcome.
    Ended,
}

impl CallState {
    pub const fn as_str(self) -> &'static str {
        match self {
            CallState::Intended => "intended",
            CallState::Asked => "asked",
            CallState::Dispatched => "dispatched",
            CallState::Ambiguous => "ambiguous",
            CallState::Ended => "ended",
        }
    }
}

/// A `write` call as the list of effects shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct EffectItem {
    #[schema(value_type = String)]
    pub call: CallId,
    #[schema(value_type = String)]
    pub run: RunId,
    pub workflow: String,
    pub identity: String,
    pub tool: String,
    pub tool_version: String,
    pub state: CallState,
    /// Whether the arguments are left out, as those of a call are.
    #[serde(default)]
    pub withheld: bool,
    pub arguments: Option<Json>,
    #[schema(value_type = String)]
    pub arguments_digest: Digest,
    pub outcome: Option<CallOutcome>,
    pub applied: Option<Applied>,
    pub code: Option<String>,
    /// The settle question, where one is or was open.
    #[schema(value_type = Option<String>)]
    pub approval: Option<ApprovalId>,
    pub receipt: Option<String>,
    #[schema(value_type = Option<String>)]
    pub gate_at: Option<Time>,
    #[schema(value_type = Option<String>)]
    pub completed_at: Option<Time>,
}

/// Query of `GET /v1/effects`.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct EffectQuery {
    /// A state of a call; `ambiguous` lists what waits to be settled.
    pub state: Option<CallState>,
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}
