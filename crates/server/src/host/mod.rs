//! A process that has a data directory open: ledger, engine, socket, and TCP where it stays (I-18, I-19).
//!
//! Owns the order in which these start and stop. `dev`, `serve` and every command without a server are the same host with
//! other [`HostOptions`]; nothing else opens a store. Invariant: whoever serves the socket of a directory holds the lock of
//! the store in it, so a socket file that is found under the lock is a dead one.

mod config;
mod error;
mod folder;
mod listen;
mod options;
mod places;
mod stall;

pub use error::StartError;
pub use options::{Connections, HostOptions, Progress};

use crate::auth::guesses::Guesses;
use crate::auth::session::Sessions;
use crate::clock;
use crate::http::{self, App, State, Streams};
use crate::service::{Facts, Service};
use engine::tools::{Connectors, Surroundings};
use engine::workflow::Workflows;
use engine::{Engine, EngineConfig, Image, Migrators, MintToken};
use listen::Listening;
use protocol::approval::Method;
use protocol::command::Caller;
use protocol::policy::Strength;
use protocol::principal::Principal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Ledger, StoreConfig};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Hops that one process carries at once; more wait in the queue.
const HOPS: usize = 256;
/// How long the token that `dev` prints is good.
const DEV_TOKEN_LIFE: std::time::Duration = std::time::Duration::from_secs(24 * 3_600);

/// A running host. Dropped without [`Host::shutdown`] it ends as a crash would, which loses nothing.
pub struct Host {
    app: App,
    engine: Engine,
    socket: PathBuf,
    address: Option<SocketAddr>,
    public_url: Option<String>,
    sign_in: Option<String>,
    token: Option<String>,
    listening: Listening,
}

impl Host {
    /// Opens the directory and serves it.
    ///
    /// # Errors
    /// [`StartError`]; where the directory was made for this start it stays, empty or with an empty store.
    pub async fn start(options: HostOptions) -> Result<Host, StartError> {
        let config = config::load(&options)?;
        let path = config::store(&config);
        if !options.apply_config && !path.exists() {
            return Err(StartError::Absent { data: options.data.clone() });
        }
        folder::private(&options.data)?;
        let ledger = open(StoreConfig { limits: config.limits.clone(), ..StoreConfig::new(path) }).await?;
        // From here on the lock is ours: what lies at the socket's place is left over from a process that is gone.
        let socket = options.data.join("stasis.sock");
        let unix = listen::socket(&socket)?;
        let address = options.lasting.then(|| options.listen.unwrap_or(config.server.listen));
        let tcp = match address {
            Some(address) => Some(listen::tcp(address).await?),
            None => None,
        };
        let (image, found) = config::image(&config, &options).await;
        let carries = carries(&options, &image)?;
        let engine = engine(&options, &config, ledger, image, carries).await?;
        // A server is ready before the first pass is done; a command shows what the pass made of its run (I-19).
        if !options.lasting {
            engine.recovered().await;
        }
        if let Some(why) = engine.behind().filter(|_| carries && !options.lasting) {
            return Err(StartError::Restored { why });
        }
        let local = Principal::local().named(folder::user());
        if options.apply_config && options.config.is_some() {
            let by = itself(&local);
            engine.apply(by, &config).await.map_err(StartError::Apply)?;
        }
        let facts = Facts {
            local: local.clone(),
            lasting: options.lasting,
            carries,
            limits: config.limits.clone(),
            data: options.data.clone(),
            image: found,
            config: config.digest,
            doubts: config.doubts.iter().map(ToString::to_string).collect(),
        };
        if options.lasting {
            facts.doubts.iter().for_each(|doubt| tracing::warn!("{doubt}"));
        }
        let public_url = config.server.public_url.clone();
        let app = Arc::new(State {
            service: Service::new(engine.clone(), facts),
            sessions: Sessions::default(),
            guesses: Guesses::default(),
            metrics: http::metrics::Metrics::default(),
            feeds: TaskTracker::new(),
            closing: CancellationToken::new(),
            streams: streams(&config),
            public_origin: public_url.as_deref().and_then(origin),
        });
        let token = match options.sign_in {
            true => Some(token(&engine, &local).await?),
            false => None,
        };
        let sign_in = options.sign_in.then(|| app.sessions.link(Principal::LOCAL, clock::now()));
        let address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let listening =
            Listening::start(http::router(app.clone()), unix, tcp, app.closing.clone(), options.connections);
        tracing::info!(data = %options.data.display(), ?address, "serving");
        Ok(Host { app, engine, socket, address, public_url, sign_in, token, listening })
    }

    /// The socket that every command on this machine finds (I-18).
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where TCP is served, if it is.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where people and programs reach it: the configured URL, the address, or else the socket.
    pub fn url(&self) -> String {
        // Nobody reaches a wildcard address; this machine reaches itself.
        let reachable = |address: SocketAddr| match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
            IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
            _ => address,
        };
        let address = self.address.map(|address| format!("http://{}", reachable(address)));
        let public = self.public_url.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        public.or(address).unwrap_or_else(|| format!("unix:{}", self.socket.display()))
    }

    /// The console with a one-time sign-in, where one was asked for.
    pub fn sign_in_url(&self) -> Option<String> {
        self.sign_in.as_ref().map(|link| format!("{}{}", self.url(), crate::console::sign_in_path(link)))
    }

    /// A token of `local` for the API, where a sign-in was asked for.
    pub fn api_token(&self) -> Option<String> {
        self.token.clone()
    }

    /// What a tool would lack if this process called it now, such as a secret that is not set (C-272).
    pub async fn lacking(&self, tool: &str, version: &str) -> Option<String> {
        self.engine.lacking(tool, version).await
    }

    /// Closes cleanly: no new connections, streams and long polls end, answers on their way are finished, runs are parked
    /// or handed back, and nothing is cancelled. Then the socket and the lock are gone.
    pub async fn shutdown(self) {
        self.app.closing.cancel();
        self.listening.stop().await;
        // They end by the same signal, and hold the store until they do.
        self.app.feeds.close();
        self.app.feeds.wait().await;
        self.engine.shutdown().await;
        // The file goes while the lock is still held, so that it cannot be the next process's.
        if let Err(error) = std::fs::remove_file(&self.socket) {
            tracing::warn!(socket = %self.socket.display(), %error, "the socket file stays");
        }
    }
}

async fn open(config: StoreConfig) -> Result<Ledger, StartError> {
    let opened = tokio::task::spawn_blocking(move || Ledger::open(config)).await;
    Ok(opened.expect("opening a store does not panic")?)
}

/// Whether this host carries runs. Without a guest image it carries none: a run that waits would come back only to fail
/// for what this machine lacks for now. A server says so and takes decisions; a command that was to carry does nothing.
fn carries(options: &HostOptions, image: &Image) -> Result<bool, StartError> {
    match image {
        Image::Missing { why } if options.carry && !options.lasting => Err(StartError::Image { why: why.clone() }),
        Image::Missing { why } => {
            if options.carry {
                tracing::warn!(why, "no run is carried here; what is ready waits");
            }
            Ok(false)
        }
        Image::Found(_) => Ok(options.carry),
    }
}

async fn engine(
    options: &HostOptions,
    config: &engine::config::Config,
    ledger: Ledger,
    image: Image,
    carry: bool,
) -> Result<Engine, StartError> {
    let started = Engine::start(EngineConfig {
        ledger,
        audit: Some(config.audit.clone()),
        image,
        connectors: Connectors::new(Surroundings::default()),
        resources: config.resources.clone(),
        agents: config.agents.clone(),
        owner: owner(config),
        limits: config.limits.clone(),
        worker: config.worker.clone(),
        // There is one schema of checkpoints yet.
        migrators: Migrators::default(),
        // Workflows in Rust are those of whoever embeds the engine.
        workflows: Workflows::default(),
        hot_window: options.hot_window.unwrap_or(config.worker.hot_window),
        carry,
        capacity: HOPS,
        private_webhooks: config.server.private_webhooks,
        separate_requester: options.separate_requester,
    });
    Ok(started.await?)
}

/// What marks the processes of resources as of this ledger.
fn owner(config: &engine::config::Config) -> String {
    let path = config::store(config);
    std::fs::canonicalize(&path).unwrap_or(path).display().to_string()
}

fn streams(config: &engine::config::Config) -> Streams {
    Streams {
        heartbeat: config.worker.stream_heartbeat,
        long_poll: config.worker.long_poll,
        reader_buffer: config.worker.reader_buffer.max(1) as usize,
        scan_every: config.worker.scan_every,
    }
}

/// The host itself, acting for whoever started the process.
fn itself(local: &Principal) -> Caller {
    Caller { principal: local.clone(), method: Method::Cli, strength: Strength::Session, request: clock::request_id() }
}

async fn token(engine: &Engine, local: &Principal) -> Result<String, StartError> {
    let expires_at = Some(engine.ledger().now() + DEV_TOKEN_LIFE);
    let mint = MintToken { principal: Principal::LOCAL.to_owned(), rights: None, expires_at };
    let (_, secret) = engine.mint_token(itself(local), mint).await.map_err(StartError::Apply)?;
    Ok(secret)
}

/// `https://host:port` of a URL.
fn origin(url: &str) -> Option<String> {
    let uri: axum::http::Uri = url.parse().ok()?;
    Some(format!("{}://{}", uri.scheme_str()?, uri.authority()?))
}

/// The digest of the guest image that this build would use, for `--version`.
pub fn image_digest() -> Option<String> {
    config::image_here()
}
