//! The handle of a ledger: commands in, answers out after the commit.
//!
//! It holds no truth. A clone is another handle of the same ledger; the ledger closes when the last one goes.

use std::sync::Arc;
use std::thread::JoinHandle;

use protocol::command::{Answer, Command, Renew, Renewed};
use protocol::id::{MessageId, RunId};
use protocol::registry::{self, Registry};
use protocol::time::Time;
use protocol::webhook::{Message, MessageAct};
use tokio::sync::{Semaphore, broadcast, oneshot};

use crate::config::StoreConfig;
use crate::error::{OpenError, TransactError};
use crate::hint::Hint;
use crate::queue::CAPACITY;
use crate::shared::{Health, Shared};
use crate::sqlite::{self, Done, Job, LastAnchor, Readers, Work};

/// The ledger of one cell.
#[derive(Clone)]
pub struct Ledger {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) readers: Readers,
    places: Semaphore,
    threads: Vec<JoinHandle<()>>,
}

impl Ledger {
    /// Opens the store, makes it if it is not there, and brings its schema up to this build's.
    ///
    /// It takes the lock of the directory, and refuses a store that is damaged, newer, or less durable than promised.
    pub fn open(config: StoreConfig) -> Result<Ledger, OpenError> {
        let sqlite::Opened { shared, readers, threads } = sqlite::open(config)?;
        Ok(Ledger { inner: Arc::new(Inner { shared, readers, places: Semaphore::new(CAPACITY), threads }) })
    }

    /// Carries out one command on one run. The answer comes after its commit is durable.
    ///
    /// Dropping the future does not take the command back.
    pub async fn transact(&self, command: Command) -> Result<Answer, TransactError> {
        match self.submit(Work::Run(Box::new(command))).await? {
            Done::Run(answer) => Ok(*answer),
            _ => unreachable!("a command on a run is answered as one"),
        }
    }

    /// Carries out one command on the registry.
    pub async fn transact_registry(&self, change: registry::Change) -> Result<registry::Answer, TransactError> {
        match self.submit(Work::Registry(Box::new(change))).await? {
            Done::Registry(answer) => Ok(*answer),
            _ => unreachable!("a command on the registry is answered as one"),
        }
    }

    /// Renews all claims of a worker in one command. A claim that is not in the answer could not be read.
    pub async fn renew(&self, renew: Renew) -> Result<Vec<(RunId, Renewed)>, TransactError> {
        match self.submit(Work::Renew(renew)).await? {
            Done::Renewed(claims) => Ok(claims),
            _ => unreachable!("a renewal is answered as one"),
        }
    }

    /// Keeps the last anchor. It names the one that is kept before it, or nothing is changed.
    pub async fn anchor(&self, last: LastAnchor) -> Result<(), TransactError> {
        match self.submit(Work::Anchor(Box::new(last))).await? {
            Done::Anchored => Ok(()),
            _ => unreachable!("an anchor is answered as one"),
        }
    }

    /// Does something about a message of a webhook, and gives it as it is then.
    pub async fn act_on_message(&self, id: MessageId, act: MessageAct) -> Result<Option<Message>, TransactError> {
        match self.submit(Work::Message(id, act)).await? {
            Done::Message(message) => Ok(message.map(|message| *message)),
            _ => unreachable!("a message is answered with it"),
        }
    }

    /// Forgets messages that were delivered or given up before a time; at most some hundreds of them. How many it were.
    pub async fn forget_messages(&self, before: Time) -> Result<u64, TransactError> {
        match self.submit(Work::Forget(before)).await? {
            Done::Forgotten(gone) => Ok(gone),
            _ => unreachable!("forgetting is answered with a count"),
        }
    }

    async fn submit(&self, work: Work) -> Result<Done, TransactError> {
        let unavailable = |reason: String| TransactError::Unavailable { reason };
        let packs = sqlite::pack(&work).await;
        let _place = self.inner.places.acquire().await.map_err(|_| unavailable("the store is closed".to_owned()))?;
        let (answer, answered) = oneshot::channel();
        if self.inner.shared.queue.push(Job { work, packs, answer }).is_err() {
            let failure = self.inner.shared.failure();
            return Err(unavailable(failure.unwrap_or_else(|| "the store is closed".to_owned())));
        }
        let lost = || TransactError::Unknown { reason: "the writer went away".to_owned() };
        answered.await.map_err(|_| lost())?
    }

    /// What is registered, as of the last commit.
    pub fn registry(&self) -> Arc<Registry> {
        self.inner.shared.registry()
    }

    /// The store's clock, never less than the largest time committed.
    pub fn now(&self) -> Time {
        self.inner.shared.now()
    }

    /// The cell that ids of this ledger carry (I-48).
    pub fn cell(&self) -> u16 {
        self.inner.shared.config.cell
    }

    /// Hints from now on. A listener that is too slow is told that it missed some, and looks at the store.
    pub fn subscribe(&self) -> broadcast::Receiver<Hint> {
        self.inner.shared.hints.subscribe()
    }

    /// Whether commands can be committed. After a full disk it becomes `true` again by itself; after a failed sync
    /// it never does, and the process has to start again from disk.
    pub fn ready(&self) -> bool {
        self.inner.shared.health() == Health::Ready
    }

    /// Why it is not ready, if it is not.
    pub fn failure(&self) -> Option<String> {
        self.inner.shared.failure()
    }

    /// Transactions committed since the start; a command that changes nothing commits nothing, and counts all the same.
    pub fn commits(&self) -> u64 {
        self.inner.shared.commits.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.queue.close();
        self.shared.log.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
