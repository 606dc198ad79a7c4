//! The clock that interrupts guests: one OS thread that moves the engine's epoch while any guest runs (W-161, W-167).
//!
//! The thread sleeps while no guest executes. What happens at a tick is decided on the guest's own thread, so this one can
//! neither be held up by a guest nor hold one up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// How often a running guest is asked whether it may go on. A limit is thus noticed at most this late, of the 100 ms allowed.
pub(crate) const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    executing: AtomicUsize,
    closed: AtomicBool,
}

/// A guest executes for as long as this lives.
pub(crate) struct Executing<'a>(&'a Ticker);

impl Ticker {
    pub(crate) fn start(engine: wasmtime::Engine) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let seen = Arc::clone(&shared);
        let handle = thread::Builder::new().name("stasis-ticker".into()).spawn(move || {
            while !seen.closed.load(Ordering::Acquire) {
                if seen.executing.load(Ordering::Acquire) == 0 {
                    thread::park();
                } else {
                    #[allow(
                        clippy::disallowed_methods,
                        reason = "this thread is a clock: waking early would tick early"
                    )]
                    thread::sleep(TICK);
                    engine.increment_epoch();
                }
            }
        })?;
        Ok(Self { shared, thread: handle.thread().clone(), handle: Some(handle) })
    }

    pub(crate) fn executing(&self) -> Executing<'_> {
        if self.shared.executing.fetch_add(1, Ordering::AcqRel) == 0 {
            self.thread.unpark();
        }
        Executing(self)
    }
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        self.0.shared.executing.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.thread.unpark();
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}
