//! The question whether one call, or one gate, may go ahead; or whether an ambiguous call happened (calls.md section 10).
//!
//! Owns: the row of an approval, its binding and its votes. The one function that decides it is
//! [`crate::decide::approval`]; doors only bring verdicts to it. Invariant: the status leaves `Pending` once and never
//! changes again (C-161).

mod binding;

pub use binding::Binding;

use crate::code::Code;
use crate::digest::Digest;
use crate::id::{ApprovalId, CallId, RequestId, RunId, WaitId};
use crate::policy::Obligation;
use crate::run::Body;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One record type for three kinds of question (C-130).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Approval {
    pub id: ApprovalId,
    pub run: RunId,
    pub wait: WaitId,
    pub call: CallId,
    /// Shared, as is the obligation: an approval is told whole to everybody who waits for it.
    pub binding: Arc<Binding>,
    pub binding_digest: Digest,
    /// The arguments of the current revision, as shown and as they will be dispatched.
    pub arguments: Body,
    pub asked_arguments: Digest,
    pub obligation: Arc<Obligation>,
    /// What the agent says about it: a body, shown apart and labelled as a claim.
    pub claim: Option<Body>,
    /// JSON Schema of the approver's answer, for a gate with a form (W-130).
    pub form: Option<Body>,
    /// Not set for `settle`, which waits for ever (C-241).
    pub expires_at: Option<Time>,
    /// Set when the arguments cannot be shown whole and plainly (C-141).
    pub unrenderable: bool,
    pub status: Status,
    /// Every vote and late reject, in order; never changed (C-176).
    pub votes: Vec<Vote>,
    /// The form's answer, or the result that `happened` gave.
    pub answer: Option<Body>,
}

/// What is asked (C-130).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Call,
    Gate,
    Settle,
}

/// Where the question stands (section 10.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Status {
    Pending,
    Approved { at: Time, valid_until: Option<Time>, phase: Phase },
    Rejected { at: Time, by: Closer },
    Expired { at: Time },
    Cancelled { at: Time, by: String },
}

/// Who ended a rejected question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closer {
    /// The people whose rejects stand among the votes.
    People,
    /// Too few are left who could approve (C-182).
    QuorumUnreachable,
}

/// What became of a yes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not dispatched.
    Open,
    /// Past the dispatch gate.
    Gated {
        at: Time,
    },
    Ended {
        gate_at: Option<Time>,
        at: Time,
        how: Ending,
    },
}

/// How a yes ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    Ok,
    Error,
    Ambiguous,
    CancelledBeforeDispatch,
    ExpiredBeforeDispatch,
    InvalidatedBeforeDispatch(Code),
    /// The verdict of a gate or settle question was read (C-156).
    Delivered,
}

/// What a person may say (C-131).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Approve,
    Reject,
    Abstain,
    Happened,
    DidNotHappen,
    GiveUp,
}

/// Through which door a decision came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    Api,
    Cli,
    Console,
}

/// A recorded decision (C-176).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vote {
    pub principal: String,
    pub method: Method,
    pub strength: crate::policy::Strength,
    pub verdict: Verdict,
    /// The reason text, kept as a body.
    pub reason: Option<Body>,
    /// Digest of the binding that was voted on; an edit makes another, and earlier votes no longer count (C-184).
    pub binding: Digest,
    pub edited: bool,
    pub at: Time,
    pub request: RequestId,
    /// Said after the end; kept and shown, counts for nothing (C-175).
    pub late: bool,
}

/// How many distinct people stand where, over the current revision (C-180, C-181).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub approve: u32,
    pub reject: u32,
    pub abstain: u32,
}

impl Approval {
    pub fn kind(&self) -> Kind {
        self.binding.kind
    }

    pub fn is_pending(&self) -> bool {
        self.status == Status::Pending
    }

    /// Approved and neither dispatched nor ended: a yes that still counts for something.
    pub fn is_open_yes(&self) -> bool {
        matches!(self.status, Status::Approved { phase: Phase::Open, .. })
    }

    /// The latest vote of each person on the current revision; an editor's own approve does not count under
    /// `edit: second` (C-181, C-184).
    pub fn standing(&self) -> impl Iterator<Item = &Vote> {
        let current = self.binding_digest;
        self.votes.iter().enumerate().filter_map(move |(i, vote)| {
            let counts = vote.binding == current
                && !vote.late
                && !(vote.edited && self.obligation.edit == crate::policy::Edit::Second);
            let superseded = self.votes[i + 1..]
                .iter()
                .any(|later| later.principal == vote.principal && later.binding == current && !later.late);
            (counts && !superseded).then_some(vote)
        })
    }

    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for vote in self.standing() {
            match vote.verdict {
                Verdict::Approve | Verdict::Happened => tally.approve += 1,
                Verdict::Reject | Verdict::DidNotHappen | Verdict::GiveUp => tally.reject += 1,
                Verdict::Abstain => tally.abstain += 1,
            }
        }
        tally
    }

    /// When the question ended, by a person or by time.
    pub fn decided_at(&self) -> Option<Time> {
        match self.status {
            Status::Pending => None,
            Status::Approved { at, .. }
            | Status::Rejected { at, .. }
            | Status::Expired { at }
            | Status::Cancelled { at, .. } => Some(at),
        }
    }
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Call => "call",
            Kind::Gate => "gate",
            Kind::Settle => "settle",
        }
    }
}

impl Status {
    /// The wire text.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Approved { .. } => "approved",
            Status::Rejected { .. } => "rejected",
            Status::Expired { .. } => "expired",
            Status::Cancelled { .. } => "cancelled",
        }
    }
}

impl Verdict {
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Approve => "approve",
            Verdict::Reject => "reject",
            Verdict::Abstain => "abstain",
            Verdict::Happened => "happened",
            Verdict::DidNotHappen => "did_not_happen",
            Verdict::GiveUp => "give_up",
        }
    }

    /// Whether a question of this kind can be answered so (C-131).
    pub fn fits(self, kind: Kind) -> bool {
        let settles = matches!(self, Verdict::Happened | Verdict::DidNotHappen | Verdict::GiveUp);
        settles == (kind == Kind::Settle)
    }
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Api => "api",
            Method::Cli => "cli",
            Method::Console => "console",
        }
    }
}

impl Ending {
    /// The wire text of `dispatch.outcome` (I-43).
    pub const fn as_str(self) -> &'static str {
        match self {
            Ending::Ok => "ok",
            Ending::Error => "error",
            Ending::Ambiguous => "ambiguous",
            Ending::CancelledBeforeDispatch => "cancelled_before_dispatch",
            Ending::ExpiredBeforeDispatch => "expired_before_dispatch",
            Ending::InvalidatedBeforeDispatch(_) => "invalidated_before_dispatch",
            Ending::Delivered => "delivered",
        }
    }
}
