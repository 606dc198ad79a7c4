//! Something outside that has still to acknowledge that it stopped (runs.md sections 12 and 13).
//!
//! Owns: the row of an obligation. A stopping run ends only when each of its obligations is acknowledged or attested
//! (E-17, E-18).

use crate::id::{CallId, JobId, RunId};
use crate::time::Time;

/// An obligation of a stopping run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obligation {
    pub run: RunId,
    pub subject: Subject,
    pub state: State,
    pub attempts: u32,
    pub last_error: Option<String>,
    pub retry_at: Time,
}

/// What has to stop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Subject {
    /// The hop with this seq.
    Hop(u32),
    /// A call in flight.
    Call(CallId),
    /// A job that an agent has, or had when it was last heard of.
    Job(JobId),
}

/// Whether it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    Open,
    Acknowledged { by: String, at: Time },
}

impl Obligation {
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }
}

impl Subject {
    pub const fn kind(self) -> &'static str {
        match self {
            Subject::Hop(_) => "hop",
            Subject::Call(_) => "call",
            Subject::Job(_) => "job",
        }
    }
}
