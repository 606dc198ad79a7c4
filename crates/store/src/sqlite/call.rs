//! The table `call`: tool calls, which are also the journal's `call` entries, and which receipts they have.
//!
//! A call has at most two: the one of its end, or one that it was ambiguous and one that settles it. One that it has is
//! never written again (C-125).

use protocol::call::{
    Applied, Call, Gate, Identity, Outcome, OutcomeStatus, Receipt, RecoveryClass, Scope, State, ToolRef,
};
use protocol::code::Code;
use protocol::digest::Digest;
use protocol::id::{CallId, RunId};
use protocol::rows::Mark;
use protocol::tool::Effect;
use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::append::{self, Appender, Values};
use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, Fields, number};
use super::names::Names;

const SCOPES: [Scope; 2] = [Scope::Main, Scope::Engine];
const EFFECTS: [Effect; 3] = [Effect::Pure, Effect::Read, Effect::Write];
const RECOVERIES: [RecoveryClass; 4] =
    [RecoveryClass::Retry, RecoveryClass::Idempotent, RecoveryClass::Lookup, RecoveryClass::Manual];
const OUTCOMES: [OutcomeStatus; 3] = [OutcomeStatus::Ok, OutcomeStatus::Error, OutcomeStatus::Denied];
const APPLIED: [Applied; 3] = [Applied::Yes, Applied::No, Applied::Unknown];

/// The columns that [`read`] reads, of the table or alias `c`.
pub(super) const COLUMNS: &str = "c.id, c.position, c.state, c.effect, c.document";

pub(super) fn read(row: &Row<'_>, run: RunId, db: &Connection, names: &Names) -> Result<Call, Fault> {
    let mut f = Fields::new(row, "call");
    f.named(run);
    let id: CallId = f.id("id")?;
    f.named(id);
    let position = f.maybe_uint("position")?;
    let state = f.uint("state")?;
    let effect = f.one_of("effect", &EFFECTS)?;
    let document = f.blob("document")?;
    let (tool, call) = f.packed(document, "document", DOCUMENT, |reader| {
        let tool = reader.number()?;
        Ok((tool, read_document(reader, Columns { id, run, position, state, effect })?))
    })?;
    Ok(Call { tool: (*names.tool(db, tool)?).clone(), ..call })
}

const DOCUMENT: u8 = 1;

struct Columns {
    id: CallId,
    run: RunId,
    position: Option<u32>,
    state: u8,
    effect: Effect,
}

fn write_document(call: &Call, tool: i64) -> Vec<u8> {
    let mut writer = Writer::with_capacity(160);
    let w = writer.byte(DOCUMENT).uint(tool as u64);
    write_identity(w, &call.identity);
    w.byte(number(&call.recovery, &RECOVERIES) as u8).uint(call.timeout_ms).body(call.arguments);
    // Rarely another digest than that of the arguments.
    w.maybe((call.asked != call.arguments.digest).then_some(call.asked), |w, digest| w.digest(digest));
    w.flag(call.edited).maybe(call.approval, |w, id| w.id(id)).maybe(call.settle, |w, id| w.id(id));
    w.byte(call.rounds).maybe(call.receipt, |w, digest| w.digest(digest)).time(call.at);
    w.maybe(call.gate(), |w, gate| w.byte(gate.attempt).time(gate.at).uint(gate.token));
    w.maybe(call.outcome(), |w, outcome| {
        w.byte(number(&outcome.status, &OUTCOMES) as u8).maybe(outcome.code, |w, code| w.text(code.as_str()));
        w.byte(number(&outcome.applied, &APPLIED) as u8).maybe(outcome.body, |w, body| w.body(body)).time(outcome.at)
    });
    // Nothing stands for a call that this run made, as before there were forks.
    if let Some(run) = call.from {
        w.id(run);
    }
    writer.done()
}

/// A call without its tool, which is still a number.
fn read_document(reader: &mut Reader<'_>, columns: Columns) -> Result<Call, Malformed> {
    let Columns { id, run, position, state, effect } = columns;
    let identity = read_identity(reader)?;
    let recovery = reader.pick(&RECOVERIES, "a recovery class")?;
    let (timeout_ms, arguments) = (reader.u32()?, reader.body()?);
    let asked = reader.maybe(Reader::digest)?.unwrap_or(arguments.digest);
    let edited = reader.flag()?;
    let (approval, settle) = (reader.maybe(Reader::id)?, reader.maybe(Reader::id)?);
    let (rounds, receipt, at) = (reader.byte()?, reader.maybe(Reader::digest)?, reader.time()?);
    let gate = reader.maybe(|r| Ok(Gate { attempt: r.byte()?, at: r.time()?, token: r.uint()? }))?;
    let outcome = reader.maybe(|r| read_outcome(r, gate.clone()))?;
    let from = if reader.is_empty() { None } else { Some(reader.id()?) };
    let state = match (state, gate, outcome) {
        (0, None, None) => State::Entered,
        (1, None, None) => State::Asked,
        (2, Some(gate), None) => State::Dispatched(gate),
        (3, Some(gate), None) => State::Ambiguous(gate),
        (4, _, Some(outcome)) => State::Ended(outcome),
        _ => return Err(Malformed("what belongs to the state of its row")),
    };
    let tool = ToolRef { name: String::new(), version: String::new(), digest: Digest::ZERO };
    let call = Call {
        id,
        run,
        position,
        identity,
        tool,
        effect,
        recovery,
        timeout_ms,
        asked,
        arguments,
        edited,
        approval,
        settle,
        state,
        rounds,
        receipt,
        at,
        from,
    };
    Ok(call)
}

fn read_outcome(reader: &mut Reader<'_>, gate: Option<Gate>) -> Result<Outcome, Malformed> {
    let status = reader.pick(&OUTCOMES, "an outcome")?;
    let code = reader.maybe(|r| r.text()?.parse::<Code>().map_err(|_| Malformed("a code")))?;
    let applied = reader.pick(&APPLIED, "whether it applied")?;
    Ok(Outcome { status, code, applied, body: reader.maybe(Reader::body)?, gate, at: reader.time()? })
}

pub(super) fn write_identity(writer: &mut Writer, identity: &Identity) {
    writer.byte(number(&identity.scope, &SCOPES) as u8).uint(identity.n);
}

pub(super) fn read_identity(reader: &mut Reader<'_>) -> Result<Identity, Malformed> {
    let scope = SCOPES.get(usize::from(reader.byte()?)).cloned().ok_or(Malformed("a scope"))?;
    Ok(Identity { scope, n: reader.u32()? })
}

/// The bits of the column `receipts`: of the call's end, or that it was ambiguous; and the one that settles it.
const FIRST: u8 = 1;
const SETTLING: u8 = 2;

/// A new call on its way.
struct Waiting {
    id: CallId,
    run: i64,
    position: Option<u32>,
    state: u8,
    effect: Effect,
    gated: bool,
    document: Vec<u8>,
    receipts: u8,
}

impl append::Row for Waiting {
    const COLUMNS: usize = 8;
    const INSERT: &'static str =
        "INSERT OR FAIL INTO call (id, run, position, state, effect, gated, document, receipts)";

    fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
        values.value(self.id.as_bytes())?.value(self.run)?.value(self.position)?.value(self.state)?;
        values.value(number(&self.effect, &EFFECTS))?.value(self.gated)?.value(&self.document)?;
        values.value(self.receipts).map(drop)
    }
}

pub(super) struct Table<'c> {
    by_id: Statement<'c>,
    new: Appender<'c, Waiting>,
    update: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            by_id: db.prepare(&format!("SELECT {COLUMNS} FROM call c WHERE c.id = ?1 AND c.run = ?2"))?,
            new: Appender::prepare(db)?,
            update: db.prepare(
                "UPDATE OR FAIL call SET state = ?1, gated = ?2, document = ?3, receipts = receipts | ?4
                 WHERE id = ?5 AND receipts & ?4 = 0",
            )?,
        })
    }

    pub(super) fn by_id(
        &mut self,
        id: CallId,
        n: i64,
        run: RunId,
        db: &Connection,
        names: &Names,
    ) -> Result<Option<Call>, Fault> {
        self.new.flush_if(|row| row.id == id)?;
        let mut rows = self.by_id.query(params![id.as_bytes(), n])?;
        rows.next()?.map(|row| read(row, run, db, names)).transpose()
    }

    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        self.new.flush()
    }

    pub(super) fn forget(&mut self) {
        self.new.forget();
    }

    /// Saves a call of which these receipts were written.
    pub(super) fn save<'r>(
        &mut self,
        (call, mark): (&Call, Mark),
        receipts: impl Iterator<Item = &'r Receipt>,
        n: i64,
        db: &Connection,
        names: &Names,
    ) -> Result<(), Fault> {
        let mut written = 0;
        for receipt in receipts {
            let first = call.receipt.is_none_or(|ambiguous| ambiguous == receipt.digest);
            let kind = if first { FIRST } else { SETTLING };
            if written & kind != 0 {
                return Err(Fault::Broken(format!("{} has two receipts of one kind", call.id)));
            }
            written |= kind;
        }
        let state = match &call.state {
            State::Entered => 0,
            State::Asked => 1,
            State::Dispatched(_) => 2,
            State::Ambiguous(_) => 3,
            State::Ended(_) => 4,
        };
        let document = write_document(call, names.tool_number(db, &call.tool)?);
        // What a fork took over is no effect of this run.
        let (gated, id) = (call.gate().is_some() && call.from.is_none(), call.id);
        match mark {
            Mark::Loaded => Ok(()),
            Mark::Gone => Err(Fault::Broken(format!("{id} would be deleted"))),
            Mark::Changed => {
                self.new.flush_if(|row| row.id == id)?;
                match self.update.execute(params![state, gated, document, written, id.as_bytes()])? {
                    1 => Ok(()),
                    _ => Err(Fault::Broken(format!("{id} is not there as it was"))),
                }
            }
            Mark::New => {
                let Call { position, effect, .. } = *call;
                let receipts = written;
                self.new.push(Waiting { id, run: n, position, state, effect, gated, document, receipts });
                Ok(())
            }
        }
    }
}

/// The run of a call.
pub(super) fn run_of(db: &Connection, id: CallId) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT run FROM call WHERE id = ?1")?.query_row([id.as_bytes()], |row| row.get(0)).optional()
}
