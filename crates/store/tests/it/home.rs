//! A directory with a store in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use stasis_store::conformance::{START, World};
use stasis_store::{Clock, Ledger, OpenError, StoreConfig};

pub(crate) struct Home {
    dir: tempfile::TempDir,
    pub(crate) clock: Arc<AtomicI64>,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { dir: tempfile::tempdir().unwrap(), clock: Arc::new(AtomicI64::new(START.as_micros())) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("ledger.db")
    }

    pub(crate) fn config(&self) -> StoreConfig {
        StoreConfig { clock: Clock::Manual(Arc::clone(&self.clock)), durable: false, ..StoreConfig::new(self.path()) }
    }

    pub(crate) fn open(&self) -> Result<Ledger, OpenError> {
        Ledger::open(self.config())
    }

    pub(crate) async fn world(&self) -> World {
        World::on(self.open().unwrap(), Arc::clone(&self.clock), ()).await
    }

    /// Another connection to the file, for what no command can do.
    pub(crate) fn tamper(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(self.path()).unwrap();
        db.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        db
    }
}
