//! The resources of this host: what [`protocol::resource`] decides, done to real processes (runs.md section 7).
//!
//! Owns: leases as values that give themselves back, waiting as futures that withdraw themselves, and the one start or
//! stop that is under way. It decides nothing. Invariant: an answer and a lease are never lost between machine and hop; who
//! stops listening has withdrawn, and a lease that nobody took is given back.

mod effect;
mod leftover;
mod process;

pub(crate) use effect::Local;

use crate::config;
use crate::tools::Connectors;
use protocol::id::RunId;
use protocol::limits::WorkerSettings;
use protocol::resource::{
    Action, Capacity, Cost, Declared, Given, LeaseId, Manager, Place, Refused, Ticket, Unleased, View,
};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

/// The resources of an engine.
#[derive(Clone)]
pub(crate) struct Resources(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Where remote ones say that they are ready.
    remote: BTreeMap<String, Url>,
    local: BTreeMap<String, Local>,
    connectors: Arc<Connectors>,
    drain_timeout: Duration,
    start_limit: Duration,
    /// Processes carry this mark, so that whoever opens the same ledger later finds what was left.
    owner: String,
    closing: CancellationToken,
    tasks: TaskTracker,
}

struct State {
    manager: Manager,
    waiting: HashMap<Ticket, Waiter>,
}

struct Waiter {
    /// None: an operator's.
    run: Option<RunId>,
    answer: oneshot::Sender<Result<Granted, Refused>>,
}

/// What a ticket brought.
enum Granted {
    Lease(Lease),
    Reset,
}

/// Permission to use a warm resource; dropping it gives it back.
#[must_use = "dropping a lease gives it back"]
pub(crate) struct Lease {
    resources: Resources,
    id: LeaseId,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.id.fmt(f)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let actions = self.resources.state().manager.release(self.id);
        self.resources.act(actions);
    }
}

/// An answer on its way; dropping it withdraws the request.
struct Pending {
    resources: Resources,
    ticket: Ticket,
    answer: oneshot::Receiver<Result<Granted, Refused>>,
}

impl Future for Pending {
    type Output = Result<Granted, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        Poll::Ready(answer.unwrap_or_else(|_| Err(Refused::Failed("the server shuts down".to_owned()))))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut state = self.resources.state();
        let waited = state.waiting.remove(&self.ticket);
        let actions = state.manager.withdraw(self.ticket);
        drop(state);
        drop(waited);
        self.resources.act(actions);
    }
}

impl Resources {
    /// Takes over the resources of this host. What an earlier process of the same ledger left running is stopped first.
    pub(crate) async fn start(
        declared: &[config::Resource],
        settings: &WorkerSettings,
        owner: String,
        connectors: Arc<Connectors>,
    ) -> Resources {
        let local = local(declared);
        let left = leftover::names(&owner, &local, &connectors).await;
        Resources::with(declared, local, &left, settings, owner, connectors)
    }

    /// Those of an engine that carries no runs: it leaves what there is alone.
    pub(crate) fn none(settings: &WorkerSettings, connectors: Arc<Connectors>) -> Resources {
        Resources::with(&[], BTreeMap::new(), &[], settings, String::new(), connectors)
    }

    fn with(
        declared: &[config::Resource],
        local: BTreeMap<String, Local>,
        left: &[String],
        settings: &WorkerSettings,
        owner: String,
        connectors: Arc<Connectors>,
    ) -> Resources {
        let elsewhere = declared.iter().filter(|resource| resource.start.is_empty());
        let remote = elsewhere.filter_map(|resource| Some((resource.name.clone(), resource.ready.clone()?))).collect();
        let capacity = Capacity { memory_mib: settings.resource_memory_mib, slots: settings.resource_slots };
        let (manager, actions) = Manager::new(capacity, declared.iter().map(as_declared).collect(), left);
        let shared = Shared {
            state: Mutex::new(State { manager, waiting: HashMap::new() }),
            remote,
            local,
            connectors,
            drain_timeout: settings.drain_timeout,
            start_limit: settings.start_limit,
            owner,
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let resources = Resources(Arc::new(shared));
        resources.act(actions);
        resources
    }

    /// A lease for one call, if the resource is warm and open. A remote one is probed, once.
    pub(crate) async fn lease(&self, name: &str, run: RunId) -> Result<Lease, Unleased> {
        let mut seen = None;
        loop {
            let leased = self.state().manager.lease(name, run, seen.take());
            match leased {
                Ok(id) => return Ok(Lease { resources: self.clone(), id }),
                Err(Unleased::Unprobed) => {
                    seen = Some(match self.0.remote.get(name) {
                        Some(url) => self.0.connectors.probe(url).await,
                        None => Ok(()),
                    });
                }
                Err(unleased) => return Err(unleased),
            }
        }
    }

    /// Asks for a resource to be warm, and waits for a lease on it. Dropping the future withdraws.
    pub(crate) fn converge(
        &self,
        name: &str,
        run: RunId,
        priority: u8,
    ) -> impl Future<Output = Result<Lease, Refused>> + Send + use<> {
        let mut state = self.state();
        let (ticket, actions) = state.manager.converge(name, run, priority);
        let pending = self.waits(&mut state, ticket, Some(run));
        drop(state);
        self.act(actions);
        async move {
            match pending.await? {
                Granted::Lease(lease) => Ok(lease),
                Granted::Reset => unreachable!("a run's ticket brings a lease"),
            }
        }
    }

    /// Brings a contained resource to a known state. `None`: it is not contained.
    pub(crate) async fn reset(&self, name: &str) -> Option<Result<(), Refused>> {
        let pending = {
            let mut state = self.state();
            let (ticket, actions) = state.manager.reset(name)?;
            let pending = self.waits(&mut state, ticket, None);
            drop(state);
            self.act(actions);
            pending
        };
        Some(pending.await.map(drop))
    }

    fn waits(&self, state: &mut State, ticket: Ticket, run: Option<RunId>) -> Pending {
        let (sender, answer) = oneshot::channel();
        state.waiting.insert(ticket, Waiter { run, answer: sender });
        Pending { resources: self.clone(), ticket, answer }
    }

    /// How many changes are made before the one that this run waits for; 0 is its own.
    pub(crate) fn place(&self, run: RunId) -> Option<usize> {
        let state = self.state();
        let ticket = state.waiting.iter().find(|(_, waiter)| waiter.run == Some(run)).map(|(ticket, _)| *ticket)?;
        state.manager.place(ticket)
    }

    pub(crate) fn list(&self) -> Vec<View> {
        self.state().manager.list()
    }

    /// A process ended by itself. One that was replaced since says nothing of the present one.
    fn died(&self, name: &str, of: &process::Process, why: String) {
        let mut state = self.state();
        if !self.0.local[name].is(of) {
            return;
        }
        tracing::warn!(resource = name, why, "a resource ended by itself");
        let actions = state.manager.died(name, why);
        drop(state);
        self.act(actions);
    }

    /// Does what the machine says. The lock is not held here: an answer may give its lease back at once.
    fn act(&self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Answer { ticket, answer } => self.answer(ticket, answer),
                Action::AwaitDrain { change } => self.spawn(|resources| async move {
                    tokio::time::sleep(resources.0.drain_timeout).await;
                    let actions = resources.state().manager.drain_expired(change);
                    resources.act(actions);
                }),
                Action::Stop { resource } => self.spawn(|resources| async move {
                    let done = resources.stop(&resource).await;
                    resources.finish(done);
                }),
                Action::Start { resource } => self.spawn(|resources| async move {
                    let done = resources.bring_up(&resource).await;
                    resources.finish(done);
                    resources.notice_death(&resource);
                }),
            }
        }
    }

    fn finish(&self, done: protocol::resource::Done) {
        let actions = self.state().manager.finished(done);
        self.act(actions);
    }

    fn answer(&self, ticket: Ticket, answer: Result<Given, Refused>) {
        let granted = answer.map(|given| match given {
            Given::Lease(id) => Granted::Lease(Lease { resources: self.clone(), id }),
            Given::Reset => Granted::Reset,
        });
        let waiter = self.state().waiting.remove(&ticket);
        // Whoever left meanwhile gets nothing, and the lease goes back as it is dropped.
        if let Some(waiter) = waiter {
            drop(waiter.answer.send(granted));
        }
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, work: impl FnOnce(Resources) -> F) {
        let (closing, work) = (self.0.closing.clone(), work(self.clone()));
        self.0.tasks.spawn(async move {
            tokio::select! {
                () = work => {}
                () = closing.cancelled() => {}
            }
        });
    }

    /// Ends every process of this host. Nothing is waited for any more, and nothing is started.
    pub(crate) async fn shutdown(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        let stops = self.0.local.keys().map(|name| self.stop(name));
        for (name, done) in self.0.local.keys().zip(futures_util::future::join_all(stops).await) {
            if done != protocol::resource::Done::Succeeded {
                tracing::error!(resource = name, ?done, "a resource may still run");
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn local(declared: &[config::Resource]) -> BTreeMap<String, Local> {
    let here = declared.iter().filter(|resource| !resource.start.is_empty());
    here.map(|resource| (resource.name.clone(), Local::of(resource))).collect()
}

fn as_declared(resource: &config::Resource) -> Declared {
    let place = match resource.start.is_empty() {
        true => Place::Remote { probed: resource.ready.is_some() },
        false => Place::Local { cost: Cost { memory_mib: resource.memory_mib, slots: resource.slots } },
    };
    Declared { name: resource.name.clone(), place }
}
