//! How a hop ends: the program's own end, a park, or leaving because something outside says so.

use super::state::{Hop, Out};
use super::turn::Turn;
use super::{Next, checkpoint, dropped, jobs, script};
use crate::failpoint;
use protocol::call::State;
use protocol::code::Code;
use protocol::command::{Act, Answer, NewCheckpoint};
use protocol::digest::Digest;
use protocol::event::{Facts, Kind};
use protocol::id::{CallId, WaitId};
use protocol::journal::{Entry, Other};
use protocol::json::Canonical;
use protocol::rows::NewBody;
use protocol::run::{Failure, Phase, Snapshot, Status, WaitMode};
use sandbox::{Binding, End, Guest, Limit, Raised};
use serde::Serialize;
use std::collections::BTreeSet;

/// With what a run parks.
pub(super) enum Parking {
    Guest(Guest),
    /// The hop made no guest; a snapshot it did not thaw goes on to the next one.
    NoGuest,
}

/// From how much guest time on a guest is frozen, in microseconds (W-241). Replaying costs about what the guest has run;
/// freezing and thawing cost some 4 ms together, and 60 KiB on disk for as long as the run waits.
const FREEZE_FROM_US: u64 = 10_000;

/// A run that may not park ends when it has to.
pub(super) fn may_park(hop: &Hop) -> Result<(), Out> {
    if hop.run.settings.resume { Ok(()) } else { Err(Out::fail(Code::ResumeDisabled, "resume disabled")) }
}

/// E-7: the run waits, and nothing of it stays in this worker.
pub(super) async fn park(hop: &mut Hop, turn: &Turn, parking: Parking) -> Result<Next, Out> {
    may_park(hop)?;
    let blocked: Vec<CallId> = turn.calls.iter().copied().filter(|id| !hop.call(*id).is_ended()).collect();
    let waits = open_waits(hop, &blocked);
    hop.tell(Kind::NodeWaiting, Facts::new().list("waits", &waits).list("kinds", open_kinds(hop, &waits)));
    let snapshot = match parking {
        Parking::NoGuest => {
            let unthawed = script::usable_snapshot(hop).ok().flatten();
            unthawed.map(|snapshot| (Snapshot { consumed_by: None, ..snapshot }, None))
        }
        Parking::Guest(guest) => frozen(hop, guest).await,
    };
    hop.live.guard(None);
    let checkpoint = checkpoint::of_script(hop, &blocked, &waits, None, snapshot)?;
    park_with(hop, checkpoint, WaitMode::Any).await
}

/// The commit of a park.
pub(super) async fn park_with(hop: &mut Hop, checkpoint: NewCheckpoint, mode: WaitMode) -> Result<Next, Out> {
    // The taker would be this worker; its room is what this hop leaves.
    let taker = hop.inner.carry.then(|| hop.inner.taker());
    let taker = taker.filter(|_| !hop.inner.stopping.is_cancelled());
    failpoint::hit("park.before");
    let answer = hop.commit(Act::Park { checkpoint, mode, taker }).await?;
    failpoint::hit("park.after");
    Ok(next(hop, &answer))
}

fn next(hop: &Hop, answer: &Answer) -> Next {
    let Some(run) = answer.run() else { return Next::Done };
    match &run.phase {
        Phase::Active { claim, .. } if claim.token != hop.token => Next::Claimed(Box::new(run.clone())),
        _ => Next::Done,
    }
}

pub(super) fn open_waits(hop: &Hop, blocked: &[CallId]) -> Vec<WaitId> {
    let stored = hop.waits.iter().filter(|w| blocked.contains(&w.call)).map(|w| w.id);
    let opened = hop.pending.opens().filter(|wait| blocked.contains(&wait.call)).map(|wait| wait.wait);
    stored.chain(opened).collect()
}

/// The kinds of these waits, each once.
pub(super) fn open_kinds(hop: &Hop, waits: &[WaitId]) -> BTreeSet<&'static str> {
    let stored = hop.waits.iter().filter(|wait| waits.contains(&wait.id)).map(|wait| wait.owner.kind());
    stored.chain(hop.pending.opens().map(|wait| wait.owner.kind())).collect()
}

/// Freezes the guest where replay would cost more than a thaw; else the journal alone is enough (W-241).
async fn frozen(hop: &mut Hop, guest: Guest) -> Option<(Snapshot, Option<NewBody>)> {
    hop.charge(guest.active().as_micros() as u64);
    if hop.charged_us < FREEZE_FROM_US {
        return None;
    }
    let binding =
        Binding { run: *hop.run.id.as_bytes(), hop: u64::from(hop.run.seq), position: u64::from(hop.journal.len) };
    let bytes = match guest.freeze(&binding).await {
        Ok(snapshot) => snapshot.into_bytes(),
        Err(error) => {
            tracing::warn!(run = %hop.run.id, %error, "the guest could not be frozen; the journal serves");
            return None;
        }
    };
    if bytes.len() as u64 > hop.inner.limits.snapshot_max {
        tracing::info!(run = %hop.run.id, bytes = bytes.len(), "the snapshot is too large; the journal serves");
        return None;
    }
    let image = hop.pinned.sandbox()?.image().clone();
    let body = NewBody::new(bytes);
    let snapshot =
        Snapshot { hop: hop.run.seq, engine: image.engine, image: image.digest, body: body.body, consumed_by: None };
    Some((snapshot, Some(body)))
}

/// A run that waits for people or timers parks at once; one with nothing open, or with something that only this process has in
/// hand, is handed back.
pub(super) async fn park_or_hand_back(hop: &mut Hop, turn: &Turn, parking: Parking) -> Result<Next, Out> {
    let open: Vec<CallId> = turn.calls.iter().copied().filter(|id| !hop.call(*id).is_ended()).collect();
    let waits = !open.is_empty() && open.iter().all(|id| waits_in_the_ledger(hop, *id));
    // A hold ends by E-8 alone.
    let held = hop.run.status() == Status::AwaitingHardware;
    if waits && !held && hop.run.settings.resume {
        return park(hop, turn, parking).await;
    }
    if let Parking::Guest(guest) = parking {
        hop.charge(guest.active().as_micros() as u64);
    }
    hop.live.guard(None);
    hand_back(hop).await
}

/// Whether the call has a wait that brings its run back. An ambiguous one has none while it is between two attempts.
fn waits_in_the_ledger(hop: &Hop, id: CallId) -> bool {
    let call = hop.call(id);
    let stored = || hop.waits.iter().any(|wait| wait.call == id && !wait.is_ended());
    let new = || hop.pending.timers.iter().any(|timer| timer.call == id);
    match call.state {
        State::Asked => true,
        State::Ambiguous(_) => call.settle.is_some() || stored() || new(),
        State::Entered | State::Dispatched(_) | State::Ended(_) => false,
    }
}

/// E-8.
pub(super) async fn hand_back(hop: &mut Hop) -> Result<Next, Out> {
    hop.commit(Act::HandBack { checkpoint: None }).await?;
    Ok(Next::Done)
}

/// The guest ended: a result, an error, or a limit.
pub(super) async fn ended(hop: &mut Hop, end: End) -> Result<Next, Out> {
    let failure = match end {
        End::Returned { result } => {
            let result = script::output(hop, &result)?;
            let digest = Digest::of(result.as_bytes());
            hop.enter(Entry::Other(Other::End { result: Some(digest), error: None }));
            hop.tell(Kind::NodeEnded, Facts::new());
            return finish(hop, result).await;
        }
        End::Raised(raised) => step_failed(hop, raised),
        End::ResultInvalid { message } => failure(Code::ResultInvalid, message),
        End::Limit(Limit::Time { limit, spent }) => failure(
            Code::GuestTime,
            format!("active time exceeded: {} ms > {} ms", spent.as_millis(), limit.as_millis()),
        ),
        End::Limit(Limit::Memory { limit_bytes, wanted_bytes }) => {
            failure(Code::GuestMemory, format!("guest memory exceeded: {wanted_bytes} > {limit_bytes}"))
        }
        End::Trap { message } => failure(Code::GuestTrap, message),
        End::Stopped => return Err(script::stopped(hop)),
    };
    hop.enter(Entry::Other(Other::End { result: None, error: Some(failure.message.clone()) }));
    fail(hop, failure).await?;
    Ok(Next::Done)
}

/// E-12, once every job of the run has ended. Until then the run waits with its result in the checkpoint, and the program runs
/// no more.
pub(super) async fn finish(hop: &mut Hop, result: Canonical) -> Result<Next, Out> {
    if jobs::rejoin(hop) {
        may_park(hop)?;
        let checkpoint = checkpoint::of_ended_script(hop, result)?;
        return park_with(hop, checkpoint, WaitMode::All).await;
    }
    hop.commit(Act::Finish { result: NewBody::new(result.as_bytes()) }).await?;
    Ok(Next::Done)
}

fn failure(code: Code, message: String) -> Failure {
    Failure { code, message, detail: None }
}

#[derive(Serialize)]
struct Traceback {
    line: Option<u32>,
    traceback: protocol::digest::Digest,
}

/// W-150: class and message, or how a job ended; the traceback is a body.
fn step_failed(hop: &mut Hop, raised: Raised) -> Failure {
    let most = hop.inner.limits.failure_bytes as usize;
    // how a job ended is said as the call told it, without what the exception puts around it.
    let ended = raised.message.strip_prefix("stasis.delegate: ").and_then(|text| text.strip_suffix(" (job_ended)"));
    let mut message = match ended.filter(|_| raised.job_failed) {
        Some(ended) => ended.to_owned(),
        None => format!("{}: {}", raised.class, raised.message),
    };
    message.truncate(message.floor_char_boundary(most));
    let body = hop.keep(raised.traceback.as_bytes());
    let detail = Traceback { line: raised.line, traceback: body.digest };
    Failure {
        code: if raised.job_failed { Code::JobEnded } else { Code::StepFailed },
        message,
        detail: protocol::json::to_canonical(&detail).ok(),
    }
}

/// The run fails in its node.
pub(super) async fn fail(hop: &mut Hop, failure: Failure) -> Result<(), Out> {
    hop.tell(Kind::NodeFailed, Facts::new().with("code", failure.code.as_str()));
    hop.commit(Act::Fail(failure)).await.map(drop)
}

/// Leaves a hop that cannot go on.
pub(super) async fn leave(hop: &mut Hop, out: Out) -> Next {
    hop.live.guard(None);
    match out {
        Out::Lost => dropped(hop, &Out::Lost),
        Out::GiveWay => match hand_back(hop).await {
            Ok(next) => next,
            Err(out) => dropped(hop, &out),
        },
        Out::Stopping => acknowledge(hop).await,
        Out::Fail(failure) => match fail(hop, *failure).await {
            Ok(()) => Next::Done,
            Err(Out::Stopping) => acknowledge(hop).await,
            Err(out) => dropped(hop, &out),
        },
    }
}

/// The run is stopping: the hop's guest is gone, outcomes of its calls are stored; it says so.
async fn acknowledge(hop: &mut Hop) -> Next {
    hop.pending.engine_calls.clear();
    if let Err(out) = keep_outcomes(hop).await {
        return dropped(hop, &out);
    }
    match hop.commit(Act::Acknowledge).await {
        Ok(_) => Next::Done,
        Err(out) => dropped(hop, &out),
    }
}

/// A stopping run takes outcomes of calls that the ledger knows and the engine's own calls. What else a hop had not stored
/// before the run began to stop is refused, and nothing durable rests on it.
pub(super) async fn keep_outcomes(hop: &mut Hop) -> Result<(), Out> {
    let pending = &mut hop.pending;
    pending.entries.clear();
    pending.asks.clear();
    pending.timers.clear();
    pending.signals.clear();
    pending.jobs.clear();
    pending.rejoins.clear();
    let mut known: Vec<CallId> = match hop.inner.ledger.rows(hop.run.id).await {
        Ok(Some(rows)) => rows.calls.iter().filter(|call| !call.is_ended()).map(|call| call.id).collect(),
        Ok(None) | Err(_) => return Err(Out::Lost),
    };
    known.extend(hop.pending.engine_calls.iter().map(|call| call.id));
    hop.pending.conclusions.retain(|conclusion| known.contains(&conclusion.call));
    Ok(())
}
