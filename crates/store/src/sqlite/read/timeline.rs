//! Events: of one run in their order, and of all runs in order of commit.

use protocol::audit::{Chain, Missing};
use protocol::digest::Digest;
use protocol::event::Event;
use protocol::id::RunId;
use rusqlite::params;

use super::super::{event, fault::Fault};
use super::{Reader, Shown, sort};
use crate::page::{Cursor, Page};

impl Reader<'_> {
    /// Events of a run after number `after`, oldest first.
    pub(crate) fn events(self, run: RunId, after: Option<u32>, limit: usize) -> Result<Option<Vec<Event>>, Fault> {
        let Some(n) = self.n(run)? else { return Ok(None) };
        let from = after.map_or(0, |after| i64::from(after) + 1);
        // The pack that holds the first one wanted may begin before it.
        let sql = format!(
            "SELECT {} FROM event e WHERE e.run = ?1 AND e.first >= coalesce(
                (SELECT max(first) FROM event WHERE run = ?1 AND first <= ?2), 0) ORDER BY e.first",
            event::COLUMNS
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(params![n, from])?;
        let mut events = Vec::new();
        while events.len() < limit {
            let Some(row) = rows.next()? else { break };
            events.extend(event::read(row, run)?.events.into_iter().filter(|event| i64::from(event.seq) >= from));
        }
        events.truncate(limit);
        Ok(Some(events))
    }

    /// Events of all runs after a place in the order of commit, each with its own place. `next` is where to go on, also
    /// when nothing new is there yet.
    pub(crate) fn events_all(self, after: Option<Cursor>, limit: usize) -> Result<Page<(Cursor, Event)>, Fault> {
        let Cursor(n, index) = after.unwrap_or(Cursor(0, -1));
        let sql = format!(
            "SELECT {}, r.id FROM event e JOIN run r ON r.n = e.run WHERE e.n >= ?1 ORDER BY e.n",
            event::COLUMNS
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query([n])?;
        let mut page = Page { next: after, ..Page::default() };
        while page.items.len() < limit {
            let Some(row) = rows.next()? else { break };
            let at: i64 = row.get(0)?;
            let run = RunId::from_bytes(row.get("id")?);
            let pack = match event::read(row, run) {
                Ok(pack) => pack,
                Err(fault) => {
                    sort(&mut page, Err(fault))?;
                    page.next = Some(Cursor(at, i64::MAX));
                    continue;
                }
            };
            let seen = if pack.n == n { index } else { -1 };
            let fresh = pack.events.into_iter().zip(0..).filter(|(_, index)| *index > seen);
            for (event, index) in fresh.take(limit - page.items.len()) {
                let place = Cursor(pack.n, index);
                page.items.push((place, event));
                page.next = Some(place);
            }
        }
        Ok(page)
    }

    /// The last event of the run `n`.
    pub(in crate::sqlite) fn last_event_of(self, n: i64, run: RunId) -> Result<Option<Event>, Fault> {
        let sql = format!("SELECT {} FROM event e WHERE e.run = ?1 ORDER BY e.first DESC LIMIT 1", event::COLUMNS);
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query([n])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(event::read(row, run)?.events.pop())
    }

    /// All chains of a run.
    pub(crate) fn chain(self, id: RunId) -> Result<Option<Chain>, Fault> {
        let Some(Shown { run, approvals, calls, .. }) = self.shown(id)? else { return Ok(None) };
        let mut missing = Vec::new();
        // Who approved a call that a fork took over stands with the run that made it.
        let own = calls.iter().filter(|call| call.from.is_none());
        let asked = own.flat_map(|call| [call.approval, call.settle]).flatten();
        let unknown = asked.filter(|asked| approvals.iter().all(|approval| approval.id != *asked));
        missing.extend(unknown.map(Missing::Approval));
        let results = calls.iter().filter_map(|call| call.outcome()?.body);
        let said = calls.iter().map(|call| call.arguments).chain(results);
        let shown = approvals.iter().map(|approval| approval.arguments);
        let ends = [Some(run.input), run.result(), run.checkpoint.as_ref().map(|checkpoint| checkpoint.body)];
        let mut bodies: Vec<Digest> =
            said.chain(shown).chain(ends.into_iter().flatten()).map(|body| body.digest).collect();
        bodies.sort_unstable();
        bodies.dedup();
        for digest in bodies {
            if self.body(id, digest)?.is_none() {
                missing.push(Missing::Body(digest));
            }
        }
        let events = self.events(id, None, usize::MAX)?.unwrap_or_default();
        let receipts = self.receipts(id)?.unwrap_or_default();
        let journal = self.journal(id)?.unwrap_or_default();
        Ok(Some(Chain { run, events, receipts, journal, missing }))
    }

    /// The place of the last event of all: from here on only what is new.
    pub(crate) fn last_event(self) -> Result<Cursor, Fault> {
        let sql = "SELECT coalesce(max(n), 0) FROM event";
        let n = self.db.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(Cursor(n, i64::MAX))
    }
}
