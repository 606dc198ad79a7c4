//! The table `event`: the timeline, one packed row a command, in order of commit.
//!
//! A pack holds the digest before its first event and, for each event, kind, facts and digest. The digests are the ones
//! that were computed when the events were written, so a reader that recomputes them finds what was altered.

use protocol::event::{Event, Kind};
use protocol::id::RunId;
use protocol::json;
use protocol::time::Time;
use rusqlite::{Connection, Row, Statement, params};

use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, Fields};

/// The columns that [`read`] reads, of the table or alias `e`.
pub(super) const COLUMNS: &str = "e.n, e.first, e.at, e.pack";

/// One command's events.
pub(super) struct Pack {
    pub(super) n: i64,
    pub(super) events: Vec<Event>,
}

pub(super) fn read(row: &Row<'_>, run: RunId) -> Result<Pack, Fault> {
    let mut f = Fields::new(row, "event");
    f.named(run);
    let n = f.int("n")?;
    let first = f.uint("first")?;
    let at = f.time("at")?;
    let pack = f.blob("pack")?;
    let events = f.packed(pack, "pack", PACK, |reader| unpack(reader, run, first, at))?;
    Ok(Pack { n, events })
}

const PACK: u8 = 1;

fn pack(events: &[Event]) -> Vec<u8> {
    let size: usize = events.iter().map(|event| event.facts.len() + 64).sum();
    let mut writer = Writer::with_capacity(33 + size);
    writer.byte(PACK).digest(events[0].prev);
    for event in events {
        writer.text(event.kind.as_str()).text(event.facts.as_str()).digest(event.digest);
    }
    writer.done()
}

fn unpack(reader: &mut Reader<'_>, run: RunId, first: u32, at: Time) -> Result<Vec<Event>, Malformed> {
    let mut prev = reader.digest()?;
    let mut events = Vec::new();
    let mut seq = first;
    while !reader.is_empty() {
        let kind = Kind::parse(reader.text()?).ok_or(Malformed("a kind of event"))?;
        let facts = json::Canonical::from_stored(reader.bytes()?).ok_or(Malformed("canonical facts"))?;
        let digest = reader.digest()?;
        events.push(Event { run, seq, kind, at, facts, prev, digest });
        prev = digest;
        seq = seq.checked_add(1).ok_or(Malformed("fewer events"))?;
    }
    Ok(events)
}

pub(super) struct Table<'c> {
    insert: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table { insert: db.prepare("INSERT INTO event (run, first, at, pack) VALUES (?1, ?2, ?3, ?4)")? })
    }

    /// All events of one command: consecutive, of one run and one time.
    pub(super) fn append(&mut self, n: i64, events: &[Event]) -> Result<(), Fault> {
        let Some(first) = events.first() else { return Ok(()) };
        let chained =
            events.windows(2).all(|w| w[1].prev == w[0].digest && w[1].seq == w[0].seq + 1 && w[1].at == w[0].at);
        if !chained {
            return Err(Fault::Broken(format!("the events of {} are not a chain", first.run)));
        }
        self.insert.execute(params![n, first.seq, first.at.as_micros(), pack(events)])?;
        Ok(())
    }
}
