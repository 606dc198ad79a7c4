//! The worker's own monotonic clock.
//!
//! It judges only the worker's own patience: when to renew, when to stop a guest before its claim can lapse, how
//! long a call has waited hot. No deadline in the ledger is judged by it.

use std::time::Instant;

/// Now, on this process's monotonic clock.
#[expect(clippy::disallowed_methods, reason = "the one place of this crate that reads a clock")]
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}
