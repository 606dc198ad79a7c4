//! What came of a dispatched call, and finding out where nobody told (calls.md section 12).
//!
//! Invariant: nothing but a key, a lookup or a person turns an ambiguous call into anything, and an attempt is stored
//! before it is made (C-233).

use super::drive::{Done, Drive, arguments, fail, handle, succeed};
use super::state::{Hop, Out};
use crate::failpoint;
use crate::tools::{Dispatch, Ended, Outcome};
use protocol::approval::{self, Kind};
use protocol::call::{Applied, Call, Gate, Identity, RecoveryClass, State, ToolRef};
use protocol::code::Code;
use protocol::command::{Act, Ask, Concluded, Conclusion};
use protocol::id::CallId;
use protocol::json::{Canonical, Value};
use protocol::limits::{EFFECT_ATTEMPTS, RETRY_STARTS};
use protocol::policy::{Edit, Obligation, ReasonRule, Terms};
use protocol::tool::{Effect, Recovery, TemplateInput};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pauses between attempts at settling: the first, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// A handler, or a pause, has ended.
pub(super) async fn done(hop: &mut Hop, drive: &mut Drive, id: CallId, done: Done) -> Result<(), Out> {
    match done {
        Done::Handled(ended) => handled(hop, drive, id, ended).await,
        Done::AttemptDue => attempt(hop, drive, id).await,
    }
}

/// Step 17 and 18: the outcome is judged and, for a `write`, stored before the guest sees it (C-97).
async fn handled(hop: &mut Hop, drive: &mut Drive, id: CallId, ended: Ended) -> Result<(), Out> {
    let call = hop.call(id).clone();
    let gate = call.gate().cloned();
    if let Some(stderr) = ended.stderr.as_deref().filter(|bytes| !bytes.is_empty()) {
        hop.keep(stderr);
    }
    match ended.outcome {
        Outcome::Ok { result } => {
            let write = call.effect == Effect::Write;
            match result_fits(hop, &call, &result) {
                Ok(()) if write => succeed(hop, id, &result, Applied::Yes, gate),
                Ok(()) => succeed(hop, id, &result, Applied::No, gate),
                // C-123: the other side did it, only its answer is wrong.
                Err((code, detail)) => {
                    let applied = if write { Applied::Yes } else { Applied::No };
                    fail(hop, id, code, &detail, applied, gate);
                }
            }
        }
        // An attempt that failed says nothing about the one before it, whose outcome is still unknown.
        Outcome::Error { detail, applied: Applied::No, .. } if matches!(call.state, State::Ambiguous(_)) => {
            return unknown(hop, drive, id, &detail).await;
        }
        Outcome::Error { code, detail, applied } => fail(hop, id, code, &detail, applied, gate),
        Outcome::Ambiguous { detail } => return unknown(hop, drive, id, &detail).await,
    }
    if call.effect == Effect::Write {
        failpoint::hit("outcome.before");
        hop.commit(Act::Record).await?;
        failpoint::hit("outcome.after");
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
    if let State::Dispatched(gate) = &call.state {
        let settle = match call.recovery {
            RecoveryClass::Manual => Some(Box::new(question(hop, &call))),
            _ => None,
        };
        let asked = settle.as_ref().map(|ask| ask.id);
        hop.conclude(Conclusion { call: id, end: Concluded::Ambiguous { settle } });
        let row = hop.call_mut(id);
        row.state = State::Ambiguous(gate.clone());
        row.settle = asked;
        hop.commit(Act::Record).await?;
        hop.refresh().await?;
    }
    if call.recovery != RecoveryClass::Manual {
        pause(drive, id);
    }
    Ok(())
}

/// A call found in flight that no handler of this process runs: only reads and pure calls can be, since recovery makes
/// writes ambiguous. It runs again, up to 3 starts (C-229).
pub(super) async fn dispatched(hop: &mut Hop, drive: &mut Drive, id: CallId, gate: Gate) -> Result<(), Out> {
    if u32::from(gate.attempt) >= RETRY_STARTS {
        fail(hop, id, Code::HandlerError, "no start of it was ever answered", Applied::No, Some(gate));
        return Ok(());
    }
    again(hop, drive, id).await
}

/// An ambiguous call: its question is read, or its class settles it.
pub(super) async fn ambiguous(hop: &mut Hop, drive: &mut Drive, id: CallId, _: Gate) -> Result<(), Out> {
    let call = hop.call(id).clone();
    match call.settle {
        Some(question) => match hop.approvals.get(&question).map(|a| &a.status) {
            Some(approval::Status::Cancelled { .. }) => {
                Err(Out::fail(Code::EffectAbandoned, format!("effect abandoned: {id}")))
            }
            // Once it is answered the ledger has ended the call; until then it waits.
            _ => Ok(()),
        },
        None => attempt(hop, drive, id).await,
    }
}

/// The next attempt of the call's class, or the question to a person.
async fn attempt(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    let call = hop.call(id).clone();
    if call.is_ended() || call.settle.is_some() {
        return Ok(());
    }
    let made = drive.attempts.entry(id).or_default();
    *made += 1;
    let made = *made;
    let attempts = call.gate().map_or(1, |gate| u32::from(gate.attempt));
    match call.recovery {
        RecoveryClass::Idempotent if attempts <= EFFECT_ATTEMPTS && key_lives(hop, &call) => {
            again(hop, drive, id).await
        }
        RecoveryClass::Lookup if made <= EFFECT_ATTEMPTS => lookup(hop, drive, id).await,
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

/// Dispatches the same bytes under the same key again; the attempt is stored first.
async fn again(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    let name = hop.call(id).tool.name.clone();
    let pinned = hop.pinned.clone();
    let tool = &pinned.tools[&name];
    if let Err(unready) = hop.inner.connectors.ready(&tool.spec, &tool.grant) {
        tracing::info!(run = %hop.run.id, call = %id, detail = unready.detail, "no attempt possible");
        return ask(hop, id).await;
    }
    let arguments = arguments(hop, id).await?;
    let slot = hop.inner.connectors.slot(&tool.spec).await;
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
    let ask = question(hop, &call);
    hop.call_mut(id).settle = Some(ask.id);
    hop.conclude(Conclusion { call: id, end: Concluded::Ambiguous { settle: Some(Box::new(ask)) } });
    hop.commit(Act::Record).await?;
    hop.refresh().await
}

/// Who may decide the call may also say what became of it, alone and with a reason (C-240).
fn question(hop: &mut Hop, call: &Call) -> Ask {
    let asked = hop.approval_of(call).map(|a| a.obligation.clone());
    let base = asked.unwrap_or_else(|| Terms::default().resolve(hop.run.settings.separate_requester));
    Ask {
        id: hop.ids.mint(),
        wait: hop.ids.mint(),
        call: call.id,
        kind: Kind::Settle,
        obligation: Obligation { quorum: 1, reject_quorum: 1, reason: ReasonRule::Always, edit: Edit::No, ..base },
        policy: hop.inner.ledger.registry().policy_version,
        claim: None,
        form: None,
        unrenderable: false,
        operands: Vec::new(),
    }
}

/// Asks the tool's lookup whether the call happened (C-231), by a call of the engine's own (C-235).
async fn lookup(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    let call = hop.call(id).clone();
    let pinned = hop.pinned.clone();
    let Recovery::Lookup(followup) = &pinned.tools[&call.tool.name].spec.recovery else {
        return ask(hop, id).await;
    };
    let asked = arguments(hop, id).await?.value();
    let key = call.key();
    let filled = followup.arguments.fill(&TemplateInput { arguments: &asked, result: None, key: &key });
    let Some(tool) = pinned.tools.get(&followup.tool) else { return ask(hop, id).await };
    let Ok(filled) = filled else { return ask(hop, id).await };
    let Ok(()) = tool.input.check(&filled) else { return ask(hop, id).await };
    hop.engine_calls += 1;
    let body = hop.keep(filled.as_bytes());
    let own = Call {
        id: hop.ids.mint(),
        position: None,
        identity: Identity::engine(hop.engine_calls),
        tool: ToolRef { name: tool.spec.name.clone(), version: tool.spec.version.clone(), digest: tool.spec.digest() },
        effect: tool.spec.effect,
        recovery: RecoveryClass::Retry,
        timeout_ms: tool.spec.limits.timeout.as_millis() as u32,
        asked: body.digest,
        arguments: body,
        edited: false,
        approval: None,
        settle: None,
        state: State::Entered,
        rounds: 0,
        receipt: None,
        at: hop.inner.now(),
        run: hop.run.id,
    };
    let own_id = own.id;
    hop.calls.insert(own_id, own.clone());
    hop.pending.engine_calls.push(own);
    let slot = hop.inner.connectors.slot(&tool.spec).await;
    let ended = hop
        .inner
        .connectors
        .dispatch(Dispatch {
            spec: &tool.spec,
            grant: &tool.grant,
            arguments: &filled,
            key: None,
            cancel: CancellationToken::new(),
            slot,
        })
        .await;
    let answer = match ended.outcome {
        Outcome::Ok { result } => {
            succeed(hop, own_id, &result, Applied::No, None);
            Some(result.value())
        }
        Outcome::Error { code, detail, .. } => {
            fail(hop, own_id, code, &detail, Applied::No, None);
            None
        }
        Outcome::Ambiguous { detail } => {
            fail(hop, own_id, Code::HandlerError, &detail, Applied::No, None);
            None
        }
    };
    found(hop, drive, id, answer).await
}

/// `{"outcome": "happened", "result": ...}`, `did_not_happen`, `pending` or `unknown`.
async fn found(hop: &mut Hop, drive: &mut Drive, id: CallId, answer: Option<Value>) -> Result<(), Out> {
    let gate = hop.call(id).gate().cloned();
    let said = answer.as_ref().and_then(|a| a.get("outcome")).and_then(Value::as_str);
    match said {
        Some("happened") => {
            let result = answer.as_ref().and_then(|a| a.get("result"));
            let result = result.and_then(|r| r.canonical().ok()).unwrap_or_else(Canonical::null);
            let call = hop.call(id).clone();
            match result_fits(hop, &call, &result) {
                Ok(()) => succeed(hop, id, &result, Applied::Yes, gate),
                Err((code, detail)) => fail(hop, id, code, &detail, Applied::Yes, gate),
            }
        }
        Some("did_not_happen") => {
            let code = Code::EffectNotExecuted;
            fail(hop, id, code, "the lookup found that it did not happen", Applied::No, gate);
        }
        // Asked again after a pause; a lookup that cannot be reached is asked again too.
        Some("pending") | None => {
            hop.commit(Act::Record).await?;
            pause(drive, id);
            return Ok(());
        }
        Some(_) => return ask(hop, id).await,
    }
    hop.commit(Act::Record).await?;
    Ok(())
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
