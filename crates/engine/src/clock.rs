//! The worker's own monotonic clocks.
//!
//! They judge only the worker's own patience: when to renew, when to stop a guest before its claim can lapse, how
//! long a call has waited hot. No deadline in the ledger is judged by them.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Now, on this process's monotonic clock.
#[expect(clippy::disallowed_methods, reason = "the one place of this crate that reads a clock")]
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// Since the machine was started, the time in which it was suspended included: it shows what [`monotonic`] does not.
pub(crate) fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
