//! What must be fulfilled before a call that asks may be dispatched (C-55), with every default filled in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::principal::Principal;
use crate::time::duration_ms;

/// Whether an approver may change the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    Yes,
    /// The editor's own approve does not count.
    Second,
    No,
}

/// When a decision needs a reason text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonRule {
    None,
    Reject,
    Always,
}

/// What happens when nobody decides in time. Silence never approves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// The steps of the escalation begin.
    Escalate,
    /// The call is denied and the run goes on.
    Reject,
    /// The run fails.
    Fail,
}

/// The least strength of sign-in that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    Link,
    Session,
    StepUp,
}

/// Which standing grants may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grants {
    Match,
    Exact,
    None,
}

/// People who are eligible: by role or by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circle {
    pub roles: Vec<String>,
    pub principals: Vec<String>,
}

impl Circle {
    pub fn has(&self, principal: &Principal) -> bool {
        self.principals.contains(&principal.id) || self.roles.iter().any(|role| principal.has_role(role))
    }
}

/// Whom a question goes to when it expires, and what happens at last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Escalation {
    /// At most three.
    pub steps: Vec<Step>,
    pub then: Finally,
}

/// One step adds people and one more approval lease (C-189).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub roles: Vec<String>,
    pub principals: Vec<String>,
    #[serde(rename = "lease_ms", with = "duration_ms")]
    pub lease: Duration,
}

/// What ends an escalation that nobody answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finally {
    Reject,
    Fail,
}

/// The kind of record an obligation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObligationSchema {
    #[serde(rename = "stasis.obligation.v1")]
    V1,
}

/// What is asked of people before a call may go ahead.
///
/// As JSON it is the record of C-56: durations in whole milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Obligation {
    pub schema: ObligationSchema,
    /// Who is eligible, by role or by name.
    pub roles: Vec<String>,
    pub principals: Vec<String>,
    /// Further circles that an approver must be in as well, where several rules named people.
    pub also: Vec<Circle>,
    /// Distinct people who must approve the same binding.
    pub quorum: u32,
    /// Distinct people whose reject ends the question.
    pub reject_quorum: u32,
    /// Whether the requester and the person acted for are left out.
    pub separate_requester: bool,
    pub edit: Edit,
    pub reason: ReasonRule,
    /// How long the question stays open, counted from publishing.
    #[serde(rename = "lease_ms", with = "duration_ms")]
    pub lease: Duration,
    pub on_expiry: OnExpiry,
    pub escalation: Option<Escalation>,
    /// Offsets before expiry, in whole milliseconds.
    pub remind_ms: Vec<u64>,
    /// How long the call waits hot; `None` is the engine's window, which is always the ceiling.
    pub hot_ms: Option<u64>,
    /// How long a yes stays good, counted from the decision, where that is later than the expiry (C-114).
    #[serde(rename = "dispatch_within_ms", with = "duration_ms")]
    pub dispatch_within: Duration,
    pub strength: Strength,
    pub grants: Grants,
    /// Whether it may be decided together with others.
    pub batch: bool,
}

impl Obligation {
    /// The record digest that the approval binds (C-56).
    pub fn digest(&self) -> Digest {
        Digest::record(self)
    }

    /// Whether the principal is eligible by role or name: in the first circle and in all others.
    ///
    /// Separation from the requester and the strength of sign-in are judged apart.
    pub fn eligible(&self, principal: &Principal) -> bool {
        let first = self.principals.contains(&principal.id) || self.roles.iter().any(|role| principal.has_role(role));
        first && self.also.iter().all(|circle| circle.has(principal))
    }

    /// The named people, if nobody is eligible by role alone: the `m` of "n of m" (C-180).
    pub fn all_named(&self) -> Option<usize> {
        let named = self.roles.is_empty() && self.also.iter().all(|circle| circle.roles.is_empty());
        let everywhere = |id: &&String| self.also.iter().all(|circle| circle.principals.contains(id));
        named.then(|| self.principals.iter().filter(everywhere).count())
    }
}
