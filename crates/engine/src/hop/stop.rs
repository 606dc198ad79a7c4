//! Asking the other side to stop: the cancel tools of calls in flight (C-22, C-234, C-235).
//!
//! Invariant: for a call in flight at most one is sent, behind a gate of the ledger, which knows whether one was. It never
//! cuts the handler: what that says in the end is what became of the call (C-244).

use super::drive::{self, Drive};
use super::find;
use super::gate;
use super::line::{self, Errand};
use super::outcome;
use super::settle;
use super::state::{Hop, Out};
use crate::broker::{self, Judged};
use crate::failpoint;
use crate::pinned::PinnedTool;
use crate::tools::Slot;
use protocol::call::{Gate, RecoveryClass, State};
use protocol::code::Code;
use protocol::command::{Act, Answer, AskToStop, Command, Found, StopAlone, StopGate};
use protocol::id::CallId;
use protocol::json::Canonical;
use protocol::tool::{OnCancel, TemplateInput};

/// For each call in flight whose tool says how, gets in line to ask the other side to stop.
pub(super) async fn ask(hop: &mut Hop, drive: &mut Drive) -> Result<(), Out> {
    for id in drive.turn.calls.clone() {
        match wanted(hop, id).await? {
            None => {}
            Some(Wanted::Goes { by, arguments }) => {
                line::enter(hop, drive, id, Errand::Stop { by, arguments }, None);
            }
            Some(Wanted::Denied(asked)) => record(hop, *asked).await?,
        }
    }
    Ok(())
}

/// What the broker says of a cancel tool.
enum Wanted {
    Goes { by: CallId, arguments: Canonical },
    Denied(Box<AskToStop>),
}

/// The engine's own call that asks, judged from step 8 on. None where the call is not in flight, or its tool wants nothing
/// asked.
async fn wanted(hop: &mut Hop, id: CallId) -> Result<Option<Wanted>, Out> {
    let pinned = hop.pinned.clone();
    let call = hop.call(id).clone();
    let Some(OnCancel::Ask(followup)) = pinned.tools.get(&call.tool.name).map(|tool| &tool.spec.on_cancel) else {
        return Ok(None);
    };
    if !call.in_flight() {
        return Ok(None);
    }
    let asked = drive::arguments(hop, id).await?.value();
    let key = call.key();
    let filled = followup.arguments.fill(&TemplateInput { arguments: &asked, result: None, key: &key });
    let Some((tool, filled)) = pinned.tools.get(&followup.tool).zip(filled.ok()) else {
        tracing::warn!(run = %hop.run.id, call = %id, tool = followup.tool, "there is nothing to ask the other side with");
        return Ok(None);
    };
    let own = settle::own_call(hop, tool, &filled);
    let by = own.id;
    hop.calls.insert(by, own.clone());
    let (judged, fixed) = broker::judge(hop, &own, &filled);
    let arguments = fixed.unwrap_or(filled);
    hop.call_mut(by).arguments = hop.keep(arguments.as_bytes());
    Ok(Some(match refused(hop, tool, judged) {
        None => Wanted::Goes { by, arguments },
        Some((code, why)) => Wanted::Denied(Box::new(denied(hop, id, by, code, &why))),
    }))
}

/// Why it may not go: `ask` counts as deny (C-235), and a tool that cannot be called is not.
fn refused(hop: &Hop, tool: &PinnedTool, judged: Judged) -> Option<(Code, String)> {
    match judged {
        Judged::Allowed => {
            let unready = hop.inner.connectors.ready(&tool.spec, &tool.grant).err()?;
            Some((Code::ToolUnavailable, unready.detail))
        }
        Judged::Denied { code, message } => Some((code, message)),
        Judged::Ask(_) | Judged::Waits(_) | Judged::Delegates(_) => {
            Some((Code::PolicyDenied, "a person would have to be asked for it".to_owned()))
        }
    }
}

/// Tells of a cancel tool that is not called, with its receipt.
fn denied(hop: &mut Hop, id: CallId, by: CallId, code: Code, why: &str) -> AskToStop {
    let entered = hop.call(by).clone();
    outcome::deny(hop, by, code, why, None::<()>);
    // It goes with its call, which the ledger does not know yet.
    hop.pending.conclusions.retain(|conclusion| conclusion.call != by);
    let State::Ended(outcome) = hop.call(by).state.clone() else { unreachable!("it was ended just now") };
    AskToStop { call: id, by: entered, gate: StopGate::Denied(outcome) }
}

/// What it needs is not there: nothing is sent.
pub(super) async fn barred(hop: &mut Hop, id: CallId, by: CallId, code: Code, why: &str) -> Result<(), Out> {
    let asked = denied(hop, id, by, code, why);
    record(hop, asked).await
}

/// The same for a run whose hop is gone; what came of it is stored beside no claim.
pub(super) async fn ask_alone(hop: &mut Hop, id: CallId) -> Result<(), Out> {
    let (by, arguments) = match wanted(hop, id).await? {
        None => return Ok(()),
        Some(Wanted::Denied(asked)) => return alone(hop, *asked).await.map(drop),
        Some(Wanted::Goes { by, arguments }) => (by, arguments),
    };
    let slot = match find::place(hop, by).await {
        Ok(slot) => slot,
        Err((code, why)) => {
            let asked = denied(hop, id, by, code, &why);
            return alone(hop, asked).await.map(drop);
        }
    };
    let asked = at_gate(hop, id, by, &arguments);
    failpoint::hit("stop.before");
    let Some(gate) = alone(hop, asked).await? else { return Ok(()) };
    failpoint::hit("stop.after");
    hop.call_mut(by).state = State::Dispatched(gate);
    let key = hop.call(by).key();
    let ended = find::call(hop, by, &arguments, Some(&key), slot).await;
    let told = settle::told(hop, by, ended).is_ok();
    if !told && hop.call(by).recovery == RecoveryClass::Lookup {
        // Once its time is over its lookup is made.
        return Ok(());
    }
    let outcome = find::ended(hop, by);
    hop.pending.conclusions.clear();
    let bodies = std::mem::take(&mut hop.pending.bodies);
    let found = Found { outcome, bodies, ..find::nothing(&hop.inner, hop.run.id, by) };
    store(hop, Command::Found(Box::new(found))).await.map(drop)
}

/// The gate that the ledger gives, if it does.
async fn alone(hop: &mut Hop, asked: AskToStop) -> Result<Option<Gate>, Out> {
    let bodies = std::mem::take(&mut hop.pending.bodies);
    let command = Command::AskToStop(Box::new(StopAlone { run: hop.run.id, asked, bodies }));
    let gate = |attempt| Gate { attempt, at: hop.inner.now(), token: hop.run.fence };
    Ok(match store(hop, command).await? {
        Answer::Dispatched { attempt } => Some(gate(attempt)),
        _ => None,
    })
}

async fn store(hop: &Hop, command: Command) -> Result<Answer, Out> {
    hop.inner.ledger.transact(command).await.map_err(|error| {
        tracing::warn!(run = %hop.run.id, %error, "what became of a cancel tool could not be stored");
        Out::Lost
    })
}

async fn record(hop: &mut Hop, asked: AskToStop) -> Result<(), Out> {
    hop.commit(Act::AskToStop(Box::new(asked))).await.map(drop)
}

/// The gate of a cancel tool's call.
fn at_gate(hop: &Hop, id: CallId, by: CallId, arguments: &Canonical) -> AskToStop {
    let by = hop.call(by);
    let grant = hop.pinned.tools[&by.tool.name].grant_digest;
    AskToStop { call: id, by: by.clone(), gate: StopGate::Pass { arguments: arguments.clone(), grant } }
}

/// With a place taken, passes the gate and asks. A handler that has ended meanwhile has nothing to stop.
pub(super) async fn dispatch(
    hop: &mut Hop,
    drive: &mut Drive,
    id: CallId,
    by: CallId,
    arguments: Canonical,
    slot: Slot,
) -> Result<(), Out> {
    if !hop.call(id).in_flight() {
        return Ok(());
    }
    let asked = at_gate(hop, id, by, &arguments);
    failpoint::hit("stop.before");
    match hop.commit(Act::AskToStop(Box::new(asked))).await? {
        Answer::Dispatched { attempt } => {
            failpoint::hit("stop.after");
            let at = hop.inner.now();
            hop.call_mut(by).state = State::Dispatched(Gate { attempt, at, token: hop.token });
            drive.turn.calls.push(by);
            gate::handle(hop, drive, by, arguments, slot);
        }
        Answer::NotDispatched { code, detail } => {
            tracing::info!(run = %hop.run.id, call = %id, ?code, detail, "the other side is not asked to stop");
        }
        other => unreachable!("a gate answers whether it was passed: {other:?}"),
    }
    Ok(())
}
