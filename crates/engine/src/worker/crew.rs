//! Which hops are live in this process.

use crate::clock::{monotonic, since_boot};
use crate::inner::Inner;
use protocol::command::Taker;
use protocol::id::RunId;
use protocol::time::Time;
use sandbox::{Guest, Meter, Stopper};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The hops of one worker.
pub(crate) struct Crew {
    capacity: usize,
    /// Hops that want a guest where none can be made for now.
    wanting: AtomicUsize,
    live: Mutex<HashMap<RunId, Arc<Live>>>,
    freed: Notify,
}

/// One hop that this process carries.
pub(crate) struct Live {
    pub(crate) run: RunId,
    pub(crate) token: u64,
    state: Mutex<State>,
    /// Rang when a decision, a stop or a renewal changed something the hop may wait for.
    pub(crate) bell: Notify,
    /// Rang for writes that wait for the renewal after a suspension.
    awake: Notify,
}

struct State {
    /// When the claim was taken or last renewed, on the clock that counts suspension.
    renewed: Duration,
    /// Without a renewal the guest is stopped by then.
    stop_at: Instant,
    stop: Option<Stop>,
    guest: Option<(Stopper, Meter)>,
    /// What the hop is waiting for, for lists.
    waiting: Option<Waiting>,
}

/// When a renewal was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    at: Instant,
    since_boot: Duration,
}

impl Sent {
    pub(crate) fn now() -> Sent {
        Sent { at: monotonic(), since_boot: since_boot() }
    }
}

/// What a live hop waits for.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) since: Time,
    pub(crate) name: String,
}

/// Why a hop has to stop before its own end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stop {
    /// A pause lies over the run: park or hand back.
    Paused,
    /// The server shuts down: park or hand back.
    Shutdown,
    /// The run's own deadline has passed: finish calls in flight, then fail it.
    Late,
    /// The run is CANCELLING or FAILING: finish calls in flight, then acknowledge.
    Stopping,
    /// The claim is lost, or could not be renewed in time: drop everything, write nothing.
    Lost,
}

impl Stop {
    /// Whether the run goes on later from where it is, so that its hop finds its own place to stop.
    pub(crate) fn gives_way(self) -> bool {
        matches!(self, Stop::Paused | Stop::Shutdown)
    }
}

impl Crew {
    pub(crate) fn new(capacity: usize) -> Crew {
        Crew { capacity, wanting: AtomicUsize::new(0), live: Mutex::default(), freed: Notify::new() }
    }

    /// How many more hops this worker can take.
    pub(crate) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.all().len())
    }

    /// This worker, if it has room and carries runs at all.
    pub(crate) fn taker(&self, inner: &Inner) -> Option<Taker> {
        // Until the first pass is done, claims of a worker that is gone still stand for active runs.
        let counted = inner.settings.max_running.is_none() || !*inner.recovering.borrow();
        let able = inner.carry && inner.may_claim() && !inner.stopping.is_cancelled() && counted && self.free() > 0;
        able.then(|| inner.taker())
    }

    /// Enters a hop; `None` if the run is here already under a token as large.
    pub(crate) fn enter(&self, inner: &Inner, run: RunId, token: u64) -> Option<Arc<Live>> {
        let mut all = self.all();
        if all.get(&run).is_some_and(|known| known.token >= token) {
            return None;
        }
        let live = Arc::new(Live::new(inner, run, token));
        all.insert(run, live.clone());
        Some(live)
    }

    pub(crate) fn leave(&self, live: &Arc<Live>) {
        let mut all = self.all();
        if all.get(&live.run).is_some_and(|known| Arc::ptr_eq(known, live)) {
            all.remove(&live.run);
        }
        drop(all);
        self.freed.notify_one();
    }

    /// Says for as long as it is held that a hop wants a guest and there is no place for one.
    pub(crate) fn want(&self) -> Want<'_> {
        self.wanting.fetch_add(1, Ordering::Relaxed);
        Want(self)
    }

    /// Whether a hop that waits for a person has to park, for others have no place: those that wait longest go first
    /// (C-205), an eighth of the crew at each look.
    pub(crate) fn gives_way(&self, waiting_since: Time) -> bool {
        let all = self.all();
        if all.len() < self.capacity && self.wanting.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let longer = |live: &&Arc<Live>| live.waiting().is_some_and(|waiting| waiting.since < waiting_since);
        all.values().filter(longer).count() <= self.capacity / 8
    }

    /// Makes the claim loop look, as when a hop has left.
    pub(crate) fn look(&self) {
        self.freed.notify_one();
    }

    /// Resolves when a hop has left.
    pub(crate) async fn room(&self) {
        self.freed.notified().await;
    }

    pub(crate) fn has(&self, run: RunId) -> bool {
        self.all().contains_key(&run)
    }

    pub(crate) fn stop(&self, run: RunId, why: Stop) {
        if let Some(live) = self.all().get(&run) {
            live.stop(why);
        }
    }

    pub(crate) fn stop_all(&self, why: Stop) {
        self.list().iter().for_each(|live| live.stop(why));
    }

    pub(crate) fn wake(&self, run: RunId) {
        if let Some(live) = self.all().get(&run) {
            live.bell.notify_one();
        }
    }

    pub(crate) fn wake_all(&self) {
        self.list().iter().for_each(|live| live.bell.notify_one());
    }

    pub(crate) fn list(&self) -> Vec<Arc<Live>> {
        self.all().values().cloned().collect()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Crew::want`].
pub(crate) struct Want<'c>(&'c Crew);

impl Drop for Want<'_> {
    fn drop(&mut self) {
        self.0.wanting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How long a hop may go on without a renewal: its claim's life less the margin in which its guest is stopped.
pub(crate) fn patience(inner: &Inner) -> Duration {
    inner.settings.claim_ttl.saturating_sub(inner.settings.stop_margin)
}

impl Live {
    /// One that is in no crew: nobody renews or stops it.
    pub(crate) fn new(inner: &Inner, run: RunId, token: u64) -> Live {
        Live {
            run,
            token,
            state: Mutex::new(State {
                renewed: since_boot(),
                stop_at: monotonic() + patience(inner),
                stop: None,
                guest: None,
                waiting: None,
            }),
            bell: Notify::new(),
            awake: Notify::new(),
        }
    }

    /// Stops the hop; a stronger reason replaces a weaker one. Its guest stops at once, unless the hop only gives way: then
    /// the hop itself finds the place to stop.
    pub(crate) fn stop(&self, why: Stop) {
        let guest = {
            let mut state = self.state();
            state.stop = state.stop.max(Some(why));
            (!why.gives_way()).then(|| state.guest.clone()).flatten()
        };
        if let Some((guest, _)) = guest {
            guest.stop();
        }
        self.bell.notify_one();
        self.awake.notify_waiters();
    }

    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.state().stop
    }

    /// A renewal was sent at `sent` and succeeded (R-102: the deadline counts from before it was sent).
    pub(crate) fn renewed(&self, sent: Sent, patience: Duration) {
        let mut state = self.state();
        state.stop_at = sent.at + patience;
        state.renewed = sent.since_boot;
        drop(state);
        self.awake.notify_waiters();
    }

    /// Resolves when this hop may write. A renewal that is overdue by more than its period says that the process or the
    /// machine was suspended: somebody else may have the run by now, and the first write has to be a renewal.
    pub(crate) async fn awake(&self, renew_every: Duration) {
        loop {
            let mut renewed = pin!(self.awake.notified());
            // Listen first, then look.
            renewed.as_mut().enable();
            let overdue = since_boot().saturating_sub(self.state().renewed) > renew_every * 2;
            if !overdue || self.stopped() == Some(Stop::Lost) {
                return;
            }
            renewed.await;
        }
    }

    pub(crate) fn stop_at(&self) -> Instant {
        self.state().stop_at
    }

    /// Names the guest that a stop has to end.
    pub(crate) fn guard(&self, guest: Option<&Guest>) {
        let stop = {
            let mut state = self.state();
            state.guest = guest.map(|guest| (guest.stopper(), guest.meter()));
            state.stop.filter(|why| !why.gives_way()).and(state.guest.clone())
        };
        if let Some((guest, _)) = stop {
            guest.stop();
        }
    }

    pub(crate) fn waits(&self, waiting: Option<Waiting>) {
        self.state().waiting = waiting;
    }

    pub(crate) fn waiting(&self) -> Option<Waiting> {
        self.state().waiting.clone()
    }

    /// The guest that is resident for this hop, to be measured.
    pub(crate) fn guest(&self) -> Option<Meter> {
        self.state().guest.as_ref().map(|(_, meter)| meter.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
