//! Reading, on connections that can only read, each read in one snapshot.
//!
//! Readers hold up no writer and no other reader. What they return are copies. Reading is done on threads
//! that may wait for a disk, never on a task's.

mod bodies;
mod lists;
mod passes;
mod rows;
mod timeline;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

pub use lists::{ApprovalOf, CallOf, JobOf};
#[cfg(feature = "testing")]
pub use passes::scans;
pub use passes::{Claimable, Counts, Due, Old, Reach};
pub use rows::Shown;

use super::check::{self, Check};
use super::fault::Fault;
use super::names::Names;
use super::open;
use crate::config::StoreConfig;
use crate::error::{Corrupt, ReadError};
use crate::page::Page;

/// The connections that read.
pub(crate) struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    places: Arc<Semaphore>,
    names: Arc<Names>,
    path: PathBuf,
}

/// One connection inside one snapshot.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'c> {
    pub(super) db: &'c Connection,
    pub(super) names: &'c Names,
}

impl Readers {
    pub(super) fn open(config: &StoreConfig) -> rusqlite::Result<Readers> {
        let count = config.readers.max(1);
        // The first one is opened now, so that a store which cannot be read does not open.
        let first = open::reader(&config.path)?;
        Ok(Readers {
            idle: Arc::new(Mutex::new(vec![first])),
            places: Arc::new(Semaphore::new(count)),
            names: Arc::default(),
            path: config.path.clone(),
        })
    }

    /// Runs `read` in one snapshot.
    pub(crate) async fn read<T, F>(&self, read: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(Reader<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let closed = || ReadError::Unavailable { reason: "the store is closed".to_owned() };
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| closed())?;
        let (idle, names, path) = (Arc::clone(&self.idle), Arc::clone(&self.names), self.path.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let _place = place;
            let pooled = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let db = match pooled {
                Some(db) => db,
                None => open::reader(&path)?,
            };
            let found = snapshot(&db, &names, read);
            // A connection that failed is not used again.
            if !matches!(found, Err(Fault::Sql(_))) {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(db);
            }
            found
        });
        match reading.await {
            Ok(found) => found.map_err(ReadError::from),
            Err(error) => Err(ReadError::Unavailable { reason: error.to_string() }),
        }
    }
}

impl Reader<'_> {
    pub(crate) fn check(self) -> Result<Check, Fault> {
        check::check(self.db)
    }

    pub(crate) fn backup(self, to: &std::path::Path) -> Result<Check, Fault> {
        check::backup(self.db, to)
    }
}

fn snapshot<T>(db: &Connection, names: &Names, read: impl FnOnce(Reader<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
    db.prepare_cached("BEGIN")?.execute([])?;
    let found = read(Reader { db, names });
    db.prepare_cached("COMMIT")?.execute([])?;
    found
}

/// Puts what was read into a page: a row that cannot be read stands beside the items.
fn sort<T>(page: &mut Page<T>, found: Result<T, Fault>) -> Result<(), Fault> {
    match found {
        Ok(item) => page.items.push(item),
        Err(Fault::Corrupt(corrupt)) => page.faults.push(*corrupt),
        Err(other) => return Err(other),
    }
    Ok(())
}

/// As [`sort`], for lists without pages.
fn keep<T>(items: &mut Vec<T>, faults: &mut Vec<Corrupt>, found: Result<T, Fault>) -> Result<(), Fault> {
    match found {
        Ok(item) => items.push(item),
        Err(Fault::Corrupt(corrupt)) => faults.push(*corrupt),
        Err(other) => return Err(other),
    }
    Ok(())
}
