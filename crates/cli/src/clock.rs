//! The one place of this crate that reads the clock and draws randomness.

use protocol::id::{RunId, SignalId};
use protocol::time::Time;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time to show spans against; nothing is decided by it.
#[allow(clippy::disallowed_methods, reason = "the one clock of the crate")]
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A monotonic time, for how long to try.
#[allow(clippy::disallowed_methods, reason = "the one clock of the crate")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// What is left of `span` since `start`; zero once it is over.
pub(crate) fn left(start: Instant, span: Duration) -> Duration {
    span.saturating_sub(instant().duration_since(start))
}

/// A run id of our own, so that a start whose answer was lost can be asked for again and starts one run.
/// Ids are names, not secrets (C-6): the hasher's own random keys are random enough for a name.
pub(crate) fn new_run_id() -> RunId {
    RunId::mint(now(), 0, RandomState::new().build_hasher().finish())
}

/// A signal id of our own, for the same reason.
pub(crate) fn new_signal_id() -> SignalId {
    SignalId::mint(now(), 0, RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_read_back() {
        let (one, two) = (new_run_id(), new_run_id());
        assert_ne!(one, two);
        assert_eq!(one.to_string().parse(), Ok(one));
    }
}
