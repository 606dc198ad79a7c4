//! The tables `signal` and `signal_wait`: what was sent to runs, and which run has a wait for one.
//!
//! A wait for a signal is part of its run's state while it is there. Invariant: it has a row here from its first commit on,
//! so that whoever sends to it later is told that it is over, and not that it never was.

use protocol::id::{RunId, WaitId};
use protocol::rows::Mark;
use protocol::run::Body;
use protocol::signal::{Signal, State, To};
use protocol::wait::{Owner, Wait};
use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::fault::{Fault, Fields};

const COLUMNS: &str = "n, id, name, sender, digest, len, at, state, wait";

pub(super) struct Table<'c> {
    kept: Statement<'c>,
    named: Statement<'c>,
    taken: Statement<'c>,
    put: Statement<'c>,
    delete: Statement<'c>,
    run_of: Statement<'c>,
    waits: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            kept: db.prepare(&format!("SELECT {COLUMNS} FROM signal WHERE run = ?1 AND state = 0"))?,
            named: db.prepare(&format!("SELECT {COLUMNS} FROM signal WHERE run = ?1 AND id = ?2"))?,
            taken: db.prepare(&format!("SELECT {COLUMNS} FROM signal WHERE run = ?1 AND wait = ?2"))?,
            put: db.prepare(
                "INSERT OR FAIL INTO signal (run, n, id, name, sender, digest, len, at, state, wait)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT (run, n) DO UPDATE SET state = excluded.state, wait = excluded.wait",
            )?,
            delete: db.prepare("DELETE FROM signal WHERE run = ?1 AND n = ?2")?,
            run_of: db.prepare("SELECT run FROM signal_wait WHERE id = ?1")?,
            waits: db.prepare("INSERT OR FAIL INTO signal_wait (id, run) VALUES (?1, ?2)")?,
        })
    }

    pub(super) fn kept(&mut self, n: i64, run: RunId) -> Result<Vec<Signal>, Fault> {
        all(self.kept.query([n])?, run)
    }

    /// The signal with this id, and the one that a wait took.
    pub(super) fn named(&mut self, n: i64, run: RunId, id: &str, wait: Option<WaitId>) -> Result<Vec<Signal>, Fault> {
        let mut found = all(self.named.query(params![n, id])?, run)?;
        if let Some(wait) = wait {
            let taken = all(self.taken.query(params![n, wait.as_bytes()])?, run)?;
            found.extend(taken.into_iter().filter(|signal| signal.id != id));
        }
        Ok(found)
    }

    /// The number of the run that a wait for a signal belongs to.
    pub(super) fn run_of(&mut self, wait: WaitId) -> Result<Option<i64>, Fault> {
        Ok(self.run_of.query_row([wait.as_bytes()], |row| row.get(0)).optional()?)
    }

    pub(super) fn save_wait(&mut self, wait: &Wait, mark: Mark, n: i64) -> Result<(), Fault> {
        if let (Owner::Signal(_), Mark::New) = (&wait.owner, mark) {
            self.waits.execute(params![wait.id.as_bytes(), n])?;
        }
        Ok(())
    }

    pub(super) fn save(&mut self, signal: &Signal, mark: Mark, n: i64) -> Result<(), Fault> {
        let name = match &signal.to {
            To::Name(name) => Some(name),
            To::Wait(_) => None,
        };
        let (state, wait) = match signal.state {
            State::Kept => (0, None),
            State::Taken(wait) => (1, Some(wait)),
            State::SetAside => (2, None),
        };
        match mark {
            Mark::Loaded => {}
            Mark::Gone => drop(self.delete.execute(params![n, signal.n])?),
            Mark::New | Mark::Changed => {
                let (digest, len) = (signal.payload.digest.as_bytes(), signal.payload.len);
                let wait = wait.as_ref().map(|wait| wait.as_bytes());
                let at = signal.at.as_micros();
                self.put.execute(params![n, signal.n, signal.id, name, signal.by, digest, len, at, state, wait])?;
            }
        }
        Ok(())
    }
}

fn all(mut rows: rusqlite::Rows<'_>, run: RunId) -> Result<Vec<Signal>, Fault> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row, run)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>, run: RunId) -> Result<Signal, Fault> {
    let mut f = Fields::new(row, "signal");
    f.named(run);
    let n = f.uint("n")?;
    let id = f.text("id")?.to_owned();
    let name = f.maybe_text("name")?.map(str::to_owned);
    let by = f.text("sender")?.to_owned();
    let payload = Body { digest: f.digest("digest")?, len: f.uint("len")? };
    let (at, state) = (f.time("at")?, f.uint::<u8>("state")?);
    let wait = f.maybe_id::<WaitId>("wait")?;
    let state = match (state, wait) {
        (0, None) => State::Kept,
        (1, Some(wait)) => State::Taken(wait),
        (2, None) => State::SetAside,
        _ => return Err(f.corrupt("state", "it is none").into()),
    };
    let to = match (name, wait) {
        (Some(name), _) => To::Name(name),
        (None, Some(wait)) => To::Wait(wait),
        (None, None) => return Err(f.corrupt("name", "a signal goes to a name or a wait").into()),
    };
    Ok(Signal { run, n, id, to, by, payload, at, state })
}
