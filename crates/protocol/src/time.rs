//! Time as the ledger keeps it: microseconds since the Unix epoch, and durations as people write them.
//!
//! Nothing here reads a clock: `now` is the store's and comes in as an argument (C-1). On the wire a time is RFC 3339 in
//! UTC with `Z` and microseconds at most (I-40), a duration in configuration is text with one unit (I-61).

use std::cell::RefCell;
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time, in microseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// Why a text is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("expected a time such as 2026-11-30T09:30:00Z")]
    Syntax,
    #[error("a time has microseconds at most")]
    Precision,
}

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("expected a whole number and a unit (ms, s, m, h, d), such as \"250ms\" or \"7d\"")]
    Syntax,
    #[error("the duration is too long")]
    Range,
}

impl Time {
    /// The start of the Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The last whole second that can be written whatever the offset, late in the year 9999. Sums stop here.
    pub const MAX: Self = Self(253_402_207_199_999_999);

    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the epoch, rounded down.
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// The whole second: what sentences for people say. Fields keep the microseconds.
    pub const fn second(self) -> Self {
        Self(self.0.div_euclid(1_000_000).saturating_mul(1_000_000))
    }

    /// The time from `earlier` to `self`, or zero where `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(if micros < 0 { 0 } else { micros as u64 })
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    /// Stops at [`Time::MAX`]. Parts of a duration below a microsecond are dropped.
    fn add(self, span: Duration) -> Self {
        let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(span)).min(Self::MAX)
    }
}

impl Sub<Duration> for Time {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(span))
    }
}

impl Time {
    /// The nearest time that can be written.
    fn stamp(self) -> jiff::Timestamp {
        let earliest = jiff::Timestamp::MIN.as_microsecond();
        let stamp = jiff::Timestamp::from_microsecond(self.0.clamp(earliest, Self::MAX.0));
        stamp.expect("clamped to what can be written")
    }
}

thread_local! {
    /// The last time written by a record and its text: what is committed together carries one time.
    static WRITTEN: RefCell<(Time, Vec<u8>)> = const { RefCell::new((Time(0), Vec::new())) };
}

impl crate::json::Text for Time {
    fn write(&self, out: &mut Vec<u8>) {
        WRITTEN.with_borrow_mut(|(time, text)| {
            if time != self || text.is_empty() {
                text.clear();
                let printer = jiff::fmt::temporal::DateTimePrinter::new();
                printer.print_timestamp(&self.stamp(), &mut *text).expect("writing to memory cannot fail");
                *time = *self;
            }
            out.extend_from_slice(text);
        });
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stamp().fmt(f)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Time {
    type Err = TimeError;
    /// Reads RFC 3339 with any offset.
    fn from_str(text: &str) -> Result<Self, TimeError> {
        // jiff also reads forms that RFC 3339 does not have: a blank or `t` before the time, a zone in brackets.
        let plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b':' | b'.' | b'T' | b'Z' | b'+' | b'-'));
        let full = text.len() >= "2026-11-30T09:30:00Z".len() && text.as_bytes().get(10) == Some(&b'T');
        if !plain || !full || !text.as_bytes()[0].is_ascii_digit() {
            return Err(TimeError::Syntax);
        }
        let stamp: jiff::Timestamp = text.parse().map_err(|_| TimeError::Syntax)?;
        if stamp.subsec_nanosecond() % 1_000 != 0 {
            return Err(TimeError::Precision);
        }
        Ok(Self(stamp.as_microsecond()))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// The units of a duration in milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads `250ms`, `30s`, `10m`, `24h` or `7d`: one whole number and one unit.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(DurationError::Syntax)?;
    if number.is_empty() {
        return Err(DurationError::Syntax);
    }
    let number: u64 = number.parse().map_err(|_| DurationError::Range)?;
    number.checked_mul(*millis).map(Duration::from_millis).ok_or(DurationError::Range)
}

/// Writes a duration in the longest unit that is exact, so that equal durations have one text.
pub fn format_duration(span: Duration) -> String {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let exact = |(_, unit): &&(&str, u64)| millis % unit == 0;
    match UNITS.iter().find(exact) {
        Some((name, unit)) if millis > 0 => format!("{}{name}", millis / unit),
        _ => "0s".to_owned(),
    }
}

/// For `#[serde(with = "...")]`: a duration as text with a unit.
pub mod duration_text {
    use super::*;

    pub fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_duration(*span))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        parse_duration(&text).map_err(D::Error::custom)
    }
}

/// For `#[serde(with = "...")]`: a duration as whole milliseconds.
pub mod duration_ms {
    use super::*;

    pub fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_with_microseconds_at_most() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (1_796_031_000_815_000, "2026-11-30T09:30:00.815Z"),
            (1_796_031_000_000_001, "2026-11-30T09:30:00.000001Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (Time::MAX.0, "9999-12-30T21:59:59.999999Z"),
        ];
        for (micros, text) in table {
            // I-40
            assert_eq!(Time(micros).to_string(), text);
            assert_eq!(text.parse(), Ok(Time(micros)));
        }
    }

    #[test]
    fn offsets_are_read_and_other_forms_refused() {
        assert_eq!("2026-11-30T10:30:00+01:00".parse(), Ok(Time(1_796_031_000_000_000)));
        for text in [
            "",
            "2026-11-30",
            "2026-11-30 09:30:00Z",
            "2026-11-30T09:30:00",
            "2026-11-30T09:30:00Z[UTC]",
            "20261130T093000Z",
        ] {
            assert_eq!(text.parse::<Time>(), Err(TimeError::Syntax), "{text}");
        }
        assert_eq!("2026-11-30T09:30:00.0000001Z".parse::<Time>(), Err(TimeError::Precision));
    }

    #[test]
    fn sums_stop_at_the_last_time_that_can_be_written() {
        assert_eq!(Time::EPOCH + Duration::MAX, Time::MAX);
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
        assert_eq!((Time(5_000_000) - Duration::from_secs(2)).as_micros(), 3_000_000);
    }

    #[test]
    fn durations_have_one_unit_and_one_text() {
        let table = [
            ("250ms", 250, "250ms"),
            ("30s", 30_000, "30s"),
            ("60s", 60_000, "1m"),
            ("24h", 86_400_000, "1d"),
            ("7d", 604_800_000, "7d"),
            ("0s", 0, "0s"),
        ];
        for (text, millis, normal) in table {
            // I-61
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
            assert_eq!(format_duration(Duration::from_millis(millis)), normal);
        }
        for text in ["", "5", "s", "-1s", "1.5h", "1 s", "1w", "5S"] {
            assert_eq!(parse_duration(text), Err(DurationError::Syntax), "{text}");
        }
        assert_eq!(parse_duration("99999999999999999999d"), Err(DurationError::Range));
    }
}
