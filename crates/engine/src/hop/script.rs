//! A script's hop: its guest runs from call to call until it ends, parks, or has to stop (workflows.md section 3).

use super::Next;
use super::drive::{self, Drive, Driven};
use super::end::{self, Parking};
use super::replay::{self, Replayed};
use super::state::{Hop, Out};
use super::steps::Place;
use super::turn::HopEntry;
use crate::broker;
use crate::pinned;
use crate::reading;
use crate::worker::Stop;
use protocol::code::Code;
use protocol::event::{Facts, Kind};
use protocol::journal::{Entry, Other};
use protocol::json::Canonical;
use protocol::limits::REPLAY_TIME;
use protocol::run::Snapshot;
use sandbox::{Binding, Event, Guest, GuestLimits, LogLine, Program, StartError, Tool};
use std::sync::PoisonError;
use std::time::Duration;

/// Carries the hop. A turn that was left unfinished is driven first, without a guest: what was approved is dispatched,
/// and if some of it still waits the run parks again (W-132, R-185).
pub(super) async fn carry(hop: &mut Hop) -> Result<Next, Out> {
    if let Some(result) = hop.place.take().and_then(Place::into_result) {
        take_ended_waits(hop);
        return end::finish(hop, result).await;
    }
    hop.tell(Kind::NodeEntered, Facts::new());
    let unfinished = hop
        .turns
        .last()
        .filter(|turn| turn.hop.is_none() && turn.calls.iter().any(|id| !hop.call(*id).is_ended()))
        .cloned();
    if let Some(turn) = unfinished {
        let mut driven = Drive::new(turn);
        match drive::drive(hop, &mut driven).await {
            Ok(Driven::Complete) => {}
            Ok(Driven::Blocked | Driven::Cold(_)) => return end::park(hop, &driven.turn, Parking::NoGuest).await,
            Err(Out::GiveWay) => return end::park_or_hand_back(hop, &driven.turn, Parking::NoGuest).await,
            Err(out) => return Err(out),
        }
    }
    take_ended_waits(hop);
    let guest = resident(hop).await?;
    run(hop, guest).await
}

/// Waits whose calls have ended are taken note of; what a person settled has ended its call already.
pub(super) fn take_ended_waits(hop: &mut Hop) {
    let taken = hop
        .waits
        .iter()
        .filter(|wait| wait.is_ended() && hop.calls.get(&wait.call).is_some_and(|call| call.is_ended()))
        .map(|wait| wait.id);
    hop.pending.taken.extend(taken);
}

/// A guest that stands where the journal ends: thawed, replayed or fresh, by what each would cost (guests.md's ladder:
/// the cheapest proved way).
async fn resident(hop: &mut Hop) -> Result<Guest, Out> {
    if hop.run.journal.len == 0 && hop.pending.entries.is_empty() {
        return fresh(hop).await;
    }
    if let Some(mut guest) = thawed(hop).await? {
        let answer = first_answer(hop).await?;
        guest.answer(answer);
        return Ok(guest);
    }
    replayed(hop).await
}

async fn fresh(hop: &mut Hop) -> Result<Guest, Out> {
    let now = hop.inner.now();
    let entropy = hop.fresh_entropy();
    hop.enter(Entry::Other(Other::Start {
        pattern: hop.run.pattern.digest,
        input: hop.run.input.digest,
        now,
        entropy,
    }));
    hop.told = now;
    hop.entropy_due = false;
    let program = program(hop, HopEntry { now, entropy }).await?;
    start(hop, &program).await
}

/// Brings a frozen guest back, if the checkpoint names one. One that may not be used, or cannot, is reported and left to
/// replay (W-245, W-246).
async fn thawed(hop: &mut Hop) -> Result<Option<Guest>, Out> {
    let snapshot = match usable_snapshot(hop) {
        Ok(Some(snapshot)) => snapshot,
        Ok(None) => return Ok(None),
        Err(why) => {
            unused(hop, why);
            return Ok(None);
        }
    };
    let stored = reading::read(|| hop.inner.ledger.body(hop.run.id, snapshot.body.digest)).await;
    let bytes = match stored {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            unused(hop, "it is not stored");
            return Ok(None);
        }
        Err(error) => {
            unused(hop, &error.to_string());
            return Ok(None);
        }
    };
    let binding =
        Binding { run: *hop.run.id.as_bytes(), hop: u64::from(snapshot.hop), position: u64::from(hop.run.journal.len) };
    let log_used = log_used(hop).await?;
    place(hop).await?;
    let limits = GuestLimits { log_used, ..limits(hop, active_limit(hop)) };
    match image(hop)?.thaw(&bytes, &binding, limits).await {
        Ok(guest) => {
            hop.live.guard(Some(&guest));
            Ok(Some(guest))
        }
        Err(error) => {
            unused(hop, &error.to_string());
            Ok(None)
        }
    }
}

/// The snapshot of the checkpoint, or why this hop may not thaw it: an earlier claim consumed it (W-247), the journal went
/// on without it, or engine or image are others (W-245).
pub(super) fn usable_snapshot(hop: &Hop) -> Result<Option<Snapshot>, &'static str> {
    let Some(checkpoint) = &hop.run.checkpoint else { return Ok(None) };
    let Some(snapshot) = &checkpoint.snapshot else { return Ok(None) };
    let here = hop.pinned.sandbox().map(sandbox::Sandbox::image);
    match here {
        _ if snapshot.consumed_by != Some(hop.token) => Err(Code::SnapshotConsumed.as_str()),
        _ if checkpoint.journal.len != hop.run.journal.len => Err("the journal went on without it"),
        Some(here) if snapshot.engine != here.engine => Err("it is of another guest engine"),
        Some(here) if snapshot.image != here.digest => Err("it is of another guest image"),
        Some(_) => Ok(Some(snapshot.clone())),
        None => Err("its guest image is not here"),
    }
}

fn unused(hop: &mut Hop, why: &str) {
    tracing::warn!(run = %hop.run.id, why, "a snapshot is not used; the journal is replayed");
    hop.pending.nodes.push((Kind::SnapshotUnused, Facts::new().with("why", why)));
}

/// Bytes of log that the run has, which a thawed guest goes on from (W-163); a replayed one prints them again.
async fn log_used(hop: &Hop) -> Result<u64, Out> {
    let lines = hop.run.log_lines as usize;
    let log = reading::read(|| hop.inner.ledger.log(hop.run.id, None, lines)).await.map_err(|error| {
        tracing::warn!(run = %hop.run.id, %error, "the log could not be read");
        Out::Lost
    })?;
    Ok(log.unwrap_or_default().iter().map(|line| line.text.len() as u64 + 1).sum())
}

/// A fresh guest that is about to be told the journal, with the time that a replay may take.
pub(super) async fn from_the_start(hop: &mut Hop) -> Result<Guest, Out> {
    let start = hop.start.ok_or_else(|| Out::fail(Code::CheckpointInvalid, "checkpoint invalid: journal"))?;
    let program = program(hop, start).await?;
    let spent = Duration::from_micros(hop.charged_us);
    let limits = || GuestLimits { spent: Duration::ZERO, ..limits(hop, spent * 2 + REPLAY_TIME) };
    let guest = make(hop, &program, limits).await?;
    // It prints everything again.
    hop.log_next = 0;
    hop.told = start.now;
    Ok(guest)
}

/// Replays the journal in a fresh guest and gives the first live answer.
async fn replayed(hop: &mut Hop) -> Result<Guest, Out> {
    let spent = Duration::from_micros(hop.charged_us);
    let guest = from_the_start(hop).await?;
    let last_is_live = hop.turns.last().is_some_and(|turn| turn.hop.is_none());
    let mut guest = match replay::replay(hop, guest, !last_is_live).await? {
        Replayed::Waiting(mut guest) => {
            let answer = first_answer(hop).await?;
            guest.answer(answer);
            guest
        }
        Replayed::Caught(guest) => guest,
    };
    // Replay is not charged (W-166): the clock goes on from what the ledger knows.
    guest.set_active(spent, active_limit(hop));
    Ok(guest)
}

/// The answer to the last turn, with this hop's time and randomness (W-248).
async fn first_answer(hop: &mut Hop) -> Result<sandbox::Answer, Out> {
    let turn = hop.turns.last().cloned().expect("a journal without a turn is replayed to its start");
    let counted = hop.counted;
    let entry = match hop.entropy_due {
        true => {
            let now = hop.inner.now();
            let entropy = hop.enter_hop(now);
            let entry = HopEntry { now, entropy };
            hop.turns.last_mut().expect("read above").hop = Some(entry);
            Some(entry)
        }
        false => None,
    };
    let answer = replay::answer(hop, &turn, counted, entry).await?;
    hop.told = answer.now;
    Ok(answer)
}

async fn program(hop: &mut Hop, start: HopEntry) -> Result<Program, Out> {
    let inputs = hop.body(hop.run.input.digest).await?;
    let inputs = String::from_utf8(inputs.to_vec())
        .map_err(|_| Out::fail(Code::CheckpointInvalid, "checkpoint invalid: the input is no text"))?;
    let source = match &hop.pinned.program {
        pinned::Program::Script { source, .. } => source.clone(),
        pinned::Program::Rust(_) | pinned::Program::None => return Err(Out::GiveWay),
    };
    let tools = hop.pinned.tools.values().filter(|tool| tool.spec.module() != "stasis");
    Ok(Program {
        name: format!("{}.py", hop.run.pattern.key),
        source,
        inputs,
        tools: tools
            .map(|tool| Tool { name: tool.spec.name.clone(), description: tool.spec.description.clone() })
            .collect(),
        now: start.now,
        entropy: start.entropy.0,
        next: 1,
    })
}

fn limits(hop: &Hop, active: Duration) -> GuestLimits {
    let log = hop.log.clone();
    GuestLimits {
        memory_bytes: hop.run.settings.memory_bytes,
        active,
        spent: Duration::from_micros(hop.charged_us),
        log: Box::new(move |line: LogLine| {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line.text);
        }),
        ..GuestLimits::default()
    }
}

async fn start(hop: &Hop, program: &Program) -> Result<Guest, Out> {
    make(hop, program, || limits(hop, active_limit(hop))).await
}

async fn make(hop: &Hop, program: &Program, limits: impl Fn() -> GuestLimits) -> Result<Guest, Out> {
    loop {
        place(hop).await?;
        match image(hop)?.start(program, limits()).await {
            // Somebody else was faster.
            Err(StartError::Full { .. }) => {}
            Err(error) => return Err(no_guest(hop, error)),
            Ok(guest) => {
                hop.live.guard(Some(&guest));
                return Ok(guest);
            }
        }
    }
}

/// How often a hop looks for a place.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for a place among the guests of this process. Guests that wait for people give theirs up meanwhile (C-205).
async fn place(hop: &Hop) -> Result<(), Out> {
    let sandbox = image(hop)?;
    if !sandbox.is_full() {
        return Ok(());
    }
    let _want = hop.inner.crew.want();
    while sandbox.is_full() {
        if hop.live.stopped().is_some() {
            return Err(stopped(hop));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

fn active_limit(hop: &Hop) -> Duration {
    Duration::from_micros(hop.run.settings.active_limit_us)
}

/// No guest can be made. Where it is for want of something here, the claim lapses and the run is none the worse; a run
/// that wants more than any guest can have will never get one.
fn no_guest(hop: &Hop, error: StartError) -> Out {
    tracing::warn!(run = %hop.run.id, %error, "no guest could be made");
    match error {
        StartError::Memory { limit_bytes, asked_bytes } => {
            Out::fail(Code::GuestMemory, format!("guest memory exceeded: {asked_bytes} > {limit_bytes}"))
        }
        StartError::Full { .. } | StartError::Program(_) | StartError::Guest(_) => Out::Lost,
    }
}

/// The pinned image; opening the hop made sure of it.
fn image(hop: &Hop) -> Result<sandbox::Sandbox, Out> {
    hop.pinned.sandbox().cloned().ok_or(Out::GiveWay)
}

/// The guest was ended from outside: nothing of the program runs any more (W-148).
pub(super) fn stopped(hop: &Hop) -> Out {
    hop.live.stopped().map_or(Out::Lost, Out::of)
}

/// Runs the guest live, from request to request.
async fn run(hop: &mut Hop, mut guest: Guest) -> Result<Next, Out> {
    loop {
        let event = tokio::select! {
            event = guest.next() => event,
            () = gives_way(hop) => return hand_back(hop, guest).await,
        };
        hop.charge(guest.active().as_micros() as u64);
        let answer = match event {
            Event::Ended(ended) => {
                drop(guest);
                hop.live.guard(None);
                return end::ended(hop, ended).await;
            }
            Event::Oversized { length } => Err(Box::new(replay::refusal(hop, broker::too_large(length), hop.counted))),
            Event::Call(bytes) => replay::request(hop, &bytes, hop.counted),
        };
        let request = match answer {
            Ok(request) => request,
            Err(refusal) => {
                guest.answer(*refusal);
                continue;
            }
        };
        let mut driven = drive::accept(hop, request.calls, request.batch);
        match drive::drive(hop, &mut driven).await {
            Ok(Driven::Complete) => {
                take_ended_waits(hop);
                let answer = first_answer(hop).await?;
                guest.answer(answer);
            }
            Ok(Driven::Blocked | Driven::Cold(_)) => return end::park(hop, &driven.turn, Parking::Guest(guest)).await,
            Err(Out::GiveWay) => return end::park_or_hand_back(hop, &driven.turn, Parking::Guest(guest)).await,
            Err(out) => return Err(out),
        }
    }
}

/// Rings when this hop has to stop at its next safe boundary: for a guest, any moment.
async fn gives_way(hop: &Hop) {
    while !hop.live.stopped().is_some_and(Stop::gives_way) {
        hop.live.bell.notified().await;
    }
}

async fn hand_back(hop: &mut Hop, guest: Guest) -> Result<Next, Out> {
    hop.charge(guest.active().as_micros() as u64);
    drop(guest);
    hop.live.guard(None);
    end::hand_back(hop).await
}

/// The output of a program that ran to its end (W-10).
pub(super) fn output(hop: &Hop, text: &str) -> Result<Canonical, Out> {
    let invalid = |why: String| Out::fail(Code::ResultInvalid, why);
    let result = replay::canonical(text).map_err(invalid)?;
    let limit = hop.inner.limits.result_bytes;
    if result.len() as u64 > limit {
        return Err(invalid(format!("result exceeded: {} > {limit}", result.len())));
    }
    hop.pinned.output.check(&result).map_err(|v| invalid(format!("the result at `{}`: {}", v.pointer, v.message)))?;
    Ok(result)
}
