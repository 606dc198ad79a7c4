//! A message from outside to a run (runs.md section 10).
//!
//! Owns: the row of a signal and what a wait for one wants. Invariant: a wait takes one signal and a signal serves one wait
//! what is taken or set aside is never kept again.

use crate::id::{RunId, WaitId};
use crate::json::Canonical;
use crate::run::Body;
use crate::time::Time;

/// A signal as stored. Its payload is a body of the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signal {
    pub run: RunId,
    /// The order of arrival, from 0.
    pub n: u32,
    /// The idempotency key within its run.
    pub id: String,
    pub to: To,
    pub by: String,
    pub payload: Body,
    pub at: Time,
    pub state: State,
}

/// What it is sent to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum To {
    Name(String),
    Wait(WaitId),
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No wait took it yet.
    Kept,
    Taken(WaitId),
    /// It did not fit the wait that came to it.
    SetAside,
}

/// What a wait for a signal takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Awaited {
    pub name: String,
    /// What a payload has to fit.
    pub schema: Option<Canonical>,
}

impl Signal {
    pub fn is_kept(&self) -> bool {
        self.state == State::Kept
    }
}

impl Awaited {
    /// Why a payload does not fit; it was compiled when the wait was made, so a schema that is none refuses nothing more.
    pub fn refuses(&self, payload: &Canonical) -> Option<String> {
        let schema = crate::schema::Schema::compile(self.schema.as_ref()?).ok()?;
        let violation = schema.check(payload).err()?;
        Some(format!("the payload at `{}`: {}", violation.pointer, violation.message))
    }
}
