//! The table `event`: the timeline, one packed row a command, in order of commit, with the receipts of that command.
//!
//! A pack holds the digest before its first event and, for each event, kind, facts and digest. The digests are the ones
//! that were computed when the events were written, so a reader that recomputes them finds what was altered.

use protocol::call::Receipt;
use protocol::event::{Event, Kind};
use protocol::id::RunId;
use protocol::json::Packed;
use protocol::time::Time;
use rusqlite::{Connection, Row};

use super::append::{self, Appender, Values};
use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, Fields};
use super::receipt;

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
    let size: usize = events.iter().map(|event| event.facts.as_bytes().len() + 40).sum();
    let mut writer = Writer::with_capacity(33 + size);
    writer.byte(PACK).digest(events[0].prev);
    for event in events {
        write_kind(&mut writer, event.kind);
        writer.bytes(event.facts.as_bytes()).digest(event.digest);
    }
    writer.done()
}

/// The kinds that have a number: their place here. New ones are added at the end.
const KINDS: [&str; 56] = [
    "run.queued",
    "run.running",
    "run.awaiting_hardware",
    "run.awaiting_consent",
    "run.awaiting_delegate",
    "run.awaiting_signal",
    "run.awaiting_timer",
    "run.cancelling",
    "run.failing",
    "run.done",
    "run.failed",
    "run.cancelled",
    "node.entered",
    "node.waiting",
    "node.ended",
    "node.failed",
    "call.entered",
    "call.dispatched",
    "call.ended",
    "call.ambiguous",
    "call.settled",
    "approval.requested",
    "approval.voted",
    "approval.edited",
    "approval.approved",
    "approval.rejected",
    "approval.expired",
    "approval.cancelled",
    "wait.opened",
    "wait.closed",
    "timer.fired",
    "claim.lapsed",
    "containment.opened",
    "containment.acknowledged",
    "attempt.refused",
    "report.late",
    "checkpoint.snapshot_unused",
    "call.read",
    "approval.extended",
    "approval.read",
    "pause.set",
    "pause.cleared",
    "signal.received",
    "signal.taken",
    "signal.set_aside",
    "job.queued",
    "job.running",
    "job.cancelling",
    "job.succeeded",
    "job.failed",
    "job.lost",
    "job.timed_out",
    "job.cancelled",
    "job.stopped",
    "containment.attested",
    "run.moved",
];
/// Stands before the text of a kind that has no number.
const SPELLED: u8 = 255;

fn write_kind(writer: &mut Writer, kind: Kind) {
    let text = kind.as_str();
    match KINDS.iter().position(|known| *known == text) {
        Some(number) => writer.byte(number as u8),
        None => writer.byte(SPELLED).text(text),
    };
}

fn read_kind(reader: &mut Reader<'_>) -> Result<Kind, Malformed> {
    let text = match reader.byte()? {
        SPELLED => reader.text()?,
        number => KINDS.get(usize::from(number)).ok_or(Malformed("a kind of event"))?,
    };
    Kind::parse(text).ok_or(Malformed("a kind of event"))
}

fn unpack(reader: &mut Reader<'_>, run: RunId, first: u32, at: Time) -> Result<Vec<Event>, Malformed> {
    let mut prev = reader.digest()?;
    let mut events = Vec::new();
    let mut seq = first;
    while !reader.is_empty() {
        let kind = read_kind(reader)?;
        let facts = Packed::from_stored(reader.bytes()?).ok_or(Malformed("packed canonical JSON"))?;
        let digest = reader.digest()?;
        events.push(Event { run, seq, kind, at, facts, prev, digest });
        prev = digest;
        seq = seq.checked_add(1).ok_or(Malformed("fewer events"))?;
    }
    Ok(events)
}

/// The events of one command on their way.
struct Waiting {
    run: i64,
    first: u32,
    at: Time,
    pack: Vec<u8>,
    receipts: Option<Vec<u8>>,
}

impl append::Row for Waiting {
    const COLUMNS: usize = 5;
    const INSERT: &'static str = "INSERT OR FAIL INTO event (run, first, at, pack, receipts)";

    fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
        values.value(self.run)?.value(self.first)?.value(self.at.as_micros())?;
        values.value(&self.pack)?.value(&self.receipts).map(drop)
    }
}

pub(super) struct Table<'c> {
    rows: Appender<'c, Waiting>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table { rows: Appender::prepare(db)? })
    }

    /// All events of one command: consecutive, of one run and one time; and its receipts.
    pub(super) fn append(&mut self, n: i64, events: &[Event], receipts: &[Receipt]) -> Result<(), Fault> {
        let Some(first) = events.first() else {
            return match receipts.first() {
                None => Ok(()),
                Some(receipt) => Err(Fault::Broken(format!("no event tells of a receipt of {}", receipt.call))),
            };
        };
        let chained =
            events.windows(2).all(|w| w[1].prev == w[0].digest && w[1].seq == w[0].seq + 1 && w[1].at == w[0].at);
        if !chained {
            return Err(Fault::Broken(format!("the events of {} are not a chain", first.run)));
        }
        let (pack, receipts) = (pack(events), receipt::write(receipts));
        self.rows.push(Waiting { run: n, first: first.seq, at: first.at, pack, receipts });
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        self.rows.flush()
    }

    pub(super) fn forget(&mut self) {
        self.rows.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back() {
        for text in KINDS {
            let kind = Kind::parse(text).expect("the table has only kinds");
            let mut writer = Writer::default();
            write_kind(writer.byte(PACK), kind);
            let bytes = writer.done();
            assert_eq!(bytes.len(), 2);
            let mut reader = Reader::open(&bytes, PACK).unwrap();
            assert_eq!(read_kind(&mut reader), Ok(kind));
        }
    }
}
