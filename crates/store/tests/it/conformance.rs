//! Every story of the conformance suite, on SQLite.

use std::sync::Arc;

use stasis_store::conformance::World;
use stasis_store::{Ledger, StoreConfig};

use crate::home::Home;

/// A fresh ledger in a directory of its own. Its commits do not wait for the disk: no story pulls the plug.
async fn world() -> World {
    let home = Home::new();
    let config = StoreConfig { readers: 2, ..home.config() };
    World::on(Ledger::open(config).unwrap(), Arc::clone(&home.clock), home).await
}

stasis_store::conformance_tests!(world().await);
