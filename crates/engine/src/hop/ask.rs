//! Asking a person about a call, and reading what the call names for it (calls.md sections 7 and 10.1).
//!
//! Invariant: what the content of a call's operands was when it was asked is part of the question, and it is read again
//! right before the dispatch gate (C-142, C-109). Content is read beside everything else that the turn does.

use super::drive::{self, Done, Drive};
use super::gate;
use super::outcome::deny;
use super::state::{Hop, Out};
use crate::broker::{self, Judged, Wanted};
use crate::tools::{Content, Slot};
use protocol::call::State;
use protocol::code::Code;
use protocol::command::Ask;
use protocol::id::CallId;
use protocol::json::Canonical;

/// What was read, and for what.
pub(super) struct Read {
    contents: Vec<Content>,
    then: Then,
}

enum Then {
    Ask,
    /// The gate is next, with a place taken.
    Gate {
        arguments: Canonical,
        slot: Slot,
    },
}

/// Publishes the question with the next commit (step 12), once what the call names is read.
pub(super) async fn ask(hop: &mut Hop, drive: &mut Drive, id: CallId, wanted: Box<Wanted>) -> Result<(), Out> {
    if names_content(hop, id) && !drive.contents.contains_key(&id) {
        let arguments = drive::arguments(hop, id).await?;
        drive.judged.insert(id, Judged::Ask(wanted));
        read(hop, drive, id, arguments, Then::Ask);
        return Ok(());
    }
    let operands = match Content::pinned(drive.contents.remove(&id).unwrap_or_default()) {
        Ok(operands) => operands,
        Err(why) => {
            deny(hop, id, Code::OperandUnavailable, &why, None::<()>);
            return Ok(());
        }
    };
    if let Err(refused) = may_ask(hop, &wanted).await {
        refused.deny(hop, id);
        return Ok(());
    }
    let ask = question(hop, id, *wanted);
    let call = hop.call_mut(id);
    call.approval = Some(ask.id);
    call.state = State::Asked;
    hop.pending.asks.push(Ask { operands, ..ask });
    Ok(())
}

/// Why nobody is asked.
pub(super) enum NotAsked {
    Nobody(String),
    Full(broker::Full),
}

impl NotAsked {
    pub(super) fn deny(self, hop: &mut Hop, id: CallId) {
        match self {
            NotAsked::Nobody(message) => deny(hop, id, Code::NoApprover, &message, None::<()>),
            NotAsked::Full(full) => deny(hop, id, Code::ApprovalUnavailable, &full.message, Some(full.detail)),
        }
    }
}

/// Whether somebody could decide it, and there is room for one more (step 12).
pub(super) async fn may_ask(hop: &Hop, wanted: &Wanted) -> Result<(), NotAsked> {
    broker::decider(hop, &wanted.obligation).map_err(NotAsked::Nobody)?;
    broker::room(hop).await.map_err(NotAsked::Full)
}

/// A question, still to be published.
pub(super) fn question(hop: &mut Hop, call: CallId, wanted: Wanted) -> Ask {
    let Wanted { kind, obligation, claim, form, unrenderable } = wanted;
    Ask {
        id: hop.ids.mint(),
        wait: hop.ids.mint(),
        call,
        kind,
        obligation: obligation.into(),
        policy: hop.inner.ledger.registry().policy_version,
        claim: claim.map(|text| hop.keep(text.as_bytes())),
        form: form.map(|form| hop.keep(form.as_bytes())),
        unrenderable,
        operands: Vec::new(),
        member: None,
    }
}

/// Whether the tool of this call has arguments that name content.
pub(super) fn names_content(hop: &Hop, id: CallId) -> bool {
    hop.pinned.tools.get(&hop.call(id).tool.name).is_some_and(|tool| !tool.spec.operands.is_empty())
}

/// Reads what a call with a place names, for its gate.
pub(super) fn read_again(hop: &Hop, drive: &mut Drive, id: CallId, arguments: Canonical, slot: Slot) {
    read(hop, drive, id, arguments.clone(), Then::Gate { arguments, slot });
}

fn read(hop: &Hop, drive: &mut Drive, id: CallId, arguments: Canonical, then: Then) {
    let (pinned, connectors) = (hop.pinned.clone(), hop.inner.connectors.clone());
    let (name, enough) = (hop.call(id).tool.name.clone(), drive.reading.clone());
    drive.busy.insert(id);
    drive.work.push(Box::pin(async move {
        let tool = &pinned.tools[&name];
        let contents = enough.run_until_cancelled(connectors.contents(&tool.spec, &tool.grant, &arguments)).await;
        (id, Done::Read(Read { contents: contents.unwrap_or_default(), then }))
    }));
}

/// Goes on with what the content was read for. At the gate, content that cannot be read is not what was approved.
pub(super) async fn done(hop: &mut Hop, drive: &mut Drive, id: CallId, read: Read) -> Result<(), Out> {
    match read.then {
        Then::Ask => {
            drive.contents.insert(id, read.contents);
            Ok(())
        }
        Then::Gate { arguments, slot } => {
            gate::dispatch(hop, drive, id, arguments, Content::found(read.contents), slot).await
        }
    }
}
