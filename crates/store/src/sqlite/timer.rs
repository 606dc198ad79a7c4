//! The table `timer`: when the open timers end, and whose they are.
//!
//! The wait itself is part of its run's state; an approval's own row says when it expires. Invariant: a timer has a row
//! here exactly while it is open.

use protocol::rows::Mark;
use protocol::time::Time;
use protocol::wait::{Owner, Wait};
use rusqlite::{Connection, Statement, params};

use super::fault::Fault;

pub(super) struct Table<'c> {
    insert: Statement<'c>,
    delete: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            insert: db.prepare("INSERT OR FAIL INTO timer (due_at, wait, run) VALUES (?1, ?2, ?3)")?,
            delete: db.prepare("DELETE FROM timer WHERE due_at = ?1 AND wait = ?2")?,
        })
    }

    pub(super) fn save(&mut self, wait: &Wait, mark: Mark, n: i64) -> Result<(), Fault> {
        let Owner::Timer(_) = wait.owner else { return Ok(()) };
        let Some(due_at) = wait.due_at.map(Time::as_micros) else {
            return Err(Fault::Broken(format!("{} is a timer that never ends", wait.id)));
        };
        match (mark, wait.is_open()) {
            // A timer that is open stays as it was set.
            (Mark::Loaded, _) | (Mark::Changed, true) => {}
            (Mark::New, true) => drop(self.insert.execute(params![due_at, wait.id.as_bytes(), n])?),
            (Mark::New | Mark::Changed, false) | (Mark::Gone, _) => {
                self.delete.execute(params![due_at, wait.id.as_bytes()])?;
            }
        }
        Ok(())
    }
}
