//! The one error inside the SQLite store, and reading the columns of a row into types.
//!
//! Invariant: a value that SQLite gives back and the type cannot hold is [`Corrupt`], named by table, key and field;
//! it never becomes a default.

use protocol::digest::Digest;
use protocol::id::Id;
use protocol::time::Time;
use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};

use super::codec::{Malformed, Reader};
use crate::error::{Corrupt, ReadError};

/// What stops a statement.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Corrupt(Box<Corrupt>),
    /// An invariant does not hold: the command is refused and reported.
    Broken(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<Box<Corrupt>> for Fault {
    fn from(corrupt: Box<Corrupt>) -> Fault {
        Fault::Corrupt(corrupt)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Sql(error) => error.fmt(f),
            Fault::Corrupt(corrupt) => corrupt.fmt(f),
            Fault::Broken(detail) => f.write_str(detail),
        }
    }
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> ReadError {
        match fault {
            Fault::Corrupt(corrupt) => ReadError::Corrupt(corrupt),
            other => ReadError::Unavailable { reason: other.to_string() },
        }
    }
}

/// A row being read, column after column in the order of its SELECT.
pub(super) struct Fields<'r> {
    row: &'r Row<'r>,
    at: usize,
    table: &'static str,
    key: Key,
}

/// What names the row in a fault; made a text only then, since rows are read far more often than they fail.
#[derive(Clone, Copy)]
enum Key {
    None,
    Number(i64),
    Id([u8; 16], fn([u8; 16]) -> String),
}

type Field<T> = Result<T, Box<Corrupt>>;

impl<'r> Fields<'r> {
    pub(super) fn new(row: &'r Row<'r>, table: &'static str) -> Fields<'r> {
        Fields { row, at: 0, table, key: Key::None }
    }

    /// Names the row in faults from here on.
    pub(super) fn keyed(&mut self, n: i64) {
        self.key = Key::Number(n);
    }

    /// Names the row, or the run it belongs to, in faults from here on.
    pub(super) fn named<T: Id>(&mut self, id: T) {
        self.key = Key::Id(*id.as_bytes(), |bytes| T::from_bytes(bytes).to_string());
    }

    pub(super) fn corrupt(&self, field: &'static str, why: impl std::fmt::Display) -> Box<Corrupt> {
        let key = match self.key {
            Key::None => "?".to_owned(),
            Key::Number(n) => n.to_string(),
            Key::Id(bytes, text) => text(bytes),
        };
        Box::new(Corrupt { table: self.table, key, field, why: why.to_string() })
    }

    fn value(&mut self, field: &'static str) -> Field<ValueRef<'r>> {
        let value = self.row.get_ref(self.at).map_err(|e| self.corrupt(field, e));
        self.at += 1;
        value
    }

    fn typed<T: FromSql>(&mut self, field: &'static str) -> Field<T> {
        let value = self.value(field)?;
        T::column_result(value).map_err(|e| self.corrupt(field, e))
    }

    pub(super) fn int(&mut self, field: &'static str) -> Field<i64> {
        self.typed(field)
    }

    pub(super) fn uint<T: TryFrom<i64>>(&mut self, field: &'static str) -> Field<T> {
        let value = self.int(field)?;
        T::try_from(value).map_err(|_| self.corrupt(field, format!("{value} is out of range")))
    }

    pub(super) fn maybe_uint<T: TryFrom<i64>>(&mut self, field: &'static str) -> Field<Option<T>> {
        match self.typed::<Option<i64>>(field)? {
            None => Ok(None),
            Some(value) => {
                T::try_from(value).map(Some).map_err(|_| self.corrupt(field, format!("{value} is out of range")))
            }
        }
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Field<bool> {
        match self.int(field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.corrupt(field, format!("{other} is no flag"))),
        }
    }

    pub(super) fn time(&mut self, field: &'static str) -> Field<Time> {
        self.int(field).map(Time::from_micros)
    }

    pub(super) fn maybe_time(&mut self, field: &'static str) -> Field<Option<Time>> {
        Ok(self.typed::<Option<i64>>(field)?.map(Time::from_micros))
    }

    pub(super) fn text(&mut self, field: &'static str) -> Field<&'r str> {
        let value = self.value(field)?;
        value.as_str().map_err(|e| self.corrupt(field, e))
    }

    pub(super) fn maybe_text(&mut self, field: &'static str) -> Field<Option<&'r str>> {
        let value = self.value(field)?;
        value.as_str_or_null().map_err(|e| self.corrupt(field, e))
    }

    pub(super) fn blob(&mut self, field: &'static str) -> Field<&'r [u8]> {
        let value = self.value(field)?;
        value.as_blob().map_err(|e| self.corrupt(field, e))
    }

    pub(super) fn maybe_blob(&mut self, field: &'static str) -> Field<Option<&'r [u8]>> {
        let value = self.value(field)?;
        value.as_blob_or_null().map_err(|e| self.corrupt(field, e))
    }

    fn sized<const N: usize>(&self, bytes: &[u8], field: &'static str) -> Field<[u8; N]> {
        bytes.try_into().map_err(|_| self.corrupt(field, format!("{} bytes, not {N}", bytes.len())))
    }

    pub(super) fn id<T: Id>(&mut self, field: &'static str) -> Field<T> {
        let bytes = self.blob(field)?;
        self.sized(bytes, field).map(T::from_bytes)
    }

    pub(super) fn maybe_id<T: Id>(&mut self, field: &'static str) -> Field<Option<T>> {
        let bytes = self.maybe_blob(field)?;
        bytes.map(|bytes| self.sized(bytes, field).map(T::from_bytes)).transpose()
    }

    pub(super) fn digest(&mut self, field: &'static str) -> Field<Digest> {
        let bytes = self.blob(field)?;
        self.sized(bytes, field).map(Digest::from_bytes)
    }

    /// A value of `table`, indexed by the stored number.
    pub(super) fn one_of<T: Copy>(&mut self, field: &'static str, table: &[T]) -> Field<T> {
        let value = self.int(field)?;
        let found = usize::try_from(value).ok().and_then(|at| table.get(at));
        found.copied().ok_or_else(|| self.corrupt(field, format!("{value} is no {field}")))
    }

    /// A value that must be there because another column says so.
    pub(super) fn needed<T>(&self, value: Option<T>, field: &'static str) -> Field<T> {
        value.ok_or_else(|| self.corrupt(field, "is missing"))
    }

    /// Reads a value in the store's binary form.
    pub(super) fn packed<T>(
        &self,
        bytes: &[u8],
        field: &'static str,
        version: u8,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
    ) -> Field<T> {
        let value = Reader::open(bytes, version).and_then(|mut reader| {
            let value = read(&mut reader)?;
            reader.end()?;
            Ok(value)
        });
        value.map_err(|malformed| self.corrupt(field, malformed))
    }
}

/// The number that a closed set's member is stored as: its place in the table that reading uses.
pub(super) fn number<T: PartialEq>(value: &T, table: &[T]) -> i64 {
    table.iter().position(|known| known == value).expect("the table has every member") as i64
}
