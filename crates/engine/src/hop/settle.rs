//! What came of a dispatched call, and finding out where nobody told (calls.md section 12).
//!
//! Invariant: nothing but a key, a lookup or a person turns an ambiguous call into anything, and an attempt is stored
//! before it is made (C-233).

use super::ask;
use super::drive::{self, Done, Drive, arguments};
use super::gate::handle;
use super::line::{self, Errand};
use super::outcome::{deny, fail, succeed};
use super::state::{Hop, Out};
use super::stop;
use crate::broker::{self, Judged};
use crate::failpoint;
use crate::pinned::PinnedTool;
use crate::tools::{Dispatch, Ended, Outcome, Slot};
use protocol::approval;
use protocol::call::{Applied, Call, Gate, Identity, RecoveryClass, State, ToolRef};
use protocol::code::Code;
use protocol::command::{Act, Concluded, Conclusion, Due, Timer};
use protocol::id::CallId;
use protocol::json::{Canonical, Value};
use protocol::limits::{EFFECT_ATTEMPTS, LOOKUP_PENDING, RETRY_STARTS};
use protocol::run::Failure;
use protocol::tool::{Effect, Recovery, TemplateInput};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pauses between attempts at settling: the first, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between two lookups that say `pending`.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A handler, or a pause, has ended.
pub(super) async fn done(hop: &mut Hop, drive: &mut Drive, id: CallId, done: Done) -> Result<(), Out> {
    match done {
        Done::Handled(ended) => handled(hop, drive, id, ended).await,
        Done::Looked { by, ended } => looked(hop, drive, id, by, ended).await,
        Done::Read(read) => ask::done(hop, drive, id, read).await,
        Done::AttemptDue if hop.call(id).in_flight() => again(hop, drive, id).await,
        Done::AttemptDue => attempt(hop, drive, id).await,
    }
}

/// Step 17 and 18: the outcome is judged and, for a `write`, stored before the guest sees it (C-97).
async fn handled(hop: &mut Hop, drive: &mut Drive, id: CallId, ended: Ended) -> Result<(), Out> {
    if let Err(Unanswered(detail)) = told(hop, id, ended) {
        return unknown(hop, drive, id, &detail).await;
    }
    if hop.call(id).effect == Effect::Write {
        failpoint::hit("outcome.before");
        hop.commit(Act::Record).await?;
        failpoint::hit("outcome.after");
    }
    Ok(())
}

/// A handler ended, and what became of its call is not known: what was seen of it.
pub(super) struct Unanswered(String);

/// Ends a call as its handler tells.
pub(super) fn told(hop: &mut Hop, id: CallId, ended: Ended) -> Result<(), Unanswered> {
    let call = hop.call(id).clone();
    let gate = call.gate().cloned();
    if let Some(stderr) = ended.stderr.as_deref().filter(|bytes| !bytes.is_empty()) {
        hop.keep(stderr);
    }
    match ended.outcome {
        Outcome::Ok { result } => {
            let applied = if call.effect == Effect::Write { Applied::Yes } else { Applied::No };
            match result_fits(hop, &call, &result) {
                Ok(()) => succeed(hop, id, &result, applied, gate),
                // C-123: the other side did it, only its answer is wrong.
                Err((code, detail)) => fail(hop, id, code, &detail, applied, gate),
            }
        }
        // An attempt that failed says nothing about the one before it, whose outcome is still unknown.
        Outcome::Error { detail, applied: Applied::No, .. } if matches!(call.state, State::Ambiguous(_)) => {
            return Err(Unanswered(detail));
        }
        Outcome::Error { code, detail, applied } => fail(hop, id, code, &detail, applied, gate),
        Outcome::Ambiguous { detail } => return Err(Unanswered(detail)),
    }
    Ok(())
}

fn result_fits(hop: &Hop, call: &Call, result: &Canonical) -> Result<(), (Code, String)> {
    let tool = &hop.pinned.tools[&call.tool.name];
    let (len, limit) = (result.len() as u64, tool.spec.limits.result_bytes);
    if len > limit {
        return Err((Code::ResultTooLarge, format!("result exceeded: {len} > {limit}")));
    }
    tool.output.check(result).map_err(|v| (Code::InvalidResult, format!("`{}`: {}", v.pointer, v.message)))
}

/// a live hop treats an outcome it cannot learn as after a crash: key, lookup, else a person.
async fn unknown(hop: &mut Hop, drive: &mut Drive, id: CallId, detail: &str) -> Result<(), Out> {
    let call = hop.call(id).clone();
    tracing::info!(run = %call.run, call = %id, detail, "outcome unknown");
    let seen = Some(hop.keep(detail.as_bytes()).digest);
    if let State::Dispatched(gate) = &call.state {
        let ask = call.recovery == RecoveryClass::Manual;
        hop.conclude(Conclusion { call: id, end: Concluded::Ambiguous { ask, seen } });
        hop.call_mut(id).state = State::Ambiguous(gate.clone());
        hop.commit(Act::Record).await?;
        hop.refresh().await?;
    } else {
        // Stored with the next attempt, or with the question.
        hop.conclude(Conclusion { call: id, end: Concluded::Ambiguous { ask: false, seen } });
    }
    if call.recovery != RecoveryClass::Manual {
        pause(drive, id);
    }
    Ok(())
}

/// A call found in flight that no handler of this process runs: only reads and pure calls can be, since recovery makes
/// writes ambiguous. It runs again after a pause, up to 3 starts (C-229).
pub(super) async fn dispatched(hop: &mut Hop, drive: &mut Drive, id: CallId, gate: Gate) -> Result<(), Out> {
    if u32::from(gate.attempt) >= RETRY_STARTS {
        fail(hop, id, Code::HandlerError, "no start of it was ever answered", Applied::No, Some(gate));
        return Ok(());
    }
    drive.attempts.insert(id, u32::from(gate.attempt) - 1);
    pause(drive, id);
    Ok(())
}

/// An ambiguous call: its question is read, or its class settles it.
pub(super) async fn ambiguous(hop: &mut Hop, drive: &mut Drive, id: CallId, _: Gate) -> Result<(), Out> {
    let call = hop.call(id).clone();
    if let Some(question) = call.settle {
        return match hop.approvals.get(&question).map(|a| &a.status) {
            Some(approval::Status::Cancelled { .. }) => {
                Err(Out::fail(Code::EffectAbandoned, format!("effect abandoned: {id}")))
            }
            // Once it is answered the ledger has ended the call; until then it waits.
            _ => Ok(()),
        };
    }
    // A lookup said `pending`: it is asked again when its timer has ended.
    match hop.waits.iter().find(|wait| wait.call == id) {
        Some(timer) if !timer.is_ended() => return Ok(()),
        Some(timer) => {
            hop.pending.taken.push(timer.id);
            hop.waits.retain(|wait| wait.call != id);
        }
        None => {}
    }
    attempt(hop, drive, id).await
}

/// The next attempt of the call's class, or the question to a person. None is made once authority is gone (C-233).
async fn attempt(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    let call = hop.call(id).clone();
    if call.is_ended() || call.settle.is_some() {
        return Ok(());
    }
    let failed = drive.attempts.entry(id).or_default();
    *failed += 1;
    let failed = *failed;
    let attempts = call.gate().map_or(1, |gate| u32::from(gate.attempt));
    match call.recovery {
        RecoveryClass::Idempotent if attempts <= EFFECT_ATTEMPTS && key_lives(hop, &call) => {
            again(hop, drive, id).await
        }
        RecoveryClass::Lookup if failed <= EFFECT_ATTEMPTS => lookup(hop, drive, id).await,
        _ => ask(hop, id).await,
    }
}

/// Within the life of the key, as the tool declares it (C-230, R-303).
fn key_lives(hop: &Hop, call: &Call) -> bool {
    let Some(tool) = hop.pinned.tools.get(&call.tool.name) else { return false };
    match (&tool.spec.recovery, call.gate()) {
        (Recovery::Idempotent { key_life }, Some(gate)) => hop.inner.now() < gate.at + *key_life,
        _ => false,
    }
}

/// Gets in line to dispatch the same bytes under the same key again.
async fn again(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    let name = hop.call(id).tool.name.clone();
    let pinned = hop.pinned.clone();
    let tool = &pinned.tools[&name];
    let barred = match broker::authority(hop, tool) {
        Ok(()) => hop.inner.connectors.ready(&tool.spec, &tool.grant).err().map(|unready| unready.detail),
        Err((_, detail)) => Some(detail),
    };
    if let Some(detail) = barred {
        tracing::info!(run = %hop.run.id, call = %id, detail, "no attempt possible");
        return ask(hop, id).await;
    }
    line::enter(hop, drive, id, Errand::Again, None);
    Ok(())
}

/// An errand that can never be run, for want of the resource that its tool needs: no hold would change that.
pub(super) async fn barred(hop: &mut Hop, id: CallId, errand: Errand, why: Failure) -> Result<(), Out> {
    match errand {
        Errand::Start { .. } => {
            deny(hop, id, why.code, &why.message, None::<()>);
            Ok(())
        }
        Errand::Again => {
            tracing::info!(run = %hop.run.id, call = %id, why.message, "no attempt possible");
            ask(hop, id).await
        }
        Errand::Lookup { by, .. } => {
            deny(hop, by, why.code, &why.message, None::<()>);
            ask(hop, id).await
        }
        Errand::Stop { by, .. } => stop::barred(hop, id, by, why.code, &why.message).await,
    }
}

/// An errand that is not run any more, for the hop stops. Of a call of the engine's own it is said that it was not made.
pub(super) async fn given_up(hop: &mut Hop, id: CallId, errand: Errand, why: Failure) -> Result<(), Out> {
    match errand {
        Errand::Start { .. } | Errand::Again => Ok(()),
        own @ (Errand::Lookup { .. } | Errand::Stop { .. }) => barred(hop, id, own, why).await,
    }
}

/// An errand that is run anew later. A lookup is then another call.
pub(super) fn put_off(hop: &mut Hop, errand: Errand) {
    if let Errand::Lookup { by, .. } = errand {
        deny(hop, by, Code::ResourceFailed, "what it needs is not warm", None::<()>);
    }
}

/// Makes the attempt; it is stored first (C-233).
pub(super) async fn make_attempt(hop: &mut Hop, drive: &mut Drive, id: CallId, slot: Slot) -> Result<(), Out> {
    let arguments = arguments(hop, id).await?;
    hop.conclude(Conclusion { call: id, end: Concluded::Attempt });
    if let State::Dispatched(gate) | State::Ambiguous(gate) = &mut hop.call_mut(id).state {
        gate.attempt += 1;
    }
    hop.commit(Act::Record).await?;
    handle(hop, drive, id, arguments, slot);
    Ok(())
}

/// Publishes the `settle` question, once (C-232, C-237).
async fn ask(hop: &mut Hop, id: CallId) -> Result<(), Out> {
    let call = hop.call(id).clone();
    if call.effect != Effect::Write {
        fail(hop, id, Code::HandlerError, "the tool did not answer", Applied::No, call.gate().cloned());
        return Ok(());
    }
    hop.conclude(Conclusion { call: id, end: Concluded::Ambiguous { ask: true, seen: None } });
    hop.commit(Act::Record).await?;
    hop.refresh().await
}

/// Gets in line to ask the tool's lookup whether the call happened (C-231): a call of the engine's own, which passes the
/// broker from step 8 on, and for which nobody is asked (C-235).
async fn lookup(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    let call = hop.call(id).clone();
    let pinned = hop.pinned.clone();
    let Some((tool, filled)) = looking_up(hop, &pinned.tools, &call).await? else { return ask(hop, id).await };
    let own = own_call(hop, tool, &filled);
    let by = own.id;
    hop.calls.insert(by, own.clone());
    let (judged, fixed) = broker::judge(hop, &own, &filled);
    let arguments = fixed.unwrap_or(filled);
    let body = hop.keep(arguments.as_bytes());
    hop.call_mut(by).arguments = body;
    hop.pending.engine_calls.push(hop.call(by).clone());
    match judged {
        Judged::Allowed => {
            line::enter(hop, drive, id, Errand::Lookup { by, arguments }, None);
            Ok(())
        }
        Judged::Denied { code, message } => {
            deny(hop, by, code, &message, None::<()>);
            ask(hop, id).await
        }
        Judged::Ask(_) | Judged::Waits(_) | Judged::Delegates(_) => {
            deny(hop, by, Code::PolicyDenied, "a person would have to be asked for it", None::<()>);
            ask(hop, id).await
        }
    }
}

/// Lookups are still made for a run that stops (C-234), once for each call; what they leave open is asked of people.
/// Whether one was begun.
pub(super) async fn look_last(hop: &mut Hop, drive: &mut Drive) -> Result<bool, Out> {
    const LOOKED: u32 = u32::MAX;
    for id in drive.turn.calls.clone() {
        let call = hop.call(id);
        let open = matches!(call.state, State::Ambiguous(_)) && call.settle.is_none();
        if open && call.recovery == RecoveryClass::Lookup && drive.attempts.insert(id, LOOKED) != Some(LOOKED) {
            lookup(hop, drive, id).await?;
        }
    }
    Ok(!drive.line.is_empty())
}

/// The lookup tool of a call and what it is asked; none where the template finds nothing to ask with.
pub(super) async fn looking_up<'a>(
    hop: &mut Hop,
    tools: &'a BTreeMap<String, PinnedTool>,
    call: &Call,
) -> Result<Option<(&'a PinnedTool, Canonical)>, Out> {
    let Recovery::Lookup(followup) = &tools[&call.tool.name].spec.recovery else { return Ok(None) };
    let asked = arguments(hop, call.id).await?.value();
    let key = call.key();
    let filled = followup.arguments.fill(&TemplateInput { arguments: &asked, result: None, key: &key });
    Ok(tools.get(&followup.tool).zip(filled.ok()))
}

pub(super) fn own_call(hop: &mut Hop, tool: &PinnedTool, filled: &Canonical) -> Call {
    hop.engine_calls += 1;
    let body = hop.keep(filled.as_bytes());
    Call {
        id: hop.ids.mint(),
        position: None,
        identity: Identity::engine(hop.engine_calls),
        tool: ToolRef { name: tool.spec.name.clone(), version: tool.spec.version.clone(), digest: tool.spec.digest() },
        effect: tool.spec.effect,
        recovery: drive::class(&tool.spec.recovery),
        timeout_ms: tool.spec.limits.timeout.as_millis() as u32,
        asked: body.digest,
        arguments: body,
        edited: false,
        approval: None,
        settle: None,
        state: State::Entered,
        rounds: 0,
        from: None,
        receipt: None,
        at: hop.inner.now(),
        run: hop.run.id,
    }
}

/// Makes the lookup of the call `id`.
pub(super) fn look(hop: &Hop, drive: &mut Drive, id: CallId, by: CallId, arguments: Canonical, slot: Slot) {
    let (pinned, connectors) = (hop.pinned.clone(), hop.inner.connectors.clone());
    let name = hop.call(by).tool.name.clone();
    drive.busy.insert(id);
    drive.work.push(Box::pin(async move {
        let tool = &pinned.tools[&name];
        let (spec, grant) = (&tool.spec, &tool.grant);
        let cancel = CancellationToken::new();
        let ended = connectors.dispatch(Dispatch { spec, grant, arguments: &arguments, key: None, cancel, slot }).await;
        (id, Done::Looked { by, ended })
    }));
}

/// The lookup has its own outcome, and tells that of the call.
async fn looked(hop: &mut Hop, drive: &mut Drive, id: CallId, by: CallId, ended: Ended) -> Result<(), Out> {
    match said(hop, id, by, ended) {
        Said::Known => {}
        Said::Pending if !stopping(hop) => return ask_later(hop, drive, id).await,
        // It could not be asked: tried again soon, and not for ever.
        Said::Nothing if !stopping(hop) => {
            hop.commit(Act::Record).await?;
            pause(drive, id);
            return Ok(());
        }
        Said::Pending | Said::Nothing => {}
        Said::Unknown => return ask(hop, id).await,
    }
    hop.commit(Act::Record).await?;
    Ok(())
}

/// What a lookup said of a call.
pub(super) enum Said {
    /// What became of it; the call has ended.
    Known,
    /// Not yet.
    Pending,
    /// That it does not know, and will not.
    Unknown,
    /// It could not be asked, or gave no answer.
    Nothing,
}

/// Ends the lookup `by`, and the call `id` if that is what it said: `{"outcome": "happened", "result": ...}`,
/// `did_not_happen`, `pending` or `unknown`.
pub(super) fn said(hop: &mut Hop, id: CallId, by: CallId, ended: Ended) -> Said {
    let answer = match ended.outcome {
        Outcome::Ok { result } => match result_fits(hop, &hop.call(by).clone(), &result) {
            Ok(()) => {
                succeed(hop, by, &result, Applied::No, None);
                result.value()
            }
            Err((code, detail)) => {
                fail(hop, by, code, &detail, Applied::No, None);
                return Said::Nothing;
            }
        },
        Outcome::Error { code, detail, .. } => {
            fail(hop, by, code, &detail, Applied::No, None);
            return Said::Nothing;
        }
        Outcome::Ambiguous { detail } => {
            fail(hop, by, Code::HandlerError, &detail, Applied::No, None);
            return Said::Nothing;
        }
    };
    let gate = hop.call(id).gate().cloned();
    match answer.get("outcome").and_then(Value::as_str) {
        Some("happened") => {
            let result = answer.get("result").and_then(|r| r.canonical().ok()).unwrap_or_else(Canonical::null);
            match result_fits(hop, &hop.call(id).clone(), &result) {
                Ok(()) => succeed(hop, id, &result, Applied::Yes, gate),
                Err((code, detail)) => fail(hop, id, code, &detail, Applied::Yes, gate),
            }
            Said::Known
        }
        Some("did_not_happen") => {
            let code = Code::EffectNotExecuted;
            fail(hop, id, code, "the lookup found that it did not happen", Applied::No, gate);
            Said::Known
        }
        Some("pending") => Said::Pending,
        Some(_) => Said::Unknown,
        None => Said::Nothing,
    }
}

/// Nothing new is begun for a run that stops; its question is then asked of people by what stopped it.
fn stopping(hop: &Hop) -> bool {
    hop.live.stopped().is_some()
}

/// C-236: a `pending` lookup is made again when a timer has ended, on which the run may park; for a day at most.
async fn ask_later(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    let call = hop.call(id).clone();
    let since = call.gate().map_or(call.at, |gate| gate.at);
    if hop.inner.now() >= since + LOOKUP_PENDING {
        return ask(hop, id).await;
    }
    drive.attempts.remove(&id);
    let made = hop.calls.values().filter(|own| own.position.is_none() && own.at >= since).count() as u32;
    let pause = (FIRST_PAUSE * 2_u32.pow(made.min(16))).min(LONGEST_PAUSE);
    let wait = hop.ids.mint();
    hop.pending.timers.push(Timer { wait, call: id, due: Due::In(pause) });
    hop.commit(Act::Record).await?;
    hop.refresh().await
}

fn pause(drive: &mut Drive, id: CallId) {
    let made = drive.attempts.get(&id).copied().unwrap_or_default().min(8);
    let pause = FIRST_PAUSE * 2_u32.pow(made);
    drive.busy.insert(id);
    drive.work.push(Box::pin(async move {
        tokio::time::sleep(pause).await;
        (id, Done::AttemptDue)
    }));
}
