//! The rows of the runs that were written last, kept so that the next command on one of them reads nothing.
//!
//! Written through and never ahead of the store: rows come in only as they were saved, and go out whole when a command
//! takes them. Whatever could make them differ from the store empties it: a rollback, a new connection, a commit of
//! somebody else. Invariant: what is taken is what loading would have found; debug builds load as well and compare.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use protocol::approval::Approval;
use protocol::call::Call;
use protocol::id::{ApprovalId, JobId, RunId};
use protocol::obligation::Obligation;
use protocol::rows::Rows;
use protocol::signal::Signal;

use super::approval;

/// Rows of one run under its number.
pub(super) struct Recent {
    pub(super) n: i64,
    pub(super) rows: Box<Rows>,
}

/// Two generations: what was put in lately, and what was before that. A full one replaces the older one.
#[derive(Default)]
pub(super) struct Cache {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    runs: ById<RunId, Recent>,
    /// Whose approvals these are.
    approvals: ById<ApprovalId, RunId>,
    rows: usize,
}

/// A map whose keys are ids: their last eight bytes were drawn at random, and are hash enough. Whoever chooses ids of its
/// own makes only its own look-ups slower, and what is at hand is bounded.
type ById<K, V> = HashMap<K, V, BuildHasherDefault<LastBytes>>;

#[derive(Default)]
struct LastBytes(u64);

/// Odd, and with bits all over: the map takes its places from the lowest bits and its marks from the highest.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for LastBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk() {
            self.0 = u64::from_be_bytes(*last).wrapping_mul(SPREAD);
        }
    }

    /// The length that comes before the bytes.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Rows of one generation, about a KiB each.
const ROWS: usize = 8_192;
/// A run with more live rows is read again.
const OF_ONE: usize = 32;

impl Cache {
    pub(super) fn forget(&mut self) {
        self.young = Generation::default();
        self.old = Generation::default();
    }

    /// Takes the rows of a run out.
    pub(super) fn take(&mut self, run: RunId) -> Option<Recent> {
        self.young.take(run).or_else(|| self.old.take(run))
    }

    /// The run of an approval.
    pub(super) fn run_of(&self, approval: ApprovalId) -> Option<RunId> {
        let of = |generation: &Generation| generation.approvals.get(&approval).copied();
        of(&self.young).or_else(|| of(&self.old))
    }

    /// Keeps rows as they were just saved; whoever loaded them took out what was here. A final run seldom sees another
    /// command.
    pub(super) fn put(&mut self, n: i64, mut rows: Box<Rows>) {
        saved(&mut rows);
        if rows.run.status().is_final() || weight(&rows) > OF_ONE {
            return;
        }
        if self.young.rows >= ROWS {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.put(Recent { n, rows });
    }
}

impl Generation {
    fn take(&mut self, run: RunId) -> Option<Recent> {
        let recent = self.runs.remove(&run)?;
        self.rows -= weight(&recent.rows);
        for approval in recent.rows.approvals.iter() {
            self.approvals.remove(&approval.id);
        }
        Some(recent)
    }

    fn put(&mut self, recent: Recent) {
        let run = recent.rows.run.id;
        self.rows += weight(&recent.rows);
        self.approvals.extend(recent.rows.approvals.iter().map(|approval| (approval.id, run)));
        self.runs.insert(run, recent);
    }
}

fn weight(rows: &Rows) -> usize {
    let Rows { run, waits, approvals, calls, obligations, jobs, signals, payloads: _ } = rows;
    1 + run.labels.len()
        + waits.iter().count()
        + approvals.iter().count()
        + calls.iter().count()
        + obligations.iter().count()
        + jobs.iter().count()
        + signals.iter().count()
}

/// Leaves of saved rows what loading finds of them, in the same order.
fn saved(rows: &mut Rows) {
    rows.waits.settle(|_| true);
    rows.obligations.settle(Obligation::is_open);
    let kept: Vec<JobId> = rows.jobs.iter().filter(|job| rows.keeps(job)).map(|job| job.id).collect();
    rows.jobs.settle(|job| kept.contains(&job.id));
    rows.signals.settle(Signal::is_kept);
    rows.payloads.clear();
    let asked: Vec<ApprovalId> = rows
        .calls
        .iter()
        .filter(|call| !call.is_ended())
        .flat_map(|call| [call.approval, call.settle])
        .flatten()
        .collect();
    rows.approvals.settle(|a: &Approval| approval::is_live(a) || asked.contains(&a.id));
    let Rows { approvals, calls, .. } = rows;
    calls.settle(|c: &Call| !c.is_ended() || approvals.iter().any(|a| a.call == c.id));
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::conformance::World;
    use crate::{Ledger, StoreConfig};
    use protocol::rows::Set;
    use std::sync::Arc;

    async fn parked(world: &World) -> Box<Rows> {
        let run = world.parked().await.0.id;
        let shown = world.shown(run).await;
        Box::new(Rows {
            run: shown.run,
            waits: Set::load(shown.waits),
            approvals: Set::load(shown.approvals),
            calls: Set::load(shown.calls),
            obligations: Set::load(shown.obligations),
            jobs: Set::load(shown.jobs),
            signals: Set::default(),
            payloads: Vec::new(),
        })
    }

    #[tokio::test]
    async fn rows_go_out_once_and_the_oldest_are_dropped() {
        let home = tempfile::tempdir().unwrap();
        let config = StoreConfig { durable: false, ..StoreConfig::new(home.path().join("ledger.db")) };
        let world = World::on(Ledger::open(config).unwrap(), Arc::default(), home).await;
        let (first, second) = (parked(&world).await, parked(&world).await);
        let later = [parked(&world).await, parked(&world).await];
        let approval = |rows: &Rows| rows.approvals.iter().next().unwrap().id;
        let mut cache = Cache::default();
        cache.put(1, first.clone());
        cache.put(2, second.clone());
        assert_eq!(cache.run_of(approval(&first)), Some(first.run.id));
        let taken = cache.take(first.run.id).unwrap();
        assert_eq!((taken.n, &taken.rows), (1, &first));
        assert!(cache.take(first.run.id).is_none() && cache.run_of(approval(&first)).is_none());
        // The other one is dropped once two generations are full after it.
        for rows in later.clone() {
            cache.young.rows = ROWS;
            cache.put(3, rows);
        }
        assert!(cache.take(second.run.id).is_none());
        assert!(later.iter().all(|rows| cache.take(rows.run.id).is_some()));
        cache.put(2, second.clone());
        cache.forget();
        assert!(cache.take(second.run.id).is_none());
    }
}
