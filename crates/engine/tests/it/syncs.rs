//! Counts what this process waits for at the disk, file by file.
//!
//! SQLite is linked into this binary and finds its `fdatasync` here. It is built to call nothing else for a commit.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

static SYNCS: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());

/// Times that the log of a ledger was synced.
pub(crate) fn of_log(ledger: &Path) -> u64 {
    let mut name = ledger.as_os_str().to_owned();
    name.push("-wal");
    SYNCS.lock().expect("no count panics").get(Path::new(&name)).copied().unwrap_or(0)
}

/// Times that the ledger itself was synced: by copying its log into it, never by a commit.
pub(crate) fn of_ledger(ledger: &Path) -> u64 {
    SYNCS.lock().expect("no count panics").get(ledger).copied().unwrap_or(0)
}

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// Takes the place of libc's.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    if let Ok(path) = std::fs::read_link(format!("/proc/self/fd/{fd}")) {
        *SYNCS.lock().expect("no count panics").entry(path).or_default() += 1;
    }
    // SAFETY: the descriptor is the caller's, who keeps it open for the call.
    match rustix::fs::fdatasync(unsafe { BorrowedFd::borrow_raw(fd) }) {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: libc gives each thread a place of its own for the number of its last error.
            unsafe { *__errno_location() = error.raw_os_error() };
            -1
        }
    }
}
