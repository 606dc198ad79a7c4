//! The engine's own crash points; in release builds they are nothing (see [`store::failpoint`]).

pub(crate) use store::failpoint::hit;

/// Every point of this crate, in the order in which a cycle passes them.
pub const NAMES: [&str; 13] = [
    "hop.before_commit",
    "hop.after_commit",
    "ask.after",
    "park.before",
    "park.after",
    "gate.before",
    "gate.after",
    "handler.before",
    "handler.after",
    "outcome.before",
    "outcome.after",
    "anchor.kept",
    "anchor.exported",
];
