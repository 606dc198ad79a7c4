//! How a ledger is opened.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use protocol::limits::Limits;
use protocol::time::Time;

/// What [`crate::Ledger::open`] is told.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The database file; its lock stands beside it. The directory must exist.
    pub path: PathBuf,
    /// The cell that ids carry; 0 with one ledger (I-48).
    pub cell: u16,
    /// Connections that read beside the writer.
    pub readers: usize,
    /// Page cache of the write connection in KiB. More is not better: past some tens of MiB each commit pays for it.
    pub cache_kib: u32,
    pub checkpoints: Checkpoints,
    pub clock: Clock,
    pub limits: Limits,
    /// Whether a commit waits for the disk. `false` exists for tests that never crash.
    #[cfg(feature = "testing")]
    pub durable: bool,
    /// How many pages the database may have: a disk that gets full.
    #[cfg(feature = "testing")]
    pub max_pages: Option<u32>,
    /// Whether hints are sent. `false`: each of them is lost on its way.
    #[cfg(feature = "testing")]
    pub hints: bool,
}

impl StoreConfig {
    pub fn new(path: impl Into<PathBuf>) -> StoreConfig {
        StoreConfig {
            path: path.into(),
            cell: 0,
            readers: 4,
            cache_kib: 32 * 1024,
            checkpoints: Checkpoints::Beside,
            clock: Clock::System,
            limits: Limits::default(),
            #[cfg(feature = "testing")]
            durable: true,
            #[cfg(feature = "testing")]
            max_pages: None,
            #[cfg(feature = "testing")]
            hints: true,
        }
    }

    pub(crate) fn is_durable(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.durable;
        #[cfg(not(feature = "testing"))]
        true
    }

    pub(crate) fn sends_hints(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.hints;
        #[cfg(not(feature = "testing"))]
        true
    }
}

/// When the write-ahead log is copied into the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checkpoints {
    /// By a thread beside the writer, as the log grows.
    Beside,
    /// Never while open: a test that counts syncs wants only those of commits.
    Held,
}

/// Where the store's clock comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    System,
    /// Moved by a test.
    #[cfg(feature = "testing")]
    Manual(std::sync::Arc<std::sync::atomic::AtomicI64>),
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "this is the store's clock (R-5); everything else takes time from it")]
    pub(crate) fn now(&self) -> Time {
        match self {
            Clock::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
                Time::EPOCH + since
            }
            #[cfg(feature = "testing")]
            Clock::Manual(micros) => Time::from_micros(micros.load(std::sync::atomic::Ordering::SeqCst)),
        }
    }
}

/// 128 random bits: what the ids of one transaction are made from.
#[allow(clippy::disallowed_methods, reason = "this is the store's source of randomness")]
pub(crate) fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("a kernel that has started gives randomness");
    u128::from_le_bytes(bytes)
}
