//! What the handle, the writer and the readers share.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use protocol::registry::Registry;
use protocol::time::Time;
use tokio::sync::broadcast;

use crate::config::StoreConfig;
use crate::hint::Hint;
use crate::lock::Lock;
use crate::queue::Queue;
use crate::sqlite::{Job, Log};

/// Hints that a slow listener may be behind before it is told that it missed some.
const HINTS: usize = 4_096;

pub(crate) struct Shared {
    pub(crate) config: StoreConfig,
    pub(crate) queue: Queue<Job>,
    pub(crate) log: Arc<Log>,
    pub(crate) hints: broadcast::Sender<Hint>,
    /// Transactions committed since the start.
    pub(crate) commits: AtomicU64,
    registry: RwLock<Arc<Registry>>,
    /// The largest time committed, in microseconds.
    latest: AtomicI64,
    failure: Mutex<Option<String>>,
    strain: Mutex<Option<String>>,
    _lock: Lock,
}

/// Whether the store takes commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Health {
    Ready,
    /// The last transaction could not be committed, and nothing of it was; the next one may be.
    Strained,
    /// It stopped for good; a process that wants to go on starts again from disk.
    Failed,
}

impl Shared {
    pub(crate) fn new(config: StoreConfig, registry: Registry, latest: Time, lock: Lock) -> Shared {
        Shared {
            config,
            queue: Queue::new(),
            log: Arc::default(),
            hints: broadcast::Sender::new(HINTS),
            commits: AtomicU64::new(0),
            registry: RwLock::new(Arc::new(registry)),
            latest: AtomicI64::new(latest.as_micros()),
            failure: Mutex::new(None),
            strain: Mutex::new(None),
            _lock: lock,
        }
    }

    /// The store's clock, never less than the largest time committed.
    pub(crate) fn now(&self) -> Time {
        self.config.clock.now().max(Time::from_micros(self.latest.load(Ordering::SeqCst)))
    }

    pub(crate) fn committed(&self, at: Time) {
        self.latest.fetch_max(at.as_micros(), Ordering::SeqCst);
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_registry(&self, registry: Arc<Registry>) {
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = registry;
    }

    /// Tells whoever listens. Nobody listening is no fault: a scan finds the work.
    pub(crate) fn hint(&self, hint: Hint) {
        if self.config.sends_hints() {
            let _ = self.hints.send(hint);
        }
    }

    /// Stops the store for good. What waits is told that nothing of it was begun.
    pub(crate) fn fail(&self, reason: String) {
        tracing::error!(%reason, "the store has failed");
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason.clone());
        for job in self.queue.abandon() {
            let _ = job.answer.send(Err(crate::error::TransactError::Unavailable { reason: reason.clone() }));
        }
    }

    /// Says not ready until a transaction is committed.
    pub(crate) fn strain(&self, reason: String) {
        tracing::warn!(%reason, "the store is not ready");
        *self.strain.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    pub(crate) fn relax(&self) {
        if self.strain.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!("the store is ready again");
        }
    }

    /// Why the store is not ready, if it is not.
    pub(crate) fn failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.or_else(|| self.strain.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    pub(crate) fn health(&self) -> Health {
        let is = |reason: &Mutex<Option<String>>| reason.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        match (is(&self.failure), is(&self.strain)) {
            (true, _) => Health::Failed,
            (false, true) => Health::Strained,
            (false, false) => Health::Ready,
        }
    }
}
