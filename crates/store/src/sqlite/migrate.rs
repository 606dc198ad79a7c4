//! The schema, as numbered files that are applied once and never changed.
//!
//! Invariant: a ledger that a newer build wrote, or one whose history differs from this build's, is refused and left as
//! it is. All migrations that are missing are applied in one transaction.

use std::path::Path;

use protocol::digest::Digest;
use rusqlite::{Connection, params};

use super::open::open_error;
use crate::error::OpenError;

struct Migration {
    number: u32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "ledger", sql: include_str!("sql/0001_ledger.sql") },
    Migration { number: 2, name: "registry", sql: include_str!("sql/0002_registry.sql") },
];

pub(super) fn migrate(db: &Connection, path: &Path) -> Result<(), OpenError> {
    let error = |error| open_error(path, error);
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_migrations (
            number INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 BLOB NOT NULL, applied_at TEXT NOT NULL
         )",
    )
    .map_err(error)?;
    let applied = applied(db).map_err(error)?;
    let known = MIGRATIONS.last().map_or(0, |last| last.number);
    for (number, sha256) in &applied {
        if *number > known {
            return Err(OpenError::TooNew { path: path.into(), found: *number, known });
        }
        let ours = MIGRATIONS.iter().find(|m| m.number == *number);
        if ours.is_none_or(|m| Digest::of(m.sql).as_bytes() != sha256) {
            return Err(OpenError::Foreign { path: path.into(), number: *number });
        }
    }
    let missing = MIGRATIONS.iter().filter(|m| applied.iter().all(|(number, _)| *number != m.number));
    apply(db, missing).map_err(error)
}

fn applied(db: &Connection) -> rusqlite::Result<Vec<(u32, [u8; 32])>> {
    let mut statement = db.prepare("SELECT number, sha256 FROM schema_migrations ORDER BY number")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn apply<'m>(db: &Connection, missing: impl Iterator<Item = &'m Migration>) -> rusqlite::Result<()> {
    let transaction = db.unchecked_transaction()?;
    for migration in missing {
        transaction.execute_batch(migration.sql)?;
        transaction.execute(
            "INSERT INTO schema_migrations (number, name, sha256, applied_at)
             VALUES (?1, ?2, ?3, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))",
            params![migration.number, migration.name, Digest::of(migration.sql).as_bytes()],
        )?;
    }
    transaction.commit()
}
