//! The table `anchor`: the last anchor, and what changed since (C-276).
//!
//! The numbers of `event` and `removed` grow in order of commit, so what one snapshot has after them is all there is: nothing
//! that commits later gets a smaller number.

use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::run::Head;
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::{Fault, Fields};
use super::read::Reader;

/// The last anchor, as the ledger keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastAnchor {
    pub n: u64,
    pub digest: Digest,
    /// What is exported.
    pub line: String,
    pub seen: Seen,
}

/// How far an anchor has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    event: i64,
    removed: i64,
}

/// What changed after an anchor.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// Heads of the events of runs that have new ones, by id.
    pub heads: Vec<(RunId, Head)>,
    pub removed: Vec<RunId>,
    /// How far this goes.
    pub seen: Seen,
    /// There is more after it.
    pub more: bool,
}

/// Puts the last anchor in the place of the one before it.
pub(super) fn save(db: &Connection, last: &LastAnchor) -> Result<(), Fault> {
    let LastAnchor { n, digest, line, seen } = last;
    let number = i64::try_from(*n).map_err(|_| Fault::Broken(format!("anchor {n} has too large a number")))?;
    let before: Option<i64> = db.prepare_cached("SELECT n FROM anchor")?.query_row([], |row| row.get(0)).optional()?;
    if before.is_some_and(|before| before >= number) {
        return Err(Fault::Broken(format!("anchor {n} comes after anchor {}", before.unwrap_or_default())));
    }
    let sql = "INSERT OR REPLACE INTO anchor (one, n, digest, event, removed, line) VALUES (1, ?1, ?2, ?3, ?4, ?5)";
    db.prepare_cached(sql)?.execute(params![number, digest.as_bytes(), seen.event, seen.removed, line])?;
    Ok(())
}

impl Reader<'_> {
    pub(crate) fn last_anchor(self) -> Result<Option<LastAnchor>, Fault> {
        let mut statement = self.db.prepare_cached("SELECT n, digest, event, removed, line FROM anchor")?;
        let mut rows = statement.query([])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut f = Fields::new(row, "anchor");
        let n = f.uint("n")?;
        let digest = f.digest("digest")?;
        let seen = Seen { event: f.int("event")?, removed: f.int("removed")? };
        Ok(Some(LastAnchor { n, digest, line: f.text("line")?.to_owned(), seen }))
    }

    pub(crate) fn changed(self, after: Option<&LastAnchor>, limit: usize) -> Result<Changed, Fault> {
        let from = after.map(|last| last.seen).unwrap_or_default();
        let mut changed = Changed { seen: from, ..Changed::default() };
        let sql = "SELECT n, run FROM event WHERE n > ?1 ORDER BY n LIMIT ?2";
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map(params![from.event, limit as i64], |row| <(i64, i64)>::try_from(row))?;
        let mut runs = Vec::new();
        for row in rows {
            let (n, run) = row?;
            changed.seen.event = n;
            runs.push(run);
        }
        changed.more = runs.len() == limit;
        runs.sort_unstable();
        runs.dedup();
        for n in runs {
            // The head is that of this moment; what it has after the last event seen is told again by the next anchor.
            changed.heads.extend(self.head_of(n)?);
        }
        changed.heads.sort_unstable_by_key(|(run, _)| *run);
        let sql = "SELECT n, id FROM removed WHERE n > ?1 ORDER BY n LIMIT ?2";
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map(params![from.removed, limit as i64], |row| <(i64, [u8; 16])>::try_from(row))?;
        for row in rows {
            let (n, id) = row?;
            changed.seen.removed = n;
            changed.removed.push(RunId::from_bytes(id));
        }
        changed.more |= changed.removed.len() == limit;
        Ok(changed)
    }

    /// The head of a run's events, read from its last event: its row may be one that cannot be read.
    fn head_of(self, n: i64) -> Result<Option<(RunId, Head)>, Fault> {
        let sql = "SELECT id FROM run WHERE n = ?1";
        let id: Option<[u8; 16]> = self.db.prepare_cached(sql)?.query_row([n], |row| row.get(0)).optional()?;
        let Some(id) = id.map(RunId::from_bytes) else { return Ok(None) };
        match self.last_event_of(n, id) {
            Ok(last) => Ok(last.map(|event| (id, event.head()))),
            // It is no head of a chain, and verifying tells.
            Err(Fault::Corrupt(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }
}
