//! Every story of the conformance suite, on SQLite.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use stasis_store::conformance::World;
use stasis_store::{Clock, Ledger, StoreConfig};

/// A fresh ledger in a directory of its own. Its commits do not wait for the disk: no story pulls the plug.
async fn world() -> World {
    let home = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicI64::new(stasis_store::conformance::START.as_micros()));
    let config = StoreConfig {
        clock: Clock::Manual(Arc::clone(&clock)),
        durable: false,
        readers: 2,
        ..StoreConfig::new(home.path().join("ledger.db"))
    };
    World::on(Ledger::open(config).unwrap(), clock, home).await
}

stasis_store::conformance_tests!(world().await);
