//! Calls and effects as the wire shows them (I-24, I-30).

use super::run::{applied, code, outcome};
use api::call::{CallState, EffectItem};
use api::{Call, Json};
use protocol::call::State;
use protocol::call::{self};
use protocol::id::ReceiptId;

/// The bodies of one call.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    pub(crate) arguments: Json,
    /// The result if it is ok, else what was told of the refusal or error.
    pub(crate) outcome: Option<Json>,
    /// What the last attempt saw, where the outcome is unknown.
    pub(crate) seen: Option<String>,
}

/// Draws a call; without bodies where they are withheld (C-282).
pub(crate) fn call(row: &call::Call, bodies: Option<Bodies>, receipt: Option<ReceiptId>) -> Call {
    let withheld = bodies.is_none();
    let (arguments, told, seen) = match bodies {
        Some(Bodies { arguments, outcome, seen }) => (Some(arguments), outcome, seen),
        None => (None, None, None),
    };
    let ok = row.outcome().is_some_and(|outcome| outcome.status == call::OutcomeStatus::Ok);
    let (result, detail) = if ok { (told, None) } else { (None, told) };
    Call {
        id: row.id,
        run: row.run,
        identity: row.whole_id(),
        parent: None,
        tool: row.tool.name.clone(),
        tool_version: row.tool.version.clone(),
        effect: row.effect.into(),
        state: state(row),
        withheld,
        arguments,
        arguments_digest: row.arguments.digest,
        asked_arguments_digest: row.asked,
        approval: row.settle.or(row.approval),
        outcome: outcome(row),
        applied: applied(row),
        code: code(row),
        detail,
        seen,
        result,
        attempts: row.gate().map_or(0, |gate| u32::from(gate.attempt)),
        receipt: receipt.map(|receipt| receipt.to_string()),
        created_at: row.at,
        gate_at: row.gate().map(|gate| gate.at),
        completed_at: row.outcome().map(|outcome| outcome.at),
    }
}

/// A `write` in the list of effects.
pub(crate) fn item(
    row: &call::Call,
    workflow: &str,
    arguments: Option<Json>,
    receipt: Option<ReceiptId>,
) -> EffectItem {
    EffectItem {
        call: row.id,
        run: row.run,
        workflow: workflow.to_owned(),
        identity: row.whole_id(),
        tool: row.tool.name.clone(),
        tool_version: row.tool.version.clone(),
        state: state(row),
        withheld: arguments.is_none(),
        arguments,
        arguments_digest: row.arguments.digest,
        outcome: outcome(row),
        applied: applied(row),
        code: code(row),
        approval: row.settle,
        receipt: receipt.map(|receipt| receipt.to_string()),
        gate_at: row.gate().map(|gate| gate.at),
        completed_at: row.outcome().map(|outcome| outcome.at),
    }
}

pub(crate) const fn state(row: &call::Call) -> CallState {
    match row.state {
        State::Entered => CallState::Intended,
        State::Asked => CallState::Asked,
        State::Dispatched(_) => CallState::Dispatched,
        State::Ambiguous(_) => CallState::Ambiguous,
        State::Ended(_) => CallState::Ended,
    }
}
