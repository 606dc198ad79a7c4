//! The periodic passes: recovery, expiry, cleanup (runs.md sections 11, 14, 20).
//!
//! Invariant: a pass costs what is due, not what is parked; one bad row is reported and the pass goes on.

use crate::inner::Inner;
use crate::worker;
use protocol::command::{Answer, Command, Reach, Recover};
use protocol::id::RunId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Due, TransactError};

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pass {
    changed: u32,
    repaired: u32,
    errors: u32,
    /// There may be more than one page of it.
    full: bool,
}

impl Pass {
    fn failed() -> Pass {
        Pass { errors: 1, ..Pass::default() }
    }
}

/// The pass at the opening of the store: claims of other workers are lapsed by proof. It decides and dispatches
/// nothing (I-19).
pub(crate) async fn first_pass(inner: &Arc<Inner>) {
    loop {
        let pass = recover(inner, Reach::Others(inner.worker)).await;
        if !pass.full || pass.changed == 0 {
            break;
        }
    }
    inner.recovering.store(false, Ordering::Release);
}

/// Passes on their timers, until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut recover_at = tokio::time::interval(inner.settings.recover_every);
    let mut scan_at = tokio::time::interval(inner.settings.scan_every);
    for timer in [&mut recover_at, &mut scan_at] {
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    }
    let mut hints = inner.ledger.subscribe();
    loop {
        let due = next_due(&inner);
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = due => report("expiry", expire(&inner).await),
            // A commit may have made a nearer due time.
            hint = hints.recv() => drop(hint),
            _ = recover_at.tick() => report("recovery", recover(&inner, Reach::Lapsed).await),
            _ = scan_at.tick() => report("expiry", expire(&inner).await),
        }
    }
}

/// Sleeps to the earliest due time, so that waits end on time and not a scan later; the scan finds what this misses.
async fn next_due(inner: &Inner) {
    let due = match inner.ledger.next_due().await {
        Ok(Some(due)) => due.since(inner.now()),
        Ok(None) | Err(_) => inner.settings.scan_every,
    };
    tokio::time::sleep(due.max(std::time::Duration::from_millis(1))).await;
}

fn report(what: &'static str, pass: Pass) {
    if pass.errors > 0 {
        tracing::warn!(what, pass.errors, pass.repaired, "pass degraded");
    } else if pass.changed > 0 {
        tracing::debug!(what, pass.changed, pass.repaired, "pass done");
    }
}

/// Lapsed claims, passed deadlines, stopping runs: one command each decides what is due.
async fn recover(inner: &Arc<Inner>, reach: Reach) -> Pass {
    let Some((due, mut pass)) = look(inner, reach).await else { return Pass::failed() };
    for run in due.lapsed.into_iter().chain(due.deadlines).chain(due.stopping) {
        if !worker::carries(inner, run) {
            one(inner, &mut pass, run, Command::Recover(Recover { run, reach, patience: inner.settings.patience() })).await;
        }
    }
    pass
}

async fn expire(inner: &Arc<Inner>) -> Pass {
    let Some((due, mut pass)) = look(inner, Reach::Lapsed).await else { return Pass::failed() };
    for (wait, run) in due.waits {
        one(inner, &mut pass, run, Command::Expire(wait)).await;
    }
    if inner.carry {
        for (run, debt) in due.debts {
            one(inner, &mut pass, run, Command::Clean { run, debt }).await;
        }
    }
    pass
}

/// One page of what is due; rows that cannot be read are reported and stepped over.
async fn look(inner: &Arc<Inner>, reach: Reach) -> Option<(Due, Pass)> {
    let page = inner.settings.page_size as usize;
    let due = match inner.ledger.due(inner.now(), reach, 0, page).await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(%error, "what is due could not be read");
            return None;
        }
    };
    for fault in &due.faults {
        tracing::warn!(%fault, "a row that is due cannot be read");
    }
    let full = [due.lapsed.len(), due.waits.len(), due.stopping.len(), due.debts.len()].contains(&page);
    let pass = Pass { errors: due.faults.len() as u32, full, ..Pass::default() };
    Some((due, pass))
}

async fn one(inner: &Arc<Inner>, pass: &mut Pass, run: RunId, command: Command) {
    match inner.ledger.transact(command).await {
        Ok(Answer::Settled { changed, repaired, .. }) => {
            pass.changed += u32::from(changed);
            pass.repaired += u32::from(repaired);
        }
        Ok(_) | Err(TransactError::Refused(_)) => {}
        Err(error) => {
            tracing::warn!(%run, %error, "a pass met an error; going on");
            pass.errors += 1;
        }
    }
}
