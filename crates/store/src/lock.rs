//! The lock of a data directory: one process has its store open (I-18, R-278).

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::OpenError;

const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// Held while it lives; the kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock, and writes the process id into the file for whoever comes second.
    pub(crate) fn take(path: &Path) -> Result<Lock, OpenError> {
        let unavailable = |error: std::io::Error| OpenError::Unavailable { path: path.into(), why: error.to_string() };
        // A link at its place was not put there by us, and what it points to is not ours to write.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(NO_FOLLOW);
        let mut file = options.open(path).map_err(unavailable)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let holder = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(OpenError::Locked { path: path.into(), holder });
            }
            Err(error) => return Err(unavailable(error.into())),
        }
        file.set_len(0).map_err(unavailable)?;
        file.rewind().map_err(unavailable)?;
        writeln!(file, "{}", std::process::id()).map_err(unavailable)?;
        Ok(Lock { file })
    }

    /// The lock that belongs to a store: `lock` beside it.
    pub(crate) fn path(store: &Path) -> PathBuf {
        store.with_file_name("lock")
    }
}

impl Drop for Lock {
    /// Lets go of the lock itself, not only of this descriptor: a child that was forked and has not yet reached its `exec` holds
    /// another one of the same open file, and the lock would live until then.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_store_is_free_though_a_child_still_has_its_descriptor() {
        let home = tempfile::tempdir().unwrap();
        let path = Lock::path(&home.path().join("store.db"));
        let lock = Lock::take(&path).unwrap();
        let inherited = lock.file.try_clone().unwrap();
        assert!(matches!(Lock::take(&path), Err(OpenError::Locked { .. }))); // I-18
        drop(lock);
        drop(Lock::take(&path).unwrap());
        drop(inherited);
    }
}
