//! The tables `admission` and `session`: which run an idempotency key made, and which one holds a session.
//!
//! A key is found by a 64-bit hash, the one random number in the ledger. A hash that is taken by another key is followed
//! by the next number, so that equality is always judged by the whole key on the run's row.

use protocol::digest::Digest;
use protocol::id::RunId;
use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::fault::Fault;

/// An idempotency key in its scope.
#[derive(Clone, Copy)]
pub(super) struct Scoped<'a> {
    pub(super) namespace: &'a str,
    pub(super) principal: &'a str,
    pub(super) key: &'a str,
}

impl Scoped<'_> {
    fn hash(&self) -> i64 {
        let mut text = Vec::with_capacity(128);
        for part in [self.namespace, self.principal, self.key] {
            text.extend_from_slice(&(part.len() as u64).to_le_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        let digest = Digest::of(&text);
        i64::from_le_bytes(*digest.as_bytes().first_chunk().expect("a digest has 32 bytes"))
    }
}

/// What a key was found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// The run that it made, with the digest of the request.
    Known { run: i64, request: Digest },
    /// Nobody used it; it goes under this number.
    Free(i64),
}

/// Takes a hash and the three parts of a key. Where the run is gone there is the hash alone.
const FIND: &str = "SELECT r.n, p.namespace = ?2 AND q.subject = ?3 AND r.idempotency_key = ?4, r.request_digest
 FROM admission a LEFT JOIN run r ON r.n = a.run LEFT JOIN pin p ON p.n = r.pin LEFT JOIN requester q ON q.n = r.requester
 WHERE a.hash = ?1";

fn find(statement: &mut Statement<'_>, scoped: Scoped<'_>) -> Result<Found, Fault> {
    let mut hash = scoped.hash();
    loop {
        let values = params![hash, scoped.namespace, scoped.principal, scoped.key];
        let row = statement.query_row(values, |row| {
            Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<bool>>(1)?, row.get::<_, Option<[u8; 32]>>(2)?))
        });
        match row.optional()? {
            None => return Ok(Found::Free(hash)),
            Some((Some(run), Some(true), Some(request))) => {
                return Ok(Found::Known { run, request: Digest::from_bytes(request) });
            }
            Some(_) => hash = hash.wrapping_add(1),
        }
    }
}

/// Frees the key of the run `n`, which goes. A hash that another one follows stays, so that the other is found.
pub(super) fn forget(db: &Connection, scoped: Scoped<'_>, n: i64) -> Result<(), Fault> {
    let mut at = db.prepare_cached("SELECT run FROM admission WHERE hash = ?1")?;
    let mut hash = scoped.hash();
    while let Some(run) = at.query_row([hash], |row| row.get::<_, i64>(0)).optional()? {
        let next = hash.wrapping_add(1);
        if run == n {
            if !at.exists([next])? {
                db.prepare_cached("DELETE FROM admission WHERE hash = ?1")?.execute([hash])?;
            }
            return Ok(());
        }
        hash = next;
    }
    Ok(())
}

/// The same as [`Table::find`], for readers.
pub(super) fn look_up(db: &Connection, scoped: Scoped<'_>) -> Result<Found, Fault> {
    find(&mut *db.prepare_cached(FIND)?, scoped)
}

pub(super) struct Table<'c> {
    find: Statement<'c>,
    insert: Statement<'c>,
    holder: Statement<'c>,
    take: Statement<'c>,
    free: Statement<'c>,
    request: Statement<'c>,
    removed: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            find: db.prepare(FIND)?,
            insert: db.prepare("INSERT OR FAIL INTO admission (hash, run) VALUES (?1, ?2)")?,
            holder: db.prepare(
                "SELECT r.id FROM session s JOIN run r ON r.n = s.run WHERE s.namespace = ?1 AND s.session = ?2",
            )?,
            take: db.prepare("INSERT OR FAIL INTO session (namespace, session, run) VALUES (?1, ?2, ?3)")?,
            free: db.prepare("DELETE FROM session WHERE namespace = ?1 AND session = ?2 AND run = ?3")?,
            request: db.prepare("SELECT request_digest FROM run WHERE n = ?1")?,
            removed: db.prepare("SELECT namespace FROM removed WHERE id = ?1")?,
        })
    }

    pub(super) fn find(&mut self, scoped: Scoped<'_>) -> Result<Found, Fault> {
        find(&mut self.find, scoped)
    }

    pub(super) fn insert(&mut self, hash: i64, run: i64) -> Result<(), Fault> {
        self.insert.execute([hash, run])?;
        Ok(())
    }

    /// The namespace of the run of this id that was here, and was removed.
    pub(super) fn was_removed(&mut self, id: RunId) -> Result<Option<String>, Fault> {
        Ok(self.removed.query_row([id.as_bytes()], |row| row.get(0)).optional()?)
    }

    /// The digest of the request that made a run, where it came with a key or its own id.
    pub(super) fn request_of(&mut self, run: i64) -> Result<Option<Digest>, Fault> {
        let digest = self.request.query_row([run], |row| row.get::<_, Option<[u8; 32]>>(0))?;
        Ok(digest.map(Digest::from_bytes))
    }

    /// The id of the run that holds a session.
    pub(super) fn holder(&mut self, namespace: &str, session: &str) -> Result<Option<[u8; 16]>, Fault> {
        Ok(self.holder.query_row([namespace, session], |row| row.get(0)).optional()?)
    }

    pub(super) fn take(&mut self, namespace: &str, session: &str, run: i64) -> Result<(), Fault> {
        self.take.execute(params![namespace, session, run])?;
        Ok(())
    }

    pub(super) fn free(&mut self, namespace: &str, session: &str, run: i64) -> Result<(), Fault> {
        self.free.execute(params![namespace, session, run])?;
        Ok(())
    }
}
