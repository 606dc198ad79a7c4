//! What a rule or a guest says about an `ask`, before defaults, and how several of them become one obligation.
//!
//! Each field is what was said, or nothing. Of two that speak the stricter counts (C-54), so a guest's wishes can only
//! tighten; where only one speaks it counts, and where none does the default of C-55.

use std::time::Duration;

use super::obligation::{
    Circle, Edit, Escalation, Grants, Obligation, ObligationSchema, OnExpiry, ReasonRule, Strength,
};
use crate::limits;

/// The obligations that one source states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// Who is eligible. A circle that names nobody is not stated.
    pub circles: Vec<Circle>,
    pub quorum: Option<u32>,
    pub reject_quorum: Option<u32>,
    pub separate_requester: Option<bool>,
    pub edit: Option<Edit>,
    pub reason: Option<ReasonRule>,
    pub lease: Option<Duration>,
    pub on_expiry: Option<OnExpiry>,
    pub escalation: Option<Escalation>,
    /// Offsets before expiry.
    pub remind: Option<Vec<Duration>>,
    pub hot: Option<Duration>,
    pub dispatch_within: Option<Duration>,
    pub strength: Option<Strength>,
    pub grants: Option<Grants>,
    pub batch: Option<bool>,
}

/// Of two statements the stricter, where `stricter` picks between two that speak.
fn both<T>(a: Option<T>, b: Option<T>, stricter: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(stricter(a, b)),
        (a, b) => a.or(b),
    }
}

impl Terms {
    /// The strictest of both.
    ///
    /// More approvals and fewer rejects are stricter, as are less time, stronger sign-in and fewer ways to be answered.
    /// People must be eligible under both. Reminders and the steps of an escalation are no strictness: the first counts.
    pub fn strictest(self, other: Self) -> Self {
        Self {
            circles: join_circles(self.circles, other.circles),
            quorum: both(self.quorum, other.quorum, u32::max),
            reject_quorum: both(self.reject_quorum, other.reject_quorum, u32::min),
            separate_requester: both(self.separate_requester, other.separate_requester, |a, b| a || b),
            edit: both(self.edit, other.edit, Edit::max),
            reason: both(self.reason, other.reason, ReasonRule::max),
            lease: both(self.lease, other.lease, Duration::min),
            on_expiry: both(self.on_expiry, other.on_expiry, OnExpiry::max),
            escalation: self.escalation.or(other.escalation),
            remind: self.remind.or(other.remind),
            hot: both(self.hot, other.hot, Duration::min),
            dispatch_within: both(self.dispatch_within, other.dispatch_within, Duration::min),
            strength: both(self.strength, other.strength, Strength::max),
            grants: both(self.grants, other.grants, Grants::max),
            batch: both(self.batch, other.batch, |a, b| a && b),
        }
    }

    /// Fills in the defaults of C-55; `separate_requester` has one that depends on how the server was started.
    pub fn resolve(self, separate_requester: bool) -> Obligation {
        let millis = |span: Duration| u64::try_from(span.as_millis()).expect("bounded when it was parsed");
        let mut circles = self.circles.into_iter();
        let first = circles.next();
        let first =
            first.unwrap_or_else(|| Circle { roles: vec![limits::DEFAULT_ROLE.to_owned()], principals: Vec::new() });
        let on_expiry = self.on_expiry.unwrap_or(OnExpiry::Reject);
        Obligation {
            schema: ObligationSchema::V1,
            roles: first.roles,
            principals: first.principals,
            also: circles.collect(),
            quorum: self.quorum.unwrap_or(1),
            reject_quorum: self.reject_quorum.unwrap_or(1),
            separate_requester: self.separate_requester.unwrap_or(separate_requester),
            edit: self.edit.unwrap_or(Edit::No),
            reason: self.reason.unwrap_or(ReasonRule::Reject),
            lease: self.lease.unwrap_or(limits::APPROVAL_LEASE),
            on_expiry,
            // Steps that a stricter end has overruled are not part of what is bound.
            escalation: self.escalation.filter(|_| on_expiry == OnExpiry::Escalate),
            remind_ms: self.remind.unwrap_or_default().into_iter().map(millis).collect(),
            hot_ms: self.hot.map(millis),
            dispatch_within: self.dispatch_within.unwrap_or(limits::DISPATCH_WITHIN),
            strength: self.strength.unwrap_or(Strength::Session),
            grants: self.grants.unwrap_or(Grants::Exact),
            batch: self.batch.unwrap_or(true),
        }
    }
}

/// Puts circles side by side; one that is there already adds nothing.
fn join_circles(mut circles: Vec<Circle>, others: Vec<Circle>) -> Vec<Circle> {
    for circle in others {
        if !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}
