//! The engine's own crash points; in release builds they are nothing (see [`store::failpoint`]).

pub(crate) use store::failpoint::hit;

/// Every point of this crate, in the order in which a cycle passes them; each side of a commit that moves a run has one.
pub const NAMES: [&str; 31] = [
    "admit.before",
    "admit.after",
    "claim.before",
    "claim.after",
    "hop.before_commit",
    "hop.after_commit",
    "hold.before",
    "hold.after",
    "warm.before",
    "warm.after",
    "ask.after",
    "park.before",
    "park.after",
    "decide.before",
    "decide.after",
    "job.before",
    "job.after",
    "gate.before",
    "gate.after",
    "handler.before",
    "handler.after",
    "outcome.before",
    "outcome.after",
    "stop.before",
    "stop.after",
    "move.before",
    "move.after",
    "agent.start",
    "agent.begun",
    "anchor.kept",
    "anchor.exported",
];
