//! `stasis backup FILE` (I-14a).
//!
//! Invariant: the file has its name only once it is whole, on disk, and what was sent; nothing is ever written over.

use crate::app::App;
use crate::door::Need;
use crate::failure::{Exit, Failure};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct Copied {
    file: PathBuf,
    bytes: u64,
}

pub(crate) async fn backup(app: &App, file: &Path) -> Result<Exit, Failure> {
    let wrong = |error: Error| Failure::usage(format!("{}: {error}", file.display()));
    if file.exists() {
        return Err(wrong(Error::new(ErrorKind::AlreadyExists, "it is there already, and is left as it is")));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new().prefix(".stasis-backup-").tempfile_in(folder).map_err(wrong)?;
    let client = app.open(Need::Read).await?.client;
    let bytes = client.backup(draft.as_file_mut()).await?;
    draft.as_file().sync_all().map_err(wrong)?;
    draft.persist_noclobber(file).map_err(|refused| wrong(refused.error))?;
    let named: std::io::Result<()> =
        OpenOptions::new().read(true).open(folder).and_then(|folder: File| folder.sync_all());
    named.map_err(wrong)?;
    let copied = Copied { file: file.to_owned(), bytes };
    app.out.object(&copied, |copied| format!("{} bytes in {}\n", copied.bytes, copied.file.display()))?;
    Ok(Exit::Fine)
}
