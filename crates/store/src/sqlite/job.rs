//! The table `job`: what runs handed over to agents outside.
//!
//! Which jobs a command on a run may see stands in the run's state; every other is found by its id. Invariant: a result
//! and an error are columns of their own, so that the schema can refuse a row that has the wrong one.

use std::time::Duration;

use protocol::id::{JobId, RunId};
use protocol::job::{Agent, End, Job, Late, Report, Request, State};
use protocol::json::Canonical;
use protocol::rows::Mark;
use protocol::run::Body;
use protocol::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::codec::{Malformed, Reader, Writer, body_bytes, body_of};
use super::fault::{Fault, Fields};

/// The columns that [`read`] reads, of the table or alias `j`.
pub(super) const COLUMNS: &str = "j.id, j.kind, j.priority, j.state, j.claim_id, j.result, j.error, j.document";

const DOCUMENT: u8 = 1;

/// The number of a state, as its column has it.
fn state_number(state: &State) -> u8 {
    match state {
        State::Queued => 0,
        State::Running => 1,
        State::Cancelling { .. } => 2,
        State::Ended { end: End::Succeeded { .. }, .. } => 3,
        State::Ended { end: End::Failed { .. }, .. } => 4,
        State::Ended { end: End::Lost { .. }, .. } => 5,
        State::Ended { end: End::TimedOut { .. }, .. } => 6,
        State::Ended { end: End::Cancelled, .. } => 7,
    }
}

pub(super) fn read(row: &Row<'_>, run: RunId) -> Result<Job, Fault> {
    let mut f = Fields::new(row, "job");
    f.named(run);
    let id: JobId = f.id("id")?;
    f.named(id);
    let kind = f.text("kind")?.to_owned();
    let priority = f.uint("priority")?;
    let state: u8 = f.uint("state")?;
    let claim_id = f.maybe_text("claim_id")?.map(str::to_owned);
    let result = maybe_body(&mut f, "result")?;
    let error = maybe_body(&mut f, "error")?;
    let document = f.blob("document")?;
    let end = match (state, result, error) {
        (0..=2, None, None) => None,
        (3, Some(result), None) => Some(End::Succeeded { result }),
        (4, None, Some(error)) => Some(End::Failed { error }),
        (5, None, Some(error)) => Some(End::Lost { error }),
        (6, None, Some(error)) => Some(End::TimedOut { error }),
        (7, None, None) => Some(End::Cancelled),
        _ => return Err(f.corrupt("state", "it does not fit result and error").into()),
    };
    let columns = Columns { kind, claim_id, state, end };
    Ok(f.packed(document, "document", DOCUMENT, |reader| {
        let job = read_document(reader, columns)?;
        Ok(Job { id, run, priority, ..job })
    })?)
}

fn maybe_body(f: &mut Fields<'_>, field: &'static str) -> Result<Option<Body>, Fault> {
    let Some(bytes) = f.maybe_blob(field)? else { return Ok(None) };
    match bytes.try_into() {
        Ok(bytes) => Ok(Some(body_of(bytes))),
        Err(_) => Err(f.corrupt(field, "it names no body").into()),
    }
}

/// What the columns beside the document say.
struct Columns {
    kind: String,
    claim_id: Option<String>,
    state: u8,
    end: Option<End>,
}

fn write_document(job: &Job) -> Vec<u8> {
    let mut writer = Writer::with_capacity(256);
    let w = writer.byte(DOCUMENT).id(job.wait).id(job.call).uint(job.place);
    let Request { kind: _, task, plan, schema, timeout, retries } = &job.request;
    w.body(*task).maybe(*plan, |w, plan| w.body(plan)).maybe(schema.as_ref(), |w, schema| w.text(schema.as_str()));
    w.maybe(*timeout, |w, span| w.uint(span.as_millis() as u64)).uint(*retries).uint(job.claims);
    w.time(job.created_at).maybe(job.deadline, |w, at| w.time(at));
    let moment = match job.state {
        State::Queued | State::Running => None,
        State::Cancelling { since: at } | State::Ended { at, .. } => Some(at),
    };
    w.maybe(moment, |w, at| w.time(at)).maybe(job.agent.as_ref(), write_agent);
    w.maybe(job.stopped_at, |w, at| w.time(at)).maybe(job.progress.as_ref(), |w, told| w.text(told.as_str()));
    w.uint(job.late.len() as u64);
    for late in &job.late {
        w.text(&late.by).time(late.at);
        match late.report {
            Report::Succeeded { result } => w.flag(true).body(result),
            Report::Failed { error } => w.flag(false).body(error),
        };
    }
    writer.done()
}

fn write_agent<'w>(writer: &'w mut Writer, agent: &Agent) -> &'w mut Writer {
    writer.text(&agent.principal).text(&agent.worker).uint(agent.token).time(agent.claimed_at);
    writer.uint(agent.lease.as_millis() as u64).time(agent.due_at)
}

/// A job without its id, run and priority.
fn read_document(reader: &mut Reader<'_>, columns: Columns) -> Result<Job, Malformed> {
    let Columns { kind, claim_id, state, end } = columns;
    let (wait, call, place) = (reader.id()?, reader.id()?, reader.u32()?);
    let (task, plan) = (reader.body()?, reader.maybe(Reader::body)?);
    let schema = reader.maybe(read_json)?;
    let timeout = reader.maybe(Reader::uint)?.map(Duration::from_millis);
    let (retries, claims) = (reader.u32()?, reader.u32()?);
    let (created_at, deadline) = (reader.time()?, reader.maybe(Reader::time)?);
    let moment = reader.maybe(Reader::time)?;
    let state = match (state, end, moment) {
        (0, None, None) => State::Queued,
        (1, None, None) => State::Running,
        (2, None, Some(since)) => State::Cancelling { since },
        (_, Some(end), Some(at)) => State::Ended { end, at },
        _ => return Err(Malformed("the time of its state")),
    };
    let agent = reader.maybe(|r| read_agent(r, claim_id))?;
    let (stopped_at, progress) = (reader.maybe(Reader::time)?, reader.maybe(read_json)?);
    let late = reader.list(|r| {
        let (by, at) = (r.text()?.to_owned(), r.time()?);
        let report = match r.flag()? {
            true => Report::Succeeded { result: r.body()? },
            false => Report::Failed { error: r.body()? },
        };
        Ok(Late { by, at, report })
    })?;
    let request = Request { kind, task, plan, schema, timeout, retries };
    let (id, run) = (JobId::from_bytes([0; 16]), RunId::from_bytes([0; 16]));
    Ok(Job {
        id,
        run,
        wait,
        call,
        place,
        request,
        priority: 0,
        created_at,
        deadline,
        state,
        agent,
        claims,
        stopped_at,
        progress,
        late,
    })
}

fn read_agent(reader: &mut Reader<'_>, claim_id: Option<String>) -> Result<Agent, Malformed> {
    Ok(Agent {
        principal: reader.text()?.to_owned(),
        worker: reader.text()?.to_owned(),
        token: reader.u32()?,
        claim_id: claim_id.ok_or(Malformed("the claim on its row"))?,
        claimed_at: reader.time()?,
        lease: Duration::from_millis(reader.uint()?),
        due_at: reader.time()?,
    })
}

fn read_json(reader: &mut Reader<'_>) -> Result<Canonical, Malformed> {
    Canonical::from_stored(reader.bytes()?).ok_or(Malformed("canonical JSON"))
}

pub(super) struct Table<'c> {
    by_id: Statement<'c>,
    run_of: Statement<'c>,
    put: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            by_id: db.prepare(&format!("SELECT {COLUMNS} FROM job j WHERE j.id = ?1 AND j.run = ?2"))?,
            run_of: db.prepare("SELECT run FROM job WHERE id = ?1")?,
            put: db.prepare(
                "INSERT OR FAIL INTO job (id, run, kind, priority, state, due_at, claim_id, result, error, document)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT (id) DO UPDATE SET state = excluded.state, due_at = excluded.due_at,
                 claim_id = excluded.claim_id, result = excluded.result, error = excluded.error,
                 document = excluded.document",
            )?,
        })
    }

    pub(super) fn by_id(&mut self, id: JobId, n: i64, run: RunId) -> Result<Option<Job>, Fault> {
        let mut rows = self.by_id.query(params![id.as_bytes(), n])?;
        rows.next()?.map(|row| read(row, run)).transpose()
    }

    pub(super) fn run_of(&mut self, id: JobId) -> Result<Option<i64>, Fault> {
        Ok(self.run_of.query_row([id.as_bytes()], |row| row.get(0)).optional()?)
    }

    pub(super) fn save(&mut self, job: &Job, mark: Mark, n: i64) -> Result<(), Fault> {
        match mark {
            Mark::Loaded => return Ok(()),
            Mark::Gone => return Err(Fault::Broken(format!("{} would be deleted", job.id))),
            Mark::New | Mark::Changed => {}
        }
        let (result, error) = match job.state {
            State::Ended { end: End::Succeeded { result }, .. } => (Some(body_bytes(result)), None),
            State::Ended { end, .. } => (None, end.body().map(body_bytes)),
            _ => (None, None),
        };
        let claim_id = job.agent.as_ref().map(|agent| &agent.claim_id);
        self.put.execute(params![
            job.id.as_bytes(),
            n,
            job.request.kind,
            job.priority,
            state_number(&job.state),
            job.due_at().map(Time::as_micros),
            claim_id,
            result,
            error,
            write_document(job)
        ])?;
        Ok(())
    }
}
