//! The write-ahead log as a file: what a commit writes to it goes to the operating system in one call, not in two for each
//! page.
//!
//! A thin layer over SQLite's own files, for the log alone, and only on a connection that syncs each of its commits: SQLite
//! tells others of a commit once the log is synced, and a sync first writes what waits here. Invariant: whoever may read
//! something of the log finds it in the file. The database itself is not touched, because a checkpoint that copies a part
//! of the log tells of it without a sync.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::OnceLock;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods, sqlite3_vfs};

/// By which name a connection asks for it.
const NAME: &CStr = c"stasis";

/// What waits is written whenever it ends at a multiple of this: SQLite's own files take less than 128 KiB in one call, and
/// whole pages of the file cost the operating system least.
const PIECE: usize = 64 * 1024;

/// What SQLite knows under the name.
#[repr(C)]
struct Layer {
    vfs: sqlite3_vfs,
    /// Files of SQLite's own.
    own: *mut sqlite3_vfs,
}

/// The start of the room that SQLite makes for an open file; the file of its own stands behind it.
#[repr(C)]
struct Log {
    /// First in every open file.
    file: sqlite3_file,
    /// Where in the file that stands which waits.
    at: i64,
    waiting: Vec<u8>,
}

/// The name, once it is known to SQLite; `None` where it cannot be, which costs time and nothing else.
pub(super) fn name() -> Option<&'static CStr> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    KNOWN.get_or_init(register).then_some(NAME)
}

fn register() -> bool {
    // SAFETY: SQLite's file systems live as long as the process, and so does the one that is made here.
    unsafe {
        let own = ffi::sqlite3_vfs_find(ptr::null());
        if own.is_null() {
            return false;
        }
        let mut vfs = *own;
        vfs.zName = NAME.as_ptr();
        vfs.pNext = ptr::null_mut();
        vfs.szOsFile += mem::size_of::<Log>() as c_int;
        vfs.xOpen = Some(open);
        let layer = Box::leak(Box::new(Layer { vfs, own }));
        ffi::sqlite3_vfs_register(ptr::from_mut(layer).cast(), 0) == ffi::SQLITE_OK
    }
}

unsafe extern "C" fn open(
    layer: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: the layer is the one that was registered. `file` has the room that was asked for: that of a `Log` and then that of a file of SQLite's own. Both are
    // aligned as SQLite aligns its allocations. What SQLite does with a file, it does on one thread at a time.
    unsafe {
        let own = (*layer.cast::<Layer>()).own;
        let Some(open) = (*own).xOpen else { return ffi::SQLITE_CANTOPEN };
        if flags & ffi::SQLITE_OPEN_WAL == 0 {
            return open(own, name, file, flags, out);
        }
        let log = file.cast::<Log>();
        let opened = open(own, name, log.add(1).cast(), flags, out);
        // A file without methods is not open, and SQLite does not close it.
        let methods = if opened == ffi::SQLITE_OK { &raw const METHODS } else { ptr::null() };
        log.write(Log { file: sqlite3_file { pMethods: methods }, at: 0, waiting: Vec::new() });
        opened
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // The log is never locked, shared or mapped: that is done with the database.
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_lock),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Calls a method of SQLite's own file behind a log.
macro_rules! own {
    ($file:expr, $method:ident $(, $value:expr)*) => {{
        // SAFETY: behind an open log stands an open file of SQLite's own; the values are what SQLite gave.
        unsafe {
            let own = $file.cast::<Log>().add(1).cast::<sqlite3_file>();
            match (*(*own).pMethods).$method {
                Some(method) => method(own $(, $value)*),
                None => ffi::SQLITE_IOERR,
            }
        }
    }};
}

/// What waits for an open log. SQLite uses a file on one thread at a time; nobody else has the log while it is held here.
fn log<'f>(file: *mut sqlite3_file) -> &'f mut Log {
    // SAFETY: SQLite calls the methods of a log with a log that `open` made.
    unsafe { &mut *file.cast::<Log>() }
}

/// Writes what waits. What cannot be written is dropped: its commit fails.
fn flush(file: *mut sqlite3_file) -> c_int {
    let Log { at, waiting, .. } = log(file);
    if waiting.is_empty() {
        return ffi::SQLITE_OK;
    }
    #[cfg(test)]
    WRITES.set(WRITES.get() + 1);
    let written = own!(file, xWrite, waiting.as_ptr().cast::<c_void>(), waiting.len() as c_int, *at);
    *at += waiting.len() as i64;
    waiting.clear();
    written
}

/// Writes what waits, and then goes on.
macro_rules! flushed {
    ($file:expr, $then:expr) => {
        match flush($file) {
            ffi::SQLITE_OK => $then,
            failed => failed,
        }
    };
}

unsafe extern "C" fn write(file: *mut sqlite3_file, bytes: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite gives so many bytes.
    let mut rest = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len as usize) };
    if log(file).end() != at {
        let written = flush(file);
        if written != ffi::SQLITE_OK {
            return written;
        }
        log(file).at = at;
    }
    while !rest.is_empty() {
        let log = log(file);
        let room = PIECE - log.end() as usize % PIECE;
        let (piece, after) = rest.split_at(room.min(rest.len()));
        log.waiting.extend_from_slice(piece);
        rest = after;
        if piece.len() == room {
            let written = flush(file);
            if written != ffi::SQLITE_OK {
                return written;
            }
        }
    }
    ffi::SQLITE_OK
}

impl Log {
    /// Where in the file what waits ends.
    fn end(&self) -> i64 {
        self.at + self.waiting.len() as i64
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    flushed!(file, own!(file, xSync, flags))
}

unsafe extern "C" fn read(file: *mut sqlite3_file, into: *mut c_void, len: c_int, at: i64) -> c_int {
    flushed!(file, own!(file, xRead, into, len, at))
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    flushed!(file, own!(file, xTruncate, size))
}

unsafe extern "C" fn size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    flushed!(file, own!(file, xFileSize, size))
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let written = flush(file);
    let closed = own!(file, xClose);
    // SAFETY: nobody uses a log after it was closed.
    unsafe { ptr::drop_in_place(file.cast::<Log>()) };
    if written == ffi::SQLITE_OK { closed } else { written }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    own!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    own!(file, xUnlock, level)
}

unsafe extern "C" fn check_lock(file: *mut sqlite3_file, held: *mut c_int) -> c_int {
    own!(file, xCheckReservedLock, held)
}

unsafe extern "C" fn control(file: *mut sqlite3_file, op: c_int, value: *mut c_void) -> c_int {
    own!(file, xFileControl, op, value)
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    own!(file, xSectorSize)
}

unsafe extern "C" fn characteristics(file: *mut sqlite3_file) -> c_int {
    own!(file, xDeviceCharacteristics)
}

#[cfg(test)]
thread_local! {
    /// How often this thread wrote to a log.
    static WRITES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::{Connection, OpenFlags};
    use std::path::Path;

    fn open(path: &Path) -> Connection {
        let name = name().expect("SQLite knows it");
        let db = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), name).unwrap();
        db.pragma_update(None, "journal_mode", "wal").unwrap();
        db.pragma_update(None, "synchronous", "full").unwrap();
        db.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        db
    }

    fn add(db: &Connection, rows: i64) {
        let mut insert = db.prepare_cached("INSERT INTO row (bytes) VALUES (randomblob(3000))").unwrap();
        for _ in 0..rows {
            insert.execute([]).unwrap();
        }
    }

    fn count(db: &Connection) -> i64 {
        db.query_row("SELECT count(*) FROM row WHERE length(bytes) = 3000", [], |row| row.get(0)).unwrap()
    }

    fn check(db: &Connection) -> String {
        db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
    }

    /// What somebody finds who has the files as they are now, as after a crash of this process.
    fn survives(path: &Path) -> (i64, String) {
        let other = tempfile::tempdir().unwrap();
        for name in ["ledger.db", "ledger.db-wal"] {
            std::fs::copy(path.with_file_name(name), other.path().join(name)).unwrap();
        }
        let db = Connection::open(other.path().join("ledger.db")).unwrap();
        (count(&db), check(&db))
    }

    #[test]
    fn every_commit_is_in_the_files_when_it_returns() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ledger.db");
        let db = open(&path);
        db.execute_batch("CREATE TABLE row (n INTEGER PRIMARY KEY, bytes BLOB NOT NULL)").unwrap();
        let reader = Connection::open(&path).unwrap();
        let mut all = 0;
        for rows in [1, 0, 2, 30, 1, 200, 7] {
            db.execute_batch("BEGIN IMMEDIATE").unwrap();
            add(&db, rows);
            assert_eq!(count(&reader), all);
            db.execute_batch("COMMIT").unwrap();
            all += rows;
            assert_eq!(survives(&path), (all, "ok".to_owned()));
            assert_eq!(count(&reader), all);
        }
        // The log begins again from its beginning.
        reader.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        add(&db, 1);
        assert_eq!(survives(&path), (all + 1, "ok".to_owned()));
        drop((db, reader));
        assert_eq!(count(&open(&path)), all + 1);
    }

    #[test]
    fn a_transaction_finds_what_did_not_fit_into_its_cache() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ledger.db");
        let db = open(&path);
        db.execute_batch("CREATE TABLE row (n INTEGER PRIMARY KEY, bytes BLOB NOT NULL); PRAGMA cache_size = 8")
            .unwrap();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        add(&db, 300);
        assert_eq!(count(&db), 300);
        db.execute_batch("SAVEPOINT half").unwrap();
        add(&db, 300);
        db.execute_batch("UPDATE row SET bytes = randomblob(3000) WHERE n % 7 = 0").unwrap();
        assert_eq!(count(&db), 600);
        db.execute_batch("ROLLBACK TO half").unwrap();
        assert_eq!(count(&db), 300);
        db.execute_batch("UPDATE row SET bytes = randomblob(3000) WHERE n % 5 = 0").unwrap();
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(survives(&path), (300, "ok".to_owned()));
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        add(&db, 300);
        db.execute_batch("ROLLBACK").unwrap();
        assert_eq!((count(&db), check(&db)), (300, "ok".to_owned()));
        add(&db, 1);
        assert_eq!(survives(&path), (301, "ok".to_owned()));
    }

    #[test]
    fn a_commit_is_a_few_writes_however_many_its_pages() {
        let home = tempfile::tempdir().unwrap();
        let db = open(&home.path().join("ledger.db"));
        db.execute_batch("CREATE TABLE row (n INTEGER PRIMARY KEY, bytes BLOB NOT NULL)").unwrap();
        let before = WRITES.get();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        add(&db, 100);
        db.execute_batch("COMMIT").unwrap();
        let bytes = 100 * 3_000;
        let writes = WRITES.get() - before;
        assert!((bytes / PIECE..=2 * bytes / PIECE).contains(&writes), "{writes} writes");
    }
}
