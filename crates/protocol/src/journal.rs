//! The journal: what the guest was told, in order (workflows.md section 3.4, R-384).
//!
//! Owns: the entries and the digest chain over them. With the pinned pattern the journal is enough to continue a run;
//! a snapshot is only a fast way to the same place. The chain covers what an entry says when it is made (for a call:
//! what was asked, not what came of it, since outcomes arrive later and stand in the receipts' chain).

use crate::call::Call;
use crate::digest::Digest;
use crate::id::RunId;
use crate::json::Record;
use crate::run::{Body, Head};
use crate::time::Time;
use std::fmt;

/// An entry, numbered by its position. A `Call` entry is the call's own row; the others are rows of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    Call(Box<Call>),
    Other(Other),
}

/// The entries that are no calls (W-169).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Other {
    Start {
        pattern: Digest,
        input: Digest,
        now: Time,
        entropy: Entropy,
    },
    /// The next `size` entries are the calls of one batch, in list order.
    Batch {
        size: u32,
    },
    /// Given to the guest with the answer of the call or batch just before it: the first answer of that hop (W-248).
    Hop {
        hop: u32,
        now: Time,
        entropy: Entropy,
    },
    End {
        result: Option<Digest>,
        error: Option<String>,
    },
}

/// 32 bytes of randomness, journaled so that replay draws the same stream (W-154).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entropy(pub [u8; 32]);

/// A row of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub run: RunId,
    pub position: u32,
    pub entry: Other,
}

impl Entry {
    /// The chain's head after this entry.
    pub fn extend(&self, head: Head) -> Head {
        let mut link = Record::new();
        match self {
            Entry::Call(call) => {
                link.text("arguments", call.asked).text("call", &call.identity).text("kind", "call");
                link.text("prev", head.digest).text("schema", SCHEMA);
                link.text("tool", &call.tool.name).text("tool_digest", call.tool.digest)
            }
            Entry::Other(Other::Start { pattern, input, now, entropy }) => {
                link.text("entropy", entropy).text("input", input).text("kind", "start").text("now", now);
                link.text("pattern", pattern).text("prev", head.digest).text("schema", SCHEMA)
            }
            Entry::Other(Other::Batch { size }) => {
                link.text("kind", "batch").text("prev", head.digest).text("schema", SCHEMA).number("size", *size)
            }
            Entry::Other(Other::Hop { hop, now, entropy }) => {
                link.text("entropy", entropy).number("hop", *hop).text("kind", "hop").text("now", now);
                link.text("prev", head.digest).text("schema", SCHEMA)
            }
            Entry::Other(Other::End { result, error }) => {
                link.maybe("error", error.as_ref()).text("kind", "end").text("prev", head.digest);
                link.maybe("result", *result).text("schema", SCHEMA)
            }
        };
        let digest = link.digest();
        Head { len: head.len + 1, digest }
    }
}

const SCHEMA: &str = "stasis.journal.v1";

/// Verifies a journal read from the ledger against the run row's head: no hole, no other entry.
pub fn verify(entries: &[Entry], head: Head) -> bool {
    entries.iter().fold(Head::default(), |head, entry| entry.extend(head)) == head
}

/// A result and where it is kept, for the `End` entry.
pub fn end_of(result: Option<Body>, error: Option<String>) -> Other {
    Other::End { result: result.map(|b| b.digest), error }
}

impl crate::json::Text for Entropy {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(Digest::from_bytes(self.0).hex().as_bytes());
    }
}

impl fmt::Display for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_link_covers_what_the_entry_says_and_what_came_before_it() {
        let head = Head { len: 4, digest: Digest::of("before") };
        let at = Time::from_micros(1_796_031_000_000_250);
        let (x, hex) = (Digest::of("x"), "07".repeat(32));
        let schema = "stasis.journal.v1";
        let table = [
            (
                Other::Start { pattern: x, input: x, now: at, entropy: Entropy([7; 32]) },
                json!({"schema": schema, "prev": head.digest, "kind": "start", "pattern": x, "input": x, "now": at,
                       "entropy": hex}),
            ),
            (Other::Batch { size: 3 }, json!({"schema": schema, "prev": head.digest, "kind": "batch", "size": 3})),
            (
                Other::Hop { hop: 2, now: at, entropy: Entropy([7; 32]) },
                json!({"schema": schema, "prev": head.digest, "kind": "hop", "hop": 2, "now": at, "entropy": hex}),
            ),
            (
                Other::End { result: None, error: Some("\"no\"".into()) },
                json!({"schema": schema, "prev": head.digest, "kind": "end", "result": null, "error": "\"no\""}),
            ),
        ];
        for (entry, record) in table {
            let next = Entry::Other(entry).extend(head);
            assert_eq!(next, Head { len: 5, digest: Digest::record(&record) });
        }
    }
}
