//! One guest: a future that runs its code, and the clock of what that costs.
//!
//! The whole of a guest is one boxed future, polled by whoever awaits [`Guest::next`]. It is suspended inside its call, on a
//! fiber, without a thread; dropping it ends the guest at once, and no code of the program runs then (W-148).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use wasmtime::{Store, StoreContextMut, UpdateDeadline};

use crate::body::Body;
use crate::host::{Door, Ending, Host, Request};
use crate::limits::Limit;
use crate::memory::Meter;
use crate::pool::{Inner, Seat};
use crate::snapshot::{Binding, FreezeError, Snapshot};
use crate::ticker::TICK;
use crate::wire::Answer;

/// Why a guest's code was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Halt {
    #[error("its guest time is spent")]
    Time,
    #[error("it was stopped")]
    Stopped,
    #[error("it left by exit code {0}")]
    Exit(i32),
}

/// What a guest does next.
#[derive(Debug)]
pub enum Event {
    /// It is blocked in a call: the request's bytes, copied once (C-66). They are whatever the program sent.
    Call(Vec<u8>),
    /// It is blocked in a call whose request is longer than the limit; nothing was copied (C-69).
    Oversized {
        length: u64,
    },
    Ended(End),
}

/// How a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The program ran to its end. The result is JSON text of at most 1 MiB.
    Returned {
        result: String,
    },
    /// An exception that the program did not catch (W-150).
    Raised(Raised),
    /// What stood in `result` is no JSON, or too long (W-159, W-261).
    ResultInvalid {
        message: String,
    },
    Limit(Limit),
    /// The guest's own code broke down; nothing outside it is affected.
    Trap {
        message: String,
    },
    /// [`Stopper::stop`] was called.
    Stopped,
}

/// An uncaught exception.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Raised {
    /// The exception's class, with its module if that is not the program: `ValueError`, `stasis.Denied`.
    pub class: String,
    pub message: String,
    /// The last line of the program that was on the stack.
    pub line: Option<u32>,
    pub traceback: String,
    /// `.code` of a `stasis.ToolError`.
    pub code: Option<String>,
    /// Whether it is a `stasis.JobFailed`.
    pub job_failed: bool,
}

/// A running or waiting program.
pub struct Guest {
    /// `None` once it ended.
    life: Option<Life>,
    door: Arc<Door>,
    clock: Arc<ActiveClock>,
    sandbox: Arc<Inner>,
    meter: Meter,
    /// How many calls the owner was told of.
    told: u64,
    /// A thawed guest's first answer must bring entropy (W-248).
    thawed: bool,
    /// Since when this guest and its owner have had their thread; `None` once they left it to others.
    turn: Option<Duration>,
    _seat: Seat,
}

type Life = Pin<Box<dyn Future<Output = (Box<Body>, wasmtime::Result<i32>)> + Send>>;

/// Ends a guest from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<Door>);

impl Stopper {
    /// The guest's next event is [`End::Stopped`]: at once if it waits, else within 100 ms.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Guest {
    pub(crate) fn new(
        sandbox: Arc<Inner>,
        seat: Seat,
        door: Arc<Door>,
        clock: Arc<ActiveClock>,
        meter: Meter,
        life: impl Future<Output = (Box<Body>, wasmtime::Result<i32>)> + Send + 'static,
        thawed: bool,
    ) -> Self {
        Self { life: Some(Box::pin(life)), door, clock, sandbox, meter, told: 0, thawed, turn: None, _seat: seat }
    }

    /// Runs the guest until it calls or ends. May be dropped and called again at any time. While a call has no answer this
    /// waits, and only a [`Stopper`] ends the wait.
    pub async fn next(&mut self) -> Event {
        let (mut body, outcome) = match poll_fn(|context| self.poll_event(context)).await {
            Step::Calls(event) => return event,
            Step::Ended(outcome) => outcome,
        };
        self.life = None;
        let broke_down = outcome.as_ref().is_err_and(|error| !error.is::<Halt>());
        let end = conclude(body.host(), outcome, &self.clock, &self.door);
        if !broke_down {
            self.sandbox.take_back(body);
        }
        Event::Ended(end)
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        // Calls that are answered at once would keep the thread for as long as the program makes them: no tick comes upon
        // it for long enough (see [`watch`]), and what the owner does in between takes time too.
        let now = monotonic();
        if now.saturating_sub(*self.turn.get_or_insert(now)) >= TICK {
            self.turn = None;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let counted = Arc::clone(&self.clock);
        let _counted = counted.run();
        match self.execute(context) {
            Poll::Ready(outcome) => Poll::Ready(Step::Ended(outcome)),
            Poll::Pending => match self.untold() {
                Some(event) => Poll::Ready(Step::Calls(event)),
                None => {
                    self.turn = None;
                    Poll::Pending
                }
            },
        }
    }

    /// Runs a thawed guest to the call it was frozen in, which its owner knows already. This costs it no guest time (W-166).
    pub(crate) async fn rewind(&mut self) -> Result<(), String> {
        let outcome = poll_fn(|context| match self.execute(context) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending => self.untold().map_or(Poll::Pending, |_| Poll::Ready(None)),
        });
        match outcome.await {
            None => Ok(()),
            Some((_, outcome)) => {
                self.life = None;
                Err(outcome.map_or_else(|error| describe(&error), |_| "it ended instead of waiting".into()))
            }
        }
    }

    /// The call that the guest is blocked in, if its owner was not told of it yet.
    fn untold(&mut self) -> Option<Event> {
        let (calls, event) = self.door.with_waiting(|calls, request| (calls, request.map(Event::from)));
        let event = event.filter(|_| calls != self.told)?;
        self.told = calls;
        Some(event)
    }

    /// Polls the guest's code once.
    fn execute(&mut self, context: &mut Context<'_>) -> Poll<(Box<Body>, wasmtime::Result<i32>)> {
        let life = self.life.as_mut().expect("a guest that ended is asked for nothing more");
        let _executing = self.sandbox.ticker.executing();
        life.as_mut().poll(context)
    }

    /// Answers the call that the guest is blocked in. It goes on at the next [`Guest::next`].
    ///
    /// # Panics
    ///
    /// If the guest is not blocked in a call, if a text of the answer is not JSON, or if the first answer after a thaw brings
    /// no entropy: each is a defect of the caller.
    pub fn answer(&mut self, answer: Answer) {
        assert!(!self.thawed || answer.entropy.is_some(), "the first answer after a thaw brings new entropy (W-248)");
        self.thawed = false;
        let frame = answer.frame().unwrap_or_else(|fault| panic!("an answer holds JSON: {fault}"));
        assert!(self.door.answer(frame), "only a guest that is blocked in a call is answered");
    }

    /// The request that the guest is blocked in.
    pub fn pending(&self) -> Option<Event> {
        self.door.with_waiting(|_, request| request.map(Event::from))
    }

    /// Guest time spent so far, earlier hops included: what the guest itself executed, in processor time of the threads that
    /// ran it. Waits, host calls and thawing are not in it (W-166).
    pub fn active(&self) -> Duration {
        self.clock.spent()
    }

    /// Sets the guest's clock and its limit: after a replay, which has its own (W-179), to what the journal says.
    pub fn set_active(&mut self, spent: Duration, limit: Duration) {
        self.clock.set(spent, limit);
    }

    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.door))
    }

    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// Freezes a guest that is blocked in a call, and ends it here (W-242). Without a snapshot the journal serves.
    pub async fn freeze(mut self, binding: &Binding) -> Result<Snapshot, FreezeError> {
        if self.life.is_none() || !self.door.freeze() {
            return Err(FreezeError::NotWaiting);
        }
        let (mut body, outcome) = poll_fn(|context| self.execute(context)).await;
        self.life = None;
        outcome.map_err(|error| FreezeError::Trap(describe(&error)))?;
        let snapshot = body.seal(&self.sandbox, binding).await?;
        self.sandbox.take_back(body);
        Ok(snapshot)
    }
}

impl Drop for Guest {
    /// A guest that waits is told to end, which it does at once and without a step of its code, and leaves its body to others.
    /// Any other is dropped as it is.
    fn drop(&mut self) {
        if self.life.is_none() || !self.door.is_waiting() || std::thread::panicking() {
            return;
        }
        self.door.stop();
        if let Poll::Ready((body, _)) = self.execute(&mut Context::from_waker(Waker::noop())) {
            self.life = None;
            self.sandbox.take_back(body);
        }
    }
}

enum Step {
    Calls(Event),
    Ended((Box<Body>, wasmtime::Result<i32>)),
}

impl From<&Request> for Event {
    fn from(request: &Request) -> Self {
        match request {
            Request::Bytes(bytes) => Self::Call(bytes.clone()),
            Request::Oversized(length) => Self::Oversized { length: *length },
        }
    }
}

/// What the end of a guest's code means.
fn conclude(host: &mut Host, outcome: wasmtime::Result<i32>, clock: &ActiveClock, door: &Door) -> End {
    let memory = host.memory.refused();
    let memory = memory.map(|(limit_bytes, wanted_bytes)| Limit::Memory { limit_bytes, wanted_bytes });
    let error = match outcome {
        Ok(_) => return ending(host, memory),
        Err(error) => error,
    };
    match error.downcast_ref::<Halt>() {
        Some(Halt::Stopped) => return End::Stopped,
        Some(Halt::Time) => {
            return End::Limit(Limit::Time { limit: clock.limit(), spent: clock.spent() });
        }
        Some(Halt::Exit(_)) | None if door.stopped() => return End::Stopped,
        Some(Halt::Exit(_)) | None => {}
    }
    // Code that breaks down after memory was refused broke down for want of it (W-160).
    if let Some(limit) = memory {
        return End::Limit(limit);
    }
    let words = host.take_last_words();
    let separator = if words.is_empty() { "" } else { ": " };
    End::Trap { message: format!("{}{separator}{words}", describe(&error)) }
}

fn ending(host: &mut Host, memory: Option<Limit>) -> End {
    match host.ending.take() {
        Some(Ending::Result(result)) => End::Returned { result },
        Some(Ending::ResultInvalid(message)) => End::ResultInvalid { message },
        Some(Ending::Raised(body)) => match (serde_json::from_str::<Raised>(&body), memory) {
            (Ok(raised), Some(limit)) if raised.class == "MemoryError" => End::Limit(limit),
            (Ok(raised), _) => End::Raised(raised),
            (Err(fault), _) => End::Trap { message: format!("the guest told its end wrongly: {fault}") },
        },
        Some(Ending::SourceFault(_) | Ending::Checked(_)) | None => {
            let words = host.take_last_words();
            memory.map_or_else(|| End::Trap { message: format!("the guest left without an end: {words}") }, End::Limit)
        }
    }
}

/// One line that names what happened, without addresses.
pub(crate) fn describe(error: &wasmtime::Error) -> String {
    match error.downcast_ref::<wasmtime::Trap>() {
        Some(trap) => trap.to_string(),
        None => error.root_cause().to_string(),
    }
}

/// Asked at every tick while a guest executes: whether it may go on.
pub(crate) fn watch(store: &mut Store<Host>, clock: Arc<ActiveClock>, door: Arc<Door>) {
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_: StoreContextMut<'_, Host>| {
        if door.stopped() {
            return Err(Halt::Stopped.into());
        }
        if clock.spent() > clock.limit() {
            return Err(Halt::Time.into());
        }
        // Others wait for this thread, but not for a guest that only just got it.
        let fresh = clock.this_run() < TICK / 2;
        Ok(if fresh { UpdateDeadline::Continue(1) } else { UpdateDeadline::Yield(1) })
    });
}

/// How much processor time a guest has used (W-166).
#[derive(Default)]
pub(crate) struct ActiveClock {
    /// Nanoseconds, up to the start of the stretch that runs now.
    spent: AtomicU64,
    limit: AtomicU64,
    /// The thread's processor time when this stretch began; 0 while the guest does not execute.
    since: AtomicU64,
}

/// The clock runs for as long as this lives. It is dropped on the thread that made it: a poll does not change threads.
pub(crate) struct Counted<'a>(&'a ActiveClock);

impl ActiveClock {
    pub(crate) fn new(spent: Duration, limit: Duration) -> Arc<Self> {
        let clock = Arc::<Self>::default();
        clock.set(spent, limit);
        clock
    }

    fn set(&self, spent: Duration, limit: Duration) {
        self.spent.store(nanos(spent), Ordering::Relaxed);
        self.limit.store(nanos(limit), Ordering::Relaxed);
    }

    pub(crate) fn run(&self) -> Counted<'_> {
        self.since.store(thread_nanos().max(1), Ordering::Relaxed);
        Counted(self)
    }

    /// On the guest's own thread this includes the running stretch.
    fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed)) + self.this_run()
    }

    fn this_run(&self) -> Duration {
        match self.since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_nanos(thread_nanos().saturating_sub(since)),
        }
    }

    fn limit(&self) -> Duration {
        Duration::from_nanos(self.limit.load(Ordering::Relaxed))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let run = nanos(self.0.this_run());
        self.0.since.store(0, Ordering::Relaxed);
        self.0.spent.fetch_add(run, Ordering::Relaxed);
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn thread_nanos() -> u64 {
    nanos(read(ClockId::ThreadCPUTime))
}

fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_can_move_between_threads() {
        fn moves<T: Send>() {}
        moves::<Guest>();
        moves::<Stopper>();
        moves::<crate::Sandbox>();
    }

    #[test]
    fn the_clock_counts_processor_time_of_its_stretches_only() {
        let clock = ActiveClock::new(Duration::from_secs(5), Duration::from_secs(6));
        assert_eq!(clock.spent(), Duration::from_secs(5));
        let counted = clock.run();
        while clock.this_run() < Duration::from_millis(2) {}
        drop(counted);
        let spent = clock.spent();
        assert!(spent >= Duration::from_millis(5_002));
        let start = thread_nanos();
        while thread_nanos() - start < 2_000_000 {}
        // W-166
        assert_eq!(clock.spent(), spent);
        assert_eq!(clock.limit(), Duration::from_secs(6));
    }
}
