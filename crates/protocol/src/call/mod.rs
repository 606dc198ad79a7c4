//! One tool call of a run: identity, canonical arguments, outcome (calls.md sections 6 to 9).
//!
//! Owns: the row of a call, its idempotency key and its receipt. Invariant: of a `write`, an outcome other than
//! `denied` exists only after its dispatch gate (runs.md section 2).

mod receipt;

pub use receipt::{Receipt, ReceiptFacts, ReceiptOutcome};

use crate::code::Code;
use crate::digest::Digest;
use crate::id::{ApprovalId, CallId, RunId};
use crate::json::Record;
use crate::run::Body;
use crate::time::Time;
use crate::tool::Effect;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The row of a call. It is also the journal's `call` entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub id: CallId,
    pub run: RunId,
    /// Place in the journal; `None` for calls the engine makes itself (C-235).
    pub position: Option<u32>,
    pub identity: Identity,
    pub tool: ToolRef,
    pub effect: Effect,
    /// How an unknown outcome is settled, as the pinned plan declares it (C-228).
    pub recovery: RecoveryClass,
    /// The handler's limit in milliseconds, from the dispatch gate.
    pub timeout_ms: u32,
    /// Digest of the arguments as the guest asked; replay compares this.
    pub asked: Digest,
    /// The arguments that are approved and dispatched; differ from `asked` after an edit or filled-in defaults.
    pub arguments: Body,
    pub edited: bool,
    /// The approval this call waits for or was let through by.
    pub approval: Option<ApprovalId>,
    /// The question whether an ambiguous call happened.
    pub settle: Option<ApprovalId>,
    pub state: State,
    /// How often the call was asked anew after `policy_changed` (C-115).
    pub rounds: u8,
    /// Digest of the receipt that recorded the call as ambiguous; a settling receipt names it.
    pub receipt: Option<Digest>,
    pub at: Time,
    /// The run that made it, where a fork took its outcome over; its receipt, and who approved it, are found there.
    pub from: Option<RunId>,
}

/// The recovery classes of section 12; the details (lookup tool, life of the key) stand in the tool's spec.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryClass {
    Retry,
    Idempotent,
    Lookup,
    Manual,
}

/// A tool as pinned by the plan.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ToolRef {
    pub name: String,
    pub version: String,
    pub digest: Digest,
}

/// What a call id says beside the run: `<run>/<scope>/<n>` (C-57).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    pub scope: Scope,
    /// Counts from 1 in its scope.
    pub n: u32,
}

/// Scopes count apart (C-62).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// A script.
    Main,
    /// Calls the engine makes: lookups and cancel tools (C-235).
    Engine,
}

/// Where a call stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Accepted and journaled; nothing has started.
    Entered,
    /// A person is asked; the approval is on the call.
    Asked,
    /// Past its dispatch gate and without outcome: in flight.
    Dispatched(Gate),
    /// Dispatched, outcome unknown; only a key, a lookup or a person settles it.
    Ambiguous(Gate),
    Ended(Outcome),
}

/// The record of the dispatch gate (C-103): after it, and only after it, the handler may start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gate {
    /// 1 for the first start; engine-key and lookup attempts count on (C-233).
    pub attempt: u8,
    pub at: Time,
    pub token: u64,
}

/// What became of a call, as the guest was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub status: OutcomeStatus,
    pub code: Option<Code>,
    pub applied: Applied,
    /// The result if ok; else canonical `{"message", "detail"}`.
    pub body: Option<Body>,
    pub gate: Option<Gate>,
    pub at: Time,
}

/// The three statuses a guest can be told (C-90).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    Ok,
    Error,
    /// Nothing ran and, under this call, nothing ever will (C-88).
    Denied,
}

/// Whether the world changed (C-120).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applied {
    Yes,
    No,
    Unknown,
}

impl Call {
    /// Past its dispatch gate and without outcome, so a handler may be running.
    pub fn in_flight(&self) -> bool {
        matches!(self.state, State::Dispatched(_))
    }

    /// In flight, and longer so than its tool may take and `beyond` is borne.
    pub fn is_over_time(&self, beyond: std::time::Duration, now: Time) -> bool {
        let limit = std::time::Duration::from_millis(u64::from(self.timeout_ms)) + beyond;
        matches!(&self.state, State::Dispatched(gate) if now >= gate.at + limit)
    }

    /// Its whole id, `<run>/<scope>/<n>`, of the run that made it: a fork tells the guest what it was told before.
    pub fn whole_id(&self) -> String {
        self.identity.text(self.from.unwrap_or(self.run))
    }

    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    pub fn gate(&self) -> Option<&Gate> {
        match &self.state {
            State::Dispatched(gate) | State::Ambiguous(gate) => Some(gate),
            State::Ended(outcome) => outcome.gate.as_ref(),
            State::Entered | State::Asked => None,
        }
    }

    /// The idempotency key, one for all attempts of a call (C-226). A new run, another call or edited arguments give
    /// another; the guest neither chooses nor sees it (C-227).
    pub fn key(&self) -> String {
        let mut record = Record::new();
        record.text("arguments", self.arguments.digest).text("call", self.identity.text(self.run));
        record.text("run", self.run).text("schema", "stasis.effect-key.v1").text("tool", &self.tool.name);
        format!("stasis-{}", record.digest().hex())
    }
}

impl Scope {
    const fn as_str(&self) -> &'static str {
        match self {
            Scope::Main => "main",
            Scope::Engine => "engine",
        }
    }
}

impl Identity {
    pub fn main(n: u32) -> Identity {
        Identity { scope: Scope::Main, n }
    }

    pub fn engine(n: u32) -> Identity {
        Identity { scope: Scope::Engine, n }
    }

    /// `<run>/<scope>/<n>`, as bound and compared.
    pub fn text(&self, run: RunId) -> String {
        let mut text = Vec::with_capacity(48);
        crate::json::Text::write(&run, &mut text);
        text.push(b'/');
        crate::json::Text::write(self, &mut text);
        String::from_utf8(text).expect("ids and scopes are ASCII")
    }

    /// Reads `<scope>/<n>`.
    pub fn parse(text: &str) -> Option<Identity> {
        let (scope, n) = text.rsplit_once('/')?;
        let scope = [Scope::Main, Scope::Engine].into_iter().find(|known| known.as_str() == scope)?;
        Some(Identity { scope, n: n.parse().ok().filter(|n| *n > 0)? })
    }
}

impl crate::json::Text for Identity {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.scope.as_str().as_bytes());
        out.push(b'/');
        crate::json::write_number(out, u64::from(self.n));
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.scope.as_str(), self.n)
    }
}

impl OutcomeStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            OutcomeStatus::Ok => "ok",
            OutcomeStatus::Error => "error",
            OutcomeStatus::Denied => "denied",
        }
    }
}

impl Applied {
    pub const fn as_str(self) -> &'static str {
        match self {
            Applied::Yes => "yes",
            Applied::No => "no",
            Applied::Unknown => "unknown",
        }
    }
}
