//! Parts of a run in the store's binary form: clocks and the header of its checkpoint.

use protocol::run::{Checkpoint, Clock, Clocks, Head, Snapshot};
use rusqlite::Connection;

use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, number};
use super::names::Names;

const CLOCKS: [Clock; 7] =
    [Clock::Queued, Clock::Hop, Clock::Hold, Clock::Person, Clock::Machine, Clock::Stopping, Clock::Stopped];

pub(super) fn write_clocks(writer: &mut Writer, clocks: &Clocks) {
    let Clocks { queued, active, calls, hold, person, machine, paused, stopping, since, running } = *clocks;
    for spent in [queued, active, calls, hold, person, machine, paused, stopping] {
        writer.uint(spent);
    }
    writer.time(since).byte(number(&running, &CLOCKS) as u8);
}

pub(super) fn read_clocks(reader: &mut Reader<'_>) -> Result<Clocks, Malformed> {
    Ok(Clocks {
        queued: reader.uint()?,
        active: reader.uint()?,
        calls: reader.uint()?,
        hold: reader.uint()?,
        person: reader.uint()?,
        machine: reader.uint()?,
        paused: reader.uint()?,
        stopping: reader.uint()?,
        since: reader.time()?,
        running: reader.pick(&CLOCKS, "a clock")?,
    })
}

pub(super) fn write_checkpoint(
    writer: &mut Writer,
    checkpoint: &Checkpoint,
    db: &Connection,
    names: &Names,
) -> Result<(), Fault> {
    writer.uint(checkpoint.n).uint(checkpoint.seq).uint(checkpoint.token);
    writer.uint(names.word_number(db, &checkpoint.schema)? as u64);
    writer.uint(checkpoint.journal.len).digest(checkpoint.journal.digest).body(checkpoint.body);
    writer.flag(checkpoint.snapshot.is_some());
    if let Some(snapshot) = &checkpoint.snapshot {
        writer.uint(names.word_number(db, &snapshot.engine)? as u64);
        writer.uint(snapshot.hop).digest(snapshot.image).body(snapshot.body);
        writer.maybe(snapshot.consumed_by, |w, token| w.uint(token));
    }
    Ok(())
}

/// The header of a checkpoint; schema and engine are still numbers of words.
pub(super) struct Header {
    checkpoint: Checkpoint,
    schema: i64,
    engine: Option<i64>,
}

impl Header {
    pub(super) fn named(self, db: &Connection, names: &Names) -> Result<Checkpoint, Fault> {
        let Header { mut checkpoint, schema, engine } = self;
        checkpoint.schema = (*names.word(db, schema)?).clone();
        if let (Some(snapshot), Some(engine)) = (&mut checkpoint.snapshot, engine) {
            snapshot.engine = (*names.word(db, engine)?).clone();
        }
        Ok(checkpoint)
    }
}

pub(super) fn read_checkpoint(reader: &mut Reader<'_>) -> Result<Header, Malformed> {
    let (n, seq, token) = (reader.u32()?, reader.u32()?, reader.uint()?);
    let schema = reader.number()?;
    let journal = Head { len: reader.u32()?, digest: reader.digest()? };
    let body = reader.body()?;
    let snapshot = reader.maybe(|reader| {
        let engine = reader.number()?;
        let (hop, image, body) = (reader.u32()?, reader.digest()?, reader.body()?);
        let consumed_by = reader.maybe(Reader::uint)?;
        Ok((engine, Snapshot { hop, engine: String::new(), image, body, consumed_by }))
    })?;
    let (engine, snapshot) = snapshot.unzip();
    let checkpoint = Checkpoint { n, seq, token, schema: String::new(), journal, body, snapshot };
    Ok(Header { checkpoint, schema, engine })
}
