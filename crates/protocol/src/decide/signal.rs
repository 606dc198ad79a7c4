//! Signals: sent from outside, taken by waits (runs.md section 10).
//!
//! Invariant: whether a signal is taken or kept is decided in the commit that stores it, and whether a wait takes a kept one
//! in the commit that makes the wait; so one of the two always sees the other.

use super::{Cx, Decision, admit::not_permitted, step};
use crate::code::Code;
use crate::command::{Answer, SendSignal, Target};
use crate::event::{Facts, Kind};
use crate::id::WaitId;
use crate::limits::{KEPT_SIGNAL_BYTES, KEPT_SIGNALS, NAME_BYTES};
use crate::principal::Right;
use crate::refusal::Refusal;
use crate::rows::{Change, Rows};
use crate::run::Run;
use crate::signal::{Signal, State, To};
use crate::time::Time;
use crate::wait::Owner;

/// Takes a signal in: a wait that is open for it ends, else it is kept for the next.
pub(super) fn send(send: SendSignal, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    if let Err(refusal) = may(&send, &rows) {
        return refusal.into();
    }
    if let Some(known) = rows.signals.iter().find(|signal| signal.id == send.id) {
        return repeat(&send, known.clone(), rows.run);
    }
    let found = match check(&send, &rows) {
        Ok(found) => found,
        Err(refusal) => return refusal.into(),
    };
    let mut change = Change::of(rows, cx.now);
    let to = send.to.told();
    let SendSignal { by, id, payload, taker, .. } = send;
    let (run, n) = (change.run().id, change.run().signals);
    change.rows.run.signals += 1;
    change.rows.run.budget.body_bytes += u64::from(payload.body.len);
    let state = found.map_or(State::Kept, State::Taken);
    let mut facts = Facts::new().with("signal", &id).with("by", &by.principal.id).with("request", by.request);
    facts = facts.with("payload_digest", payload.body.digest);
    if let To::Name(name) = &to {
        facts = facts.with("name", name);
    }
    if let Some(wait) = found {
        facts = facts.with("wait", wait);
    }
    let body = payload.body;
    change.bodies.push(payload);
    let signal = Signal { run, n, id, to, by: by.principal.id, payload: body, at: cx.now, state };
    change.rows.signals.add(signal.clone());
    change.event(Kind::SignalReceived, facts);
    if let Some(wait) = found
        && step::end_wait(&mut change, wait, body.digest)
    {
        step::member_ended(&mut change, taker, cx);
    }
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Sent { run, signal: Box::new(signal), changed: true })
}

fn may(send: &SendSignal, rows: &Rows) -> Result<(), Refusal> {
    if rows.run.namespace != send.by.principal.namespace {
        return Err(unknown(&send.to));
    }
    if !send.by.principal.rights.has(Right::SignalsSend) {
        return Err(not_permitted(&send.by, Right::SignalsSend));
    }
    let texts = [("id", &send.id)].into_iter().chain(match &send.to {
        Target::Name { name, .. } => Some(("name", name)),
        Target::Wait(_) => None,
    });
    for (what, text) in texts {
        if text.is_empty() || text.len() > NAME_BYTES {
            let detail = format!("the {what} of a signal has 1 to {NAME_BYTES} bytes, not {}", text.len());
            return Err(Refusal::new(Code::InvalidRequest, detail));
        }
    }
    Ok(())
}

/// The answer for a target that is not there, or is not the caller's to know of.
fn unknown(to: &Target) -> Refusal {
    let detail = match to {
        Target::Name { run, .. } => format!("there is no run {run}"),
        Target::Wait(wait) => format!("there is no wait {wait}"),
    };
    Refusal::new(Code::NotFound, detail)
}

/// the same id and payload are one signal, whatever became of it.
fn repeat(send: &SendSignal, known: Signal, run: Run) -> Decision {
    if known.payload.digest != send.payload.body.digest || known.to != send.to.told() {
        let detail = format!("signal `{}` was sent to this run with another payload or target", known.id);
        return Refusal::new(Code::IdempotencyMismatch, detail).hint("use a new id for a new signal").into();
    }
    Decision::stands(Answer::Sent { run: Box::new(run), signal: Box::new(known), changed: false })
}

/// The wait that takes it; none if it is to be kept.
fn check(send: &SendSignal, rows: &Rows) -> Result<Option<WaitId>, Refusal> {
    let status = rows.run.status();
    let late = match () {
        () if status.is_final() => Some(Code::RunTerminal),
        () if status.is_stopping() => Some(Code::RunStopping),
        () => None,
    };
    let refused = late.map(|code| Refusal::new(code, format!("{} is {status}", rows.run.id)));
    match &send.to {
        Target::Wait(wait) => {
            let open = rows.waits.get(*wait).filter(|wait| wait.is_open());
            let Some(open) = open else { return Err(over(*wait, rows)) };
            refused.map_or(Ok(()), Err)?;
            fits(send, &open.owner)?;
            Ok(Some(*wait))
        }
        Target::Name { name, .. } => {
            refused.map_or(Ok(()), Err)?;
            let wants = |owner: &Owner| matches!(owner, Owner::Signal(awaited) if awaited.name == *name);
            // in the order in which they were made.
            let mut open: Vec<_> = rows.waits.iter().filter(|wait| wait.is_open() && wants(&wait.owner)).collect();
            open.sort_by_key(|wait| (wait.since, wait.id));
            let Some(first) = open.first() else { return room(send, rows).map(|()| None) };
            fits(send, &first.owner)?;
            Ok(Some(first.id))
        }
    }
}

/// a payload that does not fit is the sender's to mend; the wait stays open.
fn fits(send: &SendSignal, owner: &Owner) -> Result<(), Refusal> {
    let Owner::Signal(awaited) = owner else {
        return Err(Refusal::new(Code::WaitClosed, "this wait is not one for a signal"));
    };
    match awaited.refuses(&send.text) {
        Some(fault) => Err(Refusal::new(Code::InvalidInput, fault)),
        None => Ok(()),
    }
}

/// what won a wait that is over.
fn over(wait: WaitId, rows: &Rows) -> Refusal {
    #[derive(serde::Serialize)]
    struct Won<'a> {
        signal: &'a str,
        by: &'a str,
        at: Time,
    }
    match rows.signals.iter().find(|signal| signal.state == State::Taken(wait)) {
        Some(Signal { id, by, at, .. }) => {
            let detail = format!("signal `{id}` of {by} answered {wait} at {}", at.second());
            Refusal::new(Code::WaitConsumed, detail).truth(&Won { signal: id, by, at: *at })
        }
        None => Refusal::new(Code::WaitClosed, format!("{wait} is closed")),
    }
}

///
fn room(send: &SendSignal, rows: &Rows) -> Result<(), Refusal> {
    let kept = || rows.signals.iter().filter(|signal| signal.is_kept());
    let (count, bytes) = (kept().count(), kept().map(|signal| u64::from(signal.payload.len)).sum::<u64>());
    let bytes = bytes + u64::from(send.payload.body.len);
    let detail = match () {
        () if count >= KEPT_SIGNALS => format!("kept signals exceeded: {} > {KEPT_SIGNALS}", count + 1),
        () if bytes > KEPT_SIGNAL_BYTES => format!("bytes of kept signals exceeded: {bytes} > {KEPT_SIGNAL_BYTES}"),
        () => return Ok(()),
    };
    Err(Refusal::new(Code::SignalInboxFull, detail).hint("its program has to wait for some of them first"))
}

/// The oldest kept signal for a wait that is just being made ends it at once; one that does not fit is set aside, and
/// the next is tried.
pub(super) fn take_kept(change: &mut Change, wait: WaitId) {
    let Some(row) = change.rows.waits.get(wait) else { return };
    let Owner::Signal(awaited) = row.owner.clone() else { return };
    let meant = |signal: &Signal| matches!(&signal.to, To::Name(name) if *name == awaited.name);
    for n in change.rows.signals.keys(|signal| signal.is_kept() && meant(signal)) {
        let signal = change.rows.signals.get(n).expect("listed above").clone();
        let digest = signal.payload.digest;
        let payload = change.rows.payloads.iter().find(|(known, _)| *known == digest).map(|(_, text)| text);
        let fault = match payload {
            Some(payload) => awaited.refuses(payload),
            None if awaited.schema.is_none() => None,
            None => Some("the payload cannot be read".to_owned()),
        };
        let row = change.rows.signals.edit(n).expect("listed above");
        let facts = Facts::new().with("signal", &signal.id).with("wait", wait);
        if fault.is_some() {
            row.state = State::SetAside;
            change.event(Kind::SignalSetAside, facts);
            continue;
        }
        row.state = State::Taken(wait);
        change.event(Kind::SignalTaken, facts);
        step::end_wait(change, wait, digest);
        return;
    }
}
