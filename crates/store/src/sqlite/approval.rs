//! The table `approval`: questions to people, with their votes.
//!
//! A binding repeats facts of its run, plan, requester and call. They are not kept twice: what is read back is put
//! together again from the run's row, and what would not come out equal is refused when it is written.

use std::sync::Arc;

use protocol::approval::{Approval, Binding, Closer, Ending, Kind, Method, Phase, Status, Verdict, Vote};
use protocol::call::{Identity, ToolRef};
use protocol::code::Code;
use protocol::id::{ApprovalId, RequestId};
use protocol::policy::Strength;
use protocol::rows::Mark;
use protocol::run::Run;
use protocol::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::call::{SCOPES, scope_of};
use super::codec::{Malformed, Reader, Writer, body_bytes};
use super::fault::{Fault, Fields, number};
use super::names::Names;

const KINDS: [Kind; 3] = [Kind::Call, Kind::Gate, Kind::Settle];
const METHODS: [Method; 3] = [Method::Api, Method::Cli, Method::Console];
const STRENGTHS: [Strength; 3] = [Strength::Link, Strength::Session, Strength::StepUp];
const VERDICTS: [Verdict; 6] =
    [Verdict::Approve, Verdict::Reject, Verdict::Abstain, Verdict::Happened, Verdict::DidNotHappen, Verdict::GiveUp];

/// The columns that [`read`] reads, of the table or alias `a`.
pub(super) const COLUMNS: &str = "a.id, a.wait, a.call, a.kind, a.status, a.hop, a.call_scope, a.call_n, a.parent, a.tool,
 a.revision, a.operands, a.policy, a.rule, a.created_at, a.lease_ms, a.binding, a.arguments, a.asked, a.claim, a.form,
 a.expires_at, a.unrenderable, a.decided_at, a.valid_until, a.quorum_lost, a.cancelled_by, a.phase, a.gate_at, a.ended_at,
 a.ending, a.ending_code, a.votes, a.answer";

pub(super) fn read(row: &Row<'_>, run: &Run, db: &Connection, names: &Names) -> Result<Approval, Fault> {
    let mut f = Fields::new(row, "approval");
    f.named(run.id);
    let id: ApprovalId = f.id("id")?;
    f.named(id);
    let wait = f.id("wait")?;
    let call = f.id("call")?;
    let kind = f.one_of("kind", &KINDS)?;
    let status: u8 = f.uint("status")?;
    let hop = f.uint("hop")?;
    let identity = Identity { scope: scope_of(&mut f, "call_scope")?, n: f.uint("call_n")? };
    let parent = f.maybe_text("parent")?.map(str::to_owned);
    let tool: Arc<ToolRef> = names.tool(db, f.int("tool")?)?;
    let revision = f.uint("revision")?;
    let operands = match f.maybe_text("operands")? {
        Some(text) => serde_json::from_str(text).map_err(|error| f.corrupt("operands", error))?,
        None => Vec::new(),
    };
    let policy = f.digest("policy")?;
    let rule = names.rule(db, f.int("rule")?)?;
    let created_at = f.time("created_at")?;
    let lease = f.maybe_uint("lease_ms")?;
    let binding_digest = f.digest("binding")?;
    let arguments = f.body("arguments")?;
    let asked_arguments = f.maybe_digest("asked")?.unwrap_or(arguments.digest);
    let claim = f.maybe_body("claim")?;
    let form = f.maybe_body("form")?;
    let expires_at = f.maybe_time("expires_at")?;
    let unrenderable = f.flag("unrenderable")?;
    let status = read_status(&mut f, status)?;
    let votes = match f.maybe_blob("votes")? {
        Some(bytes) => f.packed(bytes, "votes", VOTES, read_votes)?,
        None => Vec::new(),
    };
    let answer = f.maybe_body("answer")?;
    let binding = Binding {
        schema: Binding::SCHEMA,
        kind,
        run: run.id,
        hop,
        call: identity.text(run.id),
        parent,
        tool: tool.name.clone(),
        tool_version: tool.version.clone(),
        tool_digest: tool.digest,
        arguments: arguments.digest,
        revision,
        operands,
        plan: run.plan,
        policy,
        obligation: rule.digest,
        requester: run.requester.subject.clone(),
        acts_for: run.requester.acts_for.clone(),
        created_at,
        lease,
    };
    Ok(Approval {
        id,
        run: run.id,
        wait,
        call,
        binding,
        binding_digest,
        arguments,
        asked_arguments,
        obligation: rule.obligation.clone(),
        claim,
        form,
        expires_at,
        unrenderable,
        status,
        votes,
        answer,
    })
}

fn read_status(f: &mut Fields<'_>, status: u8) -> Result<Status, Fault> {
    let at = f.maybe_time("decided_at")?;
    let valid_until = f.maybe_time("valid_until")?;
    let quorum_lost = f.maybe_uint::<u8>("quorum_lost")?;
    let by = f.maybe_text("cancelled_by")?.map(str::to_owned);
    let phase = f.maybe_uint::<u8>("phase")?;
    let gate_at = f.maybe_time("gate_at")?;
    let ended_at = f.maybe_time("ended_at")?;
    let ending = f.maybe_uint::<u8>("ending")?;
    let code = f.maybe_text("ending_code")?;
    let phase = match phase {
        None => None,
        Some(0) => Some(Phase::Open),
        Some(1) => Some(Phase::Gated { at: f.needed(gate_at, "gate_at")? }),
        Some(2) => {
            let how = read_ending(f, f.needed(ending, "ending")?, code)?;
            Some(Phase::Ended { gate_at, at: f.needed(ended_at, "ended_at")?, how })
        }
        Some(other) => return Err(f.corrupt("phase", format!("{other} is no phase")).into()),
    };
    let decided = |f: &Fields<'_>| f.needed(at, "decided_at");
    Ok(match status {
        0 => Status::Pending,
        1 => Status::Approved { at: decided(f)?, valid_until, phase: f.needed(phase, "phase")? },
        2 => {
            let by = match quorum_lost {
                Some(1) => Closer::QuorumUnreachable,
                _ => Closer::People,
            };
            Status::Rejected { at: decided(f)?, by }
        }
        3 => Status::Expired { at: decided(f)? },
        4 => Status::Cancelled { at: decided(f)?, by: f.needed(by, "cancelled_by")? },
        other => return Err(f.corrupt("status", format!("{other} is no status")).into()),
    })
}

fn read_ending(f: &Fields<'_>, ending: u8, code: Option<&str>) -> Result<Ending, Fault> {
    Ok(match ending {
        0 => Ending::Ok,
        1 => Ending::Error,
        2 => Ending::Ambiguous,
        3 => Ending::CancelledBeforeDispatch,
        4 => Ending::ExpiredBeforeDispatch,
        5 => {
            let code = f.needed(code, "ending_code")?;
            Ending::InvalidatedBeforeDispatch(code.parse().map_err(|error| f.corrupt("ending_code", error))?)
        }
        6 => Ending::Delivered,
        other => return Err(f.corrupt("ending", format!("{other} is no ending")).into()),
    })
}

fn write_ending(ending: Ending) -> (u8, Option<&'static str>) {
    match ending {
        Ending::Ok => (0, None),
        Ending::Error => (1, None),
        Ending::Ambiguous => (2, None),
        Ending::CancelledBeforeDispatch => (3, None),
        Ending::ExpiredBeforeDispatch => (4, None),
        Ending::InvalidatedBeforeDispatch(code) => (5, Some(Code::as_str(code))),
        Ending::Delivered => (6, None),
    }
}

const VOTES: u8 = 1;

fn write_votes(votes: &[Vote]) -> Option<Vec<u8>> {
    if votes.is_empty() {
        return None;
    }
    let mut writer = Writer::with_capacity(128 * votes.len());
    writer.byte(VOTES).uint(votes.len() as u64);
    for vote in votes {
        writer.text(&vote.principal);
        writer.byte(number(&vote.method, &METHODS) as u8).byte(number(&vote.strength, &STRENGTHS) as u8);
        writer.byte(number(&vote.verdict, &VERDICTS) as u8);
        writer.maybe(vote.reason, |w, reason| w.body(reason));
        writer.digest(vote.binding).flag(vote.edited).time(vote.at).id(vote.request).flag(vote.late);
    }
    Some(writer.done())
}

fn read_votes(reader: &mut Reader<'_>) -> Result<Vec<Vote>, Malformed> {
    let count = reader.uint()?;
    (0..count).map(|_| read_vote(reader)).collect()
}

fn read_vote(reader: &mut Reader<'_>) -> Result<Vote, Malformed> {
    fn pick<T: Copy>(reader: &mut Reader<'_>, table: &[T], what: &'static str) -> Result<T, Malformed> {
        table.get(usize::from(reader.byte()?)).copied().ok_or(Malformed(what))
    }
    Ok(Vote {
        principal: reader.text()?.to_owned(),
        method: pick(reader, &METHODS, "a method")?,
        strength: pick(reader, &STRENGTHS, "a strength")?,
        verdict: pick(reader, &VERDICTS, "a verdict")?,
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

pub(super) struct Table<'c> {
    live: Statement<'c>,
    by_id: Statement<'c>,
    run_of: Statement<'c>,
    insert: Statement<'c>,
    update: Statement<'c>,
}

impl<'c> Table<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Table<'c>> {
        let changing = [
            "live",
            "status",
            "revision",
            "operands",
            "rule",
            "lease_ms",
            "binding",
            "arguments",
            "asked",
            "expires_at",
            "unrenderable",
            "decided_at",
            "valid_until",
            "quorum_lost",
            "cancelled_by",
            "phase",
            "gate_at",
            "ended_at",
            "ending",
            "ending_code",
            "votes",
            "answer",
            "id",
        ];
        let fixed = [
            "run",
            "wait",
            "call",
            "kind",
            "hop",
            "call_scope",
            "call_n",
            "parent",
            "tool",
            "policy",
            "created_at",
            "claim",
            "form",
        ];
        let set: Vec<String> = changing[..22].iter().enumerate().map(|(i, c)| format!("{c} = ?{}", i + 1)).collect();
        let marks: Vec<String> = (1..=changing.len() + fixed.len()).map(|i| format!("?{i}")).collect();
        Ok(Table {
            live: db
                .prepare(&format!("SELECT {COLUMNS} FROM approval a WHERE a.run = ?1 AND a.live = 1 ORDER BY a.id"))?,
            by_id: db.prepare(&format!("SELECT {COLUMNS} FROM approval a WHERE a.id = ?1 AND a.run = ?2"))?,
            run_of: db.prepare("SELECT run FROM approval WHERE id = ?1")?,
            insert: db.prepare(&format!(
                "INSERT OR FAIL INTO approval ({}, {}) VALUES ({})",
                changing.join(", "),
                fixed.join(", "),
                marks.join(", ")
            ))?,
            update: db.prepare(&format!("UPDATE OR FAIL approval SET {} WHERE id = ?23", set.join(", ")))?,
        })
    }

    pub(super) fn live(&mut self, n: i64, run: &Run, db: &Connection, names: &Names) -> Result<Vec<Approval>, Fault> {
        let mut rows = self.live.query([n])?;
        let mut approvals = Vec::new();
        while let Some(row) = rows.next()? {
            approvals.push(read(row, run, db, names)?);
        }
        Ok(approvals)
    }

    pub(super) fn by_id(
        &mut self,
        id: ApprovalId,
        n: i64,
        run: &Run,
        db: &Connection,
        names: &Names,
    ) -> Result<Option<Approval>, Fault> {
        let mut rows = self.by_id.query(params![id.as_bytes(), n])?;
        rows.next()?.map(|row| read(row, run, db, names)).transpose()
    }

    pub(super) fn run_of(&mut self, id: ApprovalId) -> rusqlite::Result<Option<i64>> {
        self.run_of.query_row([id.as_bytes()], |row| row.get(0)).optional()
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
        let rule = names.rule_number(db, binding.obligation, &approval.obligation)?;
        let operands = match binding.operands.is_empty() {
            true => None,
            false => Some(serde_json::to_string(&binding.operands).expect("texts are JSON")),
        };
        let asked =
            (approval.asked_arguments != approval.arguments.digest).then(|| approval.asked_arguments.as_bytes());
        let status = StatusColumns::of(&approval.status);
        let changing = params![
            is_live(approval),
            status.status,
            binding.revision,
            operands,
            rule,
            binding.lease.map(|ms| ms as i64),
            approval.binding_digest.as_bytes(),
            body_bytes(approval.arguments),
            asked,
            approval.expires_at.map(Time::as_micros),
            approval.unrenderable,
            status.decided_at,
            status.valid_until,
            status.quorum_lost,
            status.cancelled_by,
            status.phase,
            status.gate_at,
            status.ended_at,
            status.ending.map(|(ending, _)| ending),
            status.ending.and_then(|(_, code)| code),
            write_votes(&approval.votes),
            approval.answer.map(body_bytes),
            approval.id.as_bytes(),
        ];
        let changed = match mark {
            Mark::Loaded => return Ok(()),
            Mark::Gone => return Err(Fault::Broken(format!("{} would be deleted", approval.id))),
            Mark::Changed => self.update.execute(changing)?,
            Mark::New => {
                let identity = derived(approval, run)?;
                let tool = ToolRef {
                    name: binding.tool.clone(),
                    version: binding.tool_version.clone(),
                    digest: binding.tool_digest,
                };
                let fixed = params![
                    n,
                    approval.wait.as_bytes(),
                    approval.call.as_bytes(),
                    number(&binding.kind, &KINDS),
                    binding.hop,
                    number(&identity.scope, &SCOPES),
                    identity.n,
                    binding.parent,
                    names.tool_number(db, &tool)?,
                    binding.policy.as_bytes(),
                    binding.created_at.as_micros(),
                    approval.claim.map(body_bytes),
                    approval.form.map(body_bytes)
                ];
                self.insert.execute(&[changing, fixed].concat()[..])?
            }
        };
        if changed == 1 { Ok(()) } else { Err(Fault::Broken(format!("{} is not there", approval.id))) }
    }
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

#[derive(Default)]
struct StatusColumns<'a> {
    status: u8,
    decided_at: Option<i64>,
    valid_until: Option<i64>,
    quorum_lost: Option<bool>,
    cancelled_by: Option<&'a str>,
    phase: Option<u8>,
    gate_at: Option<i64>,
    ended_at: Option<i64>,
    ending: Option<(u8, Option<&'static str>)>,
}

impl<'a> StatusColumns<'a> {
    fn of(status: &'a Status) -> StatusColumns<'a> {
        let none = StatusColumns::default();
        let decided =
            |status, at: &Time| StatusColumns { status, decided_at: Some(at.as_micros()), ..Default::default() };
        match status {
            Status::Pending => none,
            Status::Approved { at, valid_until, phase } => {
                let approved = StatusColumns { valid_until: valid_until.map(Time::as_micros), ..decided(1, at) };
                match phase {
                    Phase::Open => StatusColumns { phase: Some(0), ..approved },
                    Phase::Gated { at } => StatusColumns { phase: Some(1), gate_at: Some(at.as_micros()), ..approved },
                    Phase::Ended { gate_at, at, how } => StatusColumns {
                        phase: Some(2),
                        gate_at: gate_at.map(Time::as_micros),
                        ended_at: Some(at.as_micros()),
                        ending: Some(write_ending(*how)),
                        ..approved
                    },
                }
            }
            Status::Rejected { at, by } => {
                StatusColumns { quorum_lost: Some(*by == Closer::QuorumUnreachable), ..decided(2, at) }
            }
            Status::Expired { at } => decided(3, at),
            Status::Cancelled { at, by } => StatusColumns { cancelled_by: Some(by), ..decided(4, at) },
        }
    }
}
