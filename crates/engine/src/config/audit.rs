//! `[audit]`: where anchors go (C-277).

use std::path::{Path, PathBuf};

use super::reader::Section;
use crate::audit::AuditConfig;

/// Reads `[audit]`; without it export and key are in the data directory.
pub(super) fn read(root: &Section<'_>, data: &Path) -> AuditConfig {
    let section = root.section("audit");
    let path = |key: &'static str, default: &str| -> PathBuf {
        let told = section.get(key).and_then(|value| value.text().map(|text| section.reader.folder.join(text)));
        let path = told.unwrap_or_else(|| data.join(default));
        section.note(key, format!("{:?}", path.display().to_string()));
        path
    };
    let config = AuditConfig { export: path("export", "audit/anchors.ndjson"), key: path("key", "audit/key") };
    if config.export == config.key {
        section.fault("key", "is the file of the export");
    }
    section.finish();
    config
}
