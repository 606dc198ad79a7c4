//! The data directory, and whose it is.

use super::StartError;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes the directory for this user alone, where it is not there (I-18).
pub(super) fn private(path: &Path) -> Result<(), StartError> {
    let failed = |error| StartError::Folder { path: path.to_owned(), error };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)
}

/// The system user's name, as `local` is shown (I-19a).
pub(super) fn user() -> String {
    let set = |name| std::env::var(name).ok().filter(|name: &String| !name.is_empty());
    set("USER").or_else(|| set("LOGNAME")).unwrap_or_else(|| format!("user {}", rustix::process::geteuid().as_raw()))
}
