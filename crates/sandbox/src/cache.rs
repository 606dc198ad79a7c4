//! The cache folder: where guest images and their compiled forms are kept, outside every checkout (I-69).
//!
//! ```text
//! <cache>/guests/python-2-<sha256 of the image>.wasm      images; the newest one is used
//! <cache>/guests/compiled/<image>-<settings>.cwasm        machine code, which is loaded without being checked again
//! ```
//!
//! Invariant: the folder belongs to this user alone. Whoever can write there can run code here.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use protocol::digest::Digest;

use crate::engine::ENGINE_ID;
use crate::pool::OpenError;

/// A cache folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("no cache folder: set STASIS_CACHE, or HOME")]
    Unknown,
    #[error(
        "the cache folder {path} can be written by others; make it mode 0700, or set STASIS_CACHE to another folder"
    )]
    Shared { path: PathBuf },
    #[error("the cache folder {path} cannot be used: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// `$STASIS_CACHE`, else the user's cache folder + `stasis`.
pub fn default_dir() -> Result<PathBuf, CacheError> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("STASIS_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("stasis")))
        .or_else(|| set("HOME").map(|home| home.join(".cache").join("stasis")))
        .ok_or(CacheError::Unknown)
}

/// The folder of guest images, made if it is missing.
pub fn guests_dir(cache: &Path) -> Result<PathBuf, CacheError> {
    private_dir(cache)?;
    let guests = cache.join("guests");
    private_dir(&guests)?;
    Ok(guests)
}

/// The folder of compiled images, made if it is missing.
pub(crate) fn compiled_dir(cache: &Path) -> Result<PathBuf, CacheError> {
    let compiled = guests_dir(cache)?.join("compiled");
    private_dir(&compiled)?;
    Ok(compiled)
}

/// The file of the image with this digest, as its name gives it; its bytes are not looked at.
pub fn find(cache: &Path, digest: Digest) -> Result<PathBuf, OpenError> {
    let searched = guests_dir(cache)?;
    let path = searched.join(image_name(digest));
    if path.exists() { Ok(path) } else { Err(OpenError::NotHere { digest, searched }) }
}

/// The name of an image of this engine in [`guests_dir`].
pub fn image_name(digest: Digest) -> String {
    format!("{}{}.wasm", image_prefix(), digest.hex())
}

fn image_prefix() -> String {
    format!("{}-", ENGINE_ID.replace('/', "-"))
}

/// An image of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cached {
    pub digest: Digest,
    /// The engine that its name gives; a build uses images of its own engine only.
    pub engine: String,
    pub bytes: u64,
    /// Bytes of all that was compiled from it.
    pub compiled_bytes: u64,
    /// It is the one that new programs get.
    pub newest: bool,
    files: Vec<PathBuf>,
}

/// The images of a cache folder, the newest one first.
pub fn images(cache: &Path) -> Result<Vec<Cached>, CacheError> {
    let guests = guests_dir(cache)?;
    let compiled = compiled_dir(cache)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CacheError::Io { path, source }
    };
    let codes = files(&compiled).map_err(failed(&compiled))?;
    let newest = newest_image(&guests).map_err(failed(&guests))?.map(|(_, digest)| digest);
    let mut found = Vec::new();
    for (path, bytes) in files(&guests).map_err(failed(&guests))? {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".wasm"));
        let Some((engine, hex)) = name.and_then(|name| name.rsplit_once('-')) else { continue };
        let Ok(digest) = Digest::from_hex(hex) else { continue };
        let code = |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(|n| n.starts_with(hex));
        let own: Vec<_> = codes.iter().filter(|(path, _)| code(path)).cloned().collect();
        found.push(Cached {
            digest,
            engine: engine.replacen('-', "/", 1),
            bytes,
            compiled_bytes: own.iter().map(|(_, bytes)| bytes).sum(),
            newest: newest == Some(digest) && path.ends_with(image_name(digest)),
            files: own.into_iter().map(|(path, _)| path).chain([path]).collect(),
        });
    }
    found.sort_by(|a, b| (b.newest, &b.engine, a.digest.hex()).cmp(&(a.newest, &a.engine, b.digest.hex())));
    Ok(found)
}

impl Cached {
    /// Removes the image and what was compiled from it, the image last: what is left half done can be done again. Guests
    /// that live keep what they have.
    pub fn remove(&self) -> Result<(), CacheError> {
        for path in &self.files {
            match fs::remove_file(path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(CacheError::Io { path: path.clone(), source });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn files(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.into_iter().map(|entry| Ok((entry.path(), entry.metadata()?.len()))).collect()
}

/// The newest image that fits this engine, with the digest that its name gives.
pub(crate) fn newest_image(guests: &Path) -> io::Result<Option<(PathBuf, Digest)>> {
    let prefix = image_prefix();
    let mut newest: Option<(SystemTime, PathBuf, Digest)> = None;
    for entry in fs::read_dir(guests)? {
        let entry = entry?;
        let name = entry.file_name();
        let hex = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(".wasm"));
        let Some(digest) = hex.and_then(|hex| Digest::from_hex(hex).ok()) else {
            continue;
        };
        let made = entry.metadata()?.modified()?;
        if newest.as_ref().is_none_or(|(before, ..)| made > *before) {
            newest = Some((made, entry.path(), digest));
        }
    }
    Ok(newest.map(|(_, path, digest)| (path, digest)))
}

fn private_dir(path: &Path) -> Result<(), CacheError> {
    let failed = |source| CacheError::Io { path: path.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let meta = fs::metadata(path).map_err(failed)?;
    if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o022 != 0 {
        return Err(CacheError::Shared { path: path.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folders_are_made_for_this_user_alone() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("a/cache");
        let compiled = compiled_dir(&cache).unwrap();
        for dir in [cache.as_path(), compiled.parent().unwrap(), &compiled] {
            // I-69
            assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(guests_dir(root.path()), Err(CacheError::Shared { .. })));
    }

    #[test]
    fn the_newest_fitting_image_is_chosen() {
        let root = tempfile::tempdir().unwrap();
        let guests = guests_dir(root.path()).unwrap();
        assert_eq!(newest_image(&guests).unwrap(), None);
        let put = |name: &str, age: u64| {
            let file = fs::File::create(guests.join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000 - age)).unwrap();
        };
        let (old, new) = (Digest::of("old"), Digest::of("new"));
        put(&image_name(old), 20);
        put(&image_name(new), 10);
        put(&format!("python-1-{}.wasm", Digest::of("other engine").hex()), 0);
        put("python-2-short.wasm", 0);
        // I-69
        assert_eq!(newest_image(&guests).unwrap(), Some((guests.join(image_name(new)), new)));
    }

    #[test]
    fn an_image_is_removed_with_what_was_compiled_from_it_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("cache");
        let (guests, compiled) = (guests_dir(&cache).unwrap(), compiled_dir(&cache).unwrap());
        let (own, other) = (Digest::of("own"), Digest::of("other engine"));
        fs::write(guests.join(image_name(own)), "image").unwrap();
        fs::write(guests.join(format!("python-1-{}.wasm", other.hex())), "old").unwrap();
        for settings in ["a", "b"] {
            fs::write(compiled.join(format!("{}-{settings}.cwasm", own.hex())), "code").unwrap();
            fs::write(compiled.join(format!("{}-{settings}.cwasm", other.hex())), "x").unwrap();
        }
        fs::write(compiled.join("lock"), "").unwrap();
        let found = images(&cache).unwrap();
        let told: Vec<_> = found.iter().map(|i| (i.engine.as_str(), i.bytes, i.compiled_bytes, i.newest)).collect();
        assert_eq!(told, [(ENGINE_ID, 5, 8, true), ("python/1", 3, 2, false)]);
        found[1].remove().unwrap();
        found[1].remove().unwrap();
        let left = images(&cache).unwrap();
        assert_eq!(left.iter().map(|image| image.digest).collect::<Vec<_>>(), [own]);
        assert_eq!(fs::read_dir(&compiled).unwrap().count(), 3);
    }
}
