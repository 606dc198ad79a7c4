//! Bytes by digest.

use protocol::call::Receipt;
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::journal::Entry;
use protocol::rows::LogLine;
use rusqlite::params;

use super::super::{body, fault::Fault, journal, receipt};
use super::Reader;

impl Reader<'_> {
    /// Any body of a run; its checkpoint and the guest beside it are bodies too, kept apart because they are replaced.
    pub(crate) fn body(self, run: RunId, digest: Digest) -> Result<Option<Vec<u8>>, Fault> {
        let Some(n) = self.n(run)? else { return Ok(None) };
        if let Some(bytes) = body::of_run(self.db, n, run, digest)? {
            return Ok(Some(bytes));
        }
        let Some(checkpoint) = self.stored(run)?.and_then(|stored| stored.run.checkpoint) else { return Ok(None) };
        if checkpoint.body.digest == digest {
            return body::beside(self.db, "checkpoint", n, run, checkpoint.body);
        }
        match checkpoint.snapshot {
            Some(snapshot) if snapshot.body.digest == digest => {
                body::beside(self.db, "snapshot", n, run, snapshot.body)
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn blob(self, digest: Digest) -> Result<Option<Vec<u8>>, Fault> {
        body::blob(self.db, digest)
    }

    /// The bytes of the run's current checkpoint.
    pub(crate) fn checkpoint(self, run: RunId) -> Result<Option<Vec<u8>>, Fault> {
        let Some(stored) = self.stored(run)? else { return Ok(None) };
        match stored.run.checkpoint {
            Some(checkpoint) => body::beside(self.db, "checkpoint", stored.n, run, checkpoint.body),
            None => Ok(None),
        }
    }

    /// The frozen guest beside the checkpoint.
    pub(crate) fn snapshot(self, run: RunId) -> Result<Option<Vec<u8>>, Fault> {
        let Some(stored) = self.stored(run)? else { return Ok(None) };
        match stored.run.checkpoint.and_then(|checkpoint| checkpoint.snapshot) {
            Some(snapshot) => body::beside(self.db, "snapshot", stored.n, run, snapshot.body),
            None => Ok(None),
        }
    }

    /// The entries in order of position: the calls' own rows among the others.
    pub(crate) fn journal(self, run: RunId) -> Result<Option<Vec<Entry>>, Fault> {
        let Some(n) = self.n(run)? else { return Ok(None) };
        let sql = "SELECT position, entry FROM journal WHERE run = ?1 ORDER BY position";
        let others = self.all(sql, n, |row| journal::read_entry(row, run))?;
        let calls =
            self.calls_n(n, run)?.into_iter().filter_map(|call| Some((call.position?, Entry::Call(Box::new(call)))));
        let mut entries: Vec<(u32, Entry)> =
            others.into_iter().map(|row| (row.position, Entry::Other(row.entry))).chain(calls).collect();
        entries.sort_by_key(|(position, _)| *position);
        Ok(Some(entries.into_iter().map(|(_, entry)| entry).collect()))
    }

    /// In order of commit.
    pub(crate) fn receipts(self, run: RunId) -> Result<Option<Vec<Receipt>>, Fault> {
        let Some(n) = self.n(run)? else { return Ok(None) };
        let columns = receipt::COLUMNS;
        let sql = format!("SELECT {columns} FROM event e WHERE e.run = ?1 AND e.receipts NOT NULL ORDER BY e.first");
        Ok(Some(self.all(&sql, n, |row| receipt::read(row, run))?.concat()))
    }

    /// Lines of the program's log after line `after`.
    pub(crate) fn log(self, run: RunId, after: Option<u32>, limit: usize) -> Result<Option<Vec<LogLine>>, Fault> {
        let Some(n) = self.n(run)? else { return Ok(None) };
        let sql = "SELECT n, at, text FROM log WHERE run = ?1 AND n > ?2 ORDER BY n LIMIT ?3";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(params![n, after.map_or(-1, i64::from), limit as i64])?;
        let mut lines = Vec::new();
        while let Some(row) = rows.next()? {
            lines.push(journal::read_line(row, run)?);
        }
        Ok(Some(lines))
    }
}
