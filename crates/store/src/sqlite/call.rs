//! The table `call`: tool calls, which are also the journal's `call` entries.

use protocol::call::{Applied, Call, Gate, Identity, Outcome, OutcomeStatus, RecoveryClass, Scope, State};
use protocol::code::Code;
use protocol::id::{ApprovalId, CallId, RunId};
use protocol::rows::Mark;
use protocol::tool::Effect;
use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::codec::body_bytes;
use super::fault::{Fault, Fields, number};
use super::names::Names;

pub(super) const SCOPES: [Scope; 2] = [Scope::Main, Scope::Engine];
const EFFECTS: [Effect; 3] = [Effect::Pure, Effect::Read, Effect::Write];
const RECOVERIES: [RecoveryClass; 4] =
    [RecoveryClass::Retry, RecoveryClass::Idempotent, RecoveryClass::Lookup, RecoveryClass::Manual];
const OUTCOMES: [OutcomeStatus; 3] = [OutcomeStatus::Ok, OutcomeStatus::Error, OutcomeStatus::Denied];
const APPLIED: [Applied; 3] = [Applied::Yes, Applied::No, Applied::Unknown];

/// The columns that [`read`] reads, of the table or alias `c`.
pub(super) const COLUMNS: &str = "c.id, c.position, c.scope, c.n, c.tool, c.effect, c.recovery, c.timeout_ms, c.asked,
 c.arguments, c.edited, c.approval, c.settle, c.state, c.rounds, c.receipt, c.at, c.gate_attempt, c.gate_at, c.gate_token,
 c.outcome, c.outcome_code, c.applied, c.body, c.ended_at";

/// `n` of scopes: a copyable stand-in, since a scope is kept by its number.
pub(super) fn scope_of(f: &mut Fields<'_>, field: &'static str) -> Result<Scope, Fault> {
    let at = f.one_of(field, &[0usize, 1])?;
    Ok(SCOPES[at].clone())
}

pub(super) fn read(row: &Row<'_>, run: RunId, db: &Connection, names: &Names) -> Result<Call, Fault> {
    let mut f = Fields::new(row, "call");
    f.named(run);
    let id: CallId = f.id("id")?;
    f.named(id);
    let position = f.maybe_uint("position")?;
    let identity = Identity { scope: scope_of(&mut f, "scope")?, n: f.uint("n")? };
    let tool = (*names.tool(db, f.int("tool")?)?).clone();
    let effect = f.one_of("effect", &EFFECTS)?;
    let recovery = f.one_of("recovery", &RECOVERIES)?;
    let timeout_ms = f.uint("timeout_ms")?;
    let asked = f.maybe_digest("asked")?;
    let arguments = f.body("arguments")?;
    let edited = f.flag("edited")?;
    let approval = f.maybe_id("approval")?;
    let settle = f.maybe_id("settle")?;
    let state: u8 = f.uint("state")?;
    let rounds = f.uint("rounds")?;
    let receipt = f.maybe_digest("receipt")?;
    let at = f.time("at")?;
    let gate = gate(&mut f)?;
    let outcome = outcome(&mut f, gate.clone())?;
    let state = match state {
        0 => State::Entered,
        1 => State::Asked,
        2 => State::Dispatched(f.needed(gate, "gate_at")?),
        3 => State::Ambiguous(f.needed(gate, "gate_at")?),
        4 => State::Ended(f.needed(outcome, "outcome")?),
        other => return Err(f.corrupt("state", format!("{other} is no state")).into()),
    };
    let asked = asked.unwrap_or(arguments.digest);
    Ok(Call {
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
    })
}

fn gate(f: &mut Fields<'_>) -> Result<Option<Gate>, Fault> {
    let attempt = f.maybe_uint("gate_attempt")?;
    let at = f.maybe_time("gate_at")?;
    let token = f.maybe_uint("gate_token")?;
    let Some(at) = at else { return Ok(None) };
    Ok(Some(Gate { attempt: f.needed(attempt, "gate_attempt")?, at, token: f.needed(token, "gate_token")? }))
}

fn outcome(f: &mut Fields<'_>, gate: Option<Gate>) -> Result<Option<Outcome>, Fault> {
    let status = f.maybe_one_of("outcome", &OUTCOMES)?;
    let code = match f.maybe_text("outcome_code")? {
        Some(text) => Some(text.parse::<Code>().map_err(|error| f.corrupt("outcome_code", error))?),
        None => None,
    };
    let applied = f.maybe_one_of("applied", &APPLIED)?;
    let body = f.maybe_body("body")?;
    let at = f.maybe_time("ended_at")?;
    let Some(status) = status else { return Ok(None) };
    let (applied, at) = (f.needed(applied, "applied")?, f.needed(at, "ended_at")?);
    Ok(Some(Outcome { status, code, applied, body, gate, at }))
}

pub(super) struct Table<'c> {
    open: Statement<'c>,
    by_id: Statement<'c>,
    insert: Statement<'c>,
    update: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            open: db.prepare(&format!(
                "SELECT {COLUMNS} FROM call c WHERE c.run = ?1 AND c.live = 1 ORDER BY c.id"
            ))?,
            by_id: db.prepare(&format!("SELECT {COLUMNS} FROM call c WHERE c.id = ?1 AND c.run = ?2"))?,
            insert: db.prepare(
                "INSERT OR FAIL INTO call (live, arguments, edited, approval, settle, state, rounds, receipt, gate_attempt, gate_at,
                 gate_token, outcome, outcome_code, applied, body, ended_at, asked, id, run, position, scope, n, tool, effect,
                 recovery, timeout_ms, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
                 ?23, ?24, ?25, ?26, ?27)",
            )?,
            update: db.prepare(
                "UPDATE OR FAIL call SET live = ?1, arguments = ?2, edited = ?3, approval = ?4, settle = ?5, state = ?6, rounds = ?7,
                 receipt = ?8, gate_attempt = ?9, gate_at = ?10, gate_token = ?11, outcome = ?12, outcome_code = ?13,
                 applied = ?14, body = ?15, ended_at = ?16, asked = ?17 WHERE id = ?18",
            )?,
        })
    }

    /// Those without outcome.
    pub(super) fn open(&mut self, n: i64, run: RunId, db: &Connection, names: &Names) -> Result<Vec<Call>, Fault> {
        let mut rows = self.open.query([n])?;
        let mut calls = Vec::new();
        while let Some(row) = rows.next()? {
            calls.push(read(row, run, db, names)?);
        }
        Ok(calls)
    }

    pub(super) fn by_id(
        &mut self,
        id: CallId,
        n: i64,
        run: RunId,
        db: &Connection,
        names: &Names,
    ) -> Result<Option<Call>, Fault> {
        let mut rows = self.by_id.query(params![id.as_bytes(), n])?;
        rows.next()?.map(|row| read(row, run, db, names)).transpose()
    }

    pub(super) fn save(
        &mut self,
        call: &Call,
        mark: Mark,
        n: i64,
        db: &Connection,
        names: &Names,
    ) -> Result<(), Fault> {
        let state = match &call.state {
            State::Entered => 0,
            State::Asked => 1,
            State::Dispatched(_) => 2,
            State::Ambiguous(_) => 3,
            State::Ended(_) => 4,
        };
        let gate = call.gate();
        let outcome = call.outcome();
        let asked = (call.asked != call.arguments.digest).then(|| call.asked.as_bytes());
        let arguments = body_bytes(call.arguments);
        let body = outcome.and_then(|o| o.body).map(body_bytes);
        let changing = params![
            state < 4,
            arguments,
            call.edited,
            call.approval.as_ref().map(ApprovalId::as_bytes),
            call.settle.as_ref().map(ApprovalId::as_bytes),
            state,
            call.rounds,
            call.receipt.as_ref().map(|d| d.as_bytes()),
            gate.map(|g| g.attempt),
            gate.map(|g| g.at.as_micros()),
            gate.map(|g| g.token as i64),
            outcome.map(|o| number(&o.status, &OUTCOMES)),
            outcome.and_then(|o| o.code).map(Code::as_str),
            outcome.map(|o| number(&o.applied, &APPLIED)),
            body,
            outcome.map(|o| o.at.as_micros()),
            asked,
            call.id.as_bytes(),
        ];
        let changed = match mark {
            Mark::Loaded => return Ok(()),
            Mark::Gone => return Err(Fault::Broken(format!("{} would be deleted", call.id))),
            Mark::Changed => self.update.execute(changing)?,
            Mark::New => {
                let tool = names.tool_number(db, &call.tool)?;
                let fixed = params![
                    n,
                    call.position,
                    number(&call.identity.scope, &SCOPES),
                    call.identity.n,
                    tool,
                    number(&call.effect, &EFFECTS),
                    number(&call.recovery, &RECOVERIES),
                    call.timeout_ms,
                    call.at.as_micros()
                ];
                self.insert.execute(&[changing, fixed].concat()[..])?
            }
        };
        if changed == 1 { Ok(()) } else { Err(Fault::Broken(format!("{} is not there", call.id))) }
    }
}

/// The run of a call, for readers.
pub(super) fn run_of(db: &Connection, id: CallId) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT run FROM call WHERE id = ?1")?.query_row([id.as_bytes()], |row| row.get(0)).optional()
}
