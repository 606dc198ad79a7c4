//! `[store]`: which ledger (I-67).

use std::path::{Path, PathBuf};

use super::reader::Section;

/// Where the ledger is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// The embedded ledger, in this file.
    Sqlite(PathBuf),
}

/// Reads `[store]`; without a url the ledger is in the data directory.
pub(super) fn read(root: &Section<'_>, data: &Path) -> Store {
    let section = root.section("store");
    let mut store = Store::Sqlite(data.join("stasis.db"));
    if let Some(value) = section.get("url")
        && let Some(text) = value.text()
    {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => store = Store::Sqlite(section.reader.folder.join(path)),
            Some(("postgres" | "postgresql", _)) => value.fault("PostgreSQL is not available in this version"),
            _ => value.fault_with_hint(format!("`{text}` is no store"), "sqlite:PATH"),
        }
    }
    let Store::Sqlite(path) = &store;
    section.note("url", format!("{:?}", format!("sqlite:{}", path.display())));
    section.finish();
    store
}
