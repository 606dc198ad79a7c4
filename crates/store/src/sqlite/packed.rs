//! The columns of a run that no query looks into, in the store's binary form: clocks, failure, checkpoint header.

use protocol::code::Code;
use protocol::json;
use protocol::run::{Checkpoint, Clock, Clocks, Failure, Head, Snapshot};
use rusqlite::Connection;

use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, Fields, number};
use super::names::Names;

const CLOCKS: [Clock; 8] = [
    Clock::Queued,
    Clock::Hop,
    Clock::Hold,
    Clock::Person,
    Clock::Machine,
    Clock::Paused,
    Clock::Stopping,
    Clock::Stopped,
];

pub(super) const CLOCKS_V1: u8 = 1;

pub(super) fn write_clocks(clocks: &Clocks) -> Vec<u8> {
    let Clocks { queued, active, calls, hold, person, machine, paused, stopping, since, running } = *clocks;
    let mut writer = Writer::with_capacity(48);
    writer.byte(CLOCKS_V1);
    for spent in [queued, active, calls, hold, person, machine, paused, stopping] {
        writer.uint(spent);
    }
    writer.time(since).byte(number(&running, &CLOCKS) as u8);
    writer.done()
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
        running: *CLOCKS.get(usize::from(reader.byte()?)).ok_or(Malformed("a clock"))?,
    })
}

pub(super) const FAILURE: u8 = 1;

pub(super) fn write_failure(failure: &Failure) -> Vec<u8> {
    let mut writer = Writer::with_capacity(128);
    writer.byte(FAILURE).text(failure.code.as_str()).text(&failure.message);
    writer.maybe(failure.detail.as_ref(), |w, detail| w.text(detail.as_str()));
    writer.done()
}

pub(super) fn read_failure(reader: &mut Reader<'_>) -> Result<Failure, Malformed> {
    let code: Code = reader.text()?.parse().map_err(|_| Malformed("a code"))?;
    let message = reader.text()?.to_owned();
    let detail = reader.maybe(|r| json::Canonical::from_stored(r.bytes()?).ok_or(Malformed("canonical JSON")))?;
    Ok(Failure { code, message, detail })
}

const CHECKPOINT: u8 = 1;

pub(super) fn write_checkpoint(checkpoint: &Checkpoint, db: &Connection, names: &Names) -> Result<Vec<u8>, Fault> {
    let mut writer = Writer::with_capacity(128);
    writer.byte(CHECKPOINT).uint(checkpoint.n).uint(checkpoint.seq).uint(checkpoint.token);
    writer.uint(names.word_number(db, &checkpoint.schema)? as u64);
    writer.uint(checkpoint.journal.len).digest(checkpoint.journal.digest).body(checkpoint.body);
    match &checkpoint.snapshot {
        None => drop(writer.flag(false)),
        Some(snapshot) => {
            writer.flag(true).uint(names.word_number(db, &snapshot.engine)? as u64);
            writer.uint(snapshot.hop).digest(snapshot.image).body(snapshot.body);
            writer.maybe(snapshot.consumed_by, |w, token| w.uint(token));
        }
    }
    Ok(writer.done())
}

/// The header as packed: schema and engine are still numbers of words.
struct Packed {
    checkpoint: Checkpoint,
    schema: i64,
    engine: Option<i64>,
}

pub(super) fn read_checkpoint(
    f: &Fields<'_>,
    bytes: &[u8],
    db: &Connection,
    names: &Names,
) -> Result<Checkpoint, Fault> {
    let Packed { mut checkpoint, schema, engine } = f.packed(bytes, "checkpoint", CHECKPOINT, unpack_checkpoint)?;
    checkpoint.schema = (*names.word(db, schema)?).clone();
    if let (Some(snapshot), Some(engine)) = (&mut checkpoint.snapshot, engine) {
        snapshot.engine = (*names.word(db, engine)?).clone();
    }
    Ok(checkpoint)
}

fn unpack_checkpoint(reader: &mut Reader<'_>) -> Result<Packed, Malformed> {
    let word = |reader: &mut Reader<'_>| i64::try_from(reader.uint()?).map_err(|_| Malformed("a word"));
    let (n, seq, token) = (reader.u32()?, reader.u32()?, reader.uint()?);
    let schema = word(reader)?;
    let journal = Head { len: reader.u32()?, digest: reader.digest()? };
    let body = reader.body()?;
    let snapshot = reader.maybe(|reader| {
        let engine = word(reader)?;
        let (hop, image, body) = (reader.u32()?, reader.digest()?, reader.body()?);
        let consumed_by = reader.maybe(Reader::uint)?;
        Ok((engine, Snapshot { hop, engine: String::new(), image, body, consumed_by }))
    })?;
    let (engine, snapshot) = snapshot.unzip();
    let checkpoint = Checkpoint { n, seq, token, schema: String::new(), journal, body, snapshot };
    Ok(Packed { checkpoint, schema, engine })
}
