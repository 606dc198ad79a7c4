//! The statuses of a run and the table of its legal edges (runs.md section 1).
//!
//! Owns: which status may follow which, and under which edge id. It never decides whether an edge is due; the
//! functions in [`crate::decide`] do, and every one of them passes through [`edge`]. Nothing else in the project
//! changes a status.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A run's status. The wire form is lower snake case (R-11).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Queued,
    Running,
    AwaitingHardware,
    AwaitingConsent,
    AwaitingDelegate,
    AwaitingSignal,
    AwaitingTimer,
    Cancelling,
    Failing,
    Done,
    Failed,
    Cancelled,
}

/// What a status means for workers and counters (the "class" column of section 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// One delivery waits for a worker.
    Ready,
    /// A worker owns the hop.
    Active,
    /// Nobody holds anything; a wait owner brings the run back.
    Parked,
    /// An end is decided, something outside has still to acknowledge.
    Stopping,
    /// Never changes again.
    Final,
}

impl Status {
    pub const ALL: [Status; 12] = [
        Status::Queued,
        Status::Running,
        Status::AwaitingHardware,
        Status::AwaitingConsent,
        Status::AwaitingDelegate,
        Status::AwaitingSignal,
        Status::AwaitingTimer,
        Status::Cancelling,
        Status::Failing,
        Status::Done,
        Status::Failed,
        Status::Cancelled,
    ];

    /// The wire text, also used in events (`run.<status>`).
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::AwaitingHardware => "awaiting_hardware",
            Status::AwaitingConsent => "awaiting_consent",
            Status::AwaitingDelegate => "awaiting_delegate",
            Status::AwaitingSignal => "awaiting_signal",
            Status::AwaitingTimer => "awaiting_timer",
            Status::Cancelling => "cancelling",
            Status::Failing => "failing",
            Status::Done => "done",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// Reads the wire text; `None` for anything else.
    pub fn parse(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|s| s.as_str() == text)
    }

    pub const fn class(self) -> Class {
        match self {
            Status::Queued => Class::Ready,
            Status::Running | Status::AwaitingHardware => Class::Active,
            Status::AwaitingConsent | Status::AwaitingDelegate | Status::AwaitingSignal | Status::AwaitingTimer => {
                Class::Parked
            }
            Status::Cancelling | Status::Failing => Class::Stopping,
            Status::Done | Status::Failed | Status::Cancelled => Class::Final,
        }
    }

    pub fn is_active(self) -> bool {
        self.class() == Class::Active
    }

    pub fn is_parked(self) -> bool {
        self.class() == Class::Parked
    }

    pub fn is_stopping(self) -> bool {
        self.class() == Class::Stopping
    }

    pub fn is_final(self) -> bool {
        self.class() == Class::Final
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The id of a legal edge, `E-1` to `E-18`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Edge(pub u8);

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E-{}", self.0)
    }
}

/// One row of the edge table. `from: None` is "no run yet".
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub edge: Edge,
    pub from: Option<Status>,
    pub to: Status,
    /// Who may make the edge, as the table of section 1 names them.
    pub who: &'static str,
}

const fn row(edge: u8, from: Option<Status>, to: Status, who: &'static str) -> Row {
    Row { edge: Edge(edge), from, to, who }
}

use Status::*;

/// Every legal pair of statuses, and nothing else (R-13). One pair may be legal under several edges: what differs is
/// who makes it and under which guard.
pub const EDGES: &[Row] = &[
    row(1, None, Queued, "admission"),
    row(2, Some(Queued), Failed, "refusal of a held admission"),
    row(3, Some(Queued), Running, "claim"),
    row(4, Some(Queued), Failed, "no worker for the pin; deadline"),
    row(4, Some(Queued), Failing, "no worker for the pin; deadline"),
    row(5, Some(Running), AwaitingHardware, "hop"),
    row(6, Some(AwaitingHardware), Running, "hop"),
    row(7, Some(Running), AwaitingConsent, "park"),
    row(7, Some(Running), AwaitingDelegate, "park"),
    row(7, Some(Running), AwaitingSignal, "park"),
    row(7, Some(Running), AwaitingTimer, "park"),
    row(8, Some(Running), Queued, "hand back"),
    row(8, Some(AwaitingHardware), Queued, "hand back"),
    row(9, Some(AwaitingConsent), Queued, "end of a wait owner"),
    row(9, Some(AwaitingDelegate), Queued, "end of a wait owner"),
    row(9, Some(AwaitingSignal), Queued, "end of a wait owner"),
    row(9, Some(AwaitingTimer), Queued, "end of a wait owner"),
    row(10, Some(Running), Queued, "recovery: proved"),
    row(10, Some(AwaitingHardware), Queued, "recovery: proved"),
    row(11, Some(Running), AwaitingConsent, "recovery: exact wait or settle"),
    row(11, Some(Running), AwaitingDelegate, "recovery: exact wait or settle"),
    row(11, Some(Running), AwaitingSignal, "recovery: exact wait or settle"),
    row(11, Some(Running), AwaitingTimer, "recovery: exact wait or settle"),
    row(11, Some(AwaitingHardware), AwaitingConsent, "recovery: exact wait or settle"),
    row(11, Some(AwaitingHardware), AwaitingDelegate, "recovery: exact wait or settle"),
    row(11, Some(AwaitingHardware), AwaitingSignal, "recovery: exact wait or settle"),
    row(11, Some(AwaitingHardware), AwaitingTimer, "recovery: exact wait or settle"),
    row(12, Some(Running), Done, "finish"),
    row(13, Some(Running), Failed, "fail; recovery"),
    row(13, Some(AwaitingHardware), Failed, "fail; recovery"),
    row(14, Some(Running), Failing, "fail; recovery"),
    row(14, Some(AwaitingHardware), Failing, "fail; recovery"),
    row(15, Some(AwaitingConsent), Failing, "corrupt wait; deadline; expiry with the rule fail"),
    row(15, Some(AwaitingDelegate), Failing, "corrupt wait; deadline; expiry with the rule fail"),
    row(15, Some(AwaitingSignal), Failing, "corrupt wait; deadline; expiry with the rule fail"),
    row(15, Some(AwaitingTimer), Failing, "corrupt wait; deadline; expiry with the rule fail"),
    row(16, Some(Queued), Cancelling, "cancel"),
    row(16, Some(Running), Cancelling, "cancel"),
    row(16, Some(AwaitingHardware), Cancelling, "cancel"),
    row(16, Some(AwaitingConsent), Cancelling, "cancel"),
    row(16, Some(AwaitingDelegate), Cancelling, "cancel"),
    row(16, Some(AwaitingSignal), Cancelling, "cancel"),
    row(16, Some(AwaitingTimer), Cancelling, "cancel"),
    row(17, Some(Cancelling), Cancelled, "containment"),
    row(18, Some(Failing), Failed, "containment"),
];

/// Whether `edge` may lead from `from` to `to`. The only gate through which a status changes.
///
/// ```
/// use protocol::run::{edge, Edge, Status};
/// assert!(edge(Edge(12), Some(Status::Running), Status::Done));
/// assert!(!edge(Edge(12), Some(Status::Queued), Status::Done));
/// ```
pub fn edge(edge: Edge, from: Option<Status>, to: Status) -> bool {
    EDGES.iter().any(|row| row.edge == edge && row.from == from && row.to == to)
}

/// Whether any edge leads from `from` to `to`.
pub fn legal(from: Option<Status>, to: Status) -> bool {
    EDGES.iter().any(|row| row.from == from && row.to == to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_outside_the_table_is_illegal() {
        let mut pairs = 0;
        for from in std::iter::once(None).chain(Status::ALL.into_iter().map(Some)) {
            for to in Status::ALL {
                let listed = EDGES.iter().any(|r| r.from == from && r.to == to);
                assert_eq!(legal(from, to), listed); // R-13
                if from.is_some_and(Status::is_final) {
                    assert!(!listed, "{from:?} -> {to:?}"); // R-15
                }
                pairs += usize::from(listed);
            }
        }
        assert_eq!(pairs, 38);
    }

    #[test]
    fn a_stopping_run_can_only_end_as_decided() {
        let after = |s: Status| -> Vec<Status> { EDGES.iter().filter(|r| r.from == Some(s)).map(|r| r.to).collect() };
        assert_eq!(after(Cancelling), [Cancelled]); // R-19
        assert_eq!(after(Failing), [Failed]); // R-19
    }

    #[test]
    fn a_parked_run_returns_by_one_edge_only() {
        for row in EDGES.iter().filter(|r| r.to == Queued && r.from.is_some_and(Status::is_parked)) {
            assert_eq!(row.edge, Edge(9)); // R-18
        }
    }

    #[test]
    fn statuses_are_lower_snake_case_on_the_wire() {
        for status in Status::ALL {
            let text = status.as_str();
            assert!(text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')); // R-11
            assert_eq!(Status::parse(text), Some(status));
            assert_eq!(serde_json::to_string(&status).unwrap(), format!("\"{text}\""));
        }
        assert_eq!(Status::parse("RUNNING"), None);
    }
}
