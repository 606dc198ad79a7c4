//! The table `run`: the row of a run, in and out.
//!
//! Invariant: an update names the status and the fence as they were loaded and changes exactly one row, else the command
//! is broken. What can be read back is a [`Run`], or the row is corrupt.

use std::collections::BTreeMap;

use protocol::delivery::{Cause, Delivery, Mode, State};
use protocol::digest::Digest;
use protocol::id::{RunId, WorkerId};
use protocol::run::{Budget, Claim, End, Head, Parked, Phase, Run, Status, Stop, WaitMode};
use protocol::time::Time;
use rusqlite::{Connection, Row, Statement, params};

use super::codec::body_bytes;
use super::fault::{Fault, Fields, number};
use super::names::Names;
use super::packed::{
    CLOCKS_V1, FAILURE, read_checkpoint, read_clocks, read_failure, write_checkpoint, write_clocks, write_failure,
};
use crate::error::Corrupt;

/// A run as stored, with what only the store knows of it.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) n: i64,
    pub(super) live: Live,
    pub(super) run: Run,
}

/// Which kinds of live rows a run has, so that loading asks for no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Live(pub(super) u8);

impl Live {
    pub(super) const WAITS: u8 = 1;
    pub(super) const APPROVALS: u8 = 2;
    pub(super) const CALLS: u8 = 4;
    pub(super) const OBLIGATIONS: u8 = 8;

    pub(super) fn has(self, kind: u8) -> bool {
        self.0 & kind != 0
    }
}

pub(super) const STATES: [State; 2] = [State::Pending, State::Published];
const MODES: [Mode; 2] = [Mode::Fresh, Mode::Resume];
const CAUSES: [Cause; 5] = [Cause::Admission, Cause::Return, Cause::HandBack, Cause::Recovery, Cause::Rotation];
const WAIT_MODES: [WaitMode; 3] = [WaitMode::Any, WaitMode::All, WaitMode::First];

/// The columns that [`read`] reads, of the table or alias `r`.
pub(super) const COLUMNS: &str = "r.n, r.id, r.pin, r.requester, r.input, r.priority, r.session, r.deadline, r.labels, r.retry_of,
 r.created_at, r.status, r.seq, r.fence, r.live, r.delivery_state, r.delivery_mode, r.delivery_cause, r.delivery_attempts,
 r.delivery_error, r.ready_at, r.retry_at, r.claim_worker, r.claim_token, r.claim_deadline, r.claim_renewed_at, r.wait_mode,
 r.checkpoint, r.journal_len, r.journal_digest, r.events_len, r.events_digest, r.receipts_len, r.receipts_digest,
 r.log_lines, r.calls, r.active_us, r.body_bytes, r.clocks, r.since, r.started_at, r.continuations, r.failure,
 r.cancelled_by, r.result, r.finished_at";

/// Reads a row of [`COLUMNS`].
pub(super) fn read(row: &Row<'_>, db: &Connection, names: &Names) -> Result<Stored, Fault> {
    let mut f = Fields::new(row, "run");
    let n = f.int("n")?;
    f.keyed(n);
    let id: RunId = f.id("id")?;
    f.named(id);
    let pin = names.pin(db, f.int("pin")?)?;
    let requester = names.requester(db, f.int("requester")?)?;
    let input = f.body("input")?;
    let priority = f.uint("priority")?;
    let session = f.maybe_text("session")?.map(str::to_owned);
    let deadline = f.maybe_time("deadline")?;
    let labels = labels(&mut f)?;
    let retry_of = f.maybe_id("retry_of")?;
    let created_at = f.time("created_at")?;
    let status = f.one_of("status", &Status::ALL)?;
    let seq = f.uint("seq")?;
    let fence = f.uint("fence")?;
    let live = Live(f.uint("live")?);
    let delivery = delivery(&mut f)?;
    let claim = claim(&mut f)?;
    let mode = f.maybe_one_of("wait_mode", &WAIT_MODES)?;
    let checkpoint = match f.maybe_blob("checkpoint")? {
        Some(bytes) => Some(read_checkpoint(&f, bytes, db, names)?),
        None => None,
    };
    let journal = Head { len: f.uint("journal_len")?, digest: f.digest("journal_digest")? };
    let events = Head { len: f.uint("events_len")?, digest: f.digest("events_digest")? };
    let receipts =
        Head { len: f.uint("receipts_len")?, digest: f.maybe_digest("receipts_digest")?.unwrap_or(Digest::ZERO) };
    let log_lines = f.uint("log_lines")?;
    let budget = Budget { calls: f.uint("calls")?, active_us: f.uint("active_us")?, body_bytes: f.uint("body_bytes")? };
    let clocks = f.blob("clocks")?;
    let clocks = f.packed(clocks, "clocks", CLOCKS_V1, read_clocks)?;
    let since = f.time("since")?;
    let started_at = f.maybe_time("started_at")?;
    let continuations = f.uint("continuations")?;
    let phase = phase(&mut f, status, Owned { delivery, claim, mode })?;
    let run = Run {
        id,
        namespace: pin.namespace.clone(),
        pattern: pin.pattern.clone(),
        kind: pin.kind,
        plan: pin.plan,
        phase,
        seq,
        fence,
        checkpoint,
        journal,
        queue: pin.queue.clone(),
        priority,
        requester: (*requester).clone(),
        session,
        input,
        budget,
        events,
        receipts,
        log_lines,
        clocks,
        since,
        deadline,
        labels,
        retry_of,
        created_at,
        started_at,
        continuations,
        settings: pin.settings,
    };
    Ok(Stored { n, live, run })
}

type Field<T> = Result<T, Box<Corrupt>>;

fn labels(f: &mut Fields<'_>) -> Field<BTreeMap<String, String>> {
    match f.maybe_text("labels")? {
        None => Ok(BTreeMap::new()),
        Some(text) => serde_json::from_str(text).map_err(|error| f.corrupt("labels", error)),
    }
}

fn delivery(f: &mut Fields<'_>) -> Field<Option<Delivery>> {
    let state = f.maybe_one_of("delivery_state", &STATES)?;
    let mode = f.maybe_one_of("delivery_mode", &MODES)?;
    let cause = f.maybe_one_of("delivery_cause", &CAUSES)?;
    let attempts = f.maybe_uint("delivery_attempts")?;
    let last_error = f.maybe_text("delivery_error")?.map(str::to_owned);
    let ready_at = f.maybe_time("ready_at")?;
    let retry_at = f.maybe_time("retry_at")?;
    let Some(state) = state else { return Ok(None) };
    Ok(Some(Delivery {
        state,
        mode: f.needed(mode, "delivery_mode")?,
        cause: f.needed(cause, "delivery_cause")?,
        ready_at: f.needed(ready_at, "ready_at")?,
        retry_at: f.needed(retry_at, "retry_at")?,
        attempts: f.needed(attempts, "delivery_attempts")?,
        last_error,
    }))
}

fn claim(f: &mut Fields<'_>) -> Field<Option<Claim>> {
    let worker = f.maybe_id::<WorkerId>("claim_worker")?;
    let token = f.maybe_uint("claim_token")?;
    let deadline = f.maybe_time("claim_deadline")?;
    let renewed_at = f.maybe_time("claim_renewed_at")?;
    let Some(token) = token else { return Ok(None) };
    Ok(Some(Claim {
        worker: f.needed(worker, "claim_worker")?,
        token,
        deadline: f.needed(deadline, "claim_deadline")?,
        renewed_at: f.needed(renewed_at, "claim_renewed_at")?,
    }))
}

/// What the columns before the last ones say of a phase.
struct Owned {
    delivery: Option<Delivery>,
    claim: Option<Claim>,
    mode: Option<WaitMode>,
}

fn phase(f: &mut Fields<'_>, status: Status, owned: Owned) -> Field<Phase> {
    let failure = match f.maybe_blob("failure")? {
        Some(bytes) => Some(f.packed(bytes, "failure", FAILURE, read_failure)?),
        None => None,
    };
    let by = f.maybe_text("cancelled_by")?.map(str::to_owned);
    let result = f.maybe_body("result")?;
    let at = f.maybe_time("finished_at")?;
    let parked = |f: &Fields<'_>, on| Ok(Phase::Parked { on, mode: f.needed(owned.mode, "wait_mode")? });
    let ended = |f: &Fields<'_>, end| Ok(Phase::Final { end, at: f.needed(at, "finished_at")? });
    match status {
        Status::Queued => Ok(Phase::Queued { delivery: f.needed(owned.delivery, "delivery_state")? }),
        Status::Running | Status::AwaitingHardware => {
            let claim = f.needed(owned.claim, "claim_token")?;
            Ok(Phase::Active { hardware: status == Status::AwaitingHardware, claim })
        }
        Status::AwaitingConsent => parked(f, Parked::Consent),
        Status::AwaitingDelegate => parked(f, Parked::Delegate),
        Status::AwaitingSignal => parked(f, Parked::Signal),
        Status::AwaitingTimer => parked(f, Parked::Timer),
        Status::Cancelling => {
            let end = Stop::Cancel { by: f.needed(by, "cancelled_by")? };
            Ok(Phase::Stopping { end, hop: owned.claim })
        }
        Status::Failing => {
            let end = Stop::Fail(f.needed(failure, "failure")?);
            Ok(Phase::Stopping { end, hop: owned.claim })
        }
        Status::Done => ended(f, End::Done { result: f.needed(result, "result")? }),
        Status::Failed => ended(f, End::Failed(f.needed(failure, "failure")?)),
        Status::Cancelled => ended(f, End::Cancelled { by: f.needed(by, "cancelled_by")? }),
    }
}

/// The statements that the writer keeps prepared.
pub(super) struct Table<'c> {
    by_id: Statement<'c>,
    by_n: Statement<'c>,
    insert: Statement<'c>,
    update: Statement<'c>,
    finish: Statement<'c>,
    renew: Statement<'c>,
}

/// An admission's idempotency key and the digest of its request, as its run's row keeps them.
pub(super) type Key<'a> = (Option<&'a str>, Option<Digest>);

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        let changing = [
            "status",
            "seq",
            "fence",
            "live",
            "delivery_state",
            "delivery_mode",
            "delivery_cause",
            "delivery_attempts",
            "delivery_error",
            "ready_at",
            "retry_at",
            "claim_worker",
            "claim_token",
            "claim_deadline",
            "claim_renewed_at",
            "wait_mode",
            "checkpoint",
            "journal_len",
            "journal_digest",
            "events_len",
            "events_digest",
            "receipts_len",
            "receipts_digest",
            "log_lines",
            "calls",
            "active_us",
            "body_bytes",
            "clocks",
            "since",
            "started_at",
            "continuations",
            "failure",
            "cancelled_by",
        ];
        let set: Vec<String> = changing.iter().enumerate().map(|(i, c)| format!("{c} = ?{}", i + 1)).collect();
        let (set, at) = (set.join(", "), changing.len());
        let guard = |from: usize| format!("WHERE n = ?{from} AND status = ?{} AND fence = ?{}", from + 1, from + 2);
        let update = format!("UPDATE OR FAIL run SET {set} {}", guard(at + 1));
        let end = format!("result = ?{}, finished_at = ?{}", at + 1, at + 2);
        let finish = format!("UPDATE OR FAIL run SET {set}, {end} {}", guard(at + 3));
        let first =
            "id, pin, requester, input, priority, session, deadline, labels, retry_of, created_at, idempotency_key,
                     request_digest";
        let marks: Vec<String> = (1..=at + 12).map(|i| format!("?{i}")).collect();
        let insert =
            format!("INSERT OR FAIL INTO run ({}, {first}) VALUES ({})", changing.join(", "), marks.join(", "));
        Ok(Table {
            by_id: db.prepare(&format!("SELECT {COLUMNS} FROM run r WHERE r.id = ?1"))?,
            by_n: db.prepare(&format!("SELECT {COLUMNS} FROM run r WHERE r.n = ?1"))?,
            insert: db.prepare(&insert)?,
            update: db.prepare(&update)?,
            finish: db.prepare(&finish)?,
            renew: db.prepare(
                "UPDATE OR FAIL run SET claim_deadline = ?1, claim_renewed_at = ?2 WHERE n = ?3 AND claim_token = ?4 AND fence = ?4",
            )?,
        })
    }

    pub(super) fn by_id(&mut self, id: RunId, db: &Connection, names: &Names) -> Result<Option<Stored>, Fault> {
        let mut rows = self.by_id.query([id.as_bytes()])?;
        rows.next()?.map(|row| read(row, db, names)).transpose()
    }

    pub(super) fn by_n(&mut self, n: i64, db: &Connection, names: &Names) -> Result<Option<Stored>, Fault> {
        let mut rows = self.by_n.query([n])?;
        rows.next()?.map(|row| read(row, db, names)).transpose()
    }

    pub(super) fn insert(
        &mut self,
        run: &Run,
        live: Live,
        key: Key<'_>,
        db: &Connection,
        names: &Names,
    ) -> Result<i64, Fault> {
        let pin = names.pin_number(db, run)?;
        let requester = names.requester_number(db, &run.requester)?;
        let columns = Columns::of(run, live, db, names)?;
        let labels = match run.labels.is_empty() {
            true => None,
            false => Some(serde_json::to_string(&run.labels).expect("texts are JSON")),
        };
        let input = body_bytes(run.input);
        let retry_of = run.retry_of.as_ref().map(RunId::as_bytes);
        let mut values = columns.values();
        let id = run.id.as_bytes();
        let deadline = run.deadline.map(Time::as_micros);
        let created_at = run.created_at.as_micros();
        let (key, digest) = (key.0, key.1.as_ref().map(Digest::as_bytes));
        values.extend_from_slice(params![
            id,
            pin,
            requester,
            input,
            run.priority,
            run.session,
            deadline,
            labels,
            retry_of,
            created_at,
            key,
            digest
        ]);
        Ok(self.insert.insert(&values[..])?)
    }

    pub(super) fn update(
        &mut self,
        run: &Run,
        live: Live,
        n: i64,
        before: (Status, u64),
        db: &Connection,
        names: &Names,
    ) -> Result<(), Fault> {
        let columns = Columns::of(run, live, db, names)?;
        let (status, fence) = (number(&before.0, &Status::ALL), before.1 as i64);
        let mut values = columns.values();
        // A final row keeps its end: what is written after it are facts about leftovers.
        let changed = if let (Phase::Final { end, at }, false) = (&run.phase, before.0.is_final()) {
            let result = match end {
                End::Done { result } => Some(body_bytes(*result)),
                End::Failed(_) | End::Cancelled { .. } => None,
            };
            let at = at.as_micros();
            values.extend_from_slice(params![result, at, n, status, fence]);
            self.finish.execute(&values[..])?
        } else {
            values.extend_from_slice(params![n, status, fence]);
            self.update.execute(&values[..])?
        };
        if changed != 1 {
            return Err(Fault::Broken(format!("{} was not {} with fence {fence}", run.id, before.0)));
        }
        Ok(())
    }

    /// The deadline of one claim.
    pub(super) fn renew(&mut self, n: i64, claim: &Claim) -> Result<(), Fault> {
        let values = params![claim.deadline.as_micros(), claim.renewed_at.as_micros(), n, claim.token as i64];
        match self.renew.execute(values)? {
            1 => Ok(()),
            _ => Err(Fault::Broken(format!("the claim {} is not on its row", claim.token))),
        }
    }
}

/// The changing columns of a run, owned, so that a statement can borrow them.
struct Columns<'a> {
    run: &'a Run,
    numbers: [i64; 12],
    delivery: Option<[i64; 6]>,
    claim: Option<[i64; 3]>,
    wait_mode: Option<i64>,
    checkpoint: Option<Vec<u8>>,
    receipts: Option<&'a [u8; 32]>,
    clocks: Vec<u8>,
    since: i64,
    started_at: Option<i64>,
    failure: Option<Vec<u8>>,
    cancelled_by: Option<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(run: &'a Run, live: Live, db: &Connection, names: &Names) -> Result<Columns<'a>, Fault> {
        let checkpoint = match &run.checkpoint {
            Some(checkpoint) => Some(write_checkpoint(checkpoint, db, names)?),
            None => None,
        };
        let cancelled_by = match &run.phase {
            Phase::Stopping { end: Stop::Cancel { by }, .. } | Phase::Final { end: End::Cancelled { by }, .. } => {
                Some(by.as_str())
            }
            _ => None,
        };
        let wait_mode = match &run.phase {
            Phase::Parked { mode, .. } => Some(number(mode, &WAIT_MODES)),
            _ => None,
        };
        Ok(Columns {
            run,
            numbers: [
                number(&run.status(), &Status::ALL),
                i64::from(run.seq),
                run.fence as i64,
                i64::from(live.0),
                i64::from(run.journal.len),
                i64::from(run.events.len),
                i64::from(run.receipts.len),
                i64::from(run.log_lines),
                i64::from(run.budget.calls),
                run.budget.active_us as i64,
                run.budget.body_bytes as i64,
                i64::from(run.continuations),
            ],
            delivery: run.delivery().map(|d| {
                [
                    number(&d.state, &STATES),
                    number(&d.mode, &MODES),
                    number(&d.cause, &CAUSES),
                    i64::from(d.attempts),
                    d.ready_at.as_micros(),
                    d.retry_at.as_micros(),
                ]
            }),
            claim: run.claim().map(|c| [c.token as i64, c.deadline.as_micros(), c.renewed_at.as_micros()]),
            wait_mode,
            checkpoint,
            receipts: (run.receipts.len > 0).then(|| run.receipts.digest.as_bytes()),
            clocks: write_clocks(&run.clocks),
            since: run.since.as_micros(),
            started_at: run.started_at.map(Time::as_micros),
            failure: run.failure().map(write_failure),
            cancelled_by,
        })
    }

    /// In the order of the statements' columns.
    fn values(&self) -> Vec<&dyn rusqlite::ToSql> {
        const NONE: &dyn rusqlite::ToSql = &rusqlite::types::Null;
        let [status, seq, fence, live, journal, events, receipts, log, calls, active, bytes, continuations] =
            &self.numbers;
        let mut values: Vec<&dyn rusqlite::ToSql> = Vec::with_capacity(48);
        values.extend_from_slice(&[status as &dyn rusqlite::ToSql, seq, fence, live]);
        match (&self.delivery, self.run.delivery()) {
            (Some([state, mode, cause, attempts, ready_at, retry_at]), Some(delivery)) => {
                values.extend_from_slice(&[state as &dyn rusqlite::ToSql, mode, cause, attempts]);
                values.extend_from_slice(&[&delivery.last_error as &dyn rusqlite::ToSql, ready_at, retry_at]);
            }
            _ => values.extend_from_slice(&[NONE; 7]),
        }
        match (&self.claim, self.run.claim()) {
            (Some([token, deadline, renewed_at]), Some(claim)) => {
                let worker = claim.worker.as_bytes();
                values.extend_from_slice(&[worker as &dyn rusqlite::ToSql, token, deadline, renewed_at]);
            }
            _ => values.extend_from_slice(&[NONE; 4]),
        }
        values.extend_from_slice(&[&self.wait_mode as &dyn rusqlite::ToSql, &self.checkpoint]);
        values.extend_from_slice(&[journal as &dyn rusqlite::ToSql, self.run.journal.digest.as_bytes()]);
        values.extend_from_slice(&[events as &dyn rusqlite::ToSql, self.run.events.digest.as_bytes()]);
        values.extend_from_slice(&[receipts as &dyn rusqlite::ToSql, &self.receipts, log, calls, active, bytes]);
        values.extend_from_slice(&[&self.clocks as &dyn rusqlite::ToSql, &self.since, &self.started_at, continuations]);
        values.extend_from_slice(&[&self.failure as &dyn rusqlite::ToSql, &self.cancelled_by]);
        values
    }
}
