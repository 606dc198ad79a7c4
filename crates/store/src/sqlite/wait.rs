//! The table `wait`: open questions and those that ended and are not yet taken. Rows go when taken or closed.

use protocol::id::{RunId, WaitId};
use protocol::rows::Mark;
use protocol::time::Time;
use protocol::wait::{Owner, State, Wait};
use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::fault::{Fault, Fields};

/// The columns that [`read`] reads.
pub(super) const COLUMNS: &str = "id, owner, approval, call, state, since, due_at, outcome";

pub(super) fn read(row: &Row<'_>, run: RunId) -> Result<Wait, Fault> {
    let mut f = Fields::new(row, "wait");
    f.named(run);
    let id: WaitId = f.id("id")?;
    f.named(id);
    let timer = f.flag("owner")?;
    let approval = f.maybe_id("approval")?;
    let owner = match timer {
        true => Owner::Timer(id),
        false => Owner::Approval(f.needed(approval, "approval")?),
    };
    let call = f.id("call")?;
    let state: u8 = f.uint("state")?;
    let since = f.time("since")?;
    let due_at = f.maybe_time("due_at")?;
    let outcome = f.maybe_digest("outcome")?;
    let state = match state {
        0 => State::Live,
        1 => State::Parked,
        2 => State::Ended { outcome: f.needed(outcome, "outcome")? },
        other => return Err(f.corrupt("state", format!("{other} is no state")).into()),
    };
    Ok(Wait { id, run, owner, call, state, since, due_at })
}

pub(super) struct Table<'c> {
    of_run: Statement<'c>,
    run_of: Statement<'c>,
    insert: Statement<'c>,
    update: Statement<'c>,
    delete: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            of_run: db.prepare(&format!("SELECT {COLUMNS} FROM wait WHERE run = ?1 ORDER BY id"))?,
            run_of: db.prepare("SELECT run FROM wait WHERE id = ?1")?,
            insert: db.prepare(
                "INSERT OR FAIL INTO wait (run, owner, approval, call, since, due_at, state, outcome, id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
            update: db.prepare("UPDATE OR FAIL wait SET state = ?1, outcome = ?2, due_at = ?3 WHERE id = ?4")?,
            delete: db.prepare("DELETE FROM wait WHERE id = ?1")?,
        })
    }

    pub(super) fn of_run(&mut self, n: i64, run: RunId) -> Result<Vec<Wait>, Fault> {
        let mut rows = self.of_run.query([n])?;
        let mut waits = Vec::new();
        while let Some(row) = rows.next()? {
            waits.push(read(row, run)?);
        }
        Ok(waits)
    }

    pub(super) fn run_of(&mut self, id: WaitId) -> rusqlite::Result<Option<i64>> {
        self.run_of.query_row([id.as_bytes()], |row| row.get(0)).optional()
    }

    pub(super) fn save(&mut self, wait: &Wait, mark: Mark, n: i64) -> Result<(), Fault> {
        let (state, outcome) = match &wait.state {
            State::Live => (0, None),
            State::Parked => (1, None),
            State::Ended { outcome } => (2, Some(outcome.as_bytes())),
        };
        let due_at = wait.due_at.map(Time::as_micros);
        let changed = match mark {
            Mark::Loaded => return Ok(()),
            Mark::Gone => self.delete.execute([wait.id.as_bytes()])?,
            Mark::Changed => self.update.execute(params![state, outcome, due_at, wait.id.as_bytes()])?,
            Mark::New => {
                let (owner, approval) = match &wait.owner {
                    Owner::Approval(approval) => (0, Some(approval.as_bytes())),
                    Owner::Timer(_) => (1, None),
                };
                let since = wait.since.as_micros();
                let (call, id) = (wait.call.as_bytes(), wait.id.as_bytes());
                self.insert.execute(params![n, owner, approval, call, since, due_at, state, outcome, id])?
            }
        };
        if changed == 1 { Ok(()) } else { Err(Fault::Broken(format!("{} is not there", wait.id))) }
    }
}
