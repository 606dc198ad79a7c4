//! The tables `obligation` and `debt`: what has still to stop, and what has still to be cleaned up.

use protocol::id::{CallId, JobId, RunId};
use protocol::obligation::{Obligation, State, Subject};
use protocol::rows::{Debt, Mark};
use protocol::time::Time;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Statement, params};

use super::fault::{Fault, Fields, number};

/// The columns that [`read`] reads.
pub(super) const COLUMNS: &str = "kind, ref, state, attempts, last_error, retry_at, settled_by, settled_at, reason";

pub(super) const DEBTS: [Debt; 2] = [Debt::Checkpoint, Debt::Snapshot];

pub(super) fn read(row: &Row<'_>, run: RunId) -> Result<Obligation, Fault> {
    let mut f = Fields::new(row, "obligation");
    f.named(run);
    let subject = match f.uint::<u8>("kind")? {
        0 => Subject::Hop(f.uint("ref")?),
        1 => Subject::Call(f.id("ref")?),
        2 => Subject::Job(f.id("ref")?),
        other => return Err(f.corrupt("kind", format!("{other} is none")).into()),
    };
    let state = f.uint::<u8>("state")?;
    let attempts = f.uint("attempts")?;
    let last_error = f.maybe_text("last_error")?.map(str::to_owned);
    let retry_at = f.time("retry_at")?;
    let by = f.maybe_text("settled_by")?.map(str::to_owned);
    let at = f.maybe_time("settled_at")?;
    let reason = f.maybe_text("reason")?.map(str::to_owned);
    let state = match state {
        0 => State::Open,
        1 => State::Acknowledged { by: f.needed(by, "settled_by")?, at: f.needed(at, "settled_at")? },
        2 => State::Attested {
            by: f.needed(by, "settled_by")?,
            at: f.needed(at, "settled_at")?,
            reason: f.needed(reason, "reason")?,
        },
        other => return Err(f.corrupt("state", format!("{other} is none")).into()),
    };
    Ok(Obligation { run, subject, state, attempts, last_error, retry_at })
}

pub(super) struct Table<'c> {
    open: Statement<'c>,
    put: Statement<'c>,
    delete: Statement<'c>,
    owe: Statement<'c>,
    pay: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            open: db.prepare(&format!("SELECT {COLUMNS} FROM obligation WHERE run = ?1 AND state = 0"))?,
            put: db.prepare(
                "INSERT OR FAIL INTO obligation (run, kind, ref, state, attempts, last_error, retry_at, settled_by,
                 settled_at, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT (run, kind, ref) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,
                 last_error = excluded.last_error, retry_at = excluded.retry_at,
                 settled_by = excluded.settled_by, settled_at = excluded.settled_at,
                 reason = excluded.reason",
            )?,
            delete: db.prepare("DELETE FROM obligation WHERE run = ?1 AND kind = ?2 AND ref = ?3")?,
            owe: db.prepare("INSERT OR IGNORE INTO debt (run, kind, since) VALUES (?1, ?2, ?3)")?,
            pay: db.prepare("DELETE FROM debt WHERE run = ?1 AND kind = ?2")?,
        })
    }

    pub(super) fn open(&mut self, n: i64, run: RunId) -> Result<Vec<Obligation>, Fault> {
        let mut rows = self.open.query([n])?;
        let mut open = Vec::new();
        while let Some(row) = rows.next()? {
            open.push(read(row, run)?);
        }
        Ok(open)
    }

    pub(super) fn save(&mut self, obligation: &Obligation, mark: Mark, n: i64) -> Result<(), Fault> {
        let (kind, subject) = match &obligation.subject {
            Subject::Hop(seq) => (0, ValueRef::Integer(i64::from(*seq))),
            Subject::Call(id) => (1, ValueRef::Blob(CallId::as_bytes(id))),
            Subject::Job(id) => (2, ValueRef::Blob(JobId::as_bytes(id))),
        };
        let subject = rusqlite::types::ToSqlOutput::Borrowed(subject);
        let (state, by, at, reason) = match &obligation.state {
            State::Open => (0, None, None, None),
            State::Acknowledged { by, at } => (1, Some(by), Some(at.as_micros()), None),
            State::Attested { by, at, reason } => (2, Some(by), Some(at.as_micros()), Some(reason)),
        };
        match mark {
            Mark::Loaded => {}
            Mark::Gone => drop(self.delete.execute(params![n, kind, subject])?),
            Mark::New | Mark::Changed => {
                let (error, retry_at) = (&obligation.last_error, obligation.retry_at.as_micros());
                let attempts = obligation.attempts;
                self.put.execute(params![n, kind, subject, state, attempts, error, retry_at, by, at, reason])?;
            }
        }
        Ok(())
    }

    pub(super) fn owe(&mut self, n: i64, debt: Debt, now: Time) -> Result<(), Fault> {
        self.owe.execute(params![n, number(&debt, &DEBTS), now.as_micros()])?;
        Ok(())
    }

    pub(super) fn pay(&mut self, n: i64, debt: Debt) -> Result<(), Fault> {
        self.pay.execute(params![n, number(&debt, &DEBTS)])?;
        Ok(())
    }
}
