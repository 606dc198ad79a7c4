//! Canonical JSON of records in fewer bytes: digests and ids as their bytes, known keys as one number.
//!
//! Facts of events and receipts are mostly digests, ids and the same few keys. Canonical JSON has no byte below 0x20, so
//! those bytes mark what was replaced; everything else stands as it is. A record is written in this form, and its text is
//! made from it: what is hashed is what reads back.

use std::fmt;

use super::record::{Form, Text};
use super::{Canonical, Value, record};
use crate::digest::Digest;
use crate::id::*;

/// The canonical JSON of one of this project's records, in the form in which stores keep it.
#[derive(Clone, PartialEq, Eq)]
pub struct Packed(Vec<u8>);

/// A digest as a string: 32 bytes follow.
const DIGEST: u8 = 1;
/// An id as a string: its kind and 16 bytes follow.
const ID: u8 = 2;
/// A key with its quotes and colon: its number in [`KEYS`] follows.
const KEY: u8 = 3;

/// The keys of event facts and receipts. The place of a key is its number in stored rows: new keys are added at the end.
const KEYS: [&str; 69] = [
    "applied",
    "approval",
    "arguments",
    "arguments_digest",
    "asked_arguments",
    "at",
    "attempt",
    "by",
    "call",
    "cause",
    "checkpoint",
    "checkpoint_digest",
    "code",
    "deadline",
    "ended_at",
    "expires_at",
    "gate_at",
    "grant",
    "hop",
    "identity",
    "input_digest",
    "key",
    "kind",
    "message",
    "method",
    "n",
    "outcome",
    "parent",
    "pattern_digest",
    "plan",
    "plan_digest",
    "policy",
    "prev",
    "principal",
    "priority",
    "queue",
    "receipt_digest",
    "receipt_id",
    "ref",
    "result",
    "result_digest",
    "revision",
    "run",
    "schema",
    "separate_requester",
    "settles",
    "snapshot",
    "text",
    "token",
    "tool",
    "tool_digest",
    "verdict",
    "wait",
    "waits",
    "why",
    "worker",
    "workflow",
    "strength",
    "due_at",
    "reason_digest",
    "replaced_digest",
    "request",
    "seen_digest",
    "signal",
    "name",
    "payload_digest",
    "job",
    "task_digest",
    "error_digest",
];

/// The prefixes of ids. The place of a prefix is its number in stored rows.
const PREFIXES: [&str; 12] = [
    RunId::PREFIX,
    ApprovalId::PREFIX,
    CallId::PREFIX,
    WaitId::PREFIX,
    WorkerId::PREFIX,
    PatternId::PREFIX,
    TokenId::PREFIX,
    JobId::PREFIX,
    SignalId::PREFIX,
    GrantId::PREFIX,
    LinkId::PREFIX,
    MessageId::PREFIX,
];

/// Numbers of keys in order of their length, and where each length begins: a key is compared with few others.
const BY_LENGTH: ([u8; KEYS.len()], [u8; LONGEST + 2]) = {
    let (mut order, mut begin) = ([0; KEYS.len()], [0; LONGEST + 2]);
    let (mut len, mut filled) = (0, 0);
    while len <= LONGEST {
        begin[len] = filled as u8;
        let mut at = 0;
        while at < KEYS.len() {
            if KEYS[at].len() == len {
                order[filled] = at as u8;
                filled += 1;
            }
            at += 1;
        }
        len += 1;
    }
    begin[LONGEST + 1] = filled as u8;
    (order, begin)
};
/// Bytes of the longest key.
const LONGEST: usize = 18;

fn key_number(key: &str) -> Option<u8> {
    let (order, begin) = &BY_LENGTH;
    let range = usize::from(*begin.get(key.len())?)..usize::from(*begin.get(key.len() + 1)?);
    let is = |number: &u8| {
        let known = KEYS[usize::from(*number)];
        // Most keys of a length differ in their first byte.
        known.as_bytes()[0] == key.as_bytes()[0] && known == key
    };
    order[range].iter().copied().find(is)
}

impl Form for Packed {
    fn key(out: &mut Vec<u8>, key: &'static str) {
        match key_number(key) {
            Some(number) => out.extend_from_slice(&[KEY, number]),
            None => record::write_key(out, key),
        }
    }

    fn text(out: &mut Vec<u8>, value: impl Text) {
        value.pack(out);
    }

    fn digest(written: &[u8]) -> Digest {
        let mut text = Vec::with_capacity(1024);
        expand(written, &mut text).expect("it was written here");
        Digest::of(text)
    }

    fn take(written: Vec<u8>) -> Packed {
        Packed(written)
    }
}

/// Writes a digest as a string.
pub(crate) fn write_digest(out: &mut Vec<u8>, digest: &Digest) {
    out.push(DIGEST);
    out.extend_from_slice(digest.as_bytes());
}

/// Writes an id as a string.
pub(crate) fn write_id<T: Id + Text>(out: &mut Vec<u8>, id: &T) {
    // The prefixes are known when this is compiled, and so is what is found.
    match PREFIXES.iter().position(|known| *known == T::PREFIX) {
        Some(kind) => {
            out.extend_from_slice(&[ID, kind as u8]);
            out.extend_from_slice(id.as_bytes());
        }
        None => record::write_text(out, id),
    }
}

impl Packed {
    /// Takes bytes read back from a store; `None` unless they stand for canonical JSON.
    pub fn from_stored(bytes: &[u8]) -> Option<Packed> {
        let mut text = Vec::with_capacity(2 * bytes.len());
        expand(bytes, &mut text)?;
        Canonical::from_stored(&text)?;
        Some(Packed(bytes.to_owned()))
    }

    /// The bytes that stores keep.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text.
    pub fn canonical(&self) -> Canonical {
        let mut text = Vec::with_capacity(2 * self.0.len());
        self.write_text(&mut text);
        record::canonical(&text)
    }

    /// The tree of the text.
    pub fn value(&self) -> Value {
        self.canonical().value()
    }

    pub(crate) fn write_text(&self, out: &mut Vec<u8>) {
        expand(&self.0, out).expect("it was written or checked here");
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.canonical().as_str())
    }
}

/// Writes the text that the bytes stand for; `None` where they are damaged.
fn expand(bytes: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        rest = match *first {
            DIGEST => {
                let (digest, after) = after.split_first_chunk::<32>()?;
                record::write_text(text, Digest::from_bytes(*digest));
                after
            }
            ID => {
                let (kind, after) = after.split_first()?;
                let (id, after) = after.split_first_chunk::<16>()?;
                text.push(b'"');
                text.extend_from_slice(PREFIXES.get(usize::from(*kind))?.as_bytes());
                text.extend_from_slice(&crate::id::digits(id));
                text.push(b'"');
                after
            }
            KEY => {
                let (key, after) = after.split_first()?;
                record::write_key(text, KEYS.get(usize::from(*key))?);
                after
            }
            _ => {
                let plain = rest.iter().position(|byte| *byte < 0x20).unwrap_or(rest.len());
                // A byte below 0x20 that marks nothing is not canonical; whoever reads the text says so.
                let (plain, after) = rest.split_at(plain.max(1));
                text.extend_from_slice(plain);
                after
            }
        };
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::Record;
    use super::*;
    use crate::time::Time;
    use proptest::prelude::*;

    #[test]
    fn digests_ids_and_keys_take_fewer_bytes_and_read_back() {
        let run = RunId::mint(Time::from_millis(1_796_031_000_000), 7, u64::MAX);
        let mut record = Record::packed();
        record
            .text("arguments_digest", Digest::of("x"))
            .text("call", CallId::mint(Time::EPOCH, 0, 1))
            .number("hop", 3u8);
        record.text("other", "run").maybe("prev", None::<Digest>).text("run", run).text("tool", "a \"quoted\" sha256:");
        let packed = record.done();
        let text = crate::json::to_canonical(&serde_json::json!({
            "run": run, "call": CallId::mint(Time::EPOCH, 0, 1), "arguments_digest": Digest::of("x"), "other": "run",
            "tool": "a \"quoted\" sha256:", "hop": 3, "prev": null,
        }));
        let text = text.unwrap();
        assert_eq!(packed.canonical(), text);
        assert_eq!(Packed::from_stored(packed.as_bytes()), Some(packed.clone()));
        assert!(packed.as_bytes().len() * 3 < text.len() * 2, "{} of {}", packed.as_bytes().len(), text.len());
    }

    #[test]
    fn no_two_keys_or_prefixes_are_the_same() {
        assert_eq!(KEYS.iter().map(|key| key.len()).max(), Some(LONGEST));
        for (number, key) in KEYS.iter().enumerate() {
            assert_eq!(key_number(key), Some(number as u8));
        }
        assert_eq!(std::collections::BTreeSet::from(KEYS).len(), KEYS.len());
        assert_eq!(std::collections::BTreeSet::from(PREFIXES).len(), PREFIXES.len());
    }

    proptest! {
        #[test]
        fn any_texts_are_packed_as_they_are_written(word: String, digest: [u8; 32], bits: u64) {
            let (digest, id) = (Digest::from_bytes(digest), ApprovalId::mint(Time::EPOCH, 3, bits));
            let (mut packed, mut plain) = (Record::packed(), Record::new());
            packed.text("by", &word).text("x", digest).text("y", id);
            plain.text("by", &word).text("x", digest).text("y", id);
            prop_assert_eq!(packed.digest(), plain.digest());
            let packed = packed.done();
            prop_assert_eq!(packed.canonical(), plain.done());
            prop_assert_eq!(Packed::from_stored(packed.as_bytes()), Some(packed));
        }

        #[test]
        fn no_stored_bytes_panic(bytes: Vec<u8>) {
            if let Some(packed) = Packed::from_stored(&bytes) {
                packed.canonical();
            }
        }
    }
}
