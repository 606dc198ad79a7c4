//! A script's hop: its guest runs from call to call until it ends, parks, or has to stop (workflows.md section 3).

use super::Next;
use super::drive::{self, Drive, Driven};
use super::end::{self, Parking};
use super::replay::{self, Replayed};
use super::state::{Hop, Out};
use super::turn::HopEntry;
use crate::broker;
use crate::worker::Stop;
use protocol::code::Code;
use protocol::journal::{Entry, Other};
use protocol::json::Canonical;
use protocol::run::Snapshot;
use sandbox::{Binding, Event, Guest, GuestLimits, LogLine, Program, Tool};
use std::sync::PoisonError;
use std::time::Duration;

/// Replay may take twice the journaled guest time and this (W-179).
const REPLAY_BASE: Duration = Duration::from_secs(10);

/// Carries the hop. A turn that was left unfinished is driven first, without a guest: what was approved is dispatched,
/// and if some of it still waits the run parks again (W-132, R-185).
pub(super) async fn carry(hop: &mut Hop) -> Result<Next, Out> {
    let unfinished = hop
        .turns
        .last()
        .filter(|turn| turn.hop.is_none() && turn.calls.iter().any(|id| !hop.call(*id).is_ended()))
        .cloned();
    if let Some(turn) = unfinished {
        let mut driven = Drive::new(turn);
        if drive::drive(hop, &mut driven).await? == Driven::Blocked {
            return end::park(hop, &driven.turn, Parking::NoGuest).await;
        }
    }
    take_ended_waits(hop);
    let guest = resident(hop).await?;
    run(hop, guest).await
}

/// Waits whose calls have ended are taken note of; what a person settled has ended its call already.
fn take_ended_waits(hop: &mut Hop) {
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
    start(hop, &program, Duration::from_micros(hop.run.settings.active_limit_us)).await
}

/// Brings a frozen guest back, if the checkpoint names one that this claim consumed and that fits. One that does not is
/// reported and left to replay (W-245, W-246).
async fn thawed(hop: &mut Hop) -> Result<Option<Guest>, Out> {
    let Some(snapshot) = usable_snapshot(hop) else { return Ok(None) };
    let bytes = match hop.inner.ledger.body(hop.run.id, snapshot.body.digest).await {
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
    let checkpoint = hop.run.checkpoint.as_ref().expect("a snapshot belongs to a checkpoint");
    let binding = Binding {
        run: *hop.run.id.as_bytes(),
        hop: u64::from(snapshot.hop),
        position: u64::from(checkpoint.journal.len),
    };
    let limits = limits(hop, Duration::from_micros(hop.run.settings.active_limit_us));
    let sandbox = image(hop)?;
    match sandbox.thaw(&bytes, &binding, limits).await {
        Ok(guest) => {
            hop.live.guard(Some(guest.stopper()));
            Ok(Some(guest))
        }
        Err(error) => {
            unused(hop, &error.to_string());
            Ok(None)
        }
    }
}

/// The snapshot, unless an earlier claim may have used it (W-247) or the journal went on without it.
pub(super) fn usable_snapshot(hop: &Hop) -> Option<Snapshot> {
    let checkpoint = hop.run.checkpoint.as_ref()?;
    let snapshot = checkpoint.snapshot.as_ref()?;
    let here = hop.pinned.sandbox.as_ref()?.image();
    let fits = snapshot.consumed_by == Some(hop.token)
        && checkpoint.journal.len == hop.run.journal.len
        && snapshot.engine == here.engine
        && snapshot.image == here.digest;
    fits.then(|| snapshot.clone())
}

fn unused(hop: &mut Hop, why: &str) {
    tracing::warn!(run = %hop.run.id, why, "a snapshot is not used; the journal is replayed");
    let facts = protocol::event::Facts::new().with("why", why);
    hop.pending.nodes.push((protocol::event::Kind::SnapshotUnused, facts));
}

/// Replays the journal in a fresh guest and gives the first live answer.
async fn replayed(hop: &mut Hop) -> Result<Guest, Out> {
    let start_entry = journaled_start(hop).await?;
    let program = program(hop, start_entry).await?;
    let spent = Duration::from_micros(hop.charged_us);
    let mut limits = limits(hop, spent * 2 + REPLAY_BASE);
    limits.spent = Duration::ZERO;
    let sandbox = image(hop)?;
    let guest = sandbox.start(&program, limits).await.map_err(no_guest)?;
    hop.live.guard(Some(guest.stopper()));
    // It prints everything again.
    hop.log_next = 0;
    hop.told = start_entry.now;
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
    guest.set_active(spent, Duration::from_micros(hop.run.settings.active_limit_us));
    Ok(guest)
}

async fn journaled_start(hop: &Hop) -> Result<HopEntry, Out> {
    let entries = hop.inner.ledger.journal(hop.run.id).await.map_err(|error| {
        tracing::warn!(run = %hop.run.id, %error, "the journal could not be read");
        Out::Lost
    })?;
    match entries.unwrap_or_default().into_iter().next() {
        Some(Entry::Other(Other::Start { now, entropy, .. })) => Ok(HopEntry { now, entropy }),
        _ => Err(Out::fail(Code::CheckpointInvalid, "checkpoint invalid: journal")),
    }
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
    let tools = hop.pinned.tools.values().filter(|tool| tool.spec.module() != "stasis");
    Ok(Program {
        name: format!("{}.py", hop.run.pattern.key),
        source: hop.pinned.source.clone(),
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

async fn start(hop: &Hop, program: &Program, active: Duration) -> Result<Guest, Out> {
    let sandbox = image(hop)?;
    let guest = sandbox.start(program, limits(hop, active)).await.map_err(no_guest)?;
    hop.live.guard(Some(guest.stopper()));
    Ok(guest)
}

/// No guest can be made here now: the claim lapses, or the hop is handed back, and the run is none the worse.
fn no_guest(error: sandbox::StartError) -> Out {
    tracing::warn!(%error, "no guest could be made");
    Out::Shutdown
}

/// The pinned image; opening the hop made sure of it.
fn image(hop: &Hop) -> Result<sandbox::Sandbox, Out> {
    hop.pinned.sandbox.clone().ok_or(Out::Shutdown)
}

/// The guest was ended from outside: nothing of the program runs any more (W-148).
pub(super) fn stopped(hop: &Hop) -> Out {
    match hop.live.stopped() {
        Some(Stop::Stopping) => Out::Stopping,
        Some(Stop::Shutdown) => Out::Shutdown,
        Some(Stop::Lost) | None => Out::Lost,
    }
}

/// Runs the guest live, from request to request.
async fn run(hop: &mut Hop, mut guest: Guest) -> Result<Next, Out> {
    loop {
        let event = tokio::select! {
            event = guest.next() => event,
            () = shutdown(hop) => return hand_back(hop, guest).await,
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
            Ok(Driven::Blocked) => return end::park(hop, &driven.turn, Parking::Guest(guest)).await,
            Err(Out::Shutdown) => return end::park_or_hand_back(hop, &driven.turn, guest).await,
            Err(out) => return Err(out),
        }
    }
}

/// Rings when the server wants this hop to stop at its next safe boundary: for a guest, any moment.
async fn shutdown(hop: &Hop) {
    while hop.live.stopped() != Some(Stop::Shutdown) {
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
