//! From the configuration to what a host is made of.

use super::error::setting;
use super::{HostOptions, StartError};
use engine::Image;
use engine::config::{Config, Environment};
use engine::tools::{Connectors, Surroundings};
use protocol::digest::Digest;
use sandbox::{Sandbox, SandboxConfig};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reads the configuration, or the defaults where none is named.
pub(super) fn load(options: &HostOptions) -> Result<Config, StartError> {
    Config::load(options.config.as_deref(), &options.data, &Environment::process()).map_err(StartError::Config)
}

/// The file of the embedded store.
pub(super) fn store(config: &Config, options: &HostOptions) -> Result<PathBuf, StartError> {
    match config.store.url.as_deref() {
        None => Ok(options.data.join("stasis.db")),
        Some(url) => match url.strip_prefix("sqlite:") {
            Some(path) => Ok(PathBuf::from(path)),
            None => Err(setting("store.url", format!("`{}` is not built here: write sqlite:PATH", scheme(url)))),
        },
    }
}

/// A URL may hold a password: only its scheme is shown.
fn scheme(url: &str) -> &str {
    url.split_once(':').map_or("no URL", |(scheme, _)| scheme)
}

pub(super) fn listen(config: &Config) -> Result<SocketAddr, StartError> {
    let text = &config.server.listen;
    text.parse().map_err(|_| setting("server.listen", format!("`{text}` is no address and port, such as 127.0.0.1:7878")))
}

pub(super) fn connectors(config: &Config) -> Connectors {
    Connectors::new(Surroundings { server_concurrency: config.worker.server_concurrency, ..Surroundings::default() })
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
