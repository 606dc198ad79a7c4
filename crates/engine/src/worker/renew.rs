//! Renewing claims, on an OS thread of its own.

use super::crew::{Sent, Stop, patience};
use crate::clock::{monotonic, since_boot};
use crate::inner::Inner;
use protocol::command::{Renew, Renewed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// The renewing thread; dropping it ends the thread.
pub(crate) struct Renewer {
    quit: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Renewer {
    pub(crate) fn start(inner: &Arc<Inner>) -> std::io::Result<Renewer> {
        let (quit, told) = mpsc::channel();
        let runtime = tokio::runtime::Handle::current();
        let weak = Arc::downgrade(inner);
        let thread = std::thread::Builder::new().name("renew".to_owned()).spawn(move || run(&weak, &runtime, &told))?;
        Ok(Renewer { quit: Some(quit), thread: Some(thread) })
    }
}

impl Drop for Renewer {
    fn drop(&mut self) {
        drop(self.quit.take());
        if let Some(thread) = self.thread.take() {
            // The thread ends within one round; a panic in it has already been reported.
            let _ = thread.join();
        }
    }
}

fn run(inner: &Weak<Inner>, runtime: &tokio::runtime::Handle, quit: &mpsc::Receiver<()>) {
    // By the clock that counts suspension: after one a renewal is due at once.
    let mut last = since_boot();
    loop {
        let Some(engine) = inner.upgrade() else { return };
        let every = engine.settings.renew_every;
        if since_boot() >= last + every {
            last = since_boot();
            renew(&engine, runtime);
        }
        stop_unrenewed(&engine);
        drop(engine);
        match quit.recv_timeout(every.min(Duration::from_millis(250))) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// One command renews every claim; each is answered by its own token.
fn renew(engine: &Arc<Inner>, runtime: &tokio::runtime::Handle) {
    let hops = engine.crew.list();
    if hops.is_empty() {
        return;
    }
    let sent = Sent::now();
    let renew = Renew {
        worker: engine.worker,
        ttl: engine.settings.claim_ttl,
        claims: hops.iter().map(|hop| (hop.run, hop.token)).collect(),
    };
    // Waiting here blocks nothing but this thread; the ledger's writer is a thread too.
    let answers = match runtime.block_on(engine.ledger.renew(renew)) {
        Ok(answers) => answers,
        Err(error) => {
            tracing::warn!(%error, "claims could not be renewed");
            return;
        }
    };
    for (hop, (_, renewed)) in hops.iter().zip(answers) {
        match renewed {
            Renewed::Until { stopping, paused, late, .. } => {
                hop.renewed(sent, patience(engine));
                if paused {
                    hop.stop(Stop::Paused);
                }
                if late {
                    hop.stop(Stop::Late);
                }
                if stopping {
                    hop.stop(Stop::Stopping);
                }
            }
            Renewed::StaleClaim => hop.stop(Stop::Lost),
        }
    }
}

/// without success by deadline minus margin the guest is stopped and nothing more is offered to the gate.
fn stop_unrenewed(engine: &Arc<Inner>) {
    let now = monotonic();
    for hop in engine.crew.list() {
        if now >= hop.stop_at() {
            hop.stop(Stop::Lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use futures_util::FutureExt as _;
    use protocol::limits::WorkerSettings;

    const EVERY: Duration = Duration::from_millis(20);

    fn settings() -> WorkerSettings {
        let (claim_ttl, stop_margin) = (Duration::from_secs(30), Duration::from_secs(5));
        WorkerSettings { renew_every: EVERY, claim_ttl, stop_margin, ..WorkerSettings::default() }
    }

    /// Lets real time pass as a suspension does: nobody renews.
    async fn suspended() {
        let asleep = since_boot() + EVERY * 3;
        while since_boot() < asleep {
            tokio::task::yield_now().await;
        }
    }

    async fn renewed(bench: &Bench) {
        let engine = bench.inner.clone();
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || renew(&engine, &runtime)).await.expect("renewed");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn after_a_suspension_the_first_write_is_a_renewal() {
        let bench = Bench::with(settings()).await;
        let run = bench.world.running().await;
        let live = bench.inner.crew.enter(&bench.inner, run.id, run.fence).expect("a free place");
        assert!(live.awake(EVERY).now_or_never().is_some());
        suspended().await;
        let mut write = std::pin::pin!(live.awake(EVERY));
        assert!(write.as_mut().now_or_never().is_none());
        bench.world.pass(Duration::from_secs(60));
        renewed(&bench).await;
        write.await; // its answer came
        let claim = bench.world.ledger.run(run.id).await.expect("read").expect("there").claim().cloned();
        assert_eq!(claim.map(|claim| claim.deadline), Some(bench.world.ledger.now() + Duration::from_secs(30)));
        assert_eq!(live.stopped(), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_claim_that_was_lost_in_a_suspension_writes_nothing_more() {
        let bench = Bench::with(settings()).await;
        let run = bench.world.running().await;
        let live = bench.inner.crew.enter(&bench.inner, run.id, run.fence).expect("a free place");
        suspended().await;
        let mut write = std::pin::pin!(live.awake(EVERY));
        assert!(write.as_mut().now_or_never().is_none());
        bench.world.pass(Duration::from_secs(60));
        bench.world.recover(run.id, protocol::command::Reach::Lapsed).await;
        renewed(&bench).await;
        write.await;
        assert_eq!(live.stopped(), Some(Stop::Lost)); // R-100 R-104
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_hop_counts_its_patience_from_before_the_renewal_was_sent() {
        let bench = Bench::with(settings()).await;
        let run = bench.world.running().await;
        let live = bench.inner.crew.enter(&bench.inner, run.id, run.fence).expect("a free place");
        let sent = Sent::now();
        let before = monotonic();
        suspended().await;
        live.renewed(sent, patience(&bench.inner));
        assert!(live.stop_at() <= before + Duration::from_secs(25)); // claim_ttl less stop_margin
        // Its time is up, whatever the ledger's clock says.
        live.renewed(sent, Duration::ZERO);
        stop_unrenewed(&bench.inner);
        assert_eq!(live.stopped(), Some(Stop::Lost));
    }
}
