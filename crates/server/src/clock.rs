//! The one place of this crate that reads a clock or draws randomness.
//!
//! Nothing here decides anything: deadlines are judged by the store's clock. The wall clock dates what is only
//! shown or only lives in this process (request ids, sign-ins), the monotonic one measures how long an answer took.

use protocol::id::RequestId;
use protocol::time::Time;
use std::time::{Instant, SystemTime};

/// The wall clock.
pub(crate) fn now() -> Time {
    #[allow(clippy::disallowed_methods, reason = "the one clock of this crate")]
    let now = SystemTime::now();
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// The monotonic clock.
pub(crate) fn instant() -> Instant {
    #[allow(clippy::disallowed_methods, reason = "the one clock of this crate")]
    Instant::now()
}

/// Fresh random bytes of the system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[allow(clippy::disallowed_methods, reason = "the one source of this crate")]
    getrandom::fill(&mut bytes).expect("the system gives randomness");
    bytes
}

/// A fresh id for a request.
pub(crate) fn request_id() -> RequestId {
    RequestId::mint(now(), 0, u64::from_le_bytes(random()))
}
