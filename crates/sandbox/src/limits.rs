//! What one guest may use, and how a limit that was hit is told (W-159..W-168).

use std::fmt;
use std::time::Duration;

pub(crate) use protocol::limits::GUEST_MEMORY_MAX as MEMORY_CEILING;
use protocol::limits::{GUEST_MEMORY, LOG_BYTES, Limits};

use crate::log::LogSink;

/// Most bytes of a program's code: what a source of 1 MiB (W-159) compiles to is several times as long.
pub(crate) const CODE_BYTES: usize = 64 << 20;
/// What one guest may use.
pub struct GuestLimits {
    /// Linear memory in bytes; at most 1 GiB (W-160).
    pub memory_bytes: u64,
    /// Guest time in all, over every hop of its run (W-161).
    pub active: Duration,
    /// Guest time already spent in earlier hops (W-166).
    pub spent: Duration,
    /// Where finished log lines go, already cut to their limits.
    pub log: LogSink,
    /// Log bytes that the run may keep, and those that it has (W-163).
    pub log_limit: u64,
    pub log_used: u64,
}

impl Default for GuestLimits {
    /// The defaults of workflows.md section 3.3, nothing spent, and log lines dropped.
    fn default() -> Self {
        Self {
            memory_bytes: GUEST_MEMORY,
            active: Limits::default().active_limit,
            spent: Duration::ZERO,
            log: Box::new(|_| ()),
            log_limit: LOG_BYTES,
            log_used: 0,
        }
    }
}

/// The limit that ended a guest. Its text names the limit and both numbers (W-168).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// More memory than allowed was asked for, and the program did not go on without it: `guest_memory`.
    Memory { limit_bytes: u64, wanted_bytes: u64 },
    /// `guest_time`.
    Time { limit: Duration, spent: Duration },
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { limit_bytes, wanted_bytes } => {
                write!(f, "guest memory: the limit is {limit_bytes} bytes, {wanted_bytes} were asked for")
            }
            Self::Time { limit, spent } => {
                write!(f, "guest time: the limit is {} ms, {} ms were spent", limit.as_millis(), spent.as_millis())
            }
        }
    }
}
