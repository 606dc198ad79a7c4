//! The data directory, and whose it is.

use super::StartError;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Makes the directory for this user alone, where it is not there (I-18). One that is there keeps its rights, since more
/// than a ledger may lie in it; but nobody else may be able to put files into it.
pub(super) fn private(path: &Path) -> Result<(), StartError> {
    let failed = |error| StartError::Folder { path: path.to_owned(), error };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let rights = std::fs::metadata(path).map_err(failed)?.permissions().mode();
    if rights & 0o022 != 0 {
        let why =
            format!("others may write into it (mode {:o}); take that right away with `chmod go-w`", rights & 0o7777);
        return Err(failed(std::io::Error::new(std::io::ErrorKind::PermissionDenied, why)));
    }
    Ok(())
}

/// The system user's name, as `local` is shown (I-19a).
pub(super) fn user() -> String {
    let set = |name| std::env::var(name).ok().filter(|name: &String| !name.is_empty());
    set("USER").or_else(|| set("LOGNAME")).unwrap_or_else(|| format!("user {}", rustix::process::geteuid().as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_others_may_write_into_is_refused() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let made = place.path().join("data");
        private(&made).expect("it was not there");
        let rights = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(rights(&made), 0o700); // I-18
        for (mode, fits) in [(0o755, true), (0o775, false), (0o702, false)] {
            std::fs::set_permissions(&made, std::fs::Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(private(&made).is_ok(), fits, "{mode:o}");
            assert_eq!(rights(&made), mode);
        }
    }
}
