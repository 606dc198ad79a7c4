//! One open question of a run, with exactly one owner whose end may return it (runs.md section 8).
//!
//! Owns: the row of a wait. An approval, job, signal or timer is never itself the right to return: the status of the
//! run and a `parked` wait are, together.

use crate::digest::Digest;
use crate::id::{CallId, RunId, WaitId};
use crate::run::Parked;
use crate::signal::Awaited;
use crate::time::Time;
use std::sync::Arc;

/// A wait. All waits of one call are in mode `first`: the one that ends closes the others in its commit. Rows
/// that are taken or closed are deleted; their story is in the events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    pub id: WaitId,
    pub run: RunId,
    pub owner: Owner,
    /// The call that waits.
    pub call: CallId,
    pub state: State,
    pub since: Time,
    /// When it ends by itself: a timer's due time, an approval's expiry.
    pub due_at: Option<Time>,
}

/// Who ends the wait, and its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Owner {
    Approval(crate::id::ApprovalId),
    /// A timer is its own owner.
    Timer(WaitId),
    /// Whoever sends what it wants.
    Signal(Arc<Awaited>),
    Job(crate::id::JobId),
}

/// Where a wait stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Open; a hop is running, or the run is parked on others.
    Live,
    /// Open, and its end returns the run.
    Parked,
    /// Its owner has ended; a hop has still to take it.
    Ended { outcome: Digest },
}

impl Wait {
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Live | State::Parked)
    }

    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended { .. })
    }
}

impl Owner {
    /// The status of a run parked on this kind alone.
    pub fn parks(&self) -> Parked {
        match self {
            Owner::Approval(_) => Parked::Consent,
            Owner::Timer(_) => Parked::Timer,
            Owner::Signal(_) => Parked::Signal,
            Owner::Job(_) => Parked::Delegate,
        }
    }

    pub const fn kind(&self) -> &'static str {
        match self {
            Owner::Approval(_) => "approval",
            Owner::Timer(_) => "timer",
            Owner::Signal(_) => "signal",
            Owner::Job(_) => "job",
        }
    }
}

/// The status of a set follows its kinds: consent, else delegate, else signal, else timer.
pub fn strongest<'a>(owners: impl IntoIterator<Item = &'a Owner>) -> Option<Parked> {
    let rank = |p: Parked| match p {
        Parked::Consent => 0,
        Parked::Delegate => 1,
        Parked::Signal => 2,
        Parked::Timer => 3,
    };
    owners.into_iter().map(Owner::parks).min_by_key(|p| rank(*p))
}
