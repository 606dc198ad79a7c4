//! From a yes, or from a call that needs none, to the handler at work (calls.md sections 7 and 8).
//!
//! Invariant: a `write`'s handler starts only after its gate is stored (C-95 to C-98), and a place with its tool is taken
//! before the gate, so that the tool's time does not run in the line.

use super::ask;
use super::drive::{self, Done, Drive};
use super::line::{self, Errand};
use super::outcome::{deny, fail, succeed};
use super::state::{Hop, Out};
use crate::broker;
use crate::clock::monotonic;
use crate::failpoint;
use crate::tools::{Dispatch, Slot};
use crate::worker::Stop;
use protocol::call::{Applied, Gate, State};
use protocol::code::Code;
use protocol::command::{Act, Answer};
use protocol::digest::Digest;
use protocol::id::CallId;
use protocol::json::Canonical;
use protocol::tool::{Effect, OnCancel};
use tokio_util::sync::CancellationToken;

/// Begins to start a call: what a built-in tool answers at once, else a place in the line for its tool (C-250).
pub(super) async fn start(hop: &mut Hop, drive: &mut Drive, id: CallId) -> Result<(), Out> {
    let call = hop.call(id).clone();
    let arguments = drive::arguments(hop, id).await?;
    if let Some(answer) = broker::instant(&call.tool.name, &arguments.value(), hop.inner.now()) {
        match answer {
            Ok(result) => succeed(hop, id, &result, Applied::No, None),
            Err((code, detail)) => fail(hop, id, code, &detail, Applied::No, None),
        }
        return Ok(());
    }
    let pinned = hop.pinned.clone();
    let tool = &pinned.tools[&call.tool.name];
    if let Err(unready) = hop.inner.connectors.ready(&tool.spec, &tool.grant) {
        deny(hop, id, Code::ToolUnavailable, &unready.detail, None::<()>);
        return Ok(());
    }
    line::enter(hop, drive, id, Errand::Start { arguments }, None);
    Ok(())
}

/// With a place taken, and what a person approved read again, passes the gate and starts the handler.
pub(super) async fn pass(
    hop: &mut Hop,
    drive: &mut Drive,
    id: CallId,
    arguments: Canonical,
    slot: Slot,
) -> Result<(), Out> {
    if hop.call(id).state == State::Asked && ask::names_content(hop, id) {
        ask::read_again(hop, drive, id, arguments, slot);
        return Ok(());
    }
    dispatch(hop, drive, id, arguments, Vec::new(), slot).await
}

/// Passes the gate, durable for a `write` and for whatever a person was asked, and starts the handler (steps 15 and 16).
pub(super) async fn dispatch(
    hop: &mut Hop,
    drive: &mut Drive,
    id: CallId,
    arguments: Canonical,
    operands: Vec<(String, Digest)>,
    slot: Slot,
) -> Result<(), Out> {
    let call = hop.call(id).clone();
    if let Some(code) = broker::awaits_settling(hop, &call, call.arguments.digest) {
        deny(hop, id, Code::EffectAmbiguous, &code, None::<()>);
        return Ok(());
    }
    if call.effect == Effect::Write || call.state == State::Asked {
        let grant = hop.pinned.tools[&call.tool.name].grant_digest;
        let act = Act::Dispatch { call: id, arguments: arguments.clone(), operands, grant };
        failpoint::hit("gate.before");
        match hop.commit(act).await? {
            Answer::Dispatched { attempt } => {
                failpoint::hit("gate.after");
                let gate = Gate { attempt, at: hop.inner.now(), token: hop.token };
                hop.call_mut(id).state = State::Dispatched(gate);
            }
            Answer::NotDispatched { code: Code::PolicyChanged, .. }
                if u32::from(call.rounds) < protocol::limits::ASKED_AGAIN =>
            {
                ask_anew(hop, drive, id, &arguments);
                return Ok(());
            }
            // The yes stays as it is. The hop leaves once its other calls have ended; the next one is at this gate (C-105).
            Answer::NotDispatched { code: Code::RunPaused, .. } => {
                hop.live.stop(Stop::Paused);
                return Ok(());
            }
            Answer::NotDispatched { code, detail } => {
                deny(hop, id, code, &detail, None::<()>);
                return Ok(());
            }
            other => unreachable!("a gate answers whether it was passed: {other:?}"),
        }
    } else if monotonic() >= hop.live.stop_at() {
        return Err(Out::Lost);
    }
    handle(hop, drive, id, arguments, slot);
    Ok(())
}

/// C-115: the policy now asks for more; the same call asks again, by a new approval. The wait of the old one is taken:
/// it has brought its answer, and a park on the new one is not satisfied by it.
fn ask_anew(hop: &mut Hop, drive: &mut Drive, id: CallId, arguments: &Canonical) {
    if let Some(old) = hop.approval_of(hop.call(id)).map(|approval| approval.wait) {
        hop.pending.taken.push(old);
        hop.waits.retain(|wait| wait.id != old);
    }
    hop.call_mut(id).state = State::Entered;
    hop.call_mut(id).rounds += 1;
    drive::judge(hop, drive, id, arguments);
}

/// Starts the handler of a call that passed its gate.
pub(super) fn handle(hop: &Hop, drive: &mut Drive, id: CallId, arguments: Canonical, slot: Slot) {
    let call = hop.call(id);
    let key = call.key();
    let pinned = hop.pinned.clone();
    let connectors = hop.inner.connectors.clone();
    let name = call.tool.name.clone();
    let cut = CancellationToken::new();
    drive.busy.insert(id);
    drive.cuts.insert(id, cut.clone());
    drive.work.push(Box::pin(async move {
        let tool = &pinned.tools[&name];
        failpoint::hit("handler.before");
        let ended = connectors
            .dispatch(Dispatch {
                spec: &tool.spec,
                grant: &tool.grant,
                arguments: &arguments,
                key: Some(&key),
                cancel: cut,
                slot,
            })
            .await;
        failpoint::hit("handler.after");
        (id, Done::Handled(ended))
    }));
}

/// C-22: a cancel cuts the handlers of tools that say so; the others may end within their time.
pub(super) fn cut_short(hop: &Hop, drive: &Drive) {
    let aborts = |id: &CallId| {
        let tool = hop.pinned.tools.get(&hop.call(*id).tool.name);
        tool.is_some_and(|tool| tool.spec.on_cancel == OnCancel::Abort)
    };
    drive.cuts.iter().filter(|(id, _)| aborts(id)).for_each(|(_, cut)| cut.cancel());
}
