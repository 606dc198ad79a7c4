//! Canonical JSON of records in fewer bytes: digests and ids as their bytes, known keys as one number.
//!
//! Facts of events and receipts are mostly digests, ids and the same few keys. Canonical JSON has no byte below 0x20, so
//! those bytes mark what was replaced; everything else stands as it is. Invariant: [`expand`] gives back exactly the
//! text that [`compact`] was given, or refuses the bytes.

use protocol::id::*;
use protocol::json::{self, Canonical};

use super::codec::Malformed;

/// A digest in quotes: 32 bytes follow.
const DIGEST: u8 = 1;
/// An id in quotes: its kind and 16 bytes follow.
const ID: u8 = 2;
/// A key with its quotes and colon: its number in [`KEYS`] follows.
const KEY: u8 = 3;

/// The keys of event facts and receipts. The place of a key is its number in stored rows: new keys are added at the end.
const KEYS: [&str; 58] = [
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

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ID_DIGITS: usize = 26;
const SHA256: &str = "sha256:";

/// Numbers of keys in order of their length, and where each length begins: a word is compared with few keys.
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

fn key_number(word: &[u8]) -> Option<u8> {
    let (order, begin) = &BY_LENGTH;
    let range = usize::from(*begin.get(word.len())?)..usize::from(*begin.get(word.len() + 1)?);
    order[range].iter().copied().find(|number| KEYS[usize::from(*number)].as_bytes() == word)
}

/// The text in fewer bytes.
pub(super) fn compact(text: &Canonical) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(quote) = rest.iter().position(|byte| *byte == b'"') {
        out.extend_from_slice(&rest[..quote]);
        rest = &rest[quote..];
        // In canonical JSON an escaped quote follows a backslash; a word with one matches nothing and stands as it is.
        match replace(&rest[1..], &mut out) {
            Some(used) => rest = &rest[1 + used..],
            None => {
                out.push(b'"');
                rest = &rest[1..];
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

/// Replaces what stands after an opening quote, and says how many bytes it had.
fn replace(rest: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    if let Some((digest, used)) = leading_digest(rest) {
        out.push(DIGEST);
        out.extend_from_slice(&digest);
        return Some(used);
    }
    let len = rest.iter().position(|byte| *byte == b'"')?;
    let word = &rest[..len];
    if rest.get(len + 1) == Some(&b':') {
        let key = key_number(word)?;
        out.extend_from_slice(&[KEY, key]);
        return Some(len + 2);
    }
    let (prefix, digits) = word.split_at_checked(word.len().checked_sub(ID_DIGITS)?)?;
    let kind = PREFIXES.iter().position(|known| known.as_bytes() == prefix)?;
    let number = base32(digits)?;
    out.extend_from_slice(&[ID, kind as u8]);
    out.extend_from_slice(&number.to_be_bytes());
    Some(len + 1)
}

/// The digest whose text and closing quote stand here as a value: most words are one, and have one length.
fn leading_digest(rest: &[u8]) -> Option<([u8; 32], usize)> {
    let (digits, after) = rest.strip_prefix(SHA256.as_bytes())?.split_first_chunk::<64>()?;
    let is_value = after.first() == Some(&b'"') && after.get(1) != Some(&b':');
    is_value.then(|| hex(digits)).flatten().map(|digest| (digest, SHA256.len() + digits.len() + 1))
}

/// The text that was made compact.
pub(super) fn expand(bytes: &[u8]) -> Result<Canonical, Malformed> {
    let mut text = Vec::with_capacity(2 * bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        rest = match *first {
            DIGEST => {
                let (digest, after) = after.split_first_chunk::<32>().ok_or(Malformed("a digest"))?;
                text.push(b'"');
                text.extend_from_slice(SHA256.as_bytes());
                digest.iter().for_each(|byte| text.extend_from_slice(&hex_digits(*byte)));
                text.push(b'"');
                after
            }
            ID => {
                let (kind, after) = after.split_first().ok_or(Malformed("an id"))?;
                let (number, after) = after.split_first_chunk::<16>().ok_or(Malformed("an id"))?;
                let prefix = PREFIXES.get(usize::from(*kind)).ok_or(Malformed("a kind of id"))?;
                text.push(b'"');
                text.extend_from_slice(prefix.as_bytes());
                text.extend_from_slice(&base32_digits(u128::from_be_bytes(*number)));
                text.push(b'"');
                after
            }
            KEY => {
                let (key, after) = after.split_first().ok_or(Malformed("a key"))?;
                let key = KEYS.get(usize::from(*key)).ok_or(Malformed("a known key"))?;
                text.push(b'"');
                text.extend_from_slice(key.as_bytes());
                text.extend_from_slice(b"\":");
                after
            }
            byte => {
                text.push(byte);
                after
            }
        };
    }
    json::Canonical::from_stored(&text).ok_or(Malformed("canonical JSON"))
}

fn hex(digits: &[u8; 64]) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let mut stray = 0;
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
        stray |= high | low;
        *byte = high << 4 | low & 15;
    }
    (stray < 16).then_some(bytes)
}

/// The value of each hexadecimal digit as digests have it; 16 is none.
const NIBBLES: [u8; 256] = {
    let mut values = [16; 256];
    let mut at = 0;
    while at < 16 {
        values[b"0123456789abcdef"[at] as usize] = at as u8;
        at += 1;
    }
    values
};

fn hex_digits(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 15].map(|nibble| b"0123456789abcdef"[usize::from(nibble)])
}

/// The value of each digit; 32 is none.
const VALUES: [u8; 256] = {
    let mut values = [32; 256];
    let mut at = 0;
    while at < 32 {
        values[ALPHABET[at] as usize] = at as u8;
        at += 1;
    }
    values
};

/// 26 digits: two, and twice twelve, which fit a machine word.
fn base32(digits: &[u8]) -> Option<u128> {
    let digits: &[u8; ID_DIGITS] = digits.try_into().ok()?;
    let mut stray = 0;
    let mut word = |digits: &[u8]| {
        digits.iter().fold(0u64, |number, digit| {
            let value = VALUES[usize::from(*digit)];
            stray |= value;
            number << 5 | u64::from(value & 31)
        })
    };
    let [first, middle, last] = [&digits[..2], &digits[2..14], &digits[14..]].map(&mut word);
    // 26 digits hold 130 bits: the first may use only three of its five.
    (stray < 32 && first < 256).then(|| u128::from(first) << 120 | u128::from(middle) << 60 | u128::from(last))
}

fn base32_digits(number: u128) -> [u8; ID_DIGITS] {
    std::array::from_fn(|place| ALPHABET[(number >> (5 * (ID_DIGITS - 1 - place))) as usize & 31])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::digest::Digest;
    use protocol::time::Time;

    fn canonical(value: &serde_json::Value) -> Canonical {
        json::to_canonical(value).unwrap()
    }

    #[test]
    fn digests_ids_and_keys_take_fewer_bytes_and_read_back() {
        let run = RunId::mint(Time::from_millis(1_796_031_000_000), 7, u64::MAX);
        let text = canonical(&serde_json::json!({
            "run": run, "call": CallId::mint(Time::EPOCH, 0, 1), "arguments_digest": Digest::of("x"), "other": [run, "run"],
            "tool": "a \"quoted\" sha256:", "hop": 3, "prev": null,
        }));
        let bytes = compact(&text);
        assert!(bytes.len() * 3 < text.len() * 2, "{} of {}", bytes.len(), text.len());
        assert_eq!(expand(&bytes).unwrap(), text);
    }

    #[test]
    fn almost_digests_and_ids_are_left_as_they_are() {
        let upper = Digest::of("x").to_string().replace("sha256:", "sha256:A");
        for word in
            [upper.as_str(), "sha256:", "run_", "run_81m8nwmbe0e00bsaekf59edd1r", "run_01M8nwmbe0e00bsaekf59edd1r"]
        {
            let text = canonical(&serde_json::json!({ "by": word }));
            assert_eq!(expand(&compact(&text)).unwrap(), text);
        }
    }

    #[test]
    fn no_two_keys_or_prefixes_are_the_same() {
        assert_eq!(KEYS.iter().map(|key| key.len()).max(), Some(LONGEST));
        for (number, key) in KEYS.iter().enumerate() {
            assert_eq!(key_number(key.as_bytes()), Some(number as u8));
        }
        assert_eq!(std::collections::BTreeSet::from(KEYS).len(), KEYS.len());
        assert_eq!(std::collections::BTreeSet::from(PREFIXES).len(), PREFIXES.len());
    }

    proptest! {
        #[test]
        fn any_text_reads_back(keys in proptest::collection::vec(".{0,12}", 0..6), digest: [u8; 32], bits: u128) {
            let id = base32_digits(bits);
            let id = format!("apr_{}", std::str::from_utf8(&id).unwrap());
            let mut map = serde_json::Map::new();
            for (at, key) in keys.iter().enumerate() {
                let value = [key.clone(), Digest::from_bytes(digest).to_string(), id.clone()][at % 3].clone();
                map.insert(key.clone(), value.into());
            }
            // A text that strict JSON refuses never becomes a record.
            if let Ok(text) = json::to_canonical(&map) {
                prop_assert_eq!(expand(&compact(&text)).unwrap(), text);
            }
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = expand(&bytes);
        }
    }
}
