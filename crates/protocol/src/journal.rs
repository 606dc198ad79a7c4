//! The journal: what the guest was told, in order (workflows.md section 3.4, R-384).
//!
//! Owns: the entries and the digest chain over them. With the pinned pattern the journal is enough to continue a run;
//! a snapshot is only a fast way to the same place. The chain covers what an entry says when it is made (for a call:
//! what was asked, not what came of it, since outcomes arrive later and stand in the receipts' chain).

use crate::call::Call;
use crate::digest::Digest;
use crate::id::RunId;
use crate::run::{Body, Head};
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// An entry, numbered by its position. A `Call` entry is the call's own row; the others are rows of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    Call(Box<Call>),
    Other(Other),
}

/// The entries that are no calls (W-169).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
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
        #[derive(Serialize)]
        struct CallLink<'a> {
            schema: &'static str,
            prev: Digest,
            kind: &'static str,
            call: String,
            tool: &'a str,
            tool_digest: Digest,
            arguments: Digest,
        }
        #[derive(Serialize)]
        struct OtherLink<'a> {
            schema: &'static str,
            prev: Digest,
            #[serde(flatten)]
            entry: &'a Other,
        }
        const SCHEMA: &str = "stasis.journal.v1";
        let digest = match self {
            Entry::Call(call) => Digest::record(&CallLink {
                schema: SCHEMA,
                prev: head.digest,
                kind: "call",
                call: call.identity.to_string(),
                tool: &call.tool.name,
                tool_digest: call.tool.digest,
                arguments: call.asked,
            }),
            Entry::Other(entry) => Digest::record(&OtherLink { schema: SCHEMA, prev: head.digest, entry }),
        };
        Head { len: head.len + 1, digest }
    }
}

/// Verifies a journal read from the ledger against the run row's head: no hole, no other entry.
pub fn verify(entries: &[Entry], head: Head) -> bool {
    entries.iter().fold(Head::default(), |head, entry| entry.extend(head)) == head
}

/// A result and where it is kept, for the `End` entry.
pub fn end_of(result: Option<Body>, error: Option<String>) -> Other {
    Other::End { result: result.map(|b| b.digest), error }
}

impl Serialize for Entropy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for Entropy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Entropy, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Entropy::parse(&text).ok_or_else(|| serde::de::Error::custom("64 hex digits"))
    }
}

impl Entropy {
    pub fn hex(&self) -> String {
        self.0.iter().map(|b| format!("{b:02x}")).collect()
    }

    pub fn parse(text: &str) -> Option<Entropy> {
        let mut out = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
        }
        Some(Entropy(out))
    }
}
