//! Sizes as people write them: `16MiB` (I-61).

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// A text that is no size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a whole number and a unit (B, KiB, MiB, GiB), such as \"16MiB\"")]
pub struct SizeError;

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads one whole number and one unit.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(SizeError)?;
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(*bytes)).ok_or(SizeError)
}

/// For `#[serde(with = "...")]`: bytes as text with a unit; a bare number of bytes is read too.
pub mod bytes_text {
    use super::*;

    pub fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        let exact = UNITS.iter().find(|(_, unit)| *bytes >= *unit && bytes.is_multiple_of(*unit));
        let (name, unit) = exact.copied().unwrap_or(("B", 1));
        serializer.collect_str(&format_args!("{}{name}", bytes / unit))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(Size)
    }

    struct Size;

    impl Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes, or a size such as \"16MiB\"")
        }

        fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
            Ok(bytes)
        }

        fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
            u64::try_from(bytes).map_err(E::custom)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            parse_size(text).map_err(E::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_unit() {
        for (text, bytes) in [("16MiB", 16 << 20), ("1GiB", 1 << 30), ("64KiB", 65_536), ("5B", 5), ("0B", 0)] {
            // I-61
            assert_eq!(parse_size(text), Ok(bytes));
        }
        for text in ["", "16", "MiB", "1.5MiB", "16 MiB", "16MB", "99999999999999GiB"] {
            assert_eq!(parse_size(text), Err(SizeError), "{text}");
        }
    }
}
