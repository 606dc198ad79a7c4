//! Calls of a stopping run that were in flight when its hop was lost: the other side is asked to stop them, if it
//! was not yet, and lookups are made of those that are past their time.
//!
//! Nobody will tell their outcome any more; a lookup may. Invariant: no claim is held for it, nothing but a cancel tool
//! changes anything outside, and what came of it is one command of the ledger, which knows whether it still matters.

use super::settle::{self, Said};
use super::state::{Hop, Out};
use super::stop;
use crate::broker::{self, Judged};
use crate::inner::Inner;
use crate::pinned::{self, PinError};
use crate::reading;
use crate::tools::{Dispatch, Ended, Slot};
use crate::worker::Live;
use protocol::call::{Call, Outcome, RecoveryClass, State};
use protocol::code::Code;
use protocol::command::{Command, Found};
use protocol::id::{CallId, RunId};
use protocol::json::Canonical;
use protocol::obligation::Subject;
use protocol::run::{Phase, Run};
use protocol::tool::Effect;
use std::sync::Arc;
use store::Shown;
use tokio_util::sync::CancellationToken;

/// Asks the other side to stop what is in flight, and looks for each write of the run that is past its time and has a
/// lookup. What could not be read or stored is left to the next pass.
pub(crate) async fn find(inner: &Arc<Inner>, run: RunId) {
    let rows = match reading::read(|| inner.ledger.rows(run)).await {
        Ok(Some(rows)) => rows,
        Ok(None) => return,
        Err(error) => return tracing::warn!(%run, %error, "the rows of a stopping run could not be read"),
    };
    let (wanted, unasked) = (past_their_time(inner, &rows), unasked(&rows));
    if wanted.is_empty() && unasked.is_empty() {
        return;
    }
    let mut hop = match pinned::of_run(inner, &rows.run).await {
        Ok(pinned) => {
            let live = Arc::new(Live::new(inner, run, rows.run.fence));
            let mut hop = Hop::new(inner.clone(), live, rows.run.clone(), pinned);
            hop.engine_calls = rows.calls.iter().filter(|call| call.position.is_none()).count() as u32;
            hop.take_rows(rows);
            Some(hop)
        }
        // There is nothing to look with; a person is asked.
        Err(PinError::Unavailable(why)) => {
            tracing::warn!(%run, why, "a call of a stopping run cannot be looked for");
            None
        }
        Err(PinError::Unread(why)) => return tracing::warn!(%run, why, "a pattern could not be read"),
    };
    if let Some(hop) = &mut hop {
        for call in unasked {
            if let Err(out) = stop::ask_alone(hop, call).await {
                tracing::warn!(%run, %call, ?out, "the other side could not be asked to stop a call");
            }
        }
    }
    for call in wanted {
        let found = match &mut hop {
            Some(hop) => look(hop, call).await,
            None => Ok(nothing(inner, run, call)),
        };
        match found {
            Ok(found) => {
                if let Err(error) = inner.ledger.transact(Command::Found(Box::new(found))).await {
                    tracing::warn!(%run, %call, %error, "what a lookup found could not be stored");
                }
            }
            Err(out) => tracing::warn!(%run, %call, ?out, "a call of a stopping run could not be looked for"),
        }
    }
}

/// Calls in flight that the other side was not asked to stop yet.
fn unasked(rows: &Shown) -> Vec<CallId> {
    let Run { phase: Phase::Stopping { hop: None, .. }, .. } = &rows.run else { return Vec::new() };
    let asked = |call: &Call| {
        let mut of_call = rows.obligations.iter().filter(|row| row.subject == Subject::Call(call.id));
        of_call.any(|row| row.attempts > 0)
    };
    let open = rows.calls.iter().filter(|call| call.in_flight() && call.position.is_some() && !asked(call));
    open.map(|call| call.id).collect()
}

fn past_their_time(inner: &Inner, rows: &Shown) -> Vec<CallId> {
    let Run { phase: Phase::Stopping { hop: None, .. }, .. } = &rows.run else { return Vec::new() };
    let (beyond, now) = (inner.settings.beyond_tool_limit, inner.now());
    let looked_up = |call: &&Call| call.effect == Effect::Write && call.recovery == RecoveryClass::Lookup;
    let late = rows.calls.iter().filter(looked_up).filter(|call| call.is_over_time(beyond, now));
    late.map(|call| call.id).collect()
}

pub(super) fn nothing(inner: &Inner, run: RunId, call: CallId) -> Found {
    Found { run, call, by: None, outcome: None, patience: inner.settings.patience(), bodies: Vec::new() }
}

/// One lookup, by the same rules as those of a hop (C-235).
async fn look(hop: &mut Hop, id: CallId) -> Result<Found, Out> {
    let call = hop.call(id).clone();
    let pinned = hop.pinned.clone();
    let mut found = nothing(&hop.inner.clone(), hop.run.id, id);
    let Some((tool, filled)) = settle::looking_up(hop, &pinned.tools, &call).await? else { return Ok(found) };
    let own = settle::own_call(hop, tool, &filled);
    let by = own.id;
    hop.calls.insert(by, own.clone());
    let (judged, fixed) = broker::judge(hop, &own, &filled);
    let arguments = fixed.unwrap_or(filled);
    hop.call_mut(by).arguments = hop.keep(arguments.as_bytes());
    // As it was before its end: that is brought beside it.
    let entered = hop.call(by).clone();
    match judged {
        Judged::Allowed => {
            let said = ask(hop, id, by, &arguments).await;
            found.outcome = match said {
                Said::Known => ended(hop, id),
                Said::Pending | Said::Unknown | Said::Nothing => None,
            };
        }
        Judged::Denied { code, message } => super::outcome::deny(hop, by, code, &message, None::<()>),
        Judged::Ask(_) | Judged::Waits(_) | Judged::Delegates(_) => {
            let why = "a person would have to be asked for it";
            super::outcome::deny(hop, by, Code::PolicyDenied, why, None::<()>);
        }
    }
    found.by = ended(hop, by).map(|outcome| (entered, outcome));
    hop.pending.conclusions.clear();
    found.bodies = std::mem::take(&mut hop.pending.bodies);
    Ok(found)
}

async fn ask(hop: &mut Hop, id: CallId, by: CallId, arguments: &Canonical) -> Said {
    match place(hop, by).await {
        Ok(slot) => {
            let ended = call(hop, by, arguments, None, slot).await;
            settle::said(hop, id, by, ended)
        }
        Err((code, why)) => {
            super::outcome::deny(hop, by, code, &why, None::<()>);
            Said::Nothing
        }
    }
}

/// A place with the tool of the engine's own call, and a lease on what it needs. Nobody waits for hardware here: there is no
/// hop that could.
pub(super) async fn place(hop: &Hop, by: CallId) -> Result<Slot, (Code, String)> {
    let spec = &hop.pinned.tools[&hop.call(by).tool.name].spec;
    let slot = hop.inner.connectors.slot(spec).await;
    let Some(resource) = &spec.resource else { return Ok(slot) };
    match hop.inner.resources.lease(resource, hop.run.id).await {
        Ok(lease) => Ok(slot.with(Some(lease))),
        Err(_) => Err((Code::ResourceFailed, format!("resource '{resource}' is not warm"))),
    }
}

/// Makes the engine's own call.
pub(super) async fn call(hop: &Hop, by: CallId, arguments: &Canonical, key: Option<&str>, slot: Slot) -> Ended {
    let tool = &hop.pinned.tools[&hop.call(by).tool.name];
    let (spec, grant, cancel) = (&tool.spec, &tool.grant, CancellationToken::new());
    hop.inner.connectors.dispatch(Dispatch { spec, grant, arguments, key, cancel, slot }).await
}

pub(super) fn ended(hop: &Hop, id: CallId) -> Option<Outcome> {
    match &hop.call(id).state {
        State::Ended(outcome) => Some(outcome.clone()),
        _ => None,
    }
}
