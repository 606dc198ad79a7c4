//! What the passes and workers look for: work that can be claimed, and what is due.
//!
//! Invariant: each of these reads an index over live rows only, so its cost is what it returns.

use protocol::digest::Digest;
use protocol::id::{JobId, RunId, WaitId, WorkerId};
use protocol::pause::Shared;
use protocol::rows::Debt;
use protocol::run::{Kind, PatternRef, Status};
use protocol::time::Time;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params_from_iter};
use std::collections::BTreeSet;

use super::super::fault::{Fault, Fields};
use super::super::obligation::DEBTS;
use super::super::run::QUEUED;
use super::{Reader, keep};
use crate::error::Corrupt;
use crate::page::Cursor;

/// A hop that waits for a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claimable {
    pub run: RunId,
    pub seq: u32,
    pub kind: Kind,
    pub pattern: PatternRef,
    pub queue: String,
    pub priority: u8,
    pub ready_at: Time,
}

/// Which claims a pass may take over; the same as the command's.
pub type Reach = protocol::command::Reach;

/// What is due at a moment. A row that was handled is gone at the next look; one that failed is not, and a pass steps
/// over it by `skip`, so that it holds up no other.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// Runs whose claim may be taken over.
    pub lapsed: Vec<RunId>,
    /// Waits whose time has come, with their runs.
    pub waits: Vec<(WaitId, RunId)>,
    /// Jobs of whose agent nothing was heard, or past their deadline, with their runs.
    pub jobs: Vec<(JobId, RunId)>,
    /// Runs past their deadline that are not stopping yet.
    pub deadlines: Vec<RunId>,
    /// Stopping runs with an open obligation that may be tried.
    pub stopping: Vec<RunId>,
    /// Final runs with cleanup left over.
    pub debts: Vec<(RunId, Debt)>,
    pub faults: Vec<Corrupt>,
}

impl Due {
    pub fn is_empty(&self) -> bool {
        let Due { lapsed, waits, jobs, deadlines, stopping, debts, faults } = self;
        lapsed.is_empty()
            && waits.is_empty()
            && jobs.is_empty()
            && deadlines.is_empty()
            && stopping.is_empty()
            && debts.is_empty()
            && faults.is_empty()
    }
}

/// Final runs that ended before a moment, among those of one look.
#[derive(Clone, Debug, Default)]
pub struct Old {
    pub runs: Vec<RunId>,
    pub faults: Vec<Corrupt>,
    /// Where the next look begins; `None` once nothing older is left.
    pub next: Option<Cursor>,
}

/// Figures for people and metrics.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Runs ever admitted.
    pub runs: u64,
    /// Runs that are here, by status; of DONE there are as many as the others leave.
    pub statuses: Vec<(Status, u64)>,
    pub pending_approvals: u64,
    pub ambiguous_calls: u64,
    pub debts: u64,
}

/// A row without the times of its delivery is found too, so that it is told of and not waited for in silence.
const CLAIMABLE: &str = "SELECT r.n, r.id, r.seq, r.pin, r.priority, r.ready_at FROM run r
 WHERE r.status = 0 AND r.live & 16 = 0 AND coalesce(r.retry_at, 0) <= ?1
 ORDER BY r.priority DESC, r.ready_at, r.id LIMIT ?2 OFFSET ?3";
/// Pins of which hops wait, one step of the index each.
const READY_PINS: &str = "WITH RECURSIVE ready (pin) AS (
 SELECT min(r.pin) FROM run r WHERE r.status = 0 AND r.live & 16 = 0
 UNION ALL
 SELECT (SELECT min(r.pin) FROM run r WHERE r.status = 0 AND r.live & 16 = 0 AND r.pin > ready.pin) FROM ready
 WHERE ready.pin IS NOT NULL
) SELECT pin FROM ready WHERE pin IS NOT NULL";
const CLAIMABLE_OF_PIN: &str = "SELECT r.n, r.id, r.seq, r.pin, r.priority, r.ready_at FROM run r
 WHERE r.status = 0 AND r.live & 16 = 0 AND coalesce(r.retry_at, 0) <= ?1 AND r.pin = ?4
 ORDER BY r.priority DESC, r.ready_at, r.id LIMIT ?2 OFFSET ?3";
/// Runs that may have a claim are found by their status, in the words of its partial index.
const LAPSED: &str = "SELECT r.id FROM run r
 WHERE r.status IN (1, 2, 7, 8) AND r.status <> 9 AND r.claim_worker IS NOT NULL AND r.claim_deadline <= ?1
 ORDER BY r.claim_deadline LIMIT ?2 OFFSET ?3";
/// At the start of a process only: claims of workers that are gone for certain.
const OTHERS: &str = "SELECT r.id FROM run r
 WHERE r.status IN (1, 2, 7, 8) AND r.status <> 9 AND r.claim_worker IS NOT NULL
 AND (r.claim_deadline <= ?1 OR r.claim_worker <> ?4) ORDER BY r.claim_deadline LIMIT ?2 OFFSET ?3";
const TIMERS: &str = "SELECT t.wait, r.id, t.due_at FROM timer t JOIN run r ON r.n = t.run
 WHERE t.due_at <= ?1 ORDER BY t.due_at LIMIT ?2 OFFSET ?3";
const EXPIRIES: &str = "SELECT a.wait, r.id, a.expires_at FROM approval a JOIN run r ON r.n = a.run
 WHERE a.status = 0 AND coalesce(a.expires_at, 9223372036854775807) <= ?1
 ORDER BY coalesce(a.expires_at, 9223372036854775807), a.id LIMIT ?2 OFFSET ?3";
/// The n-th of each namespace comes before the next of any. All that is due is looked at for it.
const TIMERS_BY_TURNS: &str = "SELECT t.wait, r.id, t.due_at,
 row_number() OVER (PARTITION BY p.namespace ORDER BY t.due_at) AS turn
 FROM timer t JOIN run r ON r.n = t.run JOIN pin p ON p.n = r.pin
 WHERE t.due_at <= ?1 ORDER BY turn, t.due_at LIMIT ?2 OFFSET ?3";
const EXPIRIES_BY_TURNS: &str = "SELECT a.wait, r.id, a.expires_at,
 row_number() OVER (PARTITION BY p.namespace ORDER BY a.expires_at, a.id) AS turn
 FROM approval a JOIN run r ON r.n = a.run JOIN pin p ON p.n = r.pin
 WHERE a.status = 0 AND coalesce(a.expires_at, 9223372036854775807) <= ?1
 ORDER BY turn, a.expires_at, a.id LIMIT ?2 OFFSET ?3";
/// Whether runs of more than one namespace were ever admitted.
const NAMESPACES: &str = "SELECT count(*) FROM (SELECT DISTINCT namespace FROM pin LIMIT 2)";
const NEXT_TIMER: &str = "SELECT min(t.due_at) FROM timer t";
const NEXT_EXPIRY: &str = "SELECT a.expires_at FROM approval a WHERE a.status = 0
 ORDER BY coalesce(a.expires_at, 9223372036854775807), a.id LIMIT 1";
const JOBS: &str = "SELECT j.id, r.id FROM job j JOIN run r ON r.n = j.run
 WHERE j.due_at IS NOT NULL AND j.due_at <= ?1 ORDER BY j.due_at LIMIT ?2 OFFSET ?3";
const NEXT_JOB: &str = "SELECT min(j.due_at) FROM job j WHERE j.due_at IS NOT NULL";
/// In the order of R-217.
const QUEUED_JOBS: &str = "SELECT j.id FROM job j JOIN run r ON r.n = j.run JOIN pin p ON p.n = r.pin
 WHERE j.state = 0 AND j.kind = ?1 AND p.namespace = ?2 ORDER BY j.priority DESC, j.id LIMIT ?3";
const DEADLINES: &str = "SELECT r.id FROM run r
 WHERE r.deadline IS NOT NULL AND r.finished_at IS NULL AND r.deadline <= ?1 AND r.status NOT IN (7, 8)
 ORDER BY r.deadline LIMIT ?2 OFFSET ?3";
const STOPPING: &str = "SELECT DISTINCT r.id FROM obligation o JOIN run r ON r.n = o.run
 WHERE o.state = 0 AND o.retry_at <= ?1 ORDER BY o.retry_at LIMIT ?2 OFFSET ?3";
const DEBTS_SQL: &str = "SELECT r.id, d.kind FROM debt d JOIN run r ON r.n = d.run
 WHERE d.since <= ?1 ORDER BY d.run LIMIT ?2 OFFSET ?3";

/// Runs in the order of their admission: one that was admitted later than a moment has not ended before it, nor has any
/// behind it, so that no index of ends has to be kept. One that is not final is stepped over.
const OLD: &str = "SELECT r.n, r.id, r.created_at, r.finished_at FROM run r WHERE r.n > ?1 ORDER BY r.n LIMIT ?2";

impl Reader<'_> {
    /// Final runs that ended at `before` or earlier, among the next `limit` runs after a place.
    pub(crate) fn old(self, after: Option<Cursor>, before: Time, limit: usize) -> Result<Old, Fault> {
        let mut old = Old::default();
        let mut statement = self.db.prepare_cached(OLD)?;
        let mut rows = statement.query([after.map_or(0, |cursor| cursor.0), limit as i64])?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            let mut f = Fields::new(row, "run");
            let n = f.int("n")?;
            f.keyed(n);
            (old.next, seen) = (Some(Cursor(n, 0)), seen + 1);
            let mut one = || -> Result<(RunId, Time, Option<Time>), Box<Corrupt>> {
                Ok((f.id("id")?, f.time("created_at")?, f.maybe_time("finished_at")?))
            };
            match one() {
                Ok((_, created_at, _)) if created_at > before => return Ok(Old { next: None, ..old }),
                Ok((id, _, finished_at)) => old.runs.extend(finished_at.filter(|at| *at <= before).map(|_| id)),
                Err(corrupt) => old.faults.push(*corrupt),
            }
        }
        if seen < limit {
            old.next = None;
        }
        Ok(old)
    }

    /// In the order of R-74, without what is paused: what waits under a pause is not even looked at. Rows that cannot be
    /// read are left out and reported.
    pub(crate) fn claimable(
        self,
        now: Time,
        paused: &[Shared],
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<Claimable>, Vec<Corrupt>), Fault> {
        let (mut found, mut faults) = (Vec::new(), Vec::new());
        if paused.is_empty() {
            self.claimable_rows(CLAIMABLE, window(now, skip, limit), &mut found, &mut faults)?;
            return Ok((found, faults));
        }
        let mut statement = self.db.prepare_cached(READY_PINS)?;
        let pins = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
        for pin in pins {
            let of = self.names.pin(self.db, pin)?;
            let held = |scope: &Shared| match scope {
                Shared::Workflow(key) => *key == of.pattern.key,
                Shared::Queue(name) => *name == of.queue,
            };
            if !paused.iter().any(held) {
                let mut values = window(now, 0, skip.saturating_add(limit));
                values.push(Value::from(pin));
                self.claimable_rows(CLAIMABLE_OF_PIN, values, &mut found, &mut faults)?;
            }
        }
        found.sort_by_key(|hop| (std::cmp::Reverse(hop.priority), hop.ready_at, hop.run));
        Ok((found.into_iter().skip(skip).take(limit).collect(), faults))
    }

    /// Hops that wait for a worker and whose pattern is none of these; the first so many of each pin. A pin of which nothing
    /// waits costs nothing.
    pub(crate) fn waiting_for_others(
        self,
        now: Time,
        able: &BTreeSet<Digest>,
        limit: usize,
    ) -> Result<Vec<Claimable>, Fault> {
        let mut statement = self.db.prepare_cached(READY_PINS)?;
        let pins = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
        let (mut found, mut faults) = (Vec::new(), Vec::new());
        for pin in pins {
            if !able.contains(&self.names.pin(self.db, pin)?.pattern.digest) {
                let mut values = window(now, 0, limit);
                values.push(Value::from(pin));
                // What cannot be read is told of where hops are claimed.
                self.claimable_rows(CLAIMABLE_OF_PIN, values, &mut found, &mut faults)?;
            }
        }
        Ok(found)
    }

    fn claimable_rows(
        self,
        sql: &str,
        values: Vec<Value>,
        found: &mut Vec<Claimable>,
        faults: &mut Vec<Corrupt>,
    ) -> Result<(), Fault> {
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            keep(found, faults, self.one_claimable(row))?;
        }
        Ok(())
    }

    fn one_claimable(self, row: &Row<'_>) -> Result<Claimable, Fault> {
        let mut f = Fields::new(row, "run");
        let n = f.int("n")?;
        f.keyed(n);
        let run: RunId = f.id("id")?;
        f.named(run);
        let seq = f.uint("seq")?;
        let pin = self.names.pin(self.db, f.int("pin")?)?;
        let (priority, ready_at) = (f.uint("priority")?, f.time("ready_at")?);
        let (kind, pattern, queue) = (pin.kind, pin.pattern.clone(), pin.queue.clone());
        Ok(Claimable { run, seq, kind, pattern, queue, priority, ready_at })
    }

    pub(crate) fn due(self, now: Time, reach: Reach, skip: usize, limit: usize) -> Result<Due, Fault> {
        let mut due = Due::default();
        let mut window = window(now, skip, limit);
        let run = |f: &mut Fields<'_>| Ok(f.id::<RunId>("run")?);
        due.waits = self.due_waits(now, skip, limit, &mut due.faults)?;
        self.due_rows(JOBS, &window, &mut due.faults, &mut due.jobs, |f| Ok((f.id("id")?, f.id("run")?)))?;
        self.due_rows(DEADLINES, &window, &mut due.faults, &mut due.deadlines, run)?;
        self.due_rows(STOPPING, &window, &mut due.faults, &mut due.stopping, run)?;
        self.due_rows(DEBTS_SQL, &window, &mut due.faults, &mut due.debts, |f| {
            Ok((f.id("run")?, f.one_of("kind", &DEBTS)?))
        })?;
        match reach {
            Reach::Lapsed => self.due_rows(LAPSED, &window, &mut due.faults, &mut due.lapsed, run)?,
            Reach::Others(worker) => {
                window.push(Value::from(WorkerId::as_bytes(&worker).to_vec()));
                self.due_rows(OTHERS, &window, &mut due.faults, &mut due.lapsed, run)?;
            }
        }
        Ok(due)
    }

    /// Timers and approvals, whichever ended first; where there are several namespaces they take turns.
    fn due_waits(
        self,
        now: Time,
        skip: usize,
        limit: usize,
        faults: &mut Vec<Corrupt>,
    ) -> Result<Vec<(WaitId, RunId)>, Fault> {
        let namespaces: i64 = self.db.prepare_cached(NAMESPACES)?.query_row([], |row| row.get(0))?;
        let window = window(now, 0, skip.saturating_add(limit));
        let mut found = Vec::new();
        for sql in if namespaces > 1 { [TIMERS_BY_TURNS, EXPIRIES_BY_TURNS] } else { [TIMERS, EXPIRIES] } {
            self.due_rows(sql, &window, faults, &mut found, |f| {
                let (wait, run) = (f.id("id")?, f.id("run")?);
                let due = f.time("due_at")?;
                let turn = if namespaces > 1 { f.uint("turn")? } else { 0 };
                Ok((turn, due, wait, run))
            })?;
        }
        found.sort();
        Ok(found.into_iter().skip(skip).take(limit).map(|(_, _, wait, run)| (wait, run)).collect())
    }

    fn due_rows<T>(
        self,
        sql: &str,
        values: &[Value],
        faults: &mut Vec<Corrupt>,
        found: &mut Vec<T>,
        read: impl Fn(&mut Fields<'_>) -> Result<T, Fault>,
    ) -> Result<(), Fault> {
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            keep(found, faults, read(&mut Fields::new(row, "run")))?;
        }
        Ok(())
    }

    /// Jobs of a kind that wait for an agent, in the order in which they are given out.
    pub(crate) fn queued_jobs(self, kind: &str, namespace: &str, limit: usize) -> Result<Vec<JobId>, Fault> {
        let mut statement = self.db.prepare_cached(QUEUED_JOBS)?;
        let mut rows = statement.query((kind, namespace, limit as i64))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(Fields::new(row, "job").id("id")?);
        }
        Ok(found)
    }

    /// When the next open wait ends by itself.
    pub(crate) fn next_due(self) -> Result<Option<Time>, Fault> {
        let first = |sql| -> Result<Option<i64>, Fault> {
            let found = self.db.prepare_cached(sql)?.query_row([], |row| row.get::<_, Option<i64>>(0));
            Ok(found.optional()?.flatten())
        };
        let next = [first(NEXT_TIMER)?, first(NEXT_EXPIRY)?, first(NEXT_JOB)?].into_iter().flatten().min();
        Ok(next.map(Time::from_micros))
    }

    /// How many runs wait in a queue, paused ones too.
    pub(crate) fn queued(self, queue: &str) -> Result<u64, Fault> {
        let count: i64 = self.db.prepare_cached(QUEUED)?.query_row([queue], |row| row.get(0))?;
        Ok(count as u64)
    }

    /// Pending approvals of all namespaces, counted by an index alone.
    pub(crate) fn pending_count(self) -> Result<u64, Fault> {
        let count = "SELECT count(*) FROM approval WHERE status = 0";
        Ok(self.db.prepare_cached(count)?.query_row([], |row| row.get::<_, i64>(0))? as u64)
    }

    pub(crate) fn pending_count_of(self, namespace: &str) -> Result<u64, Fault> {
        let mut own = self.db.prepare_cached(
            "SELECT count(*) FROM approval a JOIN run r ON r.n = a.run JOIN pin p ON p.n = r.pin
             WHERE a.status = 0 AND p.namespace = ?1",
        )?;
        Ok(own.query_row([namespace], |row| row.get::<_, i64>(0))? as u64)
    }

    pub(crate) fn counts(self) -> Result<Counts, Fault> {
        let one = |sql: &str| -> Result<u64, Fault> {
            Ok(self.db.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0))? as u64)
        };
        let mut counts = Counts {
            runs: one("SELECT coalesce(max(n), 0) FROM run")?,
            pending_approvals: self.pending_count()?,
            ambiguous_calls: one("SELECT count(*) FROM call WHERE state = 3")?,
            debts: one("SELECT count(*) FROM debt")?,
            statuses: Vec::new(),
        };
        let sql = "SELECT status, count(*) FROM run WHERE status <> 9 GROUP BY status";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let mut f = Fields::new(row, "run");
            counts.statuses.push((f.one_of("status", &Status::ALL)?, f.uint("count")?));
        }
        let others: u64 = counts.statuses.iter().map(|(_, count)| count).sum();
        let removed = one("SELECT count(*) FROM removed")?;
        counts.statuses.push((Status::Done, counts.runs.saturating_sub(others + removed)));
        Ok(counts)
    }
}

fn window(now: Time, skip: usize, limit: usize) -> Vec<Value> {
    vec![Value::from(now.as_micros()), Value::from(limit as i64), Value::from(skip as i64)]
}

/// The scans by name, so that a test can see how SQLite carries them out.
#[cfg(feature = "testing")]
pub fn scans() -> Vec<(&'static str, String)> {
    use crate::page::{ApprovalFilter, ApprovalOrder, RunFilter};

    let approvals = |order| {
        let after = Some(crate::Cursor::of([0; 16]));
        super::lists::approvals_sql(&ApprovalFilter { order, ..ApprovalFilter::default() }, after, 10).0
    };
    let runs = super::lists::runs_sql(&RunFilter::default(), Some(Status::Running), None, 10).0;
    let passes = [
        ("claimable", CLAIMABLE),
        ("ready pins", READY_PINS),
        ("claimable of a pin", CLAIMABLE_OF_PIN),
        ("queued", QUEUED),
        ("lapsed", LAPSED),
        ("timers", TIMERS),
        ("expiries", EXPIRIES),
        ("next timer", NEXT_TIMER),
        ("next expiry", NEXT_EXPIRY),
        ("jobs", JOBS),
        ("next job", NEXT_JOB),
        ("queued jobs", QUEUED_JOBS),
        ("deadlines", DEADLINES),
        ("stopping", STOPPING),
        ("old", OLD),
    ];
    let mut all: Vec<(&'static str, String)> = passes.map(|(name, sql)| (name, sql.to_owned())).to_vec();
    all.push(("pending", approvals(ApprovalOrder::Newest)));
    all.push(("expiring", approvals(ApprovalOrder::Expiring)));
    all.push(("running", runs));
    all
}
