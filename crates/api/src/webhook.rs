//! Messages to the outside (I-34).

use protocol::id::{MessageId, RunId, WebhookId};
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where messages are sent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    #[schema(value_type = String)]
    pub id: WebhookId,
    pub url: String,
    /// `approval.requested`, `approval.decided`, `run.parked`, `run.finished`, `effect.ambiguous`.
    pub types: Vec<String>,
    #[schema(value_type = String)]
    pub created_at: Time,
    pub created_by: String,
    /// What messages are signed with; only in the answer that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Body of `POST /v1/webhooks`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// `https://...`; addresses that are not public are refused unless the server's configuration allows them.
    pub url: String,
    /// All of them if left empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// `whsec_` and base64 of 24 to 64 bytes; one is made if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// One message to one webhook.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Message {
    #[schema(value_type = String)]
    pub id: MessageId,
    #[serde(rename = "type")]
    pub topic: String,
    #[schema(value_type = String)]
    pub run: RunId,
    pub state: MessageState,
    pub attempts: u32,
    /// Why the last attempt was none.
    pub last_error: Option<String>,
    #[schema(value_type = String)]
    pub created_at: Time,
    /// When it is sent next; `null` if it is not.
    #[schema(value_type = Option<String>)]
    pub retry_at: Option<Time>,
    /// When it was delivered or given up.
    #[schema(value_type = Option<String>)]
    pub ended_at: Option<Time>,
    /// What is sent, byte for byte.
    pub body: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    Pending,
    Delivered,
    GivenUp,
}
