//! Opening connections, and proving that they are as durable as the ledger promises.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{migrate, vfs};
use crate::config::StoreConfig;
use crate::error::OpenError;

/// "STAS", in the header of the file.
const APPLICATION_ID: i32 = 0x5354_4153;
/// Releases before it can lose a commit in a race between a checkpoint and a restart of the log.
const OLDEST_SQLITE: i32 = 3_051_003;
/// Rows of the ledger are small, and a park writes several: fewer, larger pages cost less than many small ones.
const PAGE_SIZE: i64 = 8_192;
/// How long a connection waits where SQLite wants the file for itself for a moment.
const BUSY_MS: u64 = 5_000;

/// Opens the write connection, migrates, and reads back what durability rests on.
pub(super) fn writer(config: &StoreConfig) -> Result<Connection, OpenError> {
    let path = &config.path;
    let error = |error| open_error(path, error);
    file(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Without syncs nothing tells when the log has to be written.
    let db = match vfs::name() {
        Some(name) if config.is_durable() => Connection::open_with_flags_and_vfs(path, flags, name),
        _ => Connection::open_with_flags(path, flags),
    };
    let db = db.map_err(error)?;
    db.busy_timeout(std::time::Duration::from_millis(BUSY_MS)).map_err(error)?;
    identify(&db, path)?;
    db.pragma_update(None, "journal_mode", "wal").map_err(error)?;
    db.pragma_update(None, "synchronous", if config.is_durable() { "full" } else { "off" }).map_err(error)?;
    db.pragma_update(None, "cache_size", -i64::from(config.cache_kib)).map_err(error)?;
    db.pragma_update(None, "temp_store", "memory").map_err(error)?;
    db.pragma_update(None, "foreign_keys", false).map_err(error)?;
    // The log is copied by a thread of its own; see `checkpoint`.
    db.pragma_update(None, "wal_autocheckpoint", 0).map_err(error)?;
    db.set_prepared_statement_cache_capacity(64);
    migrate::migrate(&db, path)?;
    #[cfg(feature = "testing")]
    if let Some(pages) = config.max_pages {
        db.pragma_update(None, "max_page_count", pages).map_err(error)?;
    }
    durable(&db, config)?;
    Ok(db)
}

/// Makes the file where there is none, for this user alone; SQLite gives the files beside it the same rights. A log
/// whose ledger is gone or empty is all that is left of one, and is not taken for a new ledger's (I-47).
fn file(path: &Path) -> Result<(), OpenError> {
    let unavailable = |error: std::io::Error| OpenError::Unavailable { path: path.into(), why: error.to_string() };
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let empty = file.and_then(|file| file.metadata()).map_err(unavailable)?.len() == 0;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if empty && std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let why = "it is empty, while its log is there: put the ledger back beside it, or move the log away".to_owned();
        return Err(OpenError::Damaged { path: path.into(), why });
    }
    Ok(())
}

/// A file that is no ledger is not touched (I-47).
fn identify(db: &Connection, path: &Path) -> Result<(), OpenError> {
    let error = |error| open_error(path, error);
    let id: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(error)?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(error)?;
    if id == APPLICATION_ID {
        return Ok(());
    }
    if tables > 0 {
        return Err(OpenError::Damaged { path: path.into(), why: "it is another program's database".to_owned() });
    }
    db.pragma_update(None, "page_size", PAGE_SIZE).map_err(error)?;
    db.pragma_update(None, "application_id", APPLICATION_ID).map_err(error)
}

fn durable(db: &Connection, config: &StoreConfig) -> Result<(), OpenError> {
    let path = &config.path;
    let error = |error| open_error(path, error);
    let refuse =
        |setting, found: String, wanted| Err(OpenError::NotDurable { path: path.clone(), setting, found, wanted });
    if rusqlite::version_number() < OLDEST_SQLITE {
        return refuse("the version of SQLite", rusqlite::version().to_owned(), "3.51.3 or newer");
    }
    let mode: String = db.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(error)?;
    if mode != "wal" {
        return refuse("journal_mode", mode, "wal");
    }
    let synchronous: i64 = db.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(error)?;
    if config.is_durable() && synchronous != 2 {
        return refuse("synchronous", synchronous.to_string(), "2 (full)");
    }
    Ok(())
}

/// Opens a connection that can only read.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(std::time::Duration::from_millis(BUSY_MS))?;
    db.pragma_update(None, "cache_size", -8_192)?;
    db.pragma_update(None, "query_only", true)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

/// Opens the connection that copies the log into the database.
pub(super) fn checkpointer(config: &StoreConfig) -> rusqlite::Result<Connection> {
    let db =
        Connection::open_with_flags(&config.path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(std::time::Duration::from_millis(BUSY_MS))?;
    db.pragma_update(None, "synchronous", if config.is_durable() { "full" } else { "off" })?;
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(db)
}

pub(super) fn open_error(path: &Path, error: rusqlite::Error) -> OpenError {
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => OpenError::Damaged { path: path.into(), why },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            OpenError::Locked { path: path.into(), holder: None }
        }
        _ => OpenError::Unavailable { path: path.into(), why },
    }
}
