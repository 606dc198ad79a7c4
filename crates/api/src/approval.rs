//! An approval, its rule and the decisions on it (I-25, I-26, I-43).

use crate::json::Json;
use crate::twin::twin;
use protocol::digest::Digest;
use protocol::id::{ApprovalId, CallId, RunId};
use protocol::time::Time;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// The question whether one call, gate or settlement may stand, with all that it is bound to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    #[schema(value_type = String, example = "apr_01m8nwmc7ce009jh69rck9w39q")]
    pub id: ApprovalId,
    pub kind: ApprovalKind,
    pub status: ApprovalStatus,
    #[schema(value_type = String)]
    pub run: RunId,
    pub workflow: String,
    #[schema(value_type = String)]
    pub call: CallId,
    /// `<run>/<scope>/<n>` (C-57).
    pub identity: String,
    pub tool: String,
    pub tool_version: String,
    pub title: Option<String>,
    /// The tool's own description.
    pub description: Option<String>,
    /// What the agent says about it: its words, not the host's.
    pub claim: Option<String>,
    /// Whether the bodies are left out: they are for whoever asked, for who may decide, and for auditors (C-282). A POST to
    /// its `read` gives them to an auditor.
    #[serde(default)]
    pub withheld: bool,
    /// The arguments as they will be handed over, byte for byte.
    pub arguments: Option<Json>,
    #[schema(value_type = String)]
    pub arguments_digest: Digest,
    /// What the program asked for, byte for byte; there once an approver has edited it (I-43).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_arguments: Option<Json>,
    /// What the program asked for; differs after an edit.
    #[schema(value_type = String)]
    pub asked_arguments_digest: Digest,
    /// Content that the arguments name, as it was when this was asked; content that differs later is not used (C-142).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operands: Vec<Operand>,
    /// Whether the arguments cannot be shown as they are (C-141).
    pub unrenderable: bool,
    /// The JSON Schema of the answer that a gate wants.
    pub form: Option<Json>,
    #[schema(value_type = String)]
    pub plan_digest: Digest,
    #[schema(value_type = String)]
    pub policy_digest: Digest,
    #[schema(value_type = String)]
    pub binding_digest: Digest,
    /// Grows by one with each edit.
    pub revision: u32,
    pub requester: String,
    pub acts_for: Option<String>,
    pub rule: Rule,
    pub progress: Progress,
    #[schema(value_type = String)]
    pub created_at: Time,
    /// `null` for kind `settle`, which does not expire.
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<Time>,
    /// Until when an approved call may pass its dispatch gate (C-114).
    #[schema(value_type = Option<String>)]
    pub valid_until_at: Option<Time>,
    #[schema(value_type = Option<String>)]
    pub decided_at: Option<Time>,
    pub decisions: Vec<Decision>,
    /// The gate's form filled in, or the answer that settled.
    pub answer: Option<Json>,
    /// What became of it after the yes.
    pub dispatch: Option<Dispatch>,
    /// What helps to answer a question of kind `settle`; there for that kind only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Settle>,
}

/// A file or what a url answers, named by an argument.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Operand {
    /// JSON Pointer of the argument.
    pub pointer: String,
    /// The argument, where bodies are not withheld.
    pub name: Option<String>,
    /// SHA-256 of the content.
    #[schema(value_type = String)]
    pub digest: Digest,
}

/// What is known about a call whose outcome is not, and what a result of it has to look like.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Settle {
    /// The tool's output schema, which the result of `happened` has to fit; `null` where the tool declares none.
    pub output: Option<Json>,
    /// What an earlier call of the same tool answered, of this run if there is one.
    pub earlier: Option<Earlier>,
    /// How often it was sent.
    pub attempts: u32,
    /// What each attempt without an answer saw; `null` where its process ended before that could be stored.
    pub seen: Option<String>,
}

/// A call of the same tool that ended well.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Earlier {
    #[schema(value_type = String)]
    pub run: RunId,
    #[schema(value_type = String)]
    pub call: CallId,
    pub result: Json,
}

twin! {
    pub enum ApprovalKind = protocol::approval::Kind { Call, Gate, Settle } words
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Rejected,
    Expired,
    Cancelled,
}

impl ApprovalStatus {
    pub const ALL: [ApprovalStatus; 5] = [
        ApprovalStatus::Pending,
        ApprovalStatus::Approved,
        ApprovalStatus::Rejected,
        ApprovalStatus::Expired,
        ApprovalStatus::Cancelled,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            ApprovalStatus::Pending => "pending",
            ApprovalStatus::Approved => "approved",
            ApprovalStatus::Rejected => "rejected",
            ApprovalStatus::Expired => "expired",
            ApprovalStatus::Cancelled => "cancelled",
        }
    }

    /// Reads the wire text; `None` for anything else.
    pub fn parse(text: &str) -> Option<ApprovalStatus> {
        ApprovalStatus::ALL.into_iter().find(|s| s.as_str() == text)
    }
}

/// Body of `POST /v1/approvals/{id}/extend`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendRequest {
    /// The new expiry: later than the present one, at most 400 days after the question was asked.
    #[schema(value_type = String)]
    pub until: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Who may decide, and how (C-55).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    pub roles: Vec<String>,
    pub principals: Vec<String>,
    pub quorum: u32,
    pub reject_quorum: u32,
    pub separate_requester: bool,
    pub edit: EditRule,
    pub reason: ReasonRule,
    pub on_expiry: OnExpiry,
    pub strength: Strength,
    pub batch: bool,
}

twin! {
    pub enum EditRule = protocol::policy::Edit {
        No,
        Yes,
        /// The editor's own approve does not count.
        Second,
    }
}

twin! {
    pub enum ReasonRule = protocol::policy::ReasonRule { None, Reject, Always }
}

twin! {
    pub enum OnExpiry = protocol::policy::OnExpiry { Reject, Fail, Escalate }
}

impl OnExpiry {
    pub const fn as_str(self) -> &'static str {
        match self {
            OnExpiry::Reject => "reject",
            OnExpiry::Fail => "fail",
            OnExpiry::Escalate => "escalate",
        }
    }
}

twin! {
    /// How strongly a decider is signed in; later is stronger.
    pub enum Strength = protocol::policy::Strength { Link, Session, StepUp }
}

/// The votes on the current revision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    pub approve: u32,
    pub reject: u32,
    pub abstain: u32,
    pub quorum: u32,
    /// How many people are named, if all are named (C-180).
    pub of: Option<u32>,
}

/// One recorded decision (C-176).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    pub principal: String,
    /// The door it came through: `cli`, `api`, `console`, `system`.
    pub method: String,
    pub strength: Strength,
    pub verdict: Verdict,
    pub reason: Option<String>,
    #[schema(value_type = String)]
    pub at: Time,
    /// Whether it came after the expiry (C-175).
    pub late: bool,
    /// Whether these arguments are the decider's own: approved with an edit (C-184). Left out where they are not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
}

twin! {
    pub enum Verdict = protocol::approval::Verdict {
        Approve,
        Reject,
        Abstain,
        /// Kind `settle`: the effect happened.
        Happened,
        /// Kind `settle`: it did not, and never will.
        DidNotHappen,
        /// Kind `settle`: nobody will find out.
        GiveUp,
    } words
}

/// What became of an approved call (C-136).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Dispatch {
    #[schema(value_type = Option<String>)]
    pub gate_at: Option<Time>,
    pub executed: bool,
    /// `ok`, `error`, `ambiguous`, `delivered`, or why it never ran (`expired_before_dispatch`, ...).
    pub outcome: Option<String>,
    #[schema(value_type = Option<String>)]
    pub completed_at: Option<Time>,
}

/// Body of `POST /v1/approvals/{id}/decisions` and `POST /v1/effects/{call}/settle`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    pub decision: Verdict,
    /// What the decider saw; may be left out for reject and abstain only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub arguments_digest: Option<Digest>,
    /// The complete new arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<Json>,
    /// The gate's form filled in, or the result that `happened` gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unrenderable: bool,
}

impl DecisionRequest {
    /// A bare verdict.
    pub fn of(decision: Verdict) -> DecisionRequest {
        DecisionRequest {
            decision,
            arguments_digest: None,
            edit: None,
            answer: None,
            reason: None,
            unrenderable: false,
        }
    }
}

/// Query of `GET /v1/approvals`.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ApprovalQuery {
    /// `pending` unless given; `all` for every status.
    pub status: Option<String>,
    #[param(value_type = Option<String>)]
    pub run: Option<RunId>,
    /// Only those the caller may decide.
    pub mine: Option<bool>,
    pub order: Option<Order>,
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Newest,
    Oldest,
    Expiring,
}

/// Body of `POST /v1/approvals:decide`: 1 to 100 approvals, each decided alone (C-199).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    #[serde(deserialize_with = "objects")]
    pub items: Vec<BatchItem>,
}

/// Reads items that are objects. A derived reader takes a list too, whose fields have no names that could be unknown.
fn objects<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<BatchItem>, D::Error> {
    struct Object(BatchItem);
    struct Fields;

    impl<'de> Visitor<'de> for Fields {
        type Value = Object;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Object, A::Error> {
            BatchItem::deserialize(MapAccessDeserializer::new(fields)).map(Object)
        }
    }

    impl<'de> Deserialize<'de> for Object {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
            deserializer.deserialize_map(Fields)
        }
    }

    Ok(Vec::<Object>::deserialize(deserializer)?.into_iter().map(|Object(item)| item).collect())
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchItem {
    #[schema(value_type = String)]
    pub approval: ApprovalId,
    pub decision: Verdict,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub arguments_digest: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Answer of a batch, in the order of the request; of `approval` and `problem` one is set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    pub items: Vec<BatchResult>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchResult {
    /// The id as it was sent.
    pub id: String,
    pub approval: Option<Approval>,
    pub problem: Option<crate::problem::Problem>,
}
