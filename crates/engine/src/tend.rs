//! Keeping the relays of an engine at work: its claim loop, its passes, its ear for hints.
//!
//! Invariant: a relay that returns or panics before the engine stops is started again, after a pause that doubles.

use crate::clock::monotonic;
use crate::inner::Inner;
use futures_util::FutureExt as _;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The relays that are at work, by name.
#[derive(Default)]
pub(crate) struct Relays(Mutex<BTreeSet<&'static str>>);

impl Relays {
    /// Those that have not stopped.
    pub(crate) fn at_work(&self) -> Vec<&'static str> {
        self.lock().iter().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a relay until the engine stops.
pub(crate) fn tend<F, R>(inner: &Arc<Inner>, name: &'static str, relay: R)
where
    R: Fn(Arc<Inner>) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let inner = inner.clone();
    let tasks = inner.tasks.clone();
    inner.relays.lock().insert(name);
    tasks.spawn(async move {
        let (first, most) = (inner.settings.restart_first, inner.settings.restart_max);
        let mut pause = first;
        loop {
            let began = monotonic();
            let ended = AssertUnwindSafe(relay(inner.clone())).catch_unwind().await;
            if inner.stopping.is_cancelled() {
                break;
            }
            // One that worked for a while is not the one that keeps failing.
            if monotonic() - began > most {
                pause = first;
            }
            tracing::error!(name, panicked = ended.is_err(), ?pause, "a relay ended; starting it again");
            tokio::select! {
                () = inner.stopping.cancelled() => break,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(most),
            }
        }
        inner.relays.lock().remove(name);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use protocol::limits::WorkerSettings;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[tokio::test]
    async fn a_relay_that_ends_or_panics_is_started_again_ever_later() {
        let (first, most) = (Duration::from_millis(10), Duration::from_millis(40));
        let settings = WorkerSettings { restart_first: first, restart_max: most, ..WorkerSettings::default() };
        let bench = Bench::with(settings).await;
        let (starts, mut started) = tokio::sync::mpsc::unbounded_channel();
        let count = AtomicU32::new(0);
        tend(&bench.inner, "unsteady", move |_| {
            starts.send(monotonic()).expect("the test listens");
            let n = count.fetch_add(1, Ordering::Relaxed);
            async move { assert_eq!(n % 2, 1, "every other time it panics") }
        });
        let mut at = Vec::new();
        while at.len() < 6 {
            at.push(started.recv().await.expect("started again"));
        }
        let pauses: Vec<Duration> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (n, pause) in pauses.iter().enumerate() {
            assert!(*pause >= (first * 2_u32.pow(n as u32)).min(most), "{pauses:?}");
        }
    }

    #[tokio::test]
    async fn a_relay_that_ignores_its_stop_is_named() {
        let bench = Bench::with(WorkerSettings::default()).await;
        tend(&bench.inner, "deaf", |_| std::future::pending());
        tend(&bench.inner, "good", |inner| async move { inner.stopping.cancelled().await });
        bench.inner.stopping.cancel();
        bench.inner.tasks.close();
        while bench.inner.relays.at_work() != ["deaf"] {
            tokio::task::yield_now().await;
        }
        let waited = tokio::time::timeout(Duration::from_millis(50), bench.inner.tasks.wait()).await;
        assert!(waited.is_err()); // the stop is bounded
        assert_eq!(bench.inner.relays.at_work(), ["deaf"]);
    }
}
