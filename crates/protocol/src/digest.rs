//! Digests: SHA-256, one everywhere (C-3).
//!
//! The digest of a body is over its canonical bytes alone (C-4); the digest of a record is over its canonical JSON, whose
//! member `schema` keeps kinds of record apart (C-5). Stores keep the 32 bytes.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::json;

const PREFIX: &str = "sha256:";

/// The SHA-256 of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest([u8; 32]);

/// The digest of bytes that come in pieces: of content that is too large to be held.
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// A text that is not `sha256:` and 64 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected `sha256:` and 64 lower-case hex digits")]
pub struct DigestError;

impl Digest {
    /// The head of a chain that has no link yet.
    pub const ZERO: Self = Self([0; 32]);

    /// The digest of a body's bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes.as_ref()).into())
    }

    /// The digest of a record: of its canonical JSON.
    ///
    /// A record has a member `schema`, which the caller's type writes. Records are small types of this project: their map
    /// keys are text and their numbers finite, so writing one cannot fail.
    pub fn record(record: &impl Serialize) -> Self {
        Self::of(json::to_canonical(record).expect("a record has text keys and finite numbers").as_bytes())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hex digits without the prefix.
    pub fn hex(&self) -> String {
        String::from_utf8(self.digits().as_flattened().into()).expect("hex digits are ASCII")
    }

    /// The hex digits, on the stack: every record is full of digests.
    fn digits(&self) -> [[u8; 2]; 32] {
        let mut digits = [[0; 2]; 32];
        for (pair, byte) in digits.iter_mut().zip(self.0) {
            *pair = HEX[usize::from(byte)];
        }
        digits
    }

    /// Reads 64 lower-case hex digits.
    pub fn from_hex(hex: &str) -> Result<Self, DigestError> {
        let digits: &[u8; 64] = hex.as_bytes().try_into().map_err(|_| DigestError)?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn nibble(digit: u8) -> Result<u8, DigestError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(DigestError),
    }
}

/// The two digits of each byte.
const HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

impl json::Text for Digest {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFIX.as_bytes());
        out.extend_from_slice(self.digits().as_flattened());
    }

    fn pack(&self, out: &mut Vec<u8>) {
        json::write_digest(out, self);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        f.write_str(std::str::from_utf8(self.digits().as_flattened()).expect("hex digits are ASCII"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;
    fn from_str(text: &str) -> Result<Self, DigestError> {
        Self::from_hex(text.strip_prefix(PREFIX).ok_or(DigestError)?)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_is_sha256_in_lower_case_hex() {
        // C-3
        assert_eq!(Digest::of("abc").to_string(), ABC);
        assert_eq!(ABC.parse(), Ok(Digest::of("abc")));
    }

    #[test]
    fn upper_case_no_prefix_and_another_length_are_refused() {
        let bad =
            [ABC.to_uppercase(), ABC[7..].to_owned(), ABC[..70].to_owned(), format!("{ABC}0"), ABC.replace('c', "C")];
        for text in bad {
            // C-3
            assert_eq!(text.parse::<Digest>(), Err(DigestError), "{text}");
        }
    }

    #[test]
    fn records_that_differ_only_in_schema_have_different_digests() {
        let record = |schema: &str| Digest::record(&serde_json::json!({"schema": schema, "b": 1, "a": 2}));
        // C-5
        assert_eq!(record("stasis.x.v1"), Digest::of(r#"{"a":2,"b":1,"schema":"stasis.x.v1"}"#));
        assert_ne!(record("stasis.x.v1"), record("stasis.y.v1"));
    }
}
