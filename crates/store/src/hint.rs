//! What is told after a commit. A hint says "look"; the truth is read from the store.

use protocol::id::{ApprovalId, RunId};
use protocol::run::Status;
use protocol::time::Time;

/// A run changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hint {
    pub run: RunId,
    pub status: Status,
    /// The hop the run is at.
    pub seq: u32,
    /// How many events the run has now.
    pub events: u32,
    /// When the earliest of the waits that were opened or changed ends by itself.
    pub due_at: Option<Time>,
    /// Approvals that were made or changed.
    pub approvals: Vec<ApprovalId>,
}
