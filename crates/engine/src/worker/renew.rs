//! Renewing claims, on an OS thread of its own.

use super::crew::{Stop, patience};
use crate::clock::monotonic;
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
    let mut last = monotonic();
    loop {
        let Some(engine) = inner.upgrade() else { return };
        let every = engine.settings.renew_every;
        let due = last + every;
        if monotonic() >= due {
            last = monotonic();
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
    let sent = monotonic();
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
            Renewed::Until { stopping, .. } => {
                hop.renewed(sent, patience(engine));
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
