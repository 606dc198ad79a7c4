//! What must be fulfilled before a call that asks may be dispatched (C-55), with every default filled in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::json::{self, Canonical, Record};
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

impl Edit {
    const fn as_str(self) -> &'static str {
        match self {
            Edit::Yes => "yes",
            Edit::Second => "second",
            Edit::No => "no",
        }
    }
}

/// When a decision needs a reason text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonRule {
    None,
    Reject,
    Always,
}

impl ReasonRule {
    const fn as_str(self) -> &'static str {
        match self {
            ReasonRule::None => "none",
            ReasonRule::Reject => "reject",
            ReasonRule::Always => "always",
        }
    }
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

impl OnExpiry {
    const fn as_str(self) -> &'static str {
        match self {
            OnExpiry::Escalate => "escalate",
            OnExpiry::Reject => "reject",
            OnExpiry::Fail => "fail",
        }
    }
}

/// The least strength of sign-in that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    Link,
    Session,
    StepUp,
}

impl Strength {
    const fn as_str(self) -> &'static str {
        match self {
            Strength::Link => "link",
            Strength::Session => "session",
            Strength::StepUp => "step_up",
        }
    }
}

/// Which standing grants may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grants {
    Match,
    Exact,
    None,
}

impl Grants {
    const fn as_str(self) -> &'static str {
        match self {
            Grants::Match => "match",
            Grants::Exact => "exact",
            Grants::None => "none",
        }
    }
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
    /// The record digest that the approval binds (C-56). Every question has one, so its usual form is written straight.
    pub fn digest(&self) -> Digest {
        let Obligation { quorum, reject_quorum, separate_requester, hot_ms, batch, .. } = *self;
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let mut record = Record::new();
        record.value("also", &list(&self.also)).flag("batch", batch);
        record.number("dispatch_within_ms", ms(self.dispatch_within)).text("edit", self.edit.as_str());
        match &self.escalation {
            None => record.maybe("escalation", None::<&str>),
            Some(escalation) => record.value("escalation", &written(escalation)),
        };
        record.text("grants", self.grants.as_str());
        record.maybe_number("hot_ms", hot_ms).number("lease_ms", ms(self.lease));
        record.text("on_expiry", self.on_expiry.as_str()).texts("principals", &self.principals);
        record.number("quorum", quorum).text("reason", self.reason.as_str()).number("reject_quorum", reject_quorum);
        record.value("remind_ms", &list(&self.remind_ms)).texts("roles", &self.roles);
        record.text("schema", "stasis.obligation.v1").flag("separate_requester", separate_requester);
        record.text("strength", self.strength.as_str()).digest()
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

fn list<T: Serialize>(items: &[T]) -> Canonical {
    if items.is_empty() { Canonical::empty_array() } else { written(items) }
}

fn written(part: &(impl Serialize + ?Sized)) -> Canonical {
    json::to_canonical(part).expect("texts and whole numbers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Terms;

    #[test]
    fn the_digest_is_that_of_the_record() {
        let plain = Terms::default().resolve(false);
        let circle = Circle { roles: vec!["a \"b\"".into()], principals: vec![] };
        let step = Step { roles: vec!["r".into()], principals: vec!["p".into()], lease: Duration::from_secs(1) };
        let words = [
            (Edit::Yes, ReasonRule::None, OnExpiry::Escalate, Strength::Link, Grants::Match),
            (Edit::Second, ReasonRule::Reject, OnExpiry::Reject, Strength::Session, Grants::Exact),
            (Edit::No, ReasonRule::Always, OnExpiry::Fail, Strength::StepUp, Grants::None),
        ];
        let mut all = vec![plain.clone()];
        for (edit, reason, on_expiry, strength, grants) in words {
            all.push(Obligation { edit, reason, on_expiry, strength, grants, ..plain.clone() });
        }
        all.push(Obligation {
            roles: vec!["x".into(), "é\u{1}".into()],
            principals: vec!["y".into()],
            also: vec![circle.clone(), circle],
            escalation: Some(Escalation { steps: vec![step], then: Finally::Fail }),
            remind_ms: vec![1, u64::MAX],
            hot_ms: Some(0),
            batch: !plain.batch,
            lease: Duration::MAX,
            ..plain
        });
        for obligation in all {
            assert_eq!(obligation.digest(), Digest::record(&obligation)); // C-56
        }
    }
}
