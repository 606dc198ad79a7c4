//! The table `approval`: questions to people, with their votes.
//!
//! A binding repeats facts of its run, plan, requester and call. They are not kept twice: what is read back is put
//! together again from the run's row, and what would not come out equal is refused when it is written.

use std::sync::Arc;

use protocol::approval::{Approval, Binding, Closer, Ending, Kind, Method, Phase, Status, Verdict, Vote};
use protocol::call::{Identity, ToolRef};
use protocol::code::Code;
use protocol::digest::Digest;
use protocol::id::{ApprovalId, CallId, RequestId, WaitId};
use protocol::policy::Strength;
use protocol::rows::Mark;
use protocol::run::{Body, Run};
use protocol::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::append::{self, Appender, Values};
use super::call::{read_identity, write_identity};
use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, Fields, number};
use super::names::Names;

const KINDS: [Kind; 3] = [Kind::Call, Kind::Gate, Kind::Settle];
const METHODS: [Method; 3] = [Method::Api, Method::Cli, Method::Console];
const STRENGTHS: [Strength; 3] = [Strength::Link, Strength::Session, Strength::StepUp];
const VERDICTS: [Verdict; 6] =
    [Verdict::Approve, Verdict::Reject, Verdict::Abstain, Verdict::Happened, Verdict::DidNotHappen, Verdict::GiveUp];

/// The columns that [`read`] reads, of the table or alias `a`.
pub(super) const COLUMNS: &str = "a.id, a.wait, a.kind, a.status, a.expires_at, a.document";

pub(super) fn read(row: &Row<'_>, run: &Run, db: &Connection, names: &Names) -> Result<Approval, Fault> {
    let mut f = Fields::new(row, "approval");
    f.named(run.id);
    let id: ApprovalId = f.id("id")?;
    f.named(id);
    let wait = f.id("wait")?;
    let kind = f.one_of("kind", &KINDS)?;
    let status = f.uint("status")?;
    let expires_at = f.maybe_time("expires_at")?;
    let document = f.blob("document")?;
    let read = f.packed(document, "document", DOCUMENT, |reader| read_document(reader, status))?;
    let tool = names.tool(db, read.tool)?;
    let rule = names.rule(db, read.rule)?;
    let binding = Binding {
        schema: Binding::SCHEMA,
        kind,
        run: run.id,
        hop: read.hop,
        call: read.identity.text(run.id),
        parent: read.parent,
        tool: tool.name.clone(),
        tool_version: tool.version.clone(),
        tool_digest: tool.digest,
        arguments: read.arguments.digest,
        revision: read.revision,
        operands: read.operands,
        plan: run.plan,
        policy: read.policy,
        obligation: rule.digest,
        requester: run.requester.subject.clone(),
        acts_for: run.requester.acts_for.clone(),
        created_at: read.created_at,
        lease: read.lease,
    };
    Ok(Approval {
        id,
        run: run.id,
        wait,
        call: read.call,
        binding: Arc::new(binding),
        binding_digest: read.binding,
        arguments: read.arguments,
        asked_arguments: read.asked.unwrap_or(read.arguments.digest),
        obligation: Arc::clone(&rule.obligation),
        claim: read.claim,
        form: read.form,
        expires_at,
        unrenderable: read.unrenderable,
        status: read.status,
        votes: read.votes,
        answer: read.answer,
    })
}

const DOCUMENT: u8 = 1;

/// An approval without what its run, tool and rule say; the last two are still numbers.
struct Document {
    call: CallId,
    hop: u32,
    identity: Identity,
    parent: Option<String>,
    tool: i64,
    revision: u32,
    operands: Vec<(String, Digest)>,
    policy: Digest,
    rule: i64,
    created_at: Time,
    lease: Option<u64>,
    binding: Digest,
    arguments: Body,
    asked: Option<Digest>,
    claim: Option<Body>,
    form: Option<Body>,
    unrenderable: bool,
    status: Status,
    votes: Vec<Vote>,
    answer: Option<Body>,
}

fn write_document(approval: &Approval, identity: &Identity, tool: i64, rule: i64) -> Vec<u8> {
    let binding = &approval.binding;
    let mut writer = Writer::with_capacity(384);
    let w = writer.byte(DOCUMENT).id(approval.call).uint(binding.hop);
    write_identity(w, identity);
    w.maybe(binding.parent.as_ref(), |w, parent| w.text(parent)).uint(tool as u64).uint(binding.revision);
    w.uint(binding.operands.len() as u64);
    for (pointer, digest) in &binding.operands {
        w.text(pointer).digest(*digest);
    }
    w.digest(binding.policy).uint(rule as u64).time(binding.created_at).maybe(binding.lease, |w, ms| w.uint(ms));
    w.digest(approval.binding_digest).body(approval.arguments);
    let asked = (approval.asked_arguments != approval.arguments.digest).then_some(approval.asked_arguments);
    w.maybe(asked, |w, digest| w.digest(digest));
    w.maybe(approval.claim, |w, body| w.body(body)).maybe(approval.form, |w, body| w.body(body));
    w.flag(approval.unrenderable);
    write_status(w, &approval.status);
    w.uint(approval.votes.len() as u64);
    for vote in &approval.votes {
        write_vote(w, vote);
    }
    w.maybe(approval.answer, |w, body| w.body(body));
    writer.done()
}

fn read_document(reader: &mut Reader<'_>, status: u8) -> Result<Document, Malformed> {
    Ok(Document {
        call: reader.id()?,
        hop: reader.u32()?,
        identity: read_identity(reader)?,
        parent: reader.maybe(|r| r.text().map(str::to_owned))?,
        tool: reader.number()?,
        revision: reader.u32()?,
        operands: reader.list(|r| Ok((r.text()?.to_owned(), r.digest()?)))?,
        policy: reader.digest()?,
        rule: reader.number()?,
        created_at: reader.time()?,
        lease: reader.maybe(Reader::uint)?,
        binding: reader.digest()?,
        arguments: reader.body()?,
        asked: reader.maybe(Reader::digest)?,
        claim: reader.maybe(Reader::body)?,
        form: reader.maybe(Reader::body)?,
        unrenderable: reader.flag()?,
        status: read_status(reader, status)?,
        votes: reader.list(read_vote)?,
        answer: reader.maybe(Reader::body)?,
    })
}

/// The number of a status, as its column has it.
fn status_number(status: &Status) -> u8 {
    match status {
        Status::Pending => 0,
        Status::Approved { .. } => 1,
        Status::Rejected { .. } => 2,
        Status::Expired { .. } => 3,
        Status::Cancelled { .. } => 4,
    }
}

fn write_status(writer: &mut Writer, status: &Status) {
    writer.byte(status_number(status));
    match status {
        Status::Pending => {}
        Status::Approved { at, valid_until, phase } => {
            writer.time(*at).maybe(*valid_until, |w, at| w.time(at));
            write_phase(writer, phase);
        }
        Status::Rejected { at, by } => _ = writer.time(*at).flag(*by == Closer::QuorumUnreachable),
        Status::Expired { at } => _ = writer.time(*at),
        Status::Cancelled { at, by } => _ = writer.time(*at).text(by),
    }
}

fn read_status(reader: &mut Reader<'_>, column: u8) -> Result<Status, Malformed> {
    match reader.byte()? {
        other if other != column => Err(Malformed("the status of its row")),
        0 => Ok(Status::Pending),
        1 => {
            let (at, valid_until) = (reader.time()?, reader.maybe(Reader::time)?);
            Ok(Status::Approved { at, valid_until, phase: read_phase(reader)? })
        }
        2 => {
            let at = reader.time()?;
            let by = if reader.flag()? { Closer::QuorumUnreachable } else { Closer::People };
            Ok(Status::Rejected { at, by })
        }
        3 => Ok(Status::Expired { at: reader.time()? }),
        4 => Ok(Status::Cancelled { at: reader.time()?, by: reader.text()?.to_owned() }),
        _ => Err(Malformed("a status")),
    }
}

fn write_phase(writer: &mut Writer, phase: &Phase) {
    match phase {
        Phase::Open => _ = writer.byte(0),
        Phase::Gated { at } => _ = writer.byte(1).time(*at),
        Phase::Ended { gate_at, at, how } => {
            writer.byte(2).maybe(*gate_at, |w, at| w.time(at)).time(*at);
            match how {
                Ending::Ok => writer.byte(0),
                Ending::Error => writer.byte(1),
                Ending::Ambiguous => writer.byte(2),
                Ending::CancelledBeforeDispatch => writer.byte(3),
                Ending::ExpiredBeforeDispatch => writer.byte(4),
                Ending::InvalidatedBeforeDispatch(code) => writer.byte(5).text(code.as_str()),
                Ending::Delivered => writer.byte(6),
            };
        }
    }
}

fn read_phase(reader: &mut Reader<'_>) -> Result<Phase, Malformed> {
    match reader.byte()? {
        0 => Ok(Phase::Open),
        1 => Ok(Phase::Gated { at: reader.time()? }),
        2 => {
            let (gate_at, at) = (reader.maybe(Reader::time)?, reader.time()?);
            Ok(Phase::Ended { gate_at, at, how: read_ending(reader)? })
        }
        _ => Err(Malformed("a phase")),
    }
}

fn read_ending(reader: &mut Reader<'_>) -> Result<Ending, Malformed> {
    Ok(match reader.byte()? {
        0 => Ending::Ok,
        1 => Ending::Error,
        2 => Ending::Ambiguous,
        3 => Ending::CancelledBeforeDispatch,
        4 => Ending::ExpiredBeforeDispatch,
        5 => Ending::InvalidatedBeforeDispatch(reader.text()?.parse::<Code>().map_err(|_| Malformed("a code"))?),
        6 => Ending::Delivered,
        _ => return Err(Malformed("an ending")),
    })
}

fn write_vote(writer: &mut Writer, vote: &Vote) {
    writer.text(&vote.principal);
    writer.byte(number(&vote.method, &METHODS) as u8).byte(number(&vote.strength, &STRENGTHS) as u8);
    writer.byte(number(&vote.verdict, &VERDICTS) as u8);
    writer.maybe(vote.reason, |w, reason| w.body(reason));
    writer.digest(vote.binding).flag(vote.edited).time(vote.at).id(vote.request).flag(vote.late);
}

fn read_vote(reader: &mut Reader<'_>) -> Result<Vote, Malformed> {
    Ok(Vote {
        principal: reader.text()?.to_owned(),
        method: reader.pick(&METHODS, "a method")?,
        strength: reader.pick(&STRENGTHS, "a strength")?,
        verdict: reader.pick(&VERDICTS, "a verdict")?,
        reason: reader.maybe(Reader::body)?,
        binding: reader.digest()?,
        edited: reader.flag()?,
        at: reader.time()?,
        request: reader.id::<RequestId>()?,
        late: reader.flag()?,
    })
}

/// What of an approval is not yet decided or not yet over, so that a command on its run may see it.
pub(super) fn is_live(approval: &Approval) -> bool {
    match &approval.status {
        Status::Pending => true,
        Status::Approved { phase, .. } => !matches!(phase, Phase::Ended { .. }),
        _ => false,
    }
}

/// A new question on its way.
struct Waiting {
    id: ApprovalId,
    run: i64,
    wait: WaitId,
    kind: Kind,
    status: u8,
    expires_at: Option<i64>,
    document: Vec<u8>,
}

impl append::Row for Waiting {
    const COLUMNS: usize = 7;
    const INSERT: &'static str = "INSERT OR FAIL INTO approval (id, run, wait, kind, status, expires_at, document)";

    fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
        values.value(self.id.as_bytes())?.value(self.run)?.value(self.wait.as_bytes())?;
        values.value(number(&self.kind, &KINDS))?.value(self.status)?.value(self.expires_at)?;
        values.value(&self.document).map(drop)
    }
}

pub(super) struct Table<'c> {
    by_id: Statement<'c>,
    run_of: Statement<'c>,
    new: Appender<'c, Waiting>,
    update: Statement<'c>,
    /// Without what its indexes have: a yes that goes its way.
    follow: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        Ok(Table {
            by_id: db.prepare(&format!("SELECT {COLUMNS} FROM approval a WHERE a.id = ?1 AND a.run = ?2"))?,
            run_of: db.prepare("SELECT run FROM approval WHERE id = ?1")?,
            new: Appender::prepare(db)?,
            update: db
                .prepare("UPDATE OR FAIL approval SET status = ?1, expires_at = ?2, document = ?3 WHERE id = ?4")?,
            follow: db.prepare("UPDATE OR FAIL approval SET document = ?1 WHERE id = ?2 AND status = 1")?,
        })
    }

    pub(super) fn by_id(
        &mut self,
        id: ApprovalId,
        n: i64,
        run: &Run,
        db: &Connection,
        names: &Names,
    ) -> Result<Option<Approval>, Fault> {
        self.new.flush_if(|row| row.id == id)?;
        let mut rows = self.by_id.query(params![id.as_bytes(), n])?;
        rows.next()?.map(|row| read(row, run, db, names)).transpose()
    }

    pub(super) fn run_of(&mut self, id: ApprovalId) -> Result<Option<i64>, Fault> {
        self.new.flush_if(|row| row.id == id)?;
        Ok(self.run_of.query_row([id.as_bytes()], |row| row.get(0)).optional()?)
    }

    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        self.new.flush()
    }

    pub(super) fn forget(&mut self) {
        self.new.forget();
    }

    pub(super) fn save(
        &mut self,
        approval: &Approval,
        mark: Mark,
        (n, run): (i64, &Run),
        db: &Connection,
        names: &Names,
    ) -> Result<(), Fault> {
        let binding = &approval.binding;
        let identity = derived(approval, run)?;
        let tool =
            ToolRef { name: binding.tool.clone(), version: binding.tool_version.clone(), digest: binding.tool_digest };
        let tool = names.tool_number(db, &tool)?;
        let rule = names.rule_number(db, binding.obligation, &approval.obligation)?;
        let document = write_document(approval, &identity, tool, rule);
        let (id, status) = (approval.id, status_number(&approval.status));
        let expires_at = approval.expires_at.map(Time::as_micros);
        match mark {
            Mark::Loaded => Ok(()),
            Mark::Gone => Err(Fault::Broken(format!("{id} would be deleted"))),
            Mark::Changed => {
                self.new.flush_if(|row| row.id == id)?;
                let id = id.as_bytes();
                let followed = has_followed(approval) && self.follow.execute(params![document, id])? == 1;
                if followed || self.update.execute(params![status, expires_at, document, id])? == 1 {
                    return Ok(());
                }
                Err(Fault::Broken(format!("{} is not there", approval.id)))
            }
            Mark::New => {
                let (wait, kind) = (approval.wait, binding.kind);
                self.new.push(Waiting { id, run: n, wait, kind, status, expires_at, document });
                Ok(())
            }
        }
    }
}

/// Whether it may have been a yes before this command.
fn has_followed(approval: &Approval) -> bool {
    matches!(&approval.status, Status::Approved { phase: Phase::Gated { .. } | Phase::Ended { .. }, .. })
}

/// Checks that the binding says of its run what the run says, and reads the call's identity out of it.
fn derived(approval: &Approval, run: &Run) -> Result<Identity, Fault> {
    let binding = &approval.binding;
    let same = binding.run == run.id
        && binding.plan == run.plan
        && binding.requester == run.requester.subject
        && binding.acts_for == run.requester.acts_for
        && binding.arguments == approval.arguments.digest;
    let identity = binding.call.split_once('/').and_then(|(_, identity)| Identity::parse(identity));
    match identity {
        Some(identity) if same && identity.text(run.id) == binding.call => Ok(identity),
        _ => Err(Fault::Broken(format!("the binding of {} is not of its run", approval.id))),
    }
}
