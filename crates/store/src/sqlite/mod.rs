//! The ledger on SQLite: one write connection with a thread of its own, and connections that only read.
//!
//! One file a table. It adds no rule to a decision; what the schema checks are the last guards of invariants that the
//! decisions keep.

mod admission;
mod anchor;
mod append;
mod approval;
mod body;
mod call;
mod check;
mod checkpoint;
mod codec;
mod event;
mod fault;
mod job;
mod journal;
mod message;
mod migrate;
mod names;
mod obligation;
mod open;
mod pack;
mod packed;
mod read;
mod receipt;
mod recent;
mod registry;
mod removed;
mod run;
mod signal;
mod state;
mod tables;
mod timer;
mod vfs;
mod writer;

use std::sync::Arc;
use std::thread::JoinHandle;

use protocol::time::Time;
use rusqlite::Connection;

pub use anchor::{Changed, LastAnchor, Seen};
pub use check::Check;
pub(crate) use checkpoint::Log;
pub(crate) use pack::pack;
pub(crate) use read::Readers;
#[cfg(feature = "testing")]
pub use read::scans;
pub use read::{ApprovalOf, CallOf, Claimable, Counts, Due, JobOf, Old, Reach, Shown};
pub use removed::Removed;
pub(crate) use writer::{Done, Job, Work};

use crate::config::StoreConfig;
use crate::error::OpenError;
use crate::lock::Lock;
use crate::shared::Shared;

/// A store that is open, with its threads.
pub(crate) struct Opened {
    pub(crate) shared: Arc<Shared>,
    pub(crate) readers: Readers,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

pub(crate) fn open(config: StoreConfig) -> Result<Opened, OpenError> {
    let path = config.path.clone();
    let unavailable = |why: String| OpenError::Unavailable { path: path.clone(), why };
    let lock = Lock::take(&Lock::path(&path))?;
    let db = open::writer(&config)?;
    let registry = registry::load(&db).map_err(|fault| match fault {
        fault::Fault::Sql(error) => open::open_error(&path, error),
        other => OpenError::Damaged { path: path.clone(), why: other.to_string() },
    })?;
    let latest = latest(&db).map_err(|error| open::open_error(&path, error))?;
    let readers = Readers::open(&config).map_err(|error| open::open_error(&path, error))?;
    let shared = Arc::new(Shared::new(config, registry, latest, lock));
    let mut threads = Vec::new();
    let mut start = |name: &str, body: Box<dyn FnOnce() + Send>| -> Result<(), OpenError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        threads.push(thread.map_err(|error| unavailable(error.to_string()))?);
        Ok(())
    };
    if shared.config.checkpoints == crate::config::Checkpoints::Beside {
        let shared = Arc::clone(&shared);
        start("ledger-log", Box::new(move || checkpoint::serve(&shared)))?;
    }
    let served = Arc::clone(&shared);
    start(
        "ledger-writer",
        Box::new(move || {
            let _guard = Fallen(&served);
            writer::serve(db, &served);
        }),
    )?;
    Ok(Opened { shared, readers, threads })
}

/// Marks the store as failed if the writer's thread ends by a panic, so that nobody waits for an answer for ever.
struct Fallen<'s>(&'s Shared);

impl Drop for Fallen<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the writer stopped".to_owned());
        }
    }
}

/// The largest time that was ever committed: of the last events, of renewals (which write none), and of the registry.
fn latest(db: &Connection) -> rusqlite::Result<Time> {
    let sql = "SELECT max(
        coalesce((SELECT at FROM event ORDER BY n DESC LIMIT 1), 0),
        coalesce((SELECT max(claim_renewed_at) FROM run WHERE status IN (1, 2, 7, 8) AND status <> 9), 0),
        coalesce((SELECT max(registered_at) FROM pattern), 0),
        coalesce((SELECT max(max(registered_at), max(coalesce(withdrawn_at, 0))) FROM tool), 0),
        coalesce((SELECT max(since) FROM policy), 0),
        coalesce((SELECT max(max(created_at), max(coalesce(revoked_at, 0))) FROM token), 0))";
    db.query_row(sql, [], |row| row.get(0)).map(Time::from_micros)
}
