//! Copying the write-ahead log into the database, beside the writer.
//!
//! The log is copied as it grows by a thread of its own, so that no command waits for it. The log starts again from its
//! beginning only when all of it is copied; under a load that never pauses the writer itself copies the rest.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rusqlite::Connection;

use super::open;
use crate::config::Checkpoints;
use crate::failpoint;
use crate::shared::{Health, Shared};

/// New pages in the log after which it is copied: 16 MiB of 8 KiB pages. A page that changed often since is copied once.
const COPY_AT: i32 = 2_048;
/// Pages at which the writer stops to copy the rest: 64 MiB.
const RELIEVE_AT: i32 = 8_192;

/// How long the log is, and who waits to hear it.
#[derive(Default)]
pub(crate) struct Log {
    pages: Mutex<Pages>,
    grown: Condvar,
}

#[derive(Default)]
struct Pages {
    in_log: i32,
    /// How long the log was when it was copied last.
    copied: i32,
    closed: bool,
}

impl Pages {
    fn is_worth_copying(&self) -> bool {
        self.in_log - self.copied >= COPY_AT
    }
}

impl Log {
    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, in_log: i32) {
        let mut pages = self.pages();
        if in_log < pages.in_log {
            // It began again from its beginning.
            pages.copied = 0;
        }
        pages.in_log = in_log;
        if pages.is_worth_copying() {
            self.grown.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        self.pages().closed = true;
        self.grown.notify_all();
    }
}

/// Follows the length of the log on the write connection.
pub(super) fn watch(db: &mut Connection, shared: &Arc<Shared>) {
    if shared.config.checkpoints == Checkpoints::Held {
        return;
    }
    let log = Arc::clone(&shared.log);
    let hook = move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
        log.set(pages);
        Ok(())
    };
    if let Err(error) = db.wal_hook(Some(hook)) {
        tracing::warn!(%error, "the write-ahead log is not followed");
    }
}

/// Between two batches: copies what the other thread cannot catch up with.
pub(super) fn relieve(db: &Connection, shared: &Shared) {
    if shared.config.checkpoints == Checkpoints::Beside && shared.log.pages().in_log >= RELIEVE_AT {
        copy(db);
        let mut pages = shared.log.pages();
        pages.copied = pages.in_log;
    }
}

/// The last thing on the write connection: a store that is closed has little left to read when it opens.
pub(super) fn close(db: &Connection, shared: &Shared) {
    if shared.config.checkpoints == Checkpoints::Beside && shared.health() != Health::Failed {
        copy(db);
    }
}

/// The thread beside the writer.
pub(crate) fn serve(shared: &Arc<Shared>) {
    let db = match open::checkpointer(&shared.config) {
        Ok(db) => db,
        Err(error) => return tracing::error!(%error, "the write-ahead log is not copied"),
    };
    loop {
        let mut pages = shared.log.pages();
        while !pages.is_worth_copying() && !pages.closed {
            pages = shared.log.grown.wait(pages).unwrap_or_else(PoisonError::into_inner);
        }
        if pages.closed {
            return;
        }
        pages.copied = pages.in_log;
        drop(pages);
        copy(&db);
    }
}

/// A passive checkpoint: it waits for nobody, and what it leaves is copied by the next.
fn copy(db: &Connection) {
    failpoint::hit("before_checkpoint");
    let copied = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(0));
    failpoint::hit("after_checkpoint");
    if let Err(error) = copied {
        tracing::error!(%error, "the write-ahead log cannot be copied");
    }
}
