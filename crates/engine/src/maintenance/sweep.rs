//! One pass over what is due: lists in pages, each row by a command of its own.
//!
//! Invariant: a row that fails is counted and stepped over, so it stops neither its page nor the rows behind it (R-10,
//! A row that was handled is gone at the next look; one that stayed is still at the front, so a page begins as
//! many rows further on as stayed, and at the front again once the end of the list was seen.

use crate::hop;
use crate::inner::Inner;
use crate::worker;
use futures_util::future::join_all;
use protocol::command::{Answer, Command, Reach, Recover};
use protocol::id::RunId;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Due, TransactError};

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Rows that changed as they should with time.
    pub changed: u32,
    /// Rows that some earlier command should have changed.
    pub repaired: u32,
    /// Rows that are due and cannot go on yet: something outside has still to end.
    pub blocked: u32,
    /// Rows that could not be read or changed.
    pub errors: u32,
}

impl Pass {
    /// Clean, or degraded by errors.
    pub fn is_clean(&self) -> bool {
        self.errors == 0
    }

    fn count(&mut self, row: Row) {
        match row {
            Row::Changed { repaired } => {
                self.changed += 1;
                self.repaired += u32::from(repaired);
            }
            Row::Stayed => self.blocked += 1,
            Row::Failed => self.errors += 1,
        }
    }

    pub(super) fn and(self, other: Pass) -> Pass {
        Pass {
            changed: self.changed + other.changed,
            repaired: self.repaired + other.repaired,
            blocked: self.blocked + other.blocked,
            errors: self.errors + other.errors,
        }
    }
}

/// The lists of what is due.
#[derive(Default)]
pub(super) struct Sweeps {
    lapsed: Sweep,
    deadlines: Sweep,
    stopping: Sweep,
    waits: Sweep,
    jobs: Sweep,
    debts: Sweep,
    /// Where the next look for old runs begins.
    old: Option<store::Cursor>,
}

/// One list, and how far into it the next page begins.
#[derive(Default)]
struct Sweep {
    skip: usize,
    /// The last page was full.
    more: bool,
}

/// Runs whose calls are being looked for, so that no pass begins it twice.
#[derive(Default)]
pub(crate) struct Finding(Mutex<BTreeSet<RunId>>);

/// A run's calls are being looked for, for as long as this is held.
struct Looking(Arc<Inner>, RunId);

impl Looking {
    fn begin(inner: &Arc<Inner>, run: RunId) -> Option<Looking> {
        inner.finding.lock().insert(run).then(|| Looking(inner.clone(), run))
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.finding.lock().remove(&self.1);
    }
}

impl Finding {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of one row.
pub(super) enum Row {
    Changed {
        repaired: bool,
    },
    /// Nothing was due for it, or something has still to end.
    Stayed,
    Failed,
}

impl Sweeps {
    /// Lapsed claims, passed deadlines, stopping runs: one command each decides what is due. One page of each list.
    pub(super) async fn recover(&mut self, inner: &Arc<Inner>, reach: Reach) -> Pass {
        let one = |run| recover(inner, run, reach);
        let lapsed = self.lapsed.page(inner, reach, |due| due.lapsed, one).await;
        let late = self.deadlines.page(inner, reach, |due| due.deadlines, one).await;
        let stop = |run| stop(inner, run, reach);
        lapsed.and(late).and(self.stopping.page(inner, reach, |due| due.stopping, stop).await)
    }

    /// The same, each list to its end.
    pub(super) async fn recover_all(inner: &Arc<Inner>, reach: Reach) -> Pass {
        let mut sweeps = Sweeps::default();
        let one = |run| recover(inner, run, reach);
        let lapsed = sweeps.lapsed.pages(inner, reach, |due| due.lapsed, one).await;
        let late = sweeps.deadlines.pages(inner, reach, |due| due.deadlines, one).await;
        lapsed.and(late).and(sweeps.stopping.pages(inner, reach, |due| due.stopping, one).await)
    }

    /// Waits and jobs whose time has come, and cleanup after ends. One page of each list.
    pub(super) async fn expire(&mut self, inner: &Arc<Inner>) -> Pass {
        let expire = |(wait, run)| one(inner, run, Command::Expire { run, wait });
        let waits = self.waits.page(inner, Reach::Lapsed, |due| due.waits, expire).await;
        let miss = |(job, run)| one(inner, run, Command::ExpireJob { run, job });
        let waits = waits.and(self.jobs.page(inner, Reach::Lapsed, |due| due.jobs, miss).await);
        // A command that only reads leaves cleanup to a process that carries runs.
        if !inner.carry {
            return waits;
        }
        let clean = |(run, debt)| one(inner, run, Command::Clean { run, debt });
        waits.and(self.debts.page(inner, Reach::Lapsed, |due| due.debts, clean).await)
    }

    /// Runs that were kept long enough: one look a pass, round and round.
    pub(super) async fn remove(&mut self, inner: &Arc<Inner>) -> Pass {
        if !inner.carry {
            return Pass::default();
        }
        let retention = inner.settings.retention;
        let (before, page) = (inner.now() - retention, inner.settings.page_size as usize);
        let old = match inner.ledger.old(self.old, before, page).await {
            Ok(old) => old,
            Err(error) => {
                tracing::warn!(%error, "old runs could not be looked for");
                return Pass { errors: 1, ..Pass::default() };
            }
        };
        self.old = old.next;
        let mut pass = Pass { errors: old.faults.len() as u32, ..Pass::default() };
        let remove = |run| one(inner, run, Command::Remove { run, retention });
        for row in join_all(old.runs.into_iter().map(remove)).await {
            pass.count(row);
        }
        pass
    }

    /// Whether there may be more waits that are due than the last page had.
    pub(super) fn more_waits(&self) -> bool {
        self.waits.more || self.jobs.more
    }
}

impl Sweep {
    /// Handles one page. Its rows are given to the ledger together, which commits them together.
    async fn page<T, F: Future<Output = Row>>(
        &mut self,
        inner: &Arc<Inner>,
        reach: Reach,
        list: impl Fn(Due) -> Vec<T>,
        handle: impl Fn(T) -> F,
    ) -> Pass {
        let size = inner.settings.page_size as usize;
        let due = match inner.ledger.due(inner.now(), reach, self.skip, size).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "what is due could not be read");
                *self = Sweep::default();
                return Pass { errors: 1, ..Pass::default() };
            }
        };
        let mut pass = Pass { errors: due.faults.len() as u32, ..Pass::default() };
        for fault in &due.faults {
            tracing::warn!(%fault, "a row that is due cannot be read");
            inner.health.corrupt(&fault.key, fault.to_string(), inner.now());
        }
        let rows = list(due);
        self.more = rows.len() + pass.errors as usize >= size;
        for row in join_all(rows.into_iter().map(handle)).await {
            pass.count(row);
        }
        let stayed = (pass.blocked + pass.errors) as usize;
        self.skip = if self.more { self.skip + stayed } else { 0 };
        pass
    }

    /// Handles page after page, to the end of the list.
    async fn pages<T, F: Future<Output = Row>>(
        &mut self,
        inner: &Arc<Inner>,
        reach: Reach,
        list: impl Fn(Due) -> Vec<T>,
        handle: impl Fn(T) -> F,
    ) -> Pass {
        let mut all = Pass::default();
        loop {
            all = all.and(self.page(inner, reach, &list, &handle).await);
            if !self.more {
                return all;
            }
        }
    }
}

async fn recover(inner: &Arc<Inner>, run: RunId, reach: Reach) -> Row {
    // What this worker carries, its own hop stops, ends and acknowledges.
    if worker::carries(inner, run) {
        return Row::Stayed;
    }
    let (patience, able) = (inner.settings.patience(), inner.able());
    one(inner, run, Command::Recover(Recover { run, reach, patience, able })).await
}

/// Queued runs that this worker cannot run: told of, and in the end refused. The embedded store has one process, so
/// there is no other worker.
pub(super) async fn without_worker(inner: &Arc<Inner>) -> Pass {
    inner.look_at_abilities();
    let page = inner.settings.page_size as usize;
    let queued = match inner.ledger.waiting_for_others(inner.able_patterns(), page).await {
        Ok(queued) => queued,
        Err(error) => {
            tracing::warn!(%error, "runs without a worker could not be looked for");
            return Pass { errors: 1, ..Pass::default() };
        }
    };
    let mut pass = Pass::default();
    for row in join_all(queued.into_iter().map(|waiting| refuse_or_tell(inner, waiting.run))).await {
        pass.count(row);
    }
    pass
}

/// One run that could not be claimed here.
pub(super) async fn refuse_or_tell(inner: &Arc<Inner>, run: RunId) -> Row {
    let row = recover(inner, run, Reach::Lapsed).await;
    if matches!(row, Row::Stayed)
        && let Ok(Some(queued)) = inner.ledger.run(run).await
        && let Some(why) = inner.able().lacks(&queued, &inner.ledger.registry())
    {
        inner.health.without_worker(&queued, &why);
    }
    row
}

/// Recovers a stopping run, and looks for calls that nobody will tell of any more. A lookup takes as long as its tool
/// needs, and the pass does not wait for it.
async fn stop(inner: &Arc<Inner>, run: RunId, reach: Reach) -> Row {
    let row = recover(inner, run, reach).await;
    if inner.carry
        && !worker::carries(inner, run)
        && let Some(looking) = Looking::begin(inner, run)
    {
        inner.tasks.spawn(async move { hop::find(&looking.0, looking.1).await });
    }
    row
}

async fn one(inner: &Arc<Inner>, run: RunId, command: Command) -> Row {
    match inner.ledger.transact(command).await {
        Ok(Answer::Settled { changed, repaired, .. }) => {
            inner.health.fine(run);
            if changed { Row::Changed { repaired } } else { Row::Stayed }
        }
        Ok(_) | Err(TransactError::Refused(_)) => Row::Stayed,
        Err(error) => {
            tracing::warn!(%run, %error, "a pass met an error; going on");
            match error {
                TransactError::Corrupt(corrupt) => {
                    inner.health.corrupt(&run.to_string(), corrupt.to_string(), inner.now())
                }
                other => inner.health.failing(run, other.to_string(), inner.now()),
            }
            Row::Failed
        }
    }
}
