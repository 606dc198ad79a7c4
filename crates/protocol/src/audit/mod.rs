//! What proves that the record of a run is still what it was (calls.md section 14).
//!
//! Owns: the check of a run's chains against themselves ([`chain`]), the anchors that say outside the ledger what the chains
//! were ([`anchor`]), and the breaks that both find. It reads, signs and writes nothing.

pub mod anchor;
pub mod chain;

use crate::id::RunId;
use std::fmt;

pub use anchor::{Accepted, Anchor, Anchored, Evidence, Signed};
pub use chain::{Chain, Missing, check};

/// The first thing that does not fit (C-278).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Break {
    pub at: Link,
    pub kind: BreakKind,
    /// The field that is not what it has to be.
    pub field: &'static str,
    pub expected: String,
    pub found: String,
}

/// Where a break is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// A run, and the number of one of its events, receipts or journal entries; `field` says of which.
    Run { run: RunId, seq: Option<u32> },
    /// An exported anchor.
    Anchor { n: u64 },
}

/// What happened to it (C-279).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BreakKind {
    /// It says something else than when it was written.
    Altered,
    /// It is gone, and what came after it is there.
    Missing,
    /// It was not there.
    Inserted,
    /// It stands in another place.
    Reordered,
    /// An exported anchor has seen more than there is.
    Truncated,
    /// An anchor was not signed with the key.
    BadSignature,
}

impl BreakKind {
    pub const ALL: [BreakKind; 6] = [
        BreakKind::Altered,
        BreakKind::Missing,
        BreakKind::Inserted,
        BreakKind::Reordered,
        BreakKind::Truncated,
        BreakKind::BadSignature,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            BreakKind::Altered => "altered",
            BreakKind::Missing => "missing",
            BreakKind::Inserted => "inserted",
            BreakKind::Reordered => "reordered",
            BreakKind::Truncated => "truncated",
            BreakKind::BadSignature => "bad_signature",
        }
    }
}

impl fmt::Display for BreakKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Run { run, seq: Some(seq) } => write!(f, "{run}, number {seq}"),
            Link::Run { run, seq: None } => write!(f, "{run}"),
            Link::Anchor { n } => write!(f, "anchor {n}"),
        }
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Break { at, kind, field, expected, found } = self;
        write!(f, "{at}: {kind}: {field} is {found}, and was {expected}")
    }
}
