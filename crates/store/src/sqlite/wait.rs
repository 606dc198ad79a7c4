//! The table `wait`: which run a wait belongs to, and when it ends by itself if nothing else says so.
//!
//! The wait itself is part of its run's state. Rows go when a wait is taken or closed.

use protocol::id::WaitId;
use protocol::rows::Mark;
use protocol::time::Time;
use protocol::wait::{Owner, Wait};
use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::fault::Fault;

pub(super) struct Table<'c> {
    run_of: Statement<'c>,
    insert: Statement<'c>,
    update: Statement<'c>,
    delete: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            run_of: db.prepare("SELECT run FROM wait WHERE id = ?1")?,
            insert: db.prepare("INSERT OR FAIL INTO wait (id, run, due_at) VALUES (?1, ?2, ?3)")?,
            update: db.prepare("UPDATE OR FAIL wait SET due_at = ?1 WHERE id = ?2")?,
            delete: db.prepare("DELETE FROM wait WHERE id = ?1")?,
        })
    }

    pub(super) fn run_of(&mut self, id: WaitId) -> rusqlite::Result<Option<i64>> {
        self.run_of.query_row([id.as_bytes()], |row| row.get(0)).optional()
    }

    pub(super) fn save(&mut self, wait: &Wait, mark: Mark, n: i64) -> Result<(), Fault> {
        let changed = match (mark, wait.owner) {
            // An approval's own row says when it expires.
            (Mark::Loaded, _) | (Mark::Changed, Owner::Approval(_)) => return Ok(()),
            (Mark::Gone, _) => self.delete.execute([wait.id.as_bytes()])?,
            (Mark::New, _) => self.insert.execute(params![wait.id.as_bytes(), n, due_at(wait)])?,
            (Mark::Changed, Owner::Timer(_)) => self.update.execute(params![due_at(wait), wait.id.as_bytes()])?,
        };
        if changed == 1 { Ok(()) } else { Err(Fault::Broken(format!("{} is not there", wait.id))) }
    }
}

/// When an open timer ends.
fn due_at(wait: &Wait) -> Option<i64> {
    match wait.owner {
        Owner::Timer(_) if wait.is_open() => wait.due_at.map(Time::as_micros),
        Owner::Timer(_) | Owner::Approval(_) => None,
    }
}
