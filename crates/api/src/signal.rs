//! Signals (I-8, I-29).

use crate::json::Json;
use protocol::digest::Digest;
use protocol::id::{RunId, WaitId};
use protocol::run::Status;
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /v1/runs/{id}/signals/{name}` and `POST /v1/waits/{id}/signals`.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SignalRequest {
    /// 1 to 256 bytes: the same id and payload are one signal of the run; a new one if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `null` if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
}

/// A signal that was taken in.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Signal {
    pub id: String,
    #[schema(value_type = String)]
    pub run: RunId,
    /// `null` where it was sent to one wait.
    pub name: Option<String>,
    pub state: SignalState,
    /// The wait that took it.
    #[schema(value_type = Option<String>)]
    pub wait: Option<WaitId>,
    pub principal: String,
    #[schema(value_type = String)]
    pub payload_digest: Digest,
    #[schema(value_type = String)]
    pub created_at: Time,
    /// The status of the run after it.
    #[schema(value_type = String)]
    pub run_status: Status,
    /// Whether this request brought it.
    pub changed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalState {
    /// For the next wait on its name.
    Kept,
    /// A wait ended with it.
    Taken,
    /// It did not fit the wait that came to it.
    SetAside,
}

impl SignalState {
    pub const fn as_str(self) -> &'static str {
        match self {
            SignalState::Kept => "kept",
            SignalState::Taken => "taken",
            SignalState::SetAside => "set aside",
        }
    }
}
