//! Something outside that has still to acknowledge that it stopped (runs.md sections 12 and 13).
//!
//! Owns: the row of an obligation. A stopping run ends only when each of its obligations is acknowledged or attested
//! (E-17, E-18).

use crate::id::{CallId, JobId, RunId};
use crate::time::Time;
use std::fmt;

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
    Acknowledged {
        by: String,
        at: Time,
    },
    /// A person vouches for it, for nobody else will tell. It stays with the run for ever.
    Attested {
        by: String,
        at: Time,
        reason: String,
    },
}

impl Obligation {
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub fn is_attested(&self) -> bool {
        matches!(self.state, State::Attested { .. })
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

    /// A subject as it is shown: the hop's number, the call's or the job's id.
    pub fn parse(text: &str) -> Option<Subject> {
        let hop = text.parse().ok().map(Subject::Hop);
        hop.or_else(|| text.parse().ok().map(Subject::Call)).or_else(|| text.parse().ok().map(Subject::Job))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Hop(seq) => seq.fmt(f),
            Subject::Call(id) => id.fmt(f),
            Subject::Job(id) => id.fmt(f),
        }
    }
}
