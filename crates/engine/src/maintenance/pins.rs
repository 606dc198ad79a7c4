//! Runs that are pinned to what is not here: parked, they could not return (W-8).
//!
//! Patterns are few and runs are many, so patterns are looked at first. Where all of them are whole nothing else is read.

use super::health::{Cause, Stuck};
use super::{PAGE, unfinished};
use crate::failure::Failure;
use crate::inner::Inner;
use crate::pinned::{self, PinError};
use protocol::workflow::Pattern;
use store::RunFilter;

/// At start: what is missing is said, and each run that lacks it is known to be stuck.
pub(super) async fn report(inner: &Inner) {
    match stuck(inner).await {
        Ok(found) => {
            for run in &found {
                tracing::warn!(run = run.run, why = run.detail, "a run could not return here");
                inner.health.unpinned(run);
            }
        }
        Err(error) => tracing::warn!(%error, "what runs are pinned to could not be looked at"),
    }
}

/// The unfinished runs whose pattern is not whole here.
pub(super) async fn stuck(inner: &Inner) -> Result<Vec<Stuck>, Failure> {
    let registry = inner.ledger.registry();
    let mut found = Vec::new();
    for pattern in registry.workflows.values().flat_map(|workflow| workflow.patterns.values()) {
        if let Err(PinError::Unavailable(why)) = pinned::lacks(inner, pattern).await {
            runs_of(inner, pattern, &why, &mut found).await?;
        }
    }
    Ok(found)
}

async fn runs_of(inner: &Inner, pattern: &Pattern, why: &str, found: &mut Vec<Stuck>) -> Result<(), Failure> {
    let key = &pattern.manifest.key;
    let detail = format!("no worker for {key}@{}: {why}", pattern.revision);
    let mut after = None;
    loop {
        let filter = RunFilter { workflow: Some(key.clone()), ..unfinished() };
        let page = inner.ledger.runs(filter, after, PAGE).await?;
        let pinned = page.items.iter().filter(|run| run.pattern.digest == pattern.digest);
        found.extend(pinned.map(|run| Stuck {
            run: run.id.to_string(),
            cause: Cause::WithoutWorker,
            detail: detail.clone(),
            since: run.since,
        }));
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}
