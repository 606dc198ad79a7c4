//! From the configuration to what a host is made of.

use super::{HostOptions, StartError};
use engine::Image;
use engine::config::{Config, Origin, Store, process_environment};
use protocol::digest::Digest;
use sandbox::{Sandbox, SandboxConfig};
use std::path::PathBuf;

/// Reads the configuration, or the defaults where none is named.
pub(super) fn load(options: &HostOptions) -> Result<Config, StartError> {
    let origin = Origin { file: options.config.as_deref(), data: &options.data, environment: process_environment() };
    Config::load(&origin).map_err(StartError::Config)
}

/// The file of the embedded store.
pub(super) fn store(config: &Config) -> PathBuf {
    let Store::Sqlite(path) = &config.store;
    path.clone()
}

/// The guest image, compiled if it is new here. A command that only reads runs no guest and compiles nothing; it only
/// learns which image there is. Without an image everything works that needs no guest (I-69).
pub(super) async fn image(config: &Config, options: &HostOptions) -> (Image, Result<Digest, String>) {
    let wanted = match sandbox::cache::default_dir() {
        Ok(cache) => SandboxConfig { image: config.guest.image.clone(), ..SandboxConfig::new(cache) },
        Err(error) => return missing(error.to_string()),
    };
    let progress = options.progress.clone();
    let reads_only = !options.apply_config;
    let opened = tokio::task::spawn_blocking(move || {
        if reads_only {
            return Err(sandbox::image::digest(&wanted).map_err(|error| error.to_string()));
        }
        let mut say = |step: sandbox::Progress| {
            let line = match step {
                sandbox::Progress::Compiling { image } => format!("compiling guest image {image}, once"),
                sandbox::Progress::Compiled { .. } => "compiled".to_owned(),
            };
            if let Some(progress) = &progress {
                progress(&line);
            }
        };
        Sandbox::open(&wanted, &mut say).map_err(|error| Err(error.to_string()))
    });
    match opened.await.expect("opening an image does not panic") {
        Ok(sandbox) => {
            let digest = sandbox.image().digest;
            (Image::Found(sandbox), Ok(digest))
        }
        Err(Ok(digest)) => {
            let why = "a command that only reads runs no guest".to_owned();
            (Image::Missing { why }, Ok(digest))
        }
        Err(Err(why)) => missing(why),
    }
}

fn missing(why: String) -> (Image, Result<Digest, String>) {
    (Image::Missing { why: why.clone() }, Err(why))
}

/// The image of the cache, for `--version`.
pub(super) fn image_here() -> Option<String> {
    let cache = sandbox::cache::default_dir().ok()?;
    Some(sandbox::image::digest(&SandboxConfig::new(cache)).ok()?.to_string())
}
