//! The periodic passes: recovery, expiry, cleanup, retention (runs.md sections 11, 12, 14, 20).
//!
//! Owns when they are made; [`sweep`] makes them. Invariant: a pass costs what is due, not what is parked.

mod health;
mod pins;
mod sweep;
#[cfg(test)]
mod tests;

pub(crate) use health::Health;
pub use health::{Cause, Stuck};
pub(crate) use sweep::Finding;
pub use sweep::Pass;

use crate::failure::Failure;
use crate::inner::Inner;
use protocol::command::Reach;
use protocol::id::RunId;
use protocol::run::Status;
use protocol::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::RunFilter;
use sweep::Sweeps;
use tokio::sync::broadcast::error::RecvError;

/// The pass at the opening of the store: claims of other workers are lapsed by proof. It decides and dispatches
/// nothing (I-19).
async fn first_pass(inner: &Arc<Inner>) {
    let pass = Sweeps::recover_all(inner, Reach::Others(inner.worker)).await;
    report("first recovery", pass);
    inner.health.recovered(pass);
    inner.recovering.send_replace(false);
}

/// Passes on their timers, until the engine stops. Nobody waits for the first one.
pub(crate) async fn run(inner: Arc<Inner>) {
    if *inner.recovering.borrow() {
        first_pass(&inner).await;
    }
    pins::report(&inner).await;
    let mut sweeps = Sweeps::default();
    let mut recover_at = tokio::time::interval(inner.settings.recover_every);
    let mut scan_at = tokio::time::interval(inner.settings.scan_every);
    for timer in [&mut recover_at, &mut scan_at] {
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    }
    let mut hints = inner.ledger.subscribe();
    let mut next = Next { at: next_due(&inner).await, hurry: true };
    loop {
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = next.comes(&inner) => next = expire(&inner, &mut sweeps).await,
            _ = scan_at.tick() => {
                next = expire(&inner, &mut sweeps).await;
                report("retention", sweeps.remove(&inner).await);
            }
            _ = recover_at.tick() => {
                let pass = sweeps.recover(&inner, Reach::Lapsed).await;
                let pass = if inner.carry && inner.may_claim() { pass.and(sweep::without_worker(&inner).await) } else { pass };
                report("recovery", pass);
                inner.health.recovered(pass);
            }
            hint = hints.recv() => match hint {
                Ok(hint) => next.at = next.at.into_iter().chain(hint.due_at).min(),
                Err(RecvError::Lagged(_)) => next.at = next_due(&inner).await,
                Err(RecvError::Closed) => return,
            },
        }
    }
}

/// When the next wait ends by itself, so that it ends on time and not a scan later; the scan finds what this misses.
struct Next {
    at: Option<Time>,
    /// False after a pass that left something: batches are paced by the scan, and what failed is not tried at once.
    hurry: bool,
}

impl Next {
    async fn comes(&self, inner: &Inner) {
        match self.at.filter(|_| self.hurry) {
            Some(at) => tokio::time::sleep(at.since(inner.now()).max(Duration::from_millis(1))).await,
            None => std::future::pending().await,
        }
    }
}

async fn expire(inner: &Arc<Inner>, sweeps: &mut Sweeps) -> Next {
    let pass = sweeps.expire(inner).await;
    report("expiry", pass);
    inner.health.expired(pass);
    let hurry = pass.is_clean() && pass.blocked == 0 && !sweeps.more_waits();
    Next { at: next_due(inner).await, hurry }
}

async fn next_due(inner: &Inner) -> Option<Time> {
    match inner.ledger.next_due().await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(%error, "when the next wait ends could not be read; the scan finds it");
            None
        }
    }
}

/// Every run that cannot go on by itself: what the passes met, what cannot be read at all, what is pinned to something that
/// is not here, and what waits for a person to find out. The whole ledger is read for it.
pub(crate) async fn stuck(inner: &Inner) -> Result<Vec<Stuck>, Failure> {
    let mut found: BTreeMap<String, Stuck> = BTreeMap::new();
    let since = inner.now();
    found.extend(pins::stuck(inner).await?.into_iter().map(|stuck| (stuck.run.clone(), stuck)));
    let mut after = None;
    loop {
        let page = inner.ledger.runs(unfinished(), after, PAGE).await?;
        for fault in page.faults {
            let stuck = Stuck { run: fault.key.clone(), cause: Cause::Corrupt, detail: fault.to_string(), since };
            found.insert(fault.key, stuck);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    loop {
        let page = inner.ledger.effects(true, None, after, PAGE).await?;
        for effect in page.items {
            let since = effect.call.gate().map_or(effect.call.at, |gate| gate.at);
            let detail = format!("nobody knows whether {} of {} happened", effect.call.id, effect.call.tool.name);
            let run = effect.run.id.to_string();
            found.entry(run.clone()).or_insert(Stuck { run, cause: Cause::Ambiguous, detail, since });
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    // What the passes know has its time.
    found.extend(inner.health.list().into_iter().map(|stuck| (stuck.run.clone(), stuck)));
    Ok(found.into_values().collect())
}

/// A run could not be claimed by this worker, which may be because it lacks something.
pub(crate) async fn not_claimed(inner: &Arc<Inner>, run: RunId) {
    sweep::refuse_or_tell(inner, run).await;
}

/// Runs of one read.
const PAGE: usize = 500;

fn unfinished() -> RunFilter {
    let statuses = Status::ALL.into_iter().filter(|status| !status.is_final()).collect();
    RunFilter { statuses, ..RunFilter::default() }
}

fn report(what: &'static str, pass: Pass) {
    if !pass.is_clean() {
        tracing::warn!(what, pass.errors, pass.blocked, pass.repaired, "pass degraded");
    } else if pass.changed > 0 {
        tracing::debug!(what, pass.changed, pass.blocked, pass.repaired, "pass clean");
    }
}
