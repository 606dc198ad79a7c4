//! The tables `journal` and `log`: rows that are appended to a run and never changed.

use protocol::id::RunId;
use protocol::journal::{self, Entropy, Other};
use protocol::rows::LogLine;
use protocol::time::Time;
use rusqlite::{Connection, Row};

use super::append::{self, Appender, Values};
use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, Fields};

pub(super) fn read_entry(row: &Row<'_>, run: RunId) -> Result<journal::Row, Fault> {
    let mut f = Fields::new(row, "journal");
    f.named(run);
    let position = f.uint("position")?;
    let bytes = f.blob("entry")?;
    Ok(journal::Row { run, position, entry: f.packed(bytes, "entry", ENTRY, read_other)? })
}

const ENTRY: u8 = 1;

fn write_other(entry: &Other) -> Vec<u8> {
    let mut writer = Writer::with_capacity(112);
    writer.byte(ENTRY);
    match entry {
        Other::Start { pattern, input, now, entropy } => {
            writer.byte(0).digest(*pattern).digest(*input).time(*now).fixed(&entropy.0);
        }
        Other::Batch { size } => {
            writer.byte(1).uint(*size);
        }
        Other::Hop { hop, now, entropy } => {
            writer.byte(2).uint(*hop).time(*now).fixed(&entropy.0);
        }
        Other::End { result, error } => {
            writer.byte(3).maybe(*result, |w, digest| w.digest(digest));
            writer.maybe(error.as_ref(), |w, error| w.text(error));
        }
    }
    writer.done()
}

fn read_other(reader: &mut Reader<'_>) -> Result<Other, Malformed> {
    match reader.byte()? {
        0 => Ok(Other::Start {
            pattern: reader.digest()?,
            input: reader.digest()?,
            now: reader.time()?,
            entropy: Entropy(reader.fixed()?),
        }),
        1 => Ok(Other::Batch { size: reader.u32()? }),
        2 => Ok(Other::Hop { hop: reader.u32()?, now: reader.time()?, entropy: Entropy(reader.fixed()?) }),
        3 => Ok(Other::End {
            result: reader.maybe(Reader::digest)?,
            error: reader.maybe(|r| r.text().map(str::to_owned))?,
        }),
        _ => Err(Malformed("a kind of entry")),
    }
}

pub(super) fn read_line(row: &Row<'_>, run: RunId) -> Result<LogLine, Fault> {
    let mut f = Fields::new(row, "log");
    f.named(run);
    Ok(LogLine { run, n: f.uint("n")?, at: f.time("at")?, text: f.text("text")?.to_owned() })
}

struct Entry {
    run: i64,
    position: u32,
    entry: Vec<u8>,
}

impl append::Row for Entry {
    const COLUMNS: usize = 3;
    const INSERT: &'static str = "INSERT OR FAIL INTO journal (run, position, entry)";

    fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
        values.value(self.run)?.value(self.position)?.value(&self.entry).map(drop)
    }
}

struct Line {
    run: i64,
    n: u32,
    at: Time,
    text: String,
}

impl append::Row for Line {
    const COLUMNS: usize = 4;
    const INSERT: &'static str = "INSERT OR FAIL INTO log (run, n, at, text)";

    fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
        values.value(self.run)?.value(self.n)?.value(self.at.as_micros())?.value(&self.text).map(drop)
    }
}

pub(super) struct Table<'c> {
    entries: Appender<'c, Entry>,
    lines: Appender<'c, Line>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table { entries: Appender::prepare(db)?, lines: Appender::prepare(db)? })
    }

    pub(super) fn entry(&mut self, n: i64, row: &journal::Row) {
        self.entries.push(Entry { run: n, position: row.position, entry: write_other(&row.entry) });
    }

    pub(super) fn line(&mut self, n: i64, line: &LogLine) {
        self.lines.push(Line { run: n, n: line.n, at: line.at, text: line.text.clone() });
    }

    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        self.entries.flush()?;
        self.lines.flush()
    }

    pub(super) fn forget(&mut self) {
        self.entries.forget();
        self.lines.forget();
    }
}
