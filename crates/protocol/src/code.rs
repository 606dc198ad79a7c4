//! Every code that is told to a guest, a worker or a client.
//!
//! The list is closed: a code outside the tables of runs.md section 19, calls.md section 16, workflows.md section 6 and
//! I-47 is a defect (C-307). A code never changes its meaning and is never used again for another.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal $($status:literal)? $($retry:ident)?;)*) => {
        /// What went wrong, as a stable word.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// All codes, in the order of the tables.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The HTTP status of an answer with this code, where the API gives it.
            ///
            /// `limit_exceeded` is 413 instead where the limit is one of bytes.
            pub const fn http(self) -> Option<u16> {
                match self { $(Self::$name => status!($($status)?)),* }
            }

            /// Whether the same request, unchanged, may succeed later.
            pub const fn retryable(self) -> bool {
                match self { $(Self::$name => retry!($($retry)?)),* }
            }
        }
    };
}

macro_rules! status {
    () => {
        None
    };
    ($status:literal) => {
        Some($status)
    };
}

macro_rules! retry {
    () => {
        false
    };
    (retry) => {
        true
    };
}

codes! {
    // runs.md section 19: how a run, a call or a hop ended.
    StasisLost "stasis_lost";
    PinnedPatternUnavailable "pinned_pattern_unavailable";
    CheckpointInvalid "checkpoint_invalid";
    WorkerLost "worker_lost";
    ReplayDiverged "replay_diverged";
    WaitCorrupt "wait_corrupt";
    AdmissionFailed "admission_failed";
    AdmissionUnresolved "admission_unresolved";
    HardwareBudgetExhausted "hardware_budget_exhausted";
    ResourceFailed "resource_failed" retry;
    ResourceDeclined "resource_declined";
    ResourceContained "resource_contained" 503 retry;
    JobEnded "job_ended";
    EffectAbandoned "effect_abandoned";
    AuthorityUnavailable "authority_unavailable" 403;
    AuthorityMismatch "authority_mismatch";
    GuestTime "guest_time";
    StepTime "step_time";
    ResumeDisabled "resume_disabled";
    RunDeadlineExceeded "run_deadline_exceeded";
    LimitExceeded "limit_exceeded" 422;
    AmbiguousWait "ambiguous_wait";
    StepFailed "step_failed";
    ApprovalRejected "approval_rejected";
    ApprovalCancelled "approval_cancelled" 410;
    ApprovalExpired "approval_expired" 410;
    ExpiredBeforeDispatch "expired_before_dispatch";
    ToolChanged "tool_changed" 409;
    ToolUnavailable "tool_unavailable" retry;
    EffectNotExecuted "effect_not_executed";
    // The same section: refusals of the API and of workers.
    InvalidRequest "invalid_request" 400;
    Unauthenticated "unauthenticated" 401;
    NotPermitted "not_permitted" 403;
    NotFound "not_found" 404;
    InvalidInput "invalid_input" 422;
    ResultInvalid "result_invalid" 422;
    UnknownWorkflow "unknown_workflow" 422;
    UnknownQueue "unknown_queue" 422;
    RevisionNotActive "revision_not_active" 409;
    IdempotencyMismatch "idempotency_mismatch" 422;
    JobRequestMismatch "job_request_mismatch" 422;
    SessionBusy "session_busy" 409;
    CapacityClosed "capacity_closed" 503 retry;
    NotHeld "not_held" 409;
    NotReleased "not_released" 409;
    IllegalTransition "illegal_transition" 409;
    RunTerminal "run_terminal" 409;
    RunStopping "run_stopping" 409;
    RunPaused "run_paused";
    StaleClaim "stale_claim" 409;
    StaleHop "stale_hop" 409;
    Skipped "skipped";
    NotNow "not_now" retry;
    WaitUnsafe "wait_unsafe";
    WaitOwnerMismatch "wait_owner_mismatch";
    WaitConsumed "wait_consumed" 409;
    WaitClosed "wait_closed" 409;
    AlreadyDecided "already_decided" 409;
    ArgsDigestMismatch "args_digest_mismatch" 409;
    JobTerminal "job_terminal" 409;
    JobNotOwner "job_not_owner" 409;
    SignalInboxFull "signal_inbox_full" 429;
    ContainmentPending "containment_pending" 409;
    MoveRefused "move_refused" 409;
    PatternConflict "pattern_conflict" 409;
    PatternInUse "pattern_in_use" 409;
    StoreUnavailable "store_unavailable" 503 retry;
    // calls.md section 16.
    RequestTooLarge "request_too_large" 413;
    InvalidJson "invalid_json" 400;
    UnknownField "unknown_field" 400;
    CallIdentityMismatch "call_identity_mismatch";
    CallBudgetExceeded "call_budget_exceeded";
    ToolBudgetExceeded "tool_budget_exceeded";
    ToolNotInPlan "tool_not_in_plan";
    ArgumentsTooLarge "arguments_too_large" 422;
    InvalidArguments "invalid_arguments" 422;
    EffectAmbiguous "effect_ambiguous" 409;
    PolicyDenied "policy_denied" 403;
    PolicyChanged "policy_changed" 409;
    OperandUnavailable "operand_unavailable" 422;
    OperandChanged "operand_changed" 409;
    ApprovalUnavailable "approval_unavailable" 429 retry;
    NoApprover "no_approver" 422;
    CancelledBeforeDispatch "cancelled_before_dispatch";
    DigestMismatch "digest_mismatch" 409;
    HandlerError "handler_error";
    HandlerTimeout "handler_timeout";
    ConnectorUnreachable "connector_unreachable" retry;
    RedirectRefused "redirect_refused";
    InvalidResult "invalid_result";
    ResultTooLarge "result_too_large";
    StrengthRequired "strength_required" 403;
    SelfApprovalForbidden "self_approval_forbidden" 403;
    ReasonRequired "reason_required" 422;
    InvalidAnswer "invalid_answer" 422;
    EditRefused "edit_refused" 422;
    LinkInvalid "link_invalid" 404;
    NotApproved "not_approved" 409;
    NotDispatched "not_dispatched" 409;
    AlreadyDispatched "already_dispatched" 409;
    AlreadyCompleted "already_completed" 409;
    NoCompensation "no_compensation" 409;
    BodyInUse "body_in_use" 409;
    ToolInvalid "tool_invalid" 422;
    SchemaExternalRef "schema_external_ref" 422;
    ToolConflict "tool_conflict" 409;
    PlanSealed "plan_sealed" 409;
    CallsWidened "calls_widened" 422;
    LifetimeWidened "lifetime_widened" 422;
    ToolWidened "tool_widened" 422;
    SpecMismatch "spec_mismatch" 422;
    GrantMismatch "grant_mismatch" 422;
    // workflows.md section 6.
    GraphInvalid "graph_invalid" 422;
    SourceInvalid "source_invalid" 422;
    StateMismatch "state_mismatch" 409;
    StateCompleted "state_completed" 409;
    StateConsumed "state_consumed" 409;
    StateUnauthentic "state_unauthentic" 422;
    StateExpired "state_expired" 410;
    ReplayableWithEffects "replayable_with_effects" 422;
    RecordIsFact "record_is_fact" 409;
    TemplateMissing "template_missing";
    BasisChanged "basis_changed";
    WaitExpired "wait_expired";
    GuestMemory "guest_memory";
    GuestTrap "guest_trap";
    ReplayTimeout "replay_timeout";
    ModelUnavailable "model_unavailable";
    SnapshotConsumed "snapshot_consumed";
    TierState "tier_state";
    MechanismInvalid "mechanism_invalid";
    TierPolicyInvalid "tier_policy_invalid";
    // interfaces.md I-47.
    ConfigInvalid "config_invalid";
    InputUnreadable "input_unreadable";
    StoreAbsent "store_absent";
    StoreLocked "store_locked" retry;
    AddressInUse "address_in_use" retry;
    StoreDamaged "store_damaged";
    StoreTooNew "store_too_new";
    ImageUnavailable "image_unavailable" 503;
    ServerUnreachable "server_unreachable" retry;
    RateLimited "rate_limited" 429 retry;
    MethodNotAllowed "method_not_allowed" 405;
    UnsupportedMediaType "unsupported_media_type" 415;
    Internal "internal" 500;
}

impl Code {
    /// The default title of a problem: the word as prose, such as `Already decided`.
    pub fn title(self) -> String {
        let mut title = self.as_str().replace('_', " ");
        title[..1].make_ascii_uppercase();
        title
    }

    /// The whole text that a failure with this code always has, tested byte for byte (the texts marked W, R-381).
    pub const fn fixed_text(self) -> Option<&'static str> {
        Some(match self {
            Self::StasisLost => "stasis lost",
            Self::WorkerLost => "worker lost",
            Self::ReplayDiverged => "replay diverged",
            Self::AdmissionUnresolved => "admission context unresolved",
            Self::AuthorityMismatch => "authority mismatch",
            Self::ResumeDisabled => "resume disabled",
            Self::RunDeadlineExceeded => "run deadline exceeded",
            Self::AmbiguousWait => "ambiguous wait signal",
            _ => return None,
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no code")]
pub struct UnknownCode(pub String);

impl FromStr for Code {
    type Err = UnknownCode;
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text).ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_text_is_used_twice_and_each_reads_back() {
        let texts: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        //
        assert_eq!(texts.len(), Code::ALL.len());
        for &code in Code::ALL {
            assert_eq!(code.as_str().parse(), Ok(code));
            //
            assert!(code.as_str().bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{code}");
        }
    }

    #[test]
    fn titles_are_the_words_as_prose() {
        assert_eq!(Code::AlreadyDecided.title(), "Already decided");
        assert_eq!(Code::StasisLost.title(), "Stasis lost");
    }
}
