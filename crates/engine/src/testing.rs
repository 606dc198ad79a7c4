//! An engine's inside without guests, on a ledger with runs in every state.

use crate::engine::Image;
use crate::inner::{Inner, Kept};
use crate::maintenance::{Finding, Health};
use crate::resources::Resources;
use crate::tend::Relays;
use crate::tools::{Connectors, Surroundings};
use crate::worker::Crew;
use protocol::limits::{Limits, WorkerSettings};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use store::conformance::{START, World};
use store::{Clock, Ledger, StoreConfig};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) inner: Arc<Inner>,
    path: PathBuf,
}

impl Bench {
    pub(crate) async fn with(settings: WorkerSettings) -> Bench {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("ledger.db");
        let clock = Arc::new(AtomicI64::new(START.as_micros()));
        let manual = Clock::Manual(clock.clone());
        let config = StoreConfig { clock: manual, durable: false, ..StoreConfig::new(path.clone()) };
        let world = World::on(Ledger::open(config).expect("a ledger"), clock, folder).await;
        let connectors = Arc::new(Connectors::new(Surroundings::default()));
        let inner = Arc::new(Inner {
            audit: None,
            private_webhooks: true,
            resend: tokio::sync::Notify::new(),
            ledger: world.ledger.clone(),
            image: Image::Missing { why: "nothing here makes guests".to_owned() },
            agents: Vec::new(),
            resources: Resources::none(&settings, connectors.clone()),
            connectors,
            limits: Limits::default(),
            settings,
            migrators: crate::migrate::Migrators::default(),
            workflows: crate::workflow::Workflows::default(),
            hot_window: std::time::Duration::ZERO,
            carry: true,
            separate_requester: false,
            worker: world.taker().worker,
            abilities: Default::default(),
            crew: Crew::new(8),
            hops: Default::default(),
            pinned: Kept::default(),
            unasked: Default::default(),
            images: Kept::default(),
            recovering: watch::Sender::new(true),
            health: Health::default(),
            finding: Finding::default(),
            relays: Relays::default(),
            claims: tokio::sync::Mutex::default(),
            job_progress: tokio::sync::broadcast::Sender::new(crate::inner::LIVE_LINES),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        Bench { world, inner, path }
    }

    /// Another connection to the ledger's file, for what no command can do.
    pub(crate) fn tamper(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(&self.path).expect("the file is there");
        db.busy_timeout(std::time::Duration::from_secs(5)).expect("set");
        db
    }
}
