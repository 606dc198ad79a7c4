//! The tables `body`, `checkpoint`, `snapshot` and `blob`: bytes that are named by their digest.
//!
//! Invariant: bytes leave here only after their length and SHA-256 were found to be those of the name. A short
//! key finds them; it is never taken for equality.

use std::sync::Arc;

use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::rows::NewBody;
use protocol::run::Body;
use rusqlite::{Connection, Row, Statement, params};

use super::append::{self, Appender, Values};
use super::fault::{Fault, Fields};
use crate::error::Corrupt;

/// Bodies from this size on are compressed, if that makes them smaller.
const WORTH_PACKING: usize = 2_048;
/// The level at which compressing costs less than writing what it saves.
const LEVEL: i32 = 1;

/// Bytes as they are stored.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    codec: Codec,
    bytes: Arc<[u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Codec {
    Plain,
    Zstd,
}

impl Packed {
    /// Compresses what is worth it. It takes time; the writer's thread never does it.
    pub(crate) fn of(bytes: &Arc<[u8]>) -> Packed {
        let plain = || Packed { codec: Codec::Plain, bytes: Arc::clone(bytes) };
        if bytes.len() < WORTH_PACKING {
            return plain();
        }
        match zstd::bulk::compress(bytes, LEVEL) {
            Ok(packed) if packed.len() < bytes.len() => Packed { codec: Codec::Zstd, bytes: packed.into() },
            _ => plain(),
        }
    }

    pub(crate) fn is_worth(bytes: &[u8]) -> bool {
        bytes.len() >= WORTH_PACKING
    }
}

/// The first eight bytes of a digest. A key that another body of the run has is followed by the next number.
fn key(digest: Digest) -> i64 {
    let bytes = digest.as_bytes().first_chunk().expect("a digest has 32 bytes");
    i64::from_le_bytes(*bytes)
}

/// Reads codec, length and bytes, unpacks them, and compares with `body` if the caller knows what they must be.
fn unpack(f: &mut Fields<'_>) -> Result<Vec<u8>, Box<Corrupt>> {
    let codec = f.one_of("codec", &[Codec::Plain, Codec::Zstd])?;
    let len: usize = f.uint::<u32>("len")? as usize;
    let bytes = f.blob("bytes")?;
    let bytes = match codec {
        Codec::Plain => bytes.to_vec(),
        Codec::Zstd => zstd::bulk::decompress(bytes, len).map_err(|error| f.corrupt("bytes", error))?,
    };
    if bytes.len() == len { Ok(bytes) } else { Err(f.corrupt("len", format!("{} bytes, not {len}", bytes.len()))) }
}

fn checked(f: &mut Fields<'_>, wanted: Body) -> Result<Vec<u8>, Box<Corrupt>> {
    let bytes = unpack(f)?;
    let found = Digest::of(&bytes);
    if found != wanted.digest {
        return Err(f.corrupt("bytes", format!("are {found}, not {}", wanted.digest)));
    }
    if bytes.len() != wanted.len as usize {
        return Err(f.corrupt("len", format!("{} bytes, not {}", bytes.len(), wanted.len)));
    }
    Ok(bytes)
}

/// A body of a run by its digest; `None` if there is none of that name.
pub(super) fn of_run(db: &Connection, n: i64, run: RunId, digest: Digest) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = db.prepare_cached("SELECT codec, len, bytes FROM body WHERE run = ?1 AND key = ?2")?;
    let mut damaged = None;
    let mut key = key(digest);
    loop {
        let mut rows = statement.query(params![n, key])?;
        let Some(row) = rows.next()? else { break };
        let mut f = Fields::new(row, "body");
        f.named(run);
        let bytes = unpack(&mut f)?;
        match Digest::of(&bytes) {
            found if found == digest => return Ok(Some(bytes)),
            found => damaged = Some(f.corrupt("bytes", format!("are {found}, not {digest}"))),
        }
        key = key.wrapping_add(1);
    }
    damaged.map_or(Ok(None), |corrupt| Err(corrupt.into()))
}

/// The bytes of a run's checkpoint or snapshot; `None` is a successful read that finds nothing.
pub(super) fn beside(
    db: &Connection,
    table: &'static str,
    n: i64,
    run: RunId,
    wanted: Body,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = db.prepare_cached(&format!("SELECT codec, len, bytes FROM {table} WHERE run = ?1"))?;
    let mut rows = statement.query([n])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut f = Fields::new(row, table);
    f.named(run);
    Ok(Some(checked(&mut f, wanted)?))
}

/// A shared blob by its digest.
pub(super) fn blob(db: &Connection, digest: Digest) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = db.prepare_cached("SELECT codec, len, bytes FROM blob WHERE digest = ?1")?;
    let mut rows = statement.query([digest.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut f = Fields::new(row, "blob");
    let bytes = unpack(&mut f)?;
    if Digest::of(&bytes) == digest {
        Ok(Some(bytes))
    } else {
        Err(f.corrupt("bytes", format!("are not {digest}")).into())
    }
}

pub(super) fn add_blob(db: &Connection, digest: Digest, bytes: &Arc<[u8]>) -> Result<(), Fault> {
    let packed = Packed::of(bytes);
    db.prepare_cached("INSERT INTO blob (digest, codec, len, bytes) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING")?
        .execute(params![digest.as_bytes(), packed.codec as i64, bytes.len() as i64, &*packed.bytes])?;
    Ok(())
}

/// A body on its way to the table `body`.
struct Waiting {
    run: i64,
    key: i64,
    packed: Packed,
    plain: Arc<[u8]>,
}

impl append::Row for Waiting {
    const COLUMNS: usize = 5;
    const INSERT: &'static str = "INSERT OR FAIL INTO body (run, key, codec, len, bytes)";
    const TAIL: &'static str = " ON CONFLICT (run, key) DO NOTHING";

    fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
        values.value(self.run)?.value(self.key)?;
        values.value(self.packed.codec as i64)?.value(self.plain.len() as i64)?.value(&*self.packed.bytes).map(drop)
    }
}

pub(super) struct Table<'c> {
    bodies: Appender<'c, Waiting>,
    insert: Statement<'c>,
    find: Statement<'c>,
    put_checkpoint: Statement<'c>,
    put_snapshot: Statement<'c>,
    drop_checkpoint: Statement<'c>,
    drop_snapshot: Statement<'c>,
}

/// Where a new body goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Body,
    Checkpoint,
    Snapshot,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        let put = |table| {
            db.prepare(&format!(
                "INSERT OR FAIL INTO {table} (run, codec, len, bytes) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (run) DO UPDATE SET codec = excluded.codec, len = excluded.len, bytes = excluded.bytes"
            ))
        };
        Ok(Table {
            bodies: Appender::prepare(db)?,
            insert: db.prepare(
                "INSERT OR FAIL INTO body (run, key, codec, len, bytes) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (run, key) DO NOTHING",
            )?,
            find: db.prepare("SELECT codec, len, bytes FROM body WHERE run = ?1 AND key = ?2")?,
            put_checkpoint: put("checkpoint")?,
            put_snapshot: put("snapshot")?,
            drop_checkpoint: db.prepare("DELETE FROM checkpoint WHERE run = ?1")?,
            drop_snapshot: db.prepare("DELETE FROM snapshot WHERE run = ?1")?,
        })
    }

    /// Stores a body once a run. `packed` is what the caller compressed before, if it did.
    pub(super) fn put(&mut self, n: i64, place: Place, new: &NewBody, packed: Option<&Packed>) -> Result<(), Fault> {
        let plain = || Packed { codec: Codec::Plain, bytes: Arc::clone(&new.bytes) };
        let packed = packed.cloned().unwrap_or_else(plain);
        let len = new.body.len;
        let values = params![n, packed.codec as i64, len, &*packed.bytes];
        match place {
            Place::Checkpoint => drop(self.put_checkpoint.execute(values)?),
            Place::Snapshot => drop(self.put_snapshot.execute(values)?),
            Place::Body => {
                let (key, plain) = (key(new.body.digest), Arc::clone(&new.bytes));
                self.bodies.push(Waiting { run: n, key, packed, plain });
            }
        }
        Ok(())
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        let (insert, find) = (&mut self.insert, &mut self.find);
        self.bodies.flush_or(|rows| rows.iter().try_for_each(|row| put_one(insert, find, row)))
    }

    /// Drops what waits.
    pub(super) fn forget(&mut self) {
        self.bodies.forget();
    }

    pub(super) fn delete(&mut self, n: i64, place: Place) -> Result<(), Fault> {
        match place {
            Place::Checkpoint => drop(self.drop_checkpoint.execute([n])?),
            Place::Snapshot => drop(self.drop_snapshot.execute([n])?),
            Place::Body => {}
        }
        Ok(())
    }
}

/// Stores a body under the first number that no other body of its run has, unless it is stored.
fn put_one(insert: &mut Statement<'_>, find: &mut Statement<'_>, row: &Waiting) -> Result<(), Fault> {
    let Waiting { run, packed, plain, .. } = row;
    let mut key = row.key;
    while insert.execute(params![run, key, packed.codec as i64, plain.len() as i64, &*packed.bytes])? == 0 {
        let mut rows = find.query(params![run, key])?;
        if rows.next()?.is_some_and(|stored| same(stored, plain)) {
            break;
        }
        key = key.wrapping_add(1);
    }
    Ok(())
}

/// Whether a stored body is these bytes; one that cannot be read is not.
fn same(row: &Row<'_>, bytes: &[u8]) -> bool {
    unpack(&mut Fields::new(row, "body")).is_ok_and(|stored| stored == bytes)
}
