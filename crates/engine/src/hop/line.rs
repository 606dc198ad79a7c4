//! The line for a place with a tool (C-250).
//!
//! A call waits in it beside everything else that its turn does: handlers of the same turn may hold the very places it
//! waits for. Nothing of the call has started while it is here, and leaving the line leaves nothing behind.

use super::drive::Drive;
use super::gate;
use super::settle;
use super::state::{Hop, Out};
use crate::tools::Slot;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use protocol::id::CallId;
use protocol::json::Canonical;

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
}

/// Gets in line for a place with `tool`.
pub(super) fn enter(hop: &Hop, drive: &mut Drive, id: CallId, tool: &str, errand: Errand) {
    let (pinned, connectors) = (hop.pinned.clone(), hop.inner.connectors.clone());
    let name = tool.to_owned();
    drive.busy.insert(id);
    drive.line.push(Box::pin(async move {
        let slot = connectors.slot(&pinned.tools[&name].spec).await;
        (id, errand, slot)
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
    match errand {
        Errand::Start { arguments } => gate::pass(hop, drive, id, arguments, slot).await,
        Errand::Again => settle::make_attempt(hop, drive, id, slot).await,
        Errand::Lookup { by, arguments } => {
            settle::look(hop, drive, id, by, arguments, slot);
            Ok(())
        }
    }
}
