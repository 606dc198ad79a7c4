//! The files of the repository, as the checks see them.
//!
//! Owns: which files count. Never does: judge them. A tree can be made from literals, so that every check has a
//! test with a small tree that breaks it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders that hold no source: build output, data, caches, version control.
const SKIPPED: &[&str] = &["target", ".git", ".stasis", "node_modules", "__pycache__", ".venv"];

/// One file; `path` is relative to the root and uses `/`.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// What stands after the last dot of the name, or nothing.
    pub(crate) fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The crate folder this file is in: `protocol` for `crates/protocol/src/id.rs`.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

/// Every file of the repository, in path order.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// Reads the checkout at `root`. A file that is not UTF-8, such as a picture, is there with an empty text.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
                let entry = entry?;
                let name = entry.file_name();
                let kind = entry.file_type()?;
                if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                    files.push(File { path: relative(root, &entry.path()), text });
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok().map(|index| &self.files[index])
    }

    /// Whether `path` is a file, or a folder with a file in it.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.get(path).is_some() || self.files.iter().any(|file| file.path.starts_with(&folder))
    }

    /// The names of the folders under `crates/` that hold a package.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter_map(|file| {
            let name = file.crate_name()?;
            (file.path == format!("crates/{name}/Cargo.toml")).then_some(name)
        })
    }
}

#[cfg(test)]
impl Tree {
    /// A tree of literals: pairs of path and text.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut files: Vec<File> =
            files.iter().map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() }).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files }
    }
}

/// The root of the checkout that this program was built from.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask/ stands in the root").to_path_buf()
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).expect("a listed file is under its root");
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}
