//! The line for a place with a tool (C-250), and for a lease on what it needs (C-82).
//!
//! A call waits in it beside everything else that its turn does: handlers of the same turn may hold the very places it
//! waits for. Nothing of the call has started while it is here, and leaving the line leaves nothing behind. A lease is asked
//! for once the place is there, so that who waits for a place holds up no drain.

use super::drive::Drive;
use super::gate;
use super::hold;
use super::settle;
use super::state::{Hop, Out};
use super::stop;
use crate::resources::Lease;
use crate::tools::Slot;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use protocol::id::CallId;
use protocol::json::Canonical;
use protocol::resource::Unleased;

/// Calls in line.
pub(super) type Line = FuturesUnordered<BoxFuture<'static, (CallId, Errand, Slot)>>;

/// What a place is wanted for.
pub(super) enum Errand {
    /// The first start of a call, through its dispatch gate.
    Start { arguments: Canonical },
    /// Another start with the same key and bytes.
    Again,
    /// The engine's own call `by`, which finds out what became of the call in line.
    Lookup { by: CallId, arguments: Canonical },
    /// The engine's own call `by`, which asks the other side to stop the call in line.
    Stop { by: CallId, arguments: Canonical },
}

impl Errand {
    /// The call whose handler is to run.
    fn handles(&self, call: CallId) -> CallId {
        match self {
            Errand::Start { .. } | Errand::Again => call,
            Errand::Lookup { by, .. } | Errand::Stop { by, .. } => *by,
        }
    }
}

/// Gets in line for a place with the tool of the errand; with a lease, if it has one already.
pub(super) fn enter(hop: &Hop, drive: &mut Drive, id: CallId, errand: Errand, lease: Option<Lease>) {
    let (pinned, connectors) = (hop.pinned.clone(), hop.inner.connectors.clone());
    let name = hop.call(errand.handles(id)).tool.name.clone();
    drive.busy.insert(id);
    drive.line.push(Box::pin(async move {
        let slot = connectors.slot(&pinned.tools[&name].spec).await;
        (id, errand, slot.with(lease))
    }));
}

/// A place is there.
pub(super) async fn served(
    hop: &mut Hop,
    drive: &mut Drive,
    id: CallId,
    errand: Errand,
    slot: Slot,
) -> Result<(), Out> {
    if drive.holding.is_on() {
        drive.busy.insert(id);
        drive.holding.postpone(id, errand);
        return Ok(());
    }
    let tool = &hop.call(errand.handles(id)).tool.name;
    let wanted = hop.pinned.tools[tool].spec.resource.clone();
    let Some(resource) = wanted.filter(|_| !slot.has_lease()) else { return run(hop, drive, id, errand, slot).await };
    if let Some((_, lease)) = hop.warm.take_if(|(name, _)| *name == resource) {
        return run(hop, drive, id, errand, slot.with(Some(lease))).await;
    }
    match hop.inner.resources.lease(&resource, hop.run.id).await {
        Ok(lease) => run(hop, drive, id, errand, slot.with(Some(lease))).await,
        Err(Unleased::Refused(refused)) => settle::barred(hop, id, errand, refused.failure(&resource)).await,
        // Nothing is begun any more for a hop that stops, and a wait would be one.
        Err(_) if hop.live.stopped().is_some() => {
            let refused = protocol::resource::Refused::Failed("it is not warm".to_owned());
            settle::given_up(hop, id, errand, refused.failure(&resource)).await
        }
        Err(_) if !hop.run.kind.is_journaled() => {
            settle::put_off(hop, errand);
            drive.busy.insert(id);
            drive.cold.get_or_insert(resource);
            Ok(())
        }
        Err(_) => {
            drop(slot);
            hold::begin(hop, drive, id, errand, resource).await
        }
    }
}

async fn run(hop: &mut Hop, drive: &mut Drive, id: CallId, errand: Errand, slot: Slot) -> Result<(), Out> {
    match errand {
        Errand::Start { arguments } => gate::pass(hop, drive, id, arguments, slot).await,
        Errand::Again => settle::make_attempt(hop, drive, id, slot).await,
        Errand::Lookup { by, arguments } => {
            settle::look(hop, drive, id, by, arguments, slot);
            Ok(())
        }
        Errand::Stop { by, arguments } => stop::dispatch(hop, drive, id, by, arguments, slot).await,
    }
}
