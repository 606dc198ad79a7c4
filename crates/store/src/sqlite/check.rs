//! What `doctor` asks: are the pages of the store sound. That it is durable was asserted when it was opened.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::fault::Fault;

/// The state of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// Its version.
    pub sqlite: String,
    pub journal_mode: String,
    /// Number of the last migration.
    pub schema: u32,
    pub page_bytes: u64,
    pub pages: u64,
    pub free_pages: u64,
    /// What SQLite finds wrong with its pages; empty if nothing.
    pub faults: Vec<String>,
}

/// Copies the store, as it is in the reader's snapshot, into a new file, and reads every page of the copy (I-14a).
pub(super) fn backup(db: &Connection, to: &Path) -> Result<Check, Fault> {
    if to.exists() {
        return Err(Fault::Broken(format!("{} exists already", to.display())));
    }
    let mut copy = Connection::open(to)?;
    Backup::new(db, &mut copy)?.step(-1)?;
    check(&copy)
}

/// Reads every page.
pub(super) fn check(db: &Connection) -> Result<Check, Fault> {
    let number = |pragma| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let mut faults = Vec::new();
    db.pragma_query(None, "quick_check", |row| {
        let text: String = row.get(0)?;
        if text != "ok" {
            faults.push(text);
        }
        Ok(())
    })?;
    Ok(Check {
        sqlite: rusqlite::version().to_owned(),
        journal_mode: db.pragma_query_value(None, "journal_mode", |row| row.get(0))?,
        schema: db.query_row("SELECT max(number) FROM schema_migrations", [], |row| row.get(0))?,
        page_bytes: number("page_size")? as u64,
        pages: number("page_count")? as u64,
        free_pages: number("freelist_count")? as u64,
        faults,
    })
}
