//! The table `run`: the row of a run, in and out.
//!
//! Invariant: an update names the status and the fence as they were loaded and changes exactly one row, else the command
//! is broken. What can be read back is a [`Run`], or the row is corrupt.

use std::collections::BTreeMap;

use protocol::digest::Digest;
use protocol::id::{RunId, WorkerId};
use protocol::obligation::Obligation;
use protocol::rows::Rows;
use protocol::run::{Body, Claim, Forked, Run, Status};
use protocol::signal::Signal;
use protocol::time::Time;
use protocol::wait::Owner;
use rusqlite::{Connection, Row, Statement, params};

use super::append::{self, Appender, Values};
use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, Fields, number};
use super::names::Names;
use super::state::{self, Columns, Live, STATE};
use crate::error::Corrupt;

/// A run as stored, with what only the store knows of it.
pub(super) struct Stored {
    pub(super) n: i64,
    pub(super) live: Live,
    /// Whether it has open obligations.
    pub(super) stopping: bool,
    /// Whether signals are kept for it.
    pub(super) kept: bool,
    pub(super) run: Run,
}

/// What the column `live` says by its bits: waits there are, open obligations, an open wait of each owner, a pause,
/// and kept signals.
pub(super) mod live {
    pub(in crate::sqlite) const WAITS: u8 = 1;
    pub(in crate::sqlite) const OBLIGATIONS: u8 = 2;
    pub(in crate::sqlite) const APPROVAL: u8 = 4;
    pub(in crate::sqlite) const TIMER: u8 = 8;
    pub(in crate::sqlite) const PAUSED: u8 = 16;
    pub(in crate::sqlite) const SIGNAL: u8 = 32;
    pub(in crate::sqlite) const KEPT: u8 = 64;
    pub(in crate::sqlite) const JOB: u8 = 128;
}

/// The columns that [`read`] reads, of the table or alias `r`.
pub(super) const COLUMNS: &str =
    "r.n, r.id, r.pin, r.requester, r.priority, r.deadline, r.labels, r.created_at, r.admitted,
 r.status, r.seq, r.fence, r.live, r.ready_at, r.retry_at, r.claim_worker, r.claim_deadline, r.claim_renewed_at,
 r.finished_at, r.state";

/// Reads a row of [`COLUMNS`].
pub(super) fn read(row: &Row<'_>, db: &Connection, names: &Names) -> Result<Stored, Fault> {
    let mut f = Fields::new(row, "run");
    let n = f.int("n")?;
    f.keyed(n);
    let id: RunId = f.id("id")?;
    f.named(id);
    let pin = names.pin(db, f.int("pin")?)?;
    let requester = names.requester(db, f.int("requester")?)?;
    let priority = f.uint("priority")?;
    let deadline = f.maybe_time("deadline")?;
    let labels = labels(&mut f)?;
    let created_at = f.time("created_at")?;
    let admitted = f.blob("admitted")?;
    let Admitted { input, session, retry_of, forked_from } = f.packed(admitted, "admitted", ADMITTED, read_admitted)?;
    let status = f.one_of("status", &Status::ALL)?;
    let seq = f.uint("seq")?;
    let fence = f.uint("fence")?;
    let live: u8 = f.uint("live")?;
    let (ready_at, retry_at) = (f.maybe_time("ready_at")?, f.maybe_time("retry_at")?);
    let claim = claim(&mut f, fence)?;
    let finished_at = f.maybe_time("finished_at")?;
    let bytes = f.blob("state")?;
    let columns = Columns { status, ready: ready_at.zip(retry_at), claim, finished_at };
    let mut state = f.packed(bytes, "state", STATE, |reader| state::read(reader, id, columns))?;
    let run = Run {
        id,
        namespace: pin.namespace.clone(),
        pattern: pin.pattern.clone(),
        moved_from: std::mem::take(&mut state.moved_from),
        kind: pin.kind,
        plan: pin.plan,
        seq,
        fence,
        checkpoint: state.checkpoint(db, names)?,
        phase: state.phase,
        journal: state.journal,
        queue: pin.queue.clone(),
        priority,
        requester: (*requester).clone(),
        session,
        input,
        budget: state.budget,
        events: state.events,
        receipts: state.receipts,
        signals: state.signals,
        log_lines: state.log_lines,
        clocks: state.clocks,
        since: state.since,
        deadline,
        labels,
        retry_of,
        forked_from,
        pause: state.pause,
        created_at,
        started_at: state.started_at,
        continuations: state.continuations,
        settings: pin.settings,
    };
    Ok(Stored { n, live: state.live, stopping: live & live::OBLIGATIONS != 0, kept: live & live::KEPT != 0, run })
}

type Field<T> = Result<T, Box<Corrupt>>;

fn labels(f: &mut Fields<'_>) -> Field<BTreeMap<String, String>> {
    match f.maybe_text("labels")? {
        None => Ok(BTreeMap::new()),
        Some(text) => serde_json::from_str(text).map_err(|error| f.corrupt("labels", error)),
    }
}

/// A claim's token is the largest given out, so that the fence is it.
fn claim(f: &mut Fields<'_>, fence: u64) -> Field<Option<Claim>> {
    let worker = f.maybe_id::<WorkerId>("claim_worker")?;
    let deadline = f.maybe_time("claim_deadline")?;
    let renewed_at = f.maybe_time("claim_renewed_at")?;
    let Some(worker) = worker else { return Ok(None) };
    Ok(Some(Claim {
        worker,
        token: fence,
        deadline: f.needed(deadline, "claim_deadline")?,
        renewed_at: f.needed(renewed_at, "claim_renewed_at")?,
    }))
}

const ADMITTED: u8 = 1;

/// What an admission brought that nothing looks for.
struct Admitted {
    input: Body,
    session: Option<String>,
    retry_of: Option<RunId>,
    forked_from: Option<Forked>,
}

fn write_admitted(run: &Run) -> Vec<u8> {
    let mut writer = Writer::with_capacity(64);
    writer.byte(ADMITTED).body(run.input).maybe(run.session.as_ref(), |w, session| w.text(session));
    writer.maybe(run.retry_of, |w, run| w.id(run));
    // Nothing stands for what is no fork, as before there were forks.
    if let Some(from) = run.forked_from {
        writer.id(from.run).uint(from.seq);
    }
    writer.done()
}

fn read_admitted(reader: &mut Reader<'_>) -> Result<Admitted, Malformed> {
    let input = reader.body()?;
    let session = reader.maybe(|r| r.text().map(str::to_owned))?;
    let retry_of = reader.maybe(Reader::id)?;
    let forked_from = match reader.is_empty() {
        true => None,
        false => Some(Forked { run: reader.id()?, seq: reader.u32()? }),
    };
    Ok(Admitted { input, session, retry_of, forked_from })
}

/// A new run on its way.
struct Waiting {
    n: i64,
    id: RunId,
    pin: i64,
    requester: i64,
    priority: u8,
    deadline: Option<i64>,
    labels: Option<String>,
    created_at: i64,
    admitted: Vec<u8>,
    key: Option<String>,
    request: Option<Digest>,
    changing: Changing,
}

impl append::Row for Waiting {
    const COLUMNS: usize = 21;
    const INSERT: &'static str =
        "INSERT OR FAIL INTO run (status, seq, fence, live, ready_at, retry_at, claim_worker, claim_deadline,
         claim_renewed_at, finished_at, state, id, pin, requester, priority, deadline, labels, created_at, admitted,
         idempotency_key, request_digest)";

    fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
        self.changing.bind(values)?;
        values.value(self.id.as_bytes())?.value(self.pin)?.value(self.requester)?;
        values.value(self.priority)?.value(self.deadline)?.value(&self.labels)?.value(self.created_at)?;
        values.value(&self.admitted)?.value(&self.key)?.value(self.request.as_ref().map(Digest::as_bytes)).map(drop)
    }
}

/// The statements that the writer keeps prepared.
pub(super) struct Table<'c> {
    db: &'c Connection,
    by_id: Statement<'c>,
    by_n: Statement<'c>,
    new: Appender<'c, Waiting>,
    /// The number of the next run, once it is known.
    next: Option<i64>,
    last: Statement<'c>,
    update: Statement<'c>,
    repin: Statement<'c>,
    renew: Statement<'c>,
    queued: Statement<'c>,
}

/// Runs that wait in a queue, in the words of the index on status.
pub(super) const QUEUED: &str =
    "SELECT count(*) FROM run r JOIN pin p ON p.n = r.pin WHERE r.status = 0 AND r.status <> 9 AND p.queue = ?1";

/// An admission's idempotency key and the digest of its request, as its run's row keeps them.
pub(super) type Key<'a> = (Option<&'a str>, Option<Digest>);

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            db,
            by_id: db.prepare(&format!("SELECT {COLUMNS} FROM run r WHERE r.id = ?1"))?,
            by_n: db.prepare(&format!("SELECT {COLUMNS} FROM run r WHERE r.n = ?1"))?,
            new: Appender::prepare(db)?,
            next: None,
            last: db.prepare("SELECT coalesce(max(n), 0) FROM run")?,
            update: db.prepare(
                "UPDATE OR FAIL run SET status = ?1, seq = ?2, fence = ?3, live = ?4, ready_at = ?5, retry_at = ?6,
                 claim_worker = ?7, claim_deadline = ?8, claim_renewed_at = ?9, finished_at = ?10, state = ?11
                 WHERE n = ?12 AND status = ?13 AND fence = ?14",
            )?,
            repin: db.prepare("UPDATE OR FAIL run SET pin = ?1 WHERE n = ?2")?,
            renew: db.prepare(
                "UPDATE OR FAIL run SET claim_deadline = ?1, claim_renewed_at = ?2
                 WHERE n = ?3 AND claim_worker = ?4 AND fence = ?5",
            )?,
            queued: db.prepare(QUEUED)?,
        })
    }

    /// Writes what waits. The table numbers its rows in order, as they were numbered here.
    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        let Some(last) = self.new.last().map(|row| row.n) else { return Ok(()) };
        self.new.flush()?;
        match self.db.last_insert_rowid() {
            n if n == last => Ok(()),
            n => Err(Fault::Broken(format!("run number {last} became {n}"))),
        }
    }

    /// Drops what waits, and the number of the next run with it.
    pub(super) fn forget(&mut self) {
        self.new.forget();
        self.next = None;
    }

    /// Writes what waits if a row that an idempotency key may lead to is among it.
    pub(super) fn flush_if_keyed(&mut self, key: &str) -> Result<(), Fault> {
        if self.new.has(|row| row.key.as_deref() == Some(key)) { self.flush() } else { Ok(()) }
    }

    fn flush_if(&mut self, n: i64) -> Result<(), Fault> {
        if self.new.has(|row| row.n == n) { self.flush() } else { Ok(()) }
    }

    pub(super) fn by_id(&mut self, id: RunId, db: &Connection, names: &Names) -> Result<Option<Stored>, Fault> {
        if self.new.has(|row| row.id == id) {
            self.flush()?;
        }
        let mut rows = self.by_id.query([id.as_bytes()])?;
        rows.next()?.map(|row| read(row, db, names)).transpose()
    }

    /// How many runs wait in a queue.
    pub(super) fn queued(&mut self, queue: &str) -> Result<u64, Fault> {
        self.flush()?;
        let count: i64 = self.queued.query_row([queue], |row| row.get(0))?;
        Ok(count as u64)
    }

    pub(super) fn by_n(&mut self, n: i64, db: &Connection, names: &Names) -> Result<Option<Stored>, Fault> {
        self.flush_if(n)?;
        let mut rows = self.by_n.query([n])?;
        rows.next()?.map(|row| read(row, db, names)).transpose()
    }

    pub(super) fn insert(
        &mut self,
        rows: &Rows,
        (key, digest): Key<'_>,
        db: &Connection,
        names: &Names,
    ) -> Result<i64, Fault> {
        let run = &rows.run;
        let labels = match run.labels.is_empty() {
            true => None,
            false => Some(serde_json::to_string(&run.labels).expect("texts are JSON")),
        };
        let n = match self.next {
            Some(n) => n,
            None => self.last.query_row([], |row| row.get::<_, i64>(0))? + 1,
        };
        self.next = Some(n + 1);
        self.new.push(Waiting {
            n,
            id: run.id,
            pin: names.pin_number(db, run)?,
            requester: names.requester_number(db, &run.requester)?,
            priority: run.priority,
            deadline: run.deadline.map(Time::as_micros),
            labels,
            created_at: run.created_at.as_micros(),
            admitted: write_admitted(run),
            key: key.map(str::to_owned),
            request: digest,
            changing: Changing::of(rows, db, names)?,
        });
        Ok(n)
    }

    pub(super) fn update(
        &mut self,
        rows: &Rows,
        n: i64,
        before: (Status, u64),
        db: &Connection,
        names: &Names,
    ) -> Result<(), Fault> {
        let (status, fence) = (number(&before.0, &Status::ALL), before.1 as i64);
        self.flush_if(n)?;
        let mut values = Values::of(&mut self.update);
        Changing::of(rows, db, names)?.bind(&mut values)?;
        values.value(n)?.value(status)?.value(fence)?;
        match self.update.raw_execute()? {
            1 => Ok(()),
            _ => Err(Fault::Broken(format!("{} was not {} with fence {fence}", rows.run.id, before.0))),
        }
    }

    /// Pins a run to the pattern that it has now.
    pub(super) fn repin(&mut self, run: &Run, n: i64, db: &Connection, names: &Names) -> Result<(), Fault> {
        match self.repin.execute([names.pin_number(db, run)?, n])? {
            1 => Ok(()),
            _ => Err(Fault::Broken(format!("{} has no row", run.id))),
        }
    }

    /// The deadline of one claim.
    pub(super) fn renew(&mut self, n: i64, claim: &Claim) -> Result<(), Fault> {
        self.flush_if(n)?;
        let (deadline, renewed_at) = (claim.deadline.as_micros(), claim.renewed_at.as_micros());
        match self.renew.execute(params![deadline, renewed_at, n, claim.worker.as_bytes(), claim.token as i64])? {
            1 => Ok(()),
            _ => Err(Fault::Broken(format!("the claim {} is not on its row", claim.token))),
        }
    }
}

/// The columns that a command changes.
struct Changing {
    numbers: [i64; 4],
    ready: Option<[i64; 2]>,
    worker: Option<[u8; 16]>,
    claim: Option<[i64; 2]>,
    finished_at: Option<i64>,
    state: Vec<u8>,
}

impl Changing {
    fn of(rows: &Rows, db: &Connection, names: &Names) -> Result<Changing, Fault> {
        let run = &rows.run;
        let claim = run.claim();
        if let Some(claim) = claim.filter(|claim| claim.token != run.fence) {
            //
            return Err(Fault::Broken(format!("{}: claim {} under fence {}", run.id, claim.token, run.fence)));
        }
        let status = number(&run.status(), &Status::ALL);
        Ok(Changing {
            numbers: [status, i64::from(run.seq), run.fence as i64, i64::from(live_bits(rows))],
            ready: run.delivery().map(|d| [d.ready_at, d.retry_at].map(Time::as_micros)),
            worker: claim.map(|c| *c.worker.as_bytes()),
            claim: claim.map(|c| [c.deadline, c.renewed_at].map(Time::as_micros)),
            finished_at: run.finished_at().map(Time::as_micros),
            state: state::write(rows, db, names)?,
        })
    }

    /// The values in the order of the statements.
    fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
        let [status, seq, fence, live] = self.numbers;
        values.value(status)?.value(seq)?.value(fence)?.value(live)?;
        values.value(self.ready.map(|r| r[0]))?.value(self.ready.map(|r| r[1]))?.value(self.worker)?;
        values.value(self.claim.map(|c| c[0]))?.value(self.claim.map(|c| c[1]))?;
        values.value(self.finished_at)?.value(&self.state).map(drop)
    }
}

fn live_bits(rows: &Rows) -> u8 {
    let mut bits = 0;
    for wait in rows.waits.iter() {
        bits |= live::WAITS;
        if wait.is_open() {
            bits |= match &wait.owner {
                Owner::Approval(_) => live::APPROVAL,
                Owner::Timer(_) => live::TIMER,
                Owner::Signal(_) => live::SIGNAL,
                Owner::Job(_) => live::JOB,
            };
        }
    }
    if rows.signals.iter().any(Signal::is_kept) {
        bits |= live::KEPT;
    }
    if rows.run.pause.is_some() {
        bits |= live::PAUSED;
    }
    if rows.obligations.iter().any(Obligation::is_open) {
        bits |= live::OBLIGATIONS;
    }
    bits
}
