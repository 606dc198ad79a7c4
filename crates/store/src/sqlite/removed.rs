//! The table `removed`: what stays of runs that are gone, and taking them away.
//!
//! Invariant: a run goes whole, in one transaction, and its numbers are not given out again: the one that has the largest
//! stays, as the decision was told.

use protocol::decide::Hold;
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::run::{Head, Run, Status};
use protocol::time::Time;
use rusqlite::{Connection, OptionalExtension, params};

use super::admission;
use super::fault::{Fault, Fields, number};

/// A run that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removed {
    pub run: RunId,
    pub namespace: String,
    pub status: Status,
    pub finished_at: Time,
    /// The last link of its chain of events.
    pub head: Head,
    pub removed_at: Time,
}

/// Tables in which a run has rows of its own. An ended run has none in `session` and `timer`.
const OWN: [&str; 13] = [
    "approval",
    "call",
    "job",
    "signal",
    "signal_wait",
    "obligation",
    "debt",
    "event",
    "journal",
    "log",
    "body",
    "checkpoint",
    "snapshot",
];

pub(super) fn read(db: &Connection, id: RunId) -> Result<Option<Removed>, Fault> {
    let sql = "SELECT namespace, status, finished_at, events, head, removed_at FROM removed WHERE id = ?1";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut f = Fields::new(row, "removed");
    f.named(id);
    Ok(Some(Removed {
        run: id,
        namespace: f.text("namespace")?.to_owned(),
        status: f.one_of("status", &Status::ALL)?,
        finished_at: f.time("finished_at")?,
        head: Head { len: f.uint("events")?, digest: f.digest("head")? },
        removed_at: f.time("removed_at")?,
    }))
}

/// What holds the run `n` here beside its rows.
pub(super) fn hold(db: &Connection, n: i64) -> Result<Hold, Fault> {
    let owes = db.prepare_cached("SELECT 1 FROM debt WHERE run = ?1 LIMIT 1")?.exists([n])?;
    let newest = "SELECT ?1 IN ((SELECT max(n) FROM run), (SELECT run FROM event ORDER BY n DESC LIMIT 1))";
    let newest = db.prepare_cached(newest)?.query_row([n], |row| row.get(0))?;
    Ok(Hold { owes, newest })
}

/// Takes the run `n` away, and keeps what stays of it.
pub(super) fn remove(db: &Connection, n: i64, run: &Run, now: Time) -> Result<(), Fault> {
    let Some(finished_at) = run.finished_at() else {
        return Err(Fault::Broken(format!("{} has not ended and is to be removed", run.id)));
    };
    let Head { len, digest } = run.events;
    let status = number(&run.status(), &Status::ALL);
    let kept = params![
        run.id.as_bytes(),
        run.namespace,
        status,
        finished_at.as_micros(),
        len,
        Digest::as_bytes(&digest),
        now.as_micros()
    ];
    let insert = "INSERT OR FAIL INTO removed (id, namespace, status, finished_at, events, head, removed_at)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    db.prepare_cached(insert)?.execute(kept)?;
    let key = "SELECT idempotency_key FROM run WHERE n = ?1";
    let key: Option<Option<String>> = db.prepare_cached(key)?.query_row([n], |row| row.get(0)).optional()?;
    if let Some(key) = key.flatten() {
        let scoped = admission::Scoped { namespace: &run.namespace, principal: &run.requester.subject, key: &key };
        admission::forget(db, scoped, n)?;
    }
    for table in OWN {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?.execute([n])?;
    }
    match db.prepare_cached("DELETE FROM run WHERE n = ?1")?.execute([n])? {
        1 => Ok(()),
        gone => Err(Fault::Broken(format!("{gone} rows of {} were removed", run.id))),
    }
}
