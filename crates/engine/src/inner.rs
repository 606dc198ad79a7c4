//! What all parts of an engine share.

use crate::ability;
use crate::audit::Audit;
use crate::broker::Unasked;
use crate::config;
use crate::engine::Image;
use crate::failure::Failure;
use crate::hop::Tally;
use crate::jobs::JobProgress;
use crate::maintenance::{Finding, Health};
use crate::migrate::Migrators;
use crate::pinned::Pinned;
use crate::resources::Resources;
use crate::tend::Relays;
use crate::tools::Connectors;
use crate::worker::Crew;
use crate::workflow::Workflows;
use protocol::able::{Abilities, Able};
use protocol::command::Taker;
use protocol::digest::Digest;
use protocol::id::{Ids, RequestId, WorkerId};
use protocol::limits::{Limits, WorkerSettings};
use protocol::time::Time;
use sandbox::Sandbox;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::Ledger;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Lines of progress that a follower may be behind before it loses some.
pub(crate) const LIVE_LINES: usize = 256;

/// The shared state of one engine.
pub(crate) struct Inner {
    pub(crate) ledger: Ledger,
    /// Where anchors go, if they are made here.
    pub(crate) audit: Option<Audit>,
    pub(crate) image: Image,
    pub(crate) connectors: Arc<Connectors>,
    pub(crate) resources: Resources,
    /// Agents that are called from here.
    pub(crate) agents: Vec<config::Agent>,
    pub(crate) limits: Limits,
    pub(crate) settings: WorkerSettings,
    pub(crate) migrators: Migrators,
    pub(crate) workflows: Workflows,
    /// How long a call waits hot; nothing: runs park at once (I-19b).
    pub(crate) hot_window: Duration,
    /// Whether this engine claims hops and dispatches calls (I-19).
    pub(crate) carry: bool,
    pub(crate) separate_requester: bool,
    pub(crate) worker: WorkerId,
    pub(crate) abilities: Mutex<Arc<Abilities>>,
    pub(crate) crew: Crew,
    pub(crate) hops: Tally,
    pub(crate) pinned: Kept<Pinned>,
    pub(crate) unasked: Unasked,
    /// Older images that runs are still pinned to.
    pub(crate) images: Kept<Sandbox>,
    /// Until the first recovery pass is done.
    pub(crate) recovering: watch::Sender<bool>,
    pub(crate) health: Health,
    pub(crate) finding: Finding,
    pub(crate) relays: Relays,
    /// Held while jobs are given out.
    pub(crate) claims: tokio::sync::Mutex<()>,
    /// Whether webhooks may be at addresses that are not public.
    pub(crate) private_webhooks: bool,
    /// Somebody wants a message sent again.
    pub(crate) resend: Notify,
    /// What agents tell, to whoever follows their runs at that moment.
    pub(crate) job_progress: broadcast::Sender<JobProgress>,
    pub(crate) stopping: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Inner {
    /// The image with this digest: the newest one, or an older one that the cache still has, since a run returns on the
    /// image it was pinned to. It is compiled once and kept.
    pub(crate) async fn sandbox_of(&self, digest: Digest) -> Result<Sandbox, String> {
        if let Some(ready) = self.ready(digest) {
            return Ok(ready);
        }
        let cache = self.cache()?;
        let opened = tokio::task::spawn_blocking(move || Sandbox::of_digest(&cache, digest)).await;
        let sandbox = opened.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        Ok((*self.images.keep(digest, Arc::new(sandbox))).clone())
    }

    /// Whether that image could be opened, as far as its name tells.
    pub(crate) fn has_image(&self, digest: Digest) -> Result<(), String> {
        match self.ready(digest) {
            Some(_) => Ok(()),
            None => sandbox::cache::find(&self.cache()?, digest).map(drop).map_err(|error| error.to_string()),
        }
    }

    fn ready(&self, digest: Digest) -> Option<Sandbox> {
        match &self.image {
            Image::Found(newest) if newest.image().digest == digest => Some(newest.clone()),
            Image::Found(_) | Image::Missing { .. } => self.images.get(digest).map(|kept| (*kept).clone()),
        }
    }

    fn cache(&self) -> Result<PathBuf, String> {
        match &self.image {
            Image::Found(newest) => Ok(newest.cache().to_owned()),
            Image::Missing { .. } => sandbox::cache::default_dir().map_err(|error| error.to_string()),
        }
    }

    /// The guest image, or why there is none.
    pub(crate) fn sandbox(&self) -> Result<&Sandbox, Failure> {
        match &self.image {
            Image::Found(sandbox) => Ok(sandbox),
            Image::Missing { why } => Err(Failure::Image(why.clone())),
        }
    }

    /// This worker, as it takes hops.
    pub(crate) fn taker(&self) -> Taker {
        Taker { worker: self.worker, ttl: self.settings.claim_ttl, able: self.able() }
    }

    /// What this worker can run, as it last looked.
    pub(crate) fn able(&self) -> Able {
        Able::Stated(self.abilities.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The registered patterns that this worker can run.
    pub(crate) fn able_patterns(&self) -> BTreeSet<Digest> {
        let abilities = self.abilities.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let registry = self.ledger.registry();
        let patterns = registry.workflows.values().flat_map(|workflow| workflow.patterns.values());
        patterns.filter(|pattern| abilities.lack(pattern).is_none()).map(|pattern| pattern.digest).collect()
    }

    /// Looks again at what this worker can run: images come and go with their cache.
    pub(crate) fn look_at_abilities(&self) {
        let abilities = Arc::new(ability::look(self));
        *self.abilities.lock().unwrap_or_else(PoisonError::into_inner) = abilities;
    }

    pub(crate) fn now(&self) -> Time {
        self.ledger.now()
    }

    /// A source of fresh ids for one request or hop.
    pub(crate) fn ids(&self) -> Ids {
        let mut seed = [0; 16];
        fill(&mut seed);
        Ids::new(self.now(), self.ledger.cell(), u128::from_le_bytes(seed))
    }

    pub(crate) fn request_id(&self) -> RequestId {
        self.ids().mint()
    }
}

/// Fills a buffer from the system's random source. Without one nothing here can be unguessable, so the process stops.
#[expect(clippy::disallowed_methods, reason = "the one source of randomness of this crate")]
pub(crate) fn fill(buffer: &mut [u8]) {
    getrandom::fill(buffer).expect("the system has a random source");
}

/// Immutable things by digest, kept once read.
pub(crate) struct Kept<T>(Mutex<HashMap<Digest, Arc<T>>>);

/// More than this many are forgotten together; each is read again when it is needed.
const KEPT: usize = 256;

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept(Mutex::new(HashMap::new()))
    }
}

impl<T> Kept<T> {
    pub(crate) fn get(&self, digest: Digest) -> Option<Arc<T>> {
        self.lock().get(&digest).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.lock().values().cloned().collect()
    }

    pub(crate) fn keep(&self, digest: Digest, value: Arc<T>) -> Arc<T> {
        let mut kept = self.lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(digest, value.clone());
        value
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
