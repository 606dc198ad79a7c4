//! Rows that are only added to a table: gathered, and written several to a statement before the commit.
//!
//! A statement costs more than one of its rows. Whoever needs a row inside the transaction that adds it writes what waits
//! first; what waits when a transaction is rolled back is dropped with it.

use rusqlite::{Connection, Statement, ToSql};

use super::fault::Fault;

/// A row that waits to be added.
pub(super) trait Row {
    /// How many values a row has.
    const COLUMNS: usize;
    /// The statement up to its values.
    const INSERT: &'static str;
    /// What follows the values.
    const TAIL: &'static str = "";

    /// Gives the values in their order.
    fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()>;
}

/// Where a row puts its values.
pub(super) struct Values<'s, 'c> {
    statement: &'s mut Statement<'c>,
    bound: usize,
}

impl<'s, 'c> Values<'s, 'c> {
    pub(super) fn of(statement: &'s mut Statement<'c>) -> Values<'s, 'c> {
        Values { statement, bound: 0 }
    }

    pub(super) fn value(&mut self, value: impl ToSql) -> rusqlite::Result<&mut Self> {
        self.bound += 1;
        self.statement.raw_bind_parameter(self.bound, value)?;
        Ok(self)
    }
}

/// How many rows the statements add, the most first.
const SIZES: [usize; 3] = [16, 4, 1];

pub(super) struct Appender<'c, R> {
    statements: [Statement<'c>; SIZES.len()],
    rows: Vec<R>,
}

impl<'c, R: Row> Appender<'c, R> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Appender<'c, R>> {
        let row = format!("({})", vec!["?"; R::COLUMNS].join(", "));
        let insert = |rows: usize| {
            let rows = vec![&*row; rows].join(", ");
            db.prepare(&format!("{} VALUES {rows}{}", R::INSERT, R::TAIL))
        };
        let [most, some, one] = SIZES.map(insert);
        Ok(Appender { statements: [most?, some?, one?], rows: Vec::new() })
    }

    pub(super) fn push(&mut self, row: R) {
        self.rows.push(row);
    }

    /// The row that came last.
    pub(super) fn last(&self) -> Option<&R> {
        self.rows.last()
    }

    /// Whether such a row waits.
    pub(super) fn has(&self, is: impl FnMut(&R) -> bool) -> bool {
        self.rows.iter().any(is)
    }

    /// Writes what waits if a row that somebody needs is among it.
    pub(super) fn flush_if(&mut self, needed: impl FnMut(&R) -> bool) -> Result<(), Fault> {
        if self.has(needed) { self.flush() } else { Ok(()) }
    }

    /// Writes what waits. Each row must be new.
    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        self.flush_or(|rows| Err(Fault::Broken(format!("{} did not add {} rows", R::INSERT, rows.len()))))
    }

    /// Writes what waits. `known` gets rows of which the table has one already, though nobody knows which.
    pub(super) fn flush_or(&mut self, mut known: impl FnMut(&[R]) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut rest = &self.rows[..];
        while !rest.is_empty() {
            let fits = SIZES.iter().position(|size| *size <= rest.len()).expect("one row fits");
            let (rows, after) = rest.split_at(SIZES[fits]);
            let mut values = Values::of(&mut self.statements[fits]);
            for row in rows {
                row.bind(&mut values)?;
            }
            if values.statement.raw_execute()? != rows.len() {
                known(rows)?;
            }
            rest = after;
        }
        self.forget();
        Ok(())
    }

    /// Drops what waits.
    pub(super) fn forget(&mut self) {
        self.rows.clear();
        // What was bound may be large.
        self.statements.iter_mut().for_each(Statement::clear_bindings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pair(i64, Vec<u8>);

    impl Row for Pair {
        const COLUMNS: usize = 2;
        const INSERT: &'static str = "INSERT OR FAIL INTO pair (n, bytes)";
        const TAIL: &'static str = " ON CONFLICT (n) DO NOTHING";

        fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
            values.value(self.0)?.value(&self.1).map(drop)
        }
    }

    fn stored(db: &Connection) -> Vec<i64> {
        let mut rows = db.prepare("SELECT n FROM pair WHERE bytes = CAST(n AS BLOB) ORDER BY n").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn any_number_of_rows_is_added_once_and_whole() {
        for len in 0..=40 {
            let db = Connection::open_in_memory().unwrap();
            db.execute_batch("CREATE TABLE pair (n INTEGER PRIMARY KEY, bytes BLOB NOT NULL)").unwrap();
            let mut pairs = Appender::prepare(&db).unwrap();
            (0..len).for_each(|n| pairs.push(Pair(n, n.to_string().into_bytes())));
            assert!(stored(&db).is_empty());
            pairs.flush_if(|row| row.0 == len).unwrap();
            assert!(stored(&db).is_empty());
            pairs.flush_if(|row| row.0 + 1 == len).unwrap();
            pairs.flush().unwrap();
            assert_eq!(stored(&db), (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rows_of_which_one_is_there_are_handed_back() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE pair (n INTEGER PRIMARY KEY, bytes BLOB NOT NULL)").unwrap();
        db.execute("INSERT INTO pair VALUES (3, '3')", []).unwrap();
        let mut pairs = Appender::prepare(&db).unwrap();
        let push =
            |pairs: &mut Appender<'_, Pair>| (0..6).for_each(|n| pairs.push(Pair(n, n.to_string().into_bytes())));
        push(&mut pairs);
        assert!(matches!(pairs.flush(), Err(Fault::Broken(_))));
        pairs.forget();
        db.execute("DELETE FROM pair WHERE n <> 3", []).unwrap();
        push(&mut pairs);
        let mut known = Vec::new();
        let add = |rows: &[Pair]| {
            known.extend(rows.iter().map(|row| row.0));
            Ok(())
        };
        pairs.flush_or(add).unwrap();
        assert_eq!(known, [0, 1, 2, 3]);
        assert_eq!(db.query_row("SELECT count(*) FROM pair", [], |row| row.get::<_, i64>(0)), Ok(6));
        pairs.push(Pair(9, Vec::new()));
        pairs.forget();
        pairs.flush().unwrap();
        assert_eq!(db.query_row("SELECT count(*) FROM pair", [], |row| row.get::<_, i64>(0)), Ok(6));
    }
}
