//! The worker: claims hops and carries each to its next stop (runs.md section 5).
//!
//! Owns: which hops this process has, and their claims. Renewals and guest stops run on an OS thread of their own, so a
//! busy guest can neither hold up its renewal nor its stop.

mod crew;
mod renew;

pub(crate) use crew::{Crew, Live, Stop, Waiting};
pub(crate) use renew::Renewer;

use crate::hop;
use crate::inner::Inner;
use protocol::command::{Answer, Claim, Command};
use protocol::id::RunId;
use protocol::run::{Phase, Run};
use std::sync::Arc;
use store::TransactError;

/// Claims what is claimable, for as long as the engine runs. Hints shorten the wait; with every hint lost a scan finds
/// work within `scan_every`.
pub(crate) async fn claim_loop(inner: Arc<Inner>) {
    let mut hints = inner.ledger.subscribe();
    loop {
        if let Err(error) = claim_some(&inner).await {
            tracing::warn!(%error, "claiming failed; trying again");
        }
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = inner.crew.room() => {}
            hint = hints.recv() => drop(hint),
            () = tokio::time::sleep(inner.settings.scan_every) => {}
        }
    }
}

async fn claim_some(inner: &Arc<Inner>) -> Result<(), store::ReadError> {
    let room = inner.crew.free();
    if room == 0 || inner.stopping.is_cancelled() {
        return Ok(());
    }
    let (claimable, faults) = inner.ledger.claimable(0, room).await?;
    for fault in faults {
        tracing::warn!(%fault, "a queued run cannot be read");
    }
    for found in claimable {
        let Some(taker) = inner.crew.taker(inner) else { return Ok(()) };
        let claim = Claim { run: found.run, seq: found.seq, taker };
        match inner.ledger.transact(Command::Claim(claim)).await {
            Ok(Answer::Claimed { run }) => adopt(inner, &run),
            Ok(other) => unreachable!("a claim is answered with its run: {other:?}"),
            // Somebody was faster, or the run may not be claimed now.
            Err(TransactError::Refused(_)) => {}
            Err(error) => tracing::warn!(%error, run = %found.run, "a claim failed"),
        }
    }
    Ok(())
}

/// Starts the hop of a run that a commit gave to this worker. A run that is not ours, or that runs here already, is left
/// alone.
pub(crate) fn adopt(inner: &Arc<Inner>, run: &Run) {
    let Phase::Active { claim, .. } = &run.phase else { return };
    if claim.worker != inner.worker {
        return;
    }
    let Some(live) = inner.crew.enter(inner, run.id, claim.token) else { return };
    let (inner, run) = (inner.clone(), run.clone());
    let tasks = inner.tasks.clone();
    tasks.spawn(async move {
        let id = run.id;
        let next = hop::carry(inner.clone(), live.clone(), run).await;
        inner.crew.leave(&live);
        tracing::debug!(run = %id, ?next, "hop ended");
        if let hop::Next::Claimed(run) = next {
            adopt(&inner, &run);
        }
    });
}

/// The worker learns of cancels and takeovers by hint, before its next renewal.
pub(crate) async fn watch_loop(inner: Arc<Inner>) {
    let mut hints = inner.ledger.subscribe();
    loop {
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            hint = hints.recv() => match hint {
                Ok(hint) if hint.status.is_stopping() => inner.crew.stop(hint.run, Stop::Stopping),
                Ok(hint) => inner.crew.wake(hint.run),
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => inner.crew.wake_all(),
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    }
}

/// Whether this worker carries the run now.
pub(crate) fn carries(inner: &Inner, run: RunId) -> bool {
    inner.crew.has(run)
}
