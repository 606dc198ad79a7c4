//! Names of things: typed, sortable ids (I-48).
//!
//! An id is 16 bytes, a UUIDv7 whose `rand_a` is the cell, written as a prefix and 26 characters of Crockford's base32
//! in lower case. Ids are names, not secrets: knowing one allows nothing (C-6). Nothing here reads a clock or draws
//! randomness; minting is a function of what the caller hands in. An id that was parsed from text is well formed, so an
//! ill-formed one never reaches a store.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::Digest;
use crate::time::Time;

/// What all ids of 16 bytes have in common.
pub trait Id: Copy + Ord + fmt::Display + Send + Sync + 'static {
    /// The kind, with its underscore, as it opens the text form.
    const PREFIX: &'static str;
    /// The id with these bytes, which must be a UUIDv7 for its text to be read back.
    fn from_bytes(bytes: [u8; 16]) -> Self;
    /// The bytes that stores keep; their order is the order of the ids.
    fn as_bytes(&self) -> &[u8; 16];
}

/// Why a text is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("expected an id that starts with `{0}`")]
    Prefix(&'static str),
    #[error("expected {expected} characters after the prefix, found {found}")]
    Length { expected: usize, found: usize },
    #[error("`{0}` is not a digit of an id")]
    Digit(char),
    #[error("not a UUIDv7")]
    Version,
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS: usize = 26;

fn write_digits(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(std::str::from_utf8(&digits(bytes)).expect("the alphabet is ASCII"))
}

pub(crate) fn digits(bytes: &[u8; 16]) -> [u8; DIGITS] {
    let number = u128::from_be_bytes(*bytes);
    let mut text = [0u8; DIGITS];
    // Two digits, and twice twelve: what fits a machine word.
    for (from, to, shift) in [(0, 2, 120), (2, 14, 60), (14, DIGITS, 0)] {
        let mut word = (number >> shift) as u64;
        for digit in text[from..to].iter_mut().rev() {
            *digit = ALPHABET[word as usize & 31];
            word >>= 5;
        }
    }
    text
}

fn read_digits(text: &str) -> Result<[u8; 16], IdError> {
    let found = text.chars().count();
    if found != DIGITS {
        return Err(IdError::Length { expected: DIGITS, found });
    }
    let mut number: u128 = 0;
    for (place, character) in text.chars().enumerate() {
        let digit = ALPHABET.iter().position(|&known| char::from(known) == character);
        // 26 digits hold 130 bits: the first may use only three of its five.
        let digit = digit.filter(|&digit| place > 0 || digit < 8).ok_or(IdError::Digit(character))?;
        number = number << 5 | digit as u128;
    }
    let bytes = number.to_be_bytes();
    if bytes[6] >> 4 != 7 || bytes[8] >> 6 != 0b10 {
        return Err(IdError::Version);
    }
    Ok(bytes)
}

/// A UUIDv7 of `at`, the low 12 bits of `cell` and the low 62 bits of `random`.
fn uuid_v7(at: Time, cell: u16, random: u64) -> [u8; 16] {
    let millis = at.as_millis().max(0) as u128 & ((1 << 48) - 1);
    let number =
        millis << 80 | 7 << 76 | u128::from(cell & 0xfff) << 64 | 0b10 << 62 | u128::from(random & RANDOM_BITS);
    number.to_be_bytes()
}

const RANDOM_BITS: u64 = (1 << 62) - 1;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Mints an id: the time to the millisecond, the 12 bits of the cell, and 62 bits of `random`.
            pub fn mint(at: Time, cell: u16, random: u64) -> Self {
                Self(uuid_v7(at, cell, random))
            }

            /// The id with these bytes, which must be a UUIDv7 for its text to be read back.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The bytes that stores keep; their order is the order of the ids.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// The cell that minted the id; 0 with one ledger.
            pub const fn cell(&self) -> u16 {
                u16::from_be_bytes([self.0[6], self.0[7]]) & 0xfff
            }
        }

        impl Id for $name {
            const PREFIX: &'static str = $prefix;
            fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }
            fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl crate::json::Text for $name {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice($prefix.as_bytes());
                out.extend_from_slice(&digits(&self.0));
            }

            fn pack(&self, out: &mut Vec<u8>) {
                crate::json::write_id(out, self);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                write_digits(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let digits = text.strip_prefix($prefix).ok_or(IdError::Prefix($prefix))?;
                read_digits(digits).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

ids! {
    /// One execution of a workflow.
    RunId "run_";
    /// One question whether a call or a gate may go ahead.
    ApprovalId "apr_";
    /// One tool call, as the API names it (C-58).
    CallId "call_";
    /// One open question of a run.
    WaitId "wait_";
    /// One piece of work delegated to an outside agent.
    JobId "job_";
    /// One signal sent to a run or a wait.
    SignalId "sig_";
    /// One API token.
    TokenId "tok_";
    /// One immutable revision of a workflow.
    PatternId "pat_";
    /// One standing grant.
    GrantId "grant_";
    /// One decision link.
    LinkId "link_";
    /// Where messages are sent.
    WebhookId "hook_";
    /// One message of a webhook.
    MessageId "msg_";
    /// One start of one process that carries runs.
    WorkerId "wrk_";
    /// One request at the door; the only id without a prefix.
    RequestId "";
}

/// The name of a receipt: `rcpt_` and the hex of a record digest, known before the outcome is (C-124).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiptId(Digest);

impl ReceiptId {
    pub const PREFIX: &'static str = "rcpt_";

    pub const fn new(identity: Digest) -> Self {
        Self(identity)
    }

    pub const fn digest(&self) -> Digest {
        self.0
    }
}

impl crate::json::Text for ReceiptId {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(Self::PREFIX.as_bytes());
        out.extend_from_slice(self.0.hex().as_bytes());
    }
}

impl fmt::Display for ReceiptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0.hex())
    }
}

impl fmt::Debug for ReceiptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ReceiptId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let hex = text.strip_prefix(Self::PREFIX).ok_or(IdError::Prefix(Self::PREFIX))?;
        let found = hex.chars().count();
        if found != 64 {
            return Err(IdError::Length { expected: 64, found });
        }
        let stray = |character: &char| !matches!(character, '0'..='9' | 'a'..='f');
        if let Some(character) = hex.chars().find(stray) {
            return Err(IdError::Digit(character));
        }
        Ok(Self(Digest::from_hex(hex).expect("64 lower-case hex digits")))
    }
}

impl Serialize for ReceiptId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ReceiptId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// A source of fresh ids that is handed into a decision.
///
/// The same time, cell and seed give the same ids, so a decision that is simulated twice mints the same names twice.
/// Ids of one source ascend in the order they were minted.
#[derive(Debug, Clone)]
pub struct Ids {
    at: Time,
    cell: u16,
    random: u64,
    steps: u64,
}

impl Ids {
    /// `seed` is 128 random bits; the low half starts the sequence, the high half spaces it.
    pub const fn new(at: Time, cell: u16, seed: u128) -> Self {
        // The top bit of the 62 stays free, so that the sequence has room to ascend.
        Self { at, cell, random: seed as u64 & (RANDOM_BITS >> 1), steps: (seed >> 64) as u64 }
    }

    /// The next 16 bytes.
    pub fn next_bytes(&mut self) -> [u8; 16] {
        self.steps = self.steps.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // A step of 1..2^32, so that neighbours are told apart at a glance and 2^29 of them still fit.
        self.random += (mix(self.steps) >> 32) + 1;
        uuid_v7(self.at, self.cell, self.random)
    }

    /// The next id of the wanted kind.
    pub fn mint<T: Id>(&mut self) -> T {
        T::from_bytes(self.next_bytes())
    }
}

/// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Time = Time::from_micros(1_796_031_000_000_000);

    #[test]
    fn an_id_reads_back_from_its_text_and_keeps_its_cell() {
        let id = RunId::mint(AT, 0xabc, u64::MAX);
        let text = id.to_string();
        // I-48
        assert_eq!(text.len(), "run_".len() + 26);
        assert!(text.starts_with("run_01") && text.to_ascii_lowercase() == text, "{text}");
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(id.cell(), 0xabc);
        assert_eq!("run_01m8nwmbe0e00bsaekf59edd1r".parse::<RunId>().map(|id| id.cell()), Ok(0));
    }

    #[test]
    fn ill_formed_ids_are_refused() {
        let table = [
            ("", IdError::Prefix("run_")),
            ("apr_01m8nwmbe0e00bsaekf59edd1r", IdError::Prefix("run_")),
            ("run_", IdError::Length { expected: 26, found: 0 }),
            ("run_01m8nwmbe0e00bsaekf59edd1", IdError::Length { expected: 26, found: 25 }),
            ("run_01M8nwmbe0e00bsaekf59edd1r", IdError::Digit('M')),
            ("run_o1m8nwmbe0e00bsaekf59edd1r", IdError::Digit('o')),
            ("run_81m8nwmbe0e00bsaekf59edd1r", IdError::Digit('8')),
            ("run_00000000000000000000000000", IdError::Version),
        ];
        for (text, expected) in table {
            // C-6
            assert_eq!(text.parse::<RunId>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn one_source_mints_ascending_ids_and_the_same_again_from_the_same_seed() {
        let mut first = Ids::new(AT, 3, u128::MAX);
        let mut second = first.clone();
        let mut last: Option<CallId> = None;
        for _ in 0..10_000 {
            let id: CallId = first.mint();
            assert_eq!(id, second.mint());
            assert!(last < Some(id));
            last = Some(id);
        }
    }

    #[test]
    fn a_receipt_id_is_the_hex_of_a_digest() {
        let id = ReceiptId::new(Digest::of(b"x"));
        assert_eq!(id.to_string(), format!("rcpt_{}", Digest::of(b"x").hex()));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("rcpt_00".parse::<ReceiptId>(), Err(IdError::Length { expected: 64, found: 2 }));
        assert_eq!(id.to_string().replacen('2', "G", 1).parse::<ReceiptId>(), Err(IdError::Digit('G')));
    }
}
