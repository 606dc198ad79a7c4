//! Driving a turn: every call of a request from its journal entry to its end (calls.md sections 7, 8 and 12).
//!
//! Invariant: a `write`'s handler starts only after its gate is stored, and the guest sees its outcome only after that is
//! stored too (C-95 to C-98).

use super::ask;
use super::drain;
use super::gate;
use super::hold::{self, Holding};
use super::jobs;
use super::line::{self, Line};
use super::outcome::{deny, succeed};
use super::settle;
use super::state::{Hop, Out};
use super::turn::Turn;
use super::waits;
use crate::broker::{self, Asked, Judged};
use crate::clock::monotonic;
use crate::failpoint;
use crate::tools::{Content, Ended};
use crate::worker::{Stop, Waiting};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use protocol::approval::{self, Kind};
use protocol::call::{Applied, Call, Identity, RecoveryClass, State, ToolRef};
use protocol::code::Code;
use protocol::command::Act;
use protocol::digest::Digest;
use protocol::id::CallId;
use protocol::journal::{Entry, Other};
use protocol::json::Canonical;
use protocol::policy::OnExpiry;
use protocol::tool::{Effect, Recovery};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How far a turn came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Driven {
    /// Every call has its end.
    Complete,
    /// What is left waits for people or timers, and the hot window is over.
    Blocked,
    /// Rust code cannot go on before this resource is warm; it holds for it between two executions of its step.
    Cold(String),
}

/// A handler at work, or a pause before another attempt.
type Work = FuturesUnordered<BoxFuture<'static, (CallId, Done)>>;

/// What a piece of work brought.
pub(super) enum Done {
    Handled(Ended),
    /// What the engine's own call `by` found out.
    Looked {
        by: CallId,
        ended: Ended,
    },
    /// What the call names was read.
    Read(ask::Read),
    /// Time for the next attempt at settling (C-230, C-231).
    AttemptDue,
}

/// A turn being driven.
pub(super) struct Drive {
    pub(super) turn: Turn,
    pub(super) judged: BTreeMap<CallId, Judged>,
    /// What the calls that are to be asked name, read.
    pub(super) contents: BTreeMap<CallId, Vec<Content>>,
    /// Ends all reading of such content.
    pub(super) reading: CancellationToken,
    /// Calls that wait for a place with their tool.
    pub(super) line: Line,
    pub(super) work: Work,
    /// The wait for a resource, if one of the calls is in it.
    pub(super) holding: Holding,
    /// What calls of Rust code need and is not warm, the first of it.
    pub(super) cold: Option<String>,
    /// Calls with a place in `line` or a piece of work in `work`.
    pub(super) busy: BTreeSet<CallId>,
    /// Cuts the handler of a call, if its tool wants that of a cancel (C-22).
    pub(super) cuts: BTreeMap<CallId, CancellationToken>,
    hot: Option<Hot>,
    /// Attempts at settling made by this hop, by call.
    pub(super) attempts: BTreeMap<CallId, u32>,
}

/// A wait in place: since when, and until when at most.
#[derive(Clone, Copy)]
struct Hot {
    since: protocol::time::Time,
    until: Instant,
}

impl Drive {
    pub(super) fn new(turn: Turn) -> Drive {
        Drive {
            turn,
            judged: BTreeMap::new(),
            contents: BTreeMap::new(),
            reading: CancellationToken::new(),
            line: Line::new(),
            work: Work::new(),
            holding: Holding::default(),
            cold: None,
            busy: BTreeSet::new(),
            cuts: BTreeMap::new(),
            hot: None,
            attempts: BTreeMap::new(),
        }
    }
}

/// Accepts a request (step 7): its calls are counted and journaled, then each is judged alone (C-92).
pub(super) fn accept(hop: &mut Hop, asked: Vec<Asked>, batch: bool) -> Drive {
    if batch {
        hop.enter(Entry::Other(Other::Batch { size: asked.len() as u32 }));
    }
    let mut calls = Vec::with_capacity(asked.len());
    calls.extend(asked.iter().map(|one| enter(hop, one)));
    let turn = Turn { calls, batch, hop: None };
    hop.turns.push(turn.clone());
    let mut drive = Drive::new(turn);
    for (id, one) in drive.turn.calls.clone().into_iter().zip(asked) {
        judge(hop, &mut drive, id, &one.arguments);
    }
    drive
}

/// Journals one call.
pub(super) fn enter(hop: &mut Hop, asked: &Asked) -> CallId {
    let call = entered(hop, asked);
    let id = call.id;
    hop.enter(Entry::Call(Box::new(call)));
    id
}

fn entered(hop: &mut Hop, asked: &Asked) -> Call {
    let body = hop.keep(asked.arguments.as_bytes());
    let tool = hop.pinned.tools.get(&asked.tool);
    let spec = tool.map(|tool| &tool.spec);
    Call {
        id: hop.ids.mint(),
        run: hop.run.id,
        position: Some(hop.journal.len),
        identity: Identity::main(hop.counted + 1),
        tool: ToolRef {
            name: asked.tool.clone(),
            version: spec.map_or_else(String::new, |s| s.version.clone()),
            digest: spec.map_or(Digest::ZERO, |s| s.digest()),
        },
        effect: spec.map_or(Effect::Read, |s| s.effect),
        recovery: spec.map_or(RecoveryClass::Retry, |s| class(&s.recovery)),
        timeout_ms: spec.map_or(0, |s| s.limits.timeout.as_millis() as u32),
        asked: asked.arguments.digest(),
        arguments: body,
        edited: false,
        approval: None,
        settle: None,
        state: State::Entered,
        rounds: 0,
        from: None,
        receipt: None,
        at: hop.inner.now(),
    }
}

pub(super) fn class(recovery: &Recovery) -> RecoveryClass {
    match recovery {
        Recovery::Retry => RecoveryClass::Retry,
        Recovery::Idempotent { .. } => RecoveryClass::Idempotent,
        Recovery::Lookup(_) => RecoveryClass::Lookup,
        Recovery::Manual => RecoveryClass::Manual,
    }
}

/// Judges an accepted call. Defaults that its schema fills in become its arguments, before anything is hashed (C-19).
pub(super) fn judge(hop: &mut Hop, drive: &mut Drive, id: CallId, asked: &Canonical) {
    let (judged, arguments) = broker::judge(hop, hop.call(id), asked);
    if let Some(fixed) = arguments.filter(|fixed| fixed != asked) {
        let body = hop.keep(fixed.as_bytes());
        hop.call_mut(id).arguments = body;
        let pending = hop.pending.entries.iter_mut().find_map(|entry| match entry {
            Entry::Call(call) if call.id == id => Some(call),
            _ => None,
        });
        if let Some(call) = pending {
            call.arguments = body;
        }
    }
    drive.judged.insert(id, judged);
}

/// Drives a turn until it is complete, or until what is left may not wait here any longer. A turn that fails its run
/// while calls are in flight does not let go of them.
pub(super) async fn drive(hop: &mut Hop, drive: &mut Drive) -> Result<Driven, Out> {
    match go_on(hop, drive).await {
        Err(Out::Fail(failure)) if drive.turn.calls.iter().any(|id| hop.call(*id).in_flight()) => {
            Err(drain::fail_beside_calls(hop, drive, *failure).await)
        }
        driven => driven,
    }
}

async fn go_on(hop: &mut Hop, drive: &mut Drive) -> Result<Driven, Out> {
    loop {
        // What expires with its run is not told to the program as a no: the run has ended.
        if let Some(stop) = hop.live.stopped().or_else(|| hop.is_late().then_some(Stop::Late)) {
            drain::finish_work(hop, drive, stop).await?;
            return Err(Out::of(stop));
        }
        for id in drive.turn.calls.clone() {
            step(hop, drive, id).await?;
        }
        let ended = drive.turn.calls.iter().all(|id| hop.call(*id).is_ended());
        let idle = drive.work.is_empty() && drive.line.is_empty() && !drive.holding.is_on();
        if ended && idle {
            hop.live.waits(None);
            hop.flush_if_large().await?;
            return Ok(Driven::Complete);
        }
        if !idle {
            work_or_bell(hop, drive).await?;
        } else if let Some(resource) = drive.cold.take() {
            return Ok(Driven::Cold(resource));
        } else if wait_hot(hop, drive).await? == Driven::Blocked {
            return Ok(Driven::Blocked);
        }
    }
}

/// Does what can be done for one call now.
async fn step(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    if drive.busy.contains(&id) {
        return Ok(());
    }
    match hop.call(id).state.clone() {
        State::Ended(_) => Ok(()),
        State::Entered => entered_step(hop, drive, id).await,
        State::Asked => asked_step(hop, drive, id).await,
        State::Dispatched(gate) => settle::dispatched(hop, drive, id, gate).await,
        State::Ambiguous(gate) => settle::ambiguous(hop, drive, id, gate).await,
    }
}

async fn entered_step(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    if !drive.judged.contains_key(&id) {
        let asked = arguments(hop, id).await?;
        judge(hop, drive, id, &asked);
    }
    match drive.judged.remove(&id).expect("judged above") {
        Judged::Denied { code, message } => {
            deny(hop, id, code, &message, None::<()>);
            Ok(())
        }
        Judged::Waits(wants) => waits::open(hop, id, wants).await,
        Judged::Delegates(job) => {
            jobs::submit(hop, id, 0, *job);
            Ok(())
        }
        Judged::Ask(wanted) => ask::ask(hop, drive, id, wanted).await,
        Judged::Allowed => gate::start(hop, drive, id).await,
    }
}

/// A call that waits: for a signal, a time or a job, or for a person.
async fn asked_step(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    let call = hop.call(id);
    let Some(approval) = hop.approval_of(call) else {
        return match call.approval {
            None => waits::ended(hop, id).await,
            Some(_) => Ok(()),
        };
    };
    let (approval, gate) = (approval.id, approval.kind() == Kind::Gate);
    match answered(hop, approval).await? {
        Answered::Open => Ok(()),
        Answered::Yes(told) if gate => {
            let result = protocol::json::to_canonical(&told).expect("a decision is texts");
            succeed(hop, id, &result, Applied::No, None);
            Ok(())
        }
        Answered::Yes(_) => gate::start(hop, drive, id).await,
        Answered::No { code, message, told } => {
            deny(hop, id, code, &message, told);
            Ok(())
        }
    }
}

/// What became of a question.
pub(super) enum Answered {
    Open,
    Yes(Told),
    No { code: Code, message: String, told: Option<Told> },
}

/// Reads the verdict from its row. A question whose expiry fails the run does that (C-191).
pub(super) async fn answered(hop: &mut Hop, id: protocol::id::ApprovalId) -> Result<Answered, Out> {
    let fails = hop.approvals[&id].obligation.on_expiry == OnExpiry::Fail;
    let told = told(hop, id).await?;
    let no = |code, message: &str, told| Answered::No { code, message: message.to_owned(), told };
    Ok(match &hop.approvals[&id].status {
        approval::Status::Pending => Answered::Open,
        approval::Status::Approved { .. } => Answered::Yes(told),
        approval::Status::Rejected { .. } => no(Code::ApprovalRejected, "a person said no", Some(told)),
        approval::Status::Expired { .. } if fails => {
            return Err(Out::fail(Code::ApprovalExpired, Code::ApprovalExpired.as_str()));
        }
        approval::Status::Expired { .. } => no(Code::ApprovalExpired, "nobody decided in time", Some(told)),
        approval::Status::Cancelled { by, .. } => no(Code::ApprovalCancelled, &format!("withdrawn by {by}"), None),
    })
}

/// What a program is told of a decision (W-263).
#[derive(Serialize)]
pub(super) struct Told {
    status: &'static str,
    by: Vec<String>,
    reason: Option<String>,
    answer: Option<Canonical>,
    at: Option<protocol::time::Time>,
}

async fn told(hop: &mut Hop, id: protocol::id::ApprovalId) -> Result<Told, Out> {
    let approval = hop.approvals[&id].clone();
    let mut by = Vec::new();
    let mut reason = None;
    let wanted = match approval.status {
        approval::Status::Approved { .. } => approval::Verdict::Approve,
        _ => approval::Verdict::Reject,
    };
    for vote in approval.standing().filter(|v| v.verdict == wanted) {
        by.push(vote.principal.clone());
        if let Some(body) = vote.reason {
            reason = Some(String::from_utf8_lossy(&hop.body(body.digest).await?).into_owned());
        }
    }
    let answer = match approval.answer {
        Some(body) => Canonical::from_stored(&hop.body(body.digest).await?),
        None => None,
    };
    Ok(Told { status: approval.status.as_str(), by, reason, answer, at: approval.decided_at() })
}

/// The arguments of a call, by digest.
pub(super) async fn arguments(hop: &mut Hop, id: CallId) -> Result<Canonical, Out> {
    let digest = hop.call(id).arguments.digest;
    let bytes = hop.body(digest).await?;
    Canonical::from_stored(&bytes)
        .ok_or_else(|| Out::fail(Code::CheckpointInvalid, "checkpoint invalid: arguments are no canonical JSON"))
}

async fn work_or_bell(hop: &mut Hop, drive: &mut Drive) -> Result<(), Out> {
    tokio::select! {
        Some((id, done)) = drive.work.next() => {
            drive.busy.remove(&id);
            settle::done(hop, drive, id, done).await
        }
        Some((id, errand, slot)) = drive.line.next() => {
            drive.busy.remove(&id);
            line::served(hop, drive, id, errand, slot).await
        }
        answer = drive.holding.answered() => hold::end(hop, drive, answer).await,
        () = hop.live.bell.notified() => {
            hop.refresh().await
        }
    }
}

/// Waits in place while the hot window lasts. The questions are published first: nobody can answer what is not stored.
async fn wait_hot(hop: &mut Hop, drive: &mut Drive) -> Result<Driven, Out> {
    let window = hot_window(hop, drive);
    let over = |hot: Hot| monotonic() >= hot.until || hop.inner.crew.gives_way(hot.since);
    if window.is_zero() || drive.hot.is_some_and(over) {
        return Ok(Driven::Blocked);
    }
    if hop.pending.opens().next().is_some() {
        hop.commit(Act::Record).await?;
        failpoint::hit("ask.after");
        hop.refresh().await?;
        return Ok(Driven::Complete);
    }
    let now = hop.inner.now();
    let Hot { since, until } = *drive.hot.get_or_insert_with(|| Hot { since: now, until: monotonic() + window });
    hop.live.waits(Some(Waiting { since, name: waits_for(hop, drive) }));
    let began = monotonic();
    let scan = hop.inner.settings.scan_every;
    let pause = until.saturating_duration_since(began).min(scan);
    tokio::select! {
        () = hop.live.bell.notified() => {}
        () = tokio::time::sleep(pause) => {}
    }
    hop.person += monotonic() - began;
    hop.refresh().await?;
    Ok(Driven::Complete)
}

fn waits_for(hop: &Hop, drive: &Drive) -> String {
    let open = drive.turn.calls.iter().map(|id| hop.call(*id)).filter(|call| !call.is_ended());
    open.map(|call| call.tool.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The smaller of the engine's window and what the open questions allow (C-204).
fn hot_window(hop: &Hop, drive: &Drive) -> Duration {
    // Rust code has no place to wait in: what it is in the middle of is stored nowhere.
    if !hop.run.kind.is_journaled() {
        return Duration::ZERO;
    }
    let asked = drive.turn.calls.iter().filter_map(|id| hop.approval_of(hop.call(*id)));
    let wanted = asked.filter_map(|a| a.obligation.hot_ms).min().map(Duration::from_millis);
    wanted.map_or(hop.inner.hot_window, |wanted| wanted.min(hop.inner.hot_window))
}
