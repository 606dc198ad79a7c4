//! Which runs cannot go on by themselves, and what the last passes were like.
//!
//! Owns what this process learned while it worked: rows that could not be read or changed. It is told again by the next
//! pass after a restart, so nothing of it is stored.

use super::sweep::Pass;
use protocol::id::RunId;
use protocol::run::Run;
use protocol::time::Time;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A run that cannot go on by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// The run; the key of its row where not even its id can be read.
    pub run: String,
    pub cause: Cause,
    pub detail: String,
    pub since: Time,
}

/// Why.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// Rows of it cannot be decoded, or do not fit together.
    Corrupt,
    /// A pass met an error with it and tries again.
    Degraded,
    /// Nobody knows whether an effect of it happened; a person is asked.
    Ambiguous,
    /// What it is pinned to is not here, so that it cannot return (W-8).
    WithoutWorker,
}

impl Cause {
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::Corrupt => "corrupt",
            Cause::Degraded => "degraded",
            Cause::Ambiguous => "ambiguous",
            Cause::WithoutWorker => "without worker",
        }
    }
}

/// What was learned.
#[derive(Default)]
pub(crate) struct Health(Mutex<Learned>);

#[derive(Default)]
struct Learned {
    stuck: BTreeMap<String, Stuck>,
    recovery: Option<Pass>,
    expiry: Option<Pass>,
}

impl Health {
    pub(crate) fn corrupt(&self, key: &str, detail: String, now: Time) {
        self.stuck(key, Cause::Corrupt, detail, now);
    }

    pub(crate) fn failing(&self, run: RunId, detail: String, now: Time) {
        self.stuck(&run.to_string(), Cause::Degraded, detail, now);
    }

    /// Nobody who is there can run it.
    pub(super) fn without_worker(&self, run: &Run, why: &str) {
        let detail = format!("no worker for {}@{}: {why}", run.pattern.key, run.pattern.revision);
        self.stuck(&run.id.to_string(), Cause::WithoutWorker, detail, run.since);
    }

    pub(super) fn unpinned(&self, found: &Stuck) {
        self.stuck(&found.run, found.cause, found.detail.clone(), found.since);
    }

    /// How many runs are known to be stuck.
    pub(crate) fn count(&self) -> usize {
        self.lock().stuck.len()
    }

    fn stuck(&self, key: &str, cause: Cause, detail: String, now: Time) {
        let mut learned = self.lock();
        let new = || Stuck { run: key.to_owned(), cause, detail: String::new(), since: now };
        let known = learned.stuck.entry(key.to_owned()).or_insert_with(new);
        (known.cause, known.detail) = (cause, detail);
    }

    /// The run went on.
    pub(crate) fn fine(&self, run: RunId) {
        let mut learned = self.lock();
        if !learned.stuck.is_empty() {
            learned.stuck.remove(&run.to_string());
        }
    }

    pub(super) fn recovered(&self, pass: Pass) {
        self.lock().recovery = Some(pass);
    }

    pub(super) fn expired(&self, pass: Pass) {
        self.lock().expiry = Some(pass);
    }

    /// The last passes: recovery, and expiry with cleanup.
    pub(crate) fn passes(&self) -> [Option<Pass>; 2] {
        let learned = self.lock();
        [learned.recovery, learned.expiry]
    }

    pub(crate) fn list(&self) -> Vec<Stuck> {
        self.lock().stuck.values().cloned().collect()
    }

    pub(crate) fn of(&self, run: RunId) -> Option<Stuck> {
        self.lock().stuck.get(&run.to_string()).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Learned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
