//! Resources: what must be warm before work that needs it, and the one who makes it so (runs.md section 7).
//!
//! Owns: which resource may be leased, who waits for which, and what is changed next, as a machine without I/O: questions
//! and outcomes go in, [`Action`]s come out. It starts and stops nothing itself and reads no clock. Invariants: one change
//! at a time; what is occupied never costs more than the host has; a lease is given on what is warm and open only; every
//! ticket is answered once, unless it is withdrawn.

mod change;
mod fit;
mod line;
mod manager;

pub use manager::Manager;

use crate::code::Code;
use crate::id::RunId;
use crate::run::Failure;

/// What a resource takes of its host while it is not cold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    pub memory_mib: u64,
    pub slots: u64,
}

/// What a host has for resources; none is no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    pub memory_mib: Option<u64>,
    pub slots: Option<u64>,
}

/// A resource as it is declared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declared {
    pub name: String,
    pub place: Place,
}

/// Where a resource is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// On this host: started, stopped and paid for here.
    Local { cost: Cost },
    /// Elsewhere, or started by somebody else: it is there or it is not. `probed`: whether a probe can tell.
    Remote { probed: bool },
}

/// What a resource is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Known not to run.
    Cold,
    Starting,
    /// Ready and open.
    Warm,
    /// Ready and closed: no new lease, those there are may end.
    Draining,
    Stopping,
    /// What it does is not known, and about to be found out.
    Unsettled,
    /// Closed until somebody looks.
    Contained {
        why: String,
        /// Whether something of it may still run: then it keeps its room.
        may_run: bool,
    },
    /// Not of this host; see [`Place::Remote`].
    Remote,
}

/// One asking to make a resource warm, or to reset it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// Permission to use a warm resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseId(pub u64);

/// What the manager's host has to do, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Tell [`Manager::drain_expired`] of this change when the time for a drain is over.
    AwaitDrain { change: u64 },
    /// Stop it, and tell [`Manager::finished`] what came of that.
    Stop { resource: String },
    /// Start it and wait for its readiness; if it does not come, leave nothing of it behind. Tell [`Manager::finished`].
    Start { resource: String },
    /// Somebody who waits has an answer.
    Answer { ticket: Ticket, answer: Result<Given, Refused> },
}

/// What came of a start or a stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Done {
    Succeeded,
    /// It is known to be as it was: cold after a start, running after a stop.
    Failed(String),
    /// Nobody knows what runs.
    Unknown(String),
}

/// What a ticket brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Given {
    /// The resource is warm and open, and this is a lease on it. Given in the same step, so that the next change cannot come
    /// in between.
    Lease(LeaseId),
    /// The reset is done: the resource is cold.
    Reset,
}

/// Why a resource cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// `resource_failed`
    Failed(String),
    /// `resource_contained`
    Contained(String),
}

/// Why no lease was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unleased {
    /// It is declared and not warm: the run waits for hardware, holding nothing.
    Cold,
    /// It is remote: one probe decides.
    Unprobed,
    Refused(Refused),
}

/// One resource, for lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    pub name: String,
    pub place: Place,
    pub state: State,
    /// Whose leases are live.
    pub leases: Vec<RunId>,
    /// Who waits for it, in the order of their turns.
    pub waiting: Vec<RunId>,
    /// What went wrong with it last.
    pub last_error: Option<String>,
}

impl Refused {
    /// The failure of a run, or the refusal of a call, for want of this resource (runs.md section 19).
    pub fn failure(&self, resource: &str) -> Failure {
        let (code, message) = match self {
            Refused::Failed(cause) => (Code::ResourceFailed, format!("resource '{resource}' not ready: {cause}")),
            Refused::Contained(why) => (Code::ResourceContained, format!("resource '{resource}' contained: {why}")),
        };
        Failure { code, message, detail: None }
    }
}

impl State {
    pub const fn as_str(&self) -> &'static str {
        match self {
            State::Cold => "cold",
            State::Starting => "starting",
            State::Warm => "warm",
            State::Draining => "draining",
            State::Stopping => "stopping",
            State::Unsettled => "unsettled",
            State::Contained { .. } => "contained",
            State::Remote => "remote",
        }
    }

    /// Whether its cost is taken from the host: of what may still run, too.
    pub(self) fn is_occupied(&self) -> bool {
        !matches!(self, State::Cold | State::Remote | State::Contained { may_run: false, .. })
    }
}
