//! What of a run changes from command to command, in one value on its row: phase, heads, budget, clocks, checkpoint
//! header, waits, and which of its calls, approvals and jobs are live.
//!
//! No query looks into it, so that a command writes one value and not forty columns. What a scan, a guard or an index
//! needs stands in columns beside it, and only there: status, fence, claim, times. Invariant: what is written reads back
//! as it was, or is malformed.

use std::str::FromStr;
use std::sync::Arc;

use protocol::code::Code;
use protocol::delivery::{Cause, Delivery, Mode, State};
use protocol::digest::Digest;
use protocol::id::{ApprovalId, CallId, JobId, RunId};
use protocol::pause::Pause;
use protocol::rows::Rows;
use protocol::run::{
    Budget, Checkpoint, Claim, Clocks, End, Failure, Hardware, Head, InRow, Parked, Phase, Status, Stop, WaitMode,
};
use protocol::signal::Awaited;
use protocol::time::Time;
use protocol::wait::{Owner, Wait};
use protocol::{json, wait};
use rusqlite::Connection;

use super::approval;
use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, number};
use super::names::Names;
use super::packed::{self, Header, read_clocks, write_clocks};

pub(super) const STATE: u8 = 1;

const STATES: [State; 2] = [State::Pending, State::Published];
const MODES: [Mode; 2] = [Mode::Fresh, Mode::Resume];
const CAUSES: [Cause; 5] = [Cause::Admission, Cause::Return, Cause::HandBack, Cause::Recovery, Cause::Rotation];
const WAIT_MODES: [WaitMode; 3] = [WaitMode::Any, WaitMode::All, WaitMode::First];

/// The rows of a run that a command may see beside the run itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Live {
    pub(super) waits: Vec<Wait>,
    /// Pending ones and yeses that have not ended.
    pub(super) approvals: Vec<ApprovalId>,
    /// Those without outcome.
    pub(super) calls: Vec<CallId>,
    pub(super) jobs: Vec<JobId>,
}

/// What the columns beside the value say of a run's phase.
pub(super) struct Columns {
    pub(super) status: Status,
    /// When a delivery became claimable, and when it may be tried again.
    pub(super) ready: Option<(Time, Time)>,
    pub(super) claim: Option<Claim>,
    pub(super) finished_at: Option<Time>,
}

/// The value as it was read; names of checkpoint and guest are still numbers of words.
pub(super) struct Unpacked {
    pub(super) phase: Phase,
    pub(super) journal: Head,
    pub(super) events: Head,
    pub(super) receipts: Head,
    pub(super) signals: u32,
    pub(super) log_lines: u32,
    pub(super) budget: Budget,
    pub(super) clocks: Clocks,
    pub(super) since: Time,
    pub(super) started_at: Option<Time>,
    pub(super) continuations: u8,
    pub(super) pause: Option<Pause>,
    pub(super) checkpoint: Option<Header>,
    pub(super) live: Live,
    pub(super) moved_from: Vec<Digest>,
}

pub(super) fn write(rows: &Rows, db: &Connection, names: &Names) -> Result<Vec<u8>, Fault> {
    let Rows { run, waits, approvals, calls, jobs, .. } = rows;
    let mut writer = Writer::with_capacity(512);
    let w = writer.byte(STATE);
    write_phase(w, &run.phase);
    for head in [run.journal, run.events, run.receipts] {
        write_head(w, head);
    }
    w.uint(run.signals)
        .uint(run.log_lines)
        .uint(run.budget.calls)
        .uint(run.budget.active_us)
        .uint(run.budget.body_bytes);
    write_hardware(w, &run.budget.hardware);
    write_clocks(w, &run.clocks);
    w.time(run.since).maybe(run.started_at, |w, at| w.time(at)).byte(run.continuations);
    w.maybe(run.pause.as_ref(), write_pause);
    w.flag(run.checkpoint.is_some());
    if let Some(checkpoint) = &run.checkpoint {
        packed::write_checkpoint(w, checkpoint, db, names)?;
    }
    w.uint(waits.iter().count() as u64);
    for wait in waits.iter() {
        write_wait(w, wait);
    }
    let live = || approvals.iter().filter(|approval| approval::is_live(approval));
    w.uint(live().count() as u64);
    for approval in live() {
        w.id(approval.id);
    }
    let open = || calls.iter().filter(|call| !call.is_ended());
    w.uint(open().count() as u64);
    for call in open() {
        w.id(call.id);
    }
    let kept = || jobs.iter().filter(|job| rows.keeps(job));
    w.uint(kept().count() as u64);
    for job in kept() {
        w.id(job.id);
    }
    // Nothing stands for a run that was never moved, as before runs could be.
    for pattern in &run.moved_from {
        w.digest(*pattern);
    }
    Ok(writer.done())
}

pub(super) fn read(reader: &mut Reader<'_>, run: RunId, columns: Columns) -> Result<Unpacked, Malformed> {
    Ok(Unpacked {
        phase: read_phase(reader, columns)?,
        journal: read_head(reader)?,
        events: read_head(reader)?,
        receipts: read_head(reader)?,
        signals: reader.u32()?,
        log_lines: reader.u32()?,
        budget: Budget {
            calls: reader.u32()?,
            active_us: reader.uint()?,
            body_bytes: reader.uint()?,
            hardware: read_hardware(reader)?,
        },
        clocks: read_clocks(reader)?,
        since: reader.time()?,
        started_at: reader.maybe(Reader::time)?,
        continuations: reader.byte()?,
        pause: reader.maybe(read_pause)?,
        checkpoint: reader.maybe(packed::read_checkpoint)?,
        live: Live {
            waits: reader.list(|reader| read_wait(reader, run))?,
            approvals: reader.list(Reader::id)?,
            calls: reader.list(Reader::id)?,
            jobs: reader.list(Reader::id)?,
        },
        moved_from: {
            let mut patterns = Vec::new();
            while !reader.is_empty() {
                patterns.push(reader.digest()?);
            }
            patterns
        },
    })
}

fn write_hardware(writer: &mut Writer, hardware: &Hardware) {
    writer.uint(hardware.total).maybe(hardware.row.as_ref(), |w, row| w.text(&row.resource).uint(row.calls));
}

fn read_hardware(reader: &mut Reader<'_>) -> Result<Hardware, Malformed> {
    let total = reader.u32()?;
    let row = reader.maybe(|r| Ok(InRow { resource: r.text()?.to_owned(), calls: r.u32()? }))?;
    Ok(Hardware { total, row })
}

fn write_pause<'w>(writer: &'w mut Writer, pause: &Pause) -> &'w mut Writer {
    writer.text(&pause.by).maybe(pause.reason.as_ref(), |w, reason| w.text(reason)).time(pause.since)
}

fn read_pause(reader: &mut Reader<'_>) -> Result<Pause, Malformed> {
    let by = reader.text()?.to_owned();
    let reason = reader.maybe(|r| r.text().map(str::to_owned))?;
    Ok(Pause { by, reason, since: reader.time()? })
}

/// An empty chain has no digest to keep, unless it is bound to something.
fn write_head(writer: &mut Writer, head: Head) {
    let bound = (head.digest != Digest::ZERO).then_some(head.digest);
    writer.uint(head.len).maybe(bound, |w, digest| w.digest(digest));
}

fn read_head(reader: &mut Reader<'_>) -> Result<Head, Malformed> {
    Ok(Head { len: reader.u32()?, digest: reader.maybe(Reader::digest)?.unwrap_or(Digest::ZERO) })
}

fn write_phase(writer: &mut Writer, phase: &Phase) {
    writer.byte(number(&phase.status(), &Status::ALL) as u8);
    match phase {
        Phase::Queued { delivery: d } => {
            writer.byte(number(&d.state, &STATES) as u8).byte(number(&d.mode, &MODES) as u8);
            writer.byte(number(&d.cause, &CAUSES) as u8).uint(d.attempts);
            writer.maybe(d.last_error.as_ref(), |w, error| w.text(error));
        }
        Phase::Active { .. } => {}
        Phase::Parked { mode, .. } => _ = writer.byte(number(mode, &WAIT_MODES) as u8),
        Phase::Stopping { end: Stop::Cancel { by }, .. } => _ = writer.text(by),
        Phase::Stopping { end: Stop::Fail(failure), .. } => write_failure(writer, failure),
        Phase::Final { end: End::Done { result }, .. } => _ = writer.body(*result),
        Phase::Final { end: End::Failed(failure), .. } => write_failure(writer, failure),
        Phase::Final { end: End::Cancelled { by }, .. } => _ = writer.text(by),
    }
}

fn read_phase(reader: &mut Reader<'_>, columns: Columns) -> Result<Phase, Malformed> {
    let Columns { status, ready, claim, finished_at } = columns;
    if usize::from(reader.byte()?) != number(&status, &Status::ALL) as usize {
        return Err(Malformed("the status of its row"));
    }
    let parked = |reader: &mut Reader<'_>, on| Ok(Phase::Parked { on, mode: reader.pick(&WAIT_MODES, "a mode")? });
    let ended = |end| Ok(Phase::Final { end, at: finished_at.ok_or(Malformed("the time of the end on its row"))? });
    match status {
        Status::Queued => {
            let (ready_at, retry_at) = ready.ok_or(Malformed("the times of the delivery on its row"))?;
            let (state, mode) = (reader.pick(&STATES, "a state")?, reader.pick(&MODES, "a mode")?);
            let (cause, attempts) = (reader.pick(&CAUSES, "a cause")?, reader.u32()?);
            let last_error = reader.maybe(|r| r.text().map(str::to_owned))?;
            Ok(Phase::Queued { delivery: Delivery { state, mode, cause, ready_at, retry_at, attempts, last_error } })
        }
        Status::Running | Status::AwaitingHardware => {
            let claim = claim.ok_or(Malformed("a claim on its row"))?;
            Ok(Phase::Active { hardware: status == Status::AwaitingHardware, claim })
        }
        Status::AwaitingConsent => parked(reader, Parked::Consent),
        Status::AwaitingDelegate => parked(reader, Parked::Delegate),
        Status::AwaitingSignal => parked(reader, Parked::Signal),
        Status::AwaitingTimer => parked(reader, Parked::Timer),
        Status::Cancelling => Ok(Phase::Stopping { end: Stop::Cancel { by: reader.text()?.to_owned() }, hop: claim }),
        Status::Failing => Ok(Phase::Stopping { end: Stop::Fail(read_failure(reader)?), hop: claim }),
        Status::Done => ended(End::Done { result: reader.body()? }),
        Status::Failed => ended(End::Failed(read_failure(reader)?)),
        Status::Cancelled => ended(End::Cancelled { by: reader.text()?.to_owned() }),
    }
}

fn write_failure(writer: &mut Writer, failure: &Failure) {
    writer.text(failure.code.as_str()).text(&failure.message);
    writer.maybe(failure.detail.as_ref(), |w, detail| w.text(detail.as_str()));
}

fn read_failure(reader: &mut Reader<'_>) -> Result<Failure, Malformed> {
    let code = Code::from_str(reader.text()?).map_err(|_| Malformed("a code"))?;
    let message = reader.text()?.to_owned();
    let detail = reader.maybe(|r| json::Canonical::from_stored(r.bytes()?).ok_or(Malformed("canonical JSON")))?;
    Ok(Failure { code, message, detail })
}

fn write_wait(writer: &mut Writer, wait: &Wait) {
    writer.id(wait.id);
    match &wait.owner {
        Owner::Approval(approval) => _ = writer.byte(0).id(*approval),
        Owner::Timer(_) => _ = writer.byte(1),
        Owner::Signal(awaited) => {
            writer.byte(2).text(&awaited.name);
            writer.maybe(awaited.schema.as_ref(), |w, schema| w.text(schema.as_str()));
        }
        Owner::Job(job) => _ = writer.byte(3).id(*job),
    }
    writer.id(wait.call);
    match wait.state {
        wait::State::Live => _ = writer.byte(0),
        wait::State::Parked => _ = writer.byte(1),
        wait::State::Ended { outcome } => _ = writer.byte(2).digest(outcome),
    }
    writer.time(wait.since).maybe(wait.due_at, |w, at| w.time(at));
}

fn read_wait(reader: &mut Reader<'_>, run: RunId) -> Result<Wait, Malformed> {
    let id = reader.id()?;
    let owner = match reader.byte()? {
        0 => Owner::Approval(reader.id()?),
        1 => Owner::Timer(id),
        2 => Owner::Signal(Arc::new(read_awaited(reader)?)),
        3 => Owner::Job(reader.id()?),
        _ => return Err(Malformed("an owner")),
    };
    let call = reader.id()?;
    let state = match reader.byte()? {
        0 => wait::State::Live,
        1 => wait::State::Parked,
        2 => wait::State::Ended { outcome: reader.digest()? },
        _ => return Err(Malformed("a state of a wait")),
    };
    Ok(Wait { id, run, owner, call, state, since: reader.time()?, due_at: reader.maybe(Reader::time)? })
}

fn read_awaited(reader: &mut Reader<'_>) -> Result<Awaited, Malformed> {
    let name = reader.text()?.to_owned();
    let schema = reader.maybe(|r| json::Canonical::from_stored(r.bytes()?).ok_or(Malformed("canonical JSON")))?;
    Ok(Awaited { name, schema })
}

impl Unpacked {
    /// The checkpoint's header with its names.
    pub(super) fn checkpoint(&mut self, db: &Connection, names: &Names) -> Result<Option<Checkpoint>, Fault> {
        self.checkpoint.take().map(|header| header.named(db, names)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, status in 0..Status::ALL.len()) {
            let status = Status::ALL[status];
            let columns = Columns { status, ready: None, claim: None, finished_at: Some(Time::EPOCH) };
            if let Ok(mut reader) = Reader::open(&bytes, STATE) {
                let _ = read(&mut reader, RunId::from_bytes([0; 16]), columns);
            }
        }
    }
}
