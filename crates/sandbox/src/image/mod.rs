//! Guest images: finding one, compiling it once, and making one ([`bake`]).
//!
//! An image is a WASM module whose memory already holds a started Python. It names its engine in a custom section and is
//! known by the SHA-256 of its bytes (W-258). Compiled code is kept in the cache, keyed by image and settings; it is written
//! under a temporary name and renamed, and only ever read from a folder that this user alone can write.

pub mod bake;
mod module;
mod stdlib;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use protocol::digest::Digest;
use wasmtime::Module;

use crate::cache;
use crate::engine::{self, ENGINE_ID};
use crate::guest::describe;
use crate::pool::{OpenError, SandboxConfig};

/// The image that guests are made from. Patterns pin both (W-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    pub digest: Digest,
    pub engine: String,
}

/// What [`crate::Sandbox::open`] is doing, where it takes long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// An image that is new here is compiled, which takes some seconds.
    Compiling {
        image: Digest,
    },
    Compiled {
        image: Digest,
    },
}

/// Finds the image, which must be the wanted one if one is wanted, and gives its compiled form.
pub(crate) fn load(
    engine: &wasmtime::Engine,
    config: &SandboxConfig,
    wanted: Option<Digest>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(ImageInfo, Module), OpenError> {
    let found = find(config)?;
    if wanted.is_some_and(|wanted| wanted != found.digest) {
        return Err(OpenError::Damaged { path: found.path });
    }
    let compiled = cache::compiled_dir(&config.cache)?;
    let settings = engine::fingerprint(engine).hex();
    let path = compiled.join(format!("{}-{}.cwasm", found.digest.hex(), &settings[..16]));
    let info = ImageInfo { digest: found.digest, engine: ENGINE_ID.into() };
    if let Some(module) = deserialize(engine, &path) {
        return Ok((info, module));
    }
    // Processes that start at once compile once: the others wait for the lock and find the file.
    let _lock = lock(&compiled).map_err(|source| OpenError::Unreadable { path: compiled.clone(), source })?;
    if let Some(module) = deserialize(engine, &path) {
        return Ok((info, module));
    }
    progress(Progress::Compiling { image: found.digest });
    let module = compile(engine, &found, &path)?;
    progress(Progress::Compiled { image: found.digest });
    Ok((info, module))
}

struct Found {
    path: PathBuf,
    digest: Digest,
    /// Read already, and therefore hashed.
    bytes: Option<Vec<u8>>,
}

/// The digest of the image that a sandbox of this configuration would use; nothing is compiled.
pub fn digest(config: &SandboxConfig) -> Result<Digest, OpenError> {
    find(config).map(|found| found.digest)
}

fn find(config: &SandboxConfig) -> Result<Found, OpenError> {
    if let Some(path) = &config.image {
        let bytes = read(path)?;
        return Ok(Found { path: path.clone(), digest: Digest::of(&bytes), bytes: Some(bytes) });
    }
    let guests = cache::guests_dir(&config.cache)?;
    let newest =
        cache::newest_image(&guests).map_err(|source| OpenError::Unreadable { path: guests.clone(), source })?;
    let (path, digest) = newest.ok_or(OpenError::NoImage { searched: guests })?;
    Ok(Found { path, digest, bytes: None })
}

fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    let unreadable = |source| OpenError::Unreadable { path: path.to_owned(), source };
    // A device or a pipe may have no end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is no regular file")));
    }
    fs::read(path).map_err(unreadable)
}

fn compile(engine: &wasmtime::Engine, found: &Found, to: &Path) -> Result<Module, OpenError> {
    let bytes = match &found.bytes {
        Some(bytes) => bytes,
        None => &read(&found.path)?,
    };
    if Digest::of(bytes) != found.digest {
        return Err(OpenError::Damaged { path: found.path.clone() });
    }
    let not_an_image = |reason: String| OpenError::NotAnImage { path: found.path.clone(), reason };
    match module::engine_of(bytes) {
        Some(name) if name == ENGINE_ID => {}
        Some(name) => return Err(not_an_image(format!("it is of engine {name}"))),
        None => return Err(not_an_image("it names no engine".into())),
    }
    let code = engine.precompile_module(bytes).map_err(|error| not_an_image(describe(&error)))?;
    write_whole(to, &code).map_err(|source| OpenError::Unreadable { path: to.to_owned(), source })?;
    deserialize(engine, to).ok_or_else(|| OpenError::Engine("the code just compiled cannot be loaded".into()))
}

/// Loads compiled code, whose file stays mapped: guests share its pages. Code that does not fit, or no file, is `None`.
fn deserialize(engine: &wasmtime::Engine, path: &Path) -> Option<Module> {
    if !path.exists() {
        return None;
    }
    // SAFETY: the file was written by `compile` into a folder that no other user can write (checked when it was opened),
    // under its final name only when it was whole; nothing of a guest or of the network ever reaches it.
    unsafe { Module::deserialize_file(engine, path) }.ok()
}

fn lock(dir: &Path) -> io::Result<File> {
    let file = File::create(dir.join("lock"))?;
    file.lock()?;
    Ok(file)
}

/// Writes a file so that its name never stands for a part of it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension(format!("part-{}", std::process::id()));
    let written = File::create(&part).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    let written = written.and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_is_no_file_is_not_read() {
        for path in ["/dev/zero", "/"] {
            let error = read(Path::new(path)).unwrap_err();
            assert!(matches!(error, OpenError::Unreadable { .. }), "{path}: {error}");
        }
    }
}
