//! Ambiguous calls, and the question that settles them (calls.md section 12).
//!
//! Owns: how a call becomes ambiguous, who is asked what became of it, and what the answer makes of it. Invariant: a call
//! whose outcome no key, lookup or hop will find any more has its question, also on a run that has ended.

use super::{Cx, hop, step};
use crate::approval::{self, Approval, Kind, Verdict};
use crate::call::{Applied, Call, Gate, Outcome, OutcomeStatus, ReceiptFacts, ReceiptOutcome, State};
use crate::code::Code;
use crate::command::Ask;
use crate::digest::Digest;
use crate::event::{self, Facts};
use crate::id::CallId;
use crate::obligation::Subject;
use crate::policy::{Edit, Obligation, ReasonRule, Terms};
use crate::refusal::Refusal;
use crate::rows::Change;
use crate::tool::Effect;
use std::sync::Arc;

/// Records a call in flight as ambiguous (C-121), with its receipt. A later attempt of an ambiguous call that was not
/// answered either leaves what it saw.
pub(super) fn ambiguous(change: &mut Change, id: CallId, seen: Option<Digest>) {
    let row = change.rows.calls.get(id).expect("ambiguous calls are loaded").clone();
    let State::Dispatched(gate) = &row.state else {
        if let State::Ambiguous(gate) = &row.state
            && seen.is_some()
        {
            change.event(event::Kind::CallAmbiguous, unanswered(&row, gate, seen));
        }
        return;
    };
    let facts = ReceiptFacts {
        hop: change.run().seq,
        outcome: ReceiptOutcome::Ambiguous,
        code: None,
        applied: Applied::Unknown,
        result: None,
        policy: step::asked_under(change, &row),
        gate_at: Some(gate.at),
        attempt: gate.attempt,
        ended_at: change.now,
        settles: None,
    };
    let digest = change.receipt(id, &facts);
    if let Some(approval) = row.approval {
        step::end_yes(change, approval, approval::Ending::Ambiguous);
    }
    change.event(event::Kind::CallAmbiguous, unanswered(&row, gate, seen));
    let gate = gate.clone();
    let row = change.rows.calls.edit(id).expect("loaded above");
    row.state = State::Ambiguous(gate);
    row.receipt = Some(digest);
    step::acknowledge(change, Subject::Call(id), "ambiguous");
}

/// An attempt without a definite answer. What it saw is a body of the run: text of the other side is no part of the chain.
fn unanswered(row: &Call, gate: &Gate, seen: Option<Digest>) -> Facts {
    let facts = Facts::new().with("call", row.id).with("tool", &row.tool.name).number("attempt", gate.attempt);
    facts.maybe("seen_digest", seen)
}

/// A call that nobody will tell about any more becomes ambiguous, and a person is asked.
pub(super) fn unknown(change: &mut Change, id: CallId, cx: &mut Cx<'_>) {
    ambiguous(change, id, None);
    // A full wait set is no reason to guess; the call stays ambiguous and is listed as such.
    let _ = ask(change, id, cx);
}

/// Calls of writes in flight become ambiguous; those that `asks` picks get a question. Gives how many were asked.
pub(super) fn unknown_outcomes(change: &mut Change, cx: &mut Cx<'_>, asks: impl Fn(&Call) -> bool) -> usize {
    let mut asked = 0;
    for id in change.rows.calls.keys(|c| c.in_flight() && c.effect == Effect::Write) {
        ambiguous(change, id, None);
        if asks(change.rows.calls.get(id).expect("listed above")) && ask(change, id, cx).is_ok() {
            asked += 1;
        }
    }
    asked
}

/// Publishes the question what became of an ambiguous call (C-237). It may be asked on a run that is stopping; nothing
/// waits for it there.
pub(super) fn ask(change: &mut Change, id: CallId, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let call = change.rows.calls.get(id).expect("the caller has it");
    let question = call.approval.and_then(|approval| change.rows.approvals.get(approval));
    let default = Terms::default().resolve(change.run().settings.separate_requester);
    let ask = Ask {
        id: cx.ids.mint(),
        wait: cx.ids.mint(),
        call: id,
        kind: Kind::Settle,
        obligation: Arc::new(rule(question, default)),
        policy: cx.registry.policy_version,
        claim: None,
        form: None,
        unrenderable: false,
        operands: Vec::new(),
        member: None,
    };
    let wait = ask.wait;
    hop::publish(change, ask, cx)?;
    if change.run().status().is_stopping() {
        change.rows.waits.remove(wait);
    }
    Ok(())
}

/// At a failed or cancelled end no hop tries keys and lookups any more: what is still unknown is asked.
pub(super) fn ask_what_is_left(change: &mut Change, cx: &mut Cx<'_>) {
    for id in change.rows.calls.keys(|c| matches!(c.state, State::Ambiguous(_)) && c.settle.is_none()) {
        // A full wait set is no reason to guess; the call stays ambiguous and is listed as such.
        let _ = ask(change, id, cx);
    }
}

/// Who may decide the call may say what became of it, alone, with a reason (C-240).
fn rule(asked: Option<&Approval>, default: Obligation) -> Obligation {
    let base = asked.map_or(default, |approval| (*approval.obligation).clone());
    Obligation { quorum: 1, reject_quorum: 1, reason: ReasonRule::Always, edit: Edit::No, ..base }
}

/// The person found out what became of the effect: the call ends, or stays unknown for ever (C-238).
pub(super) fn answered(change: &mut Change, approval: &Approval, verdict: Verdict) {
    let (status, code, applied, body) = match verdict {
        Verdict::Happened => (OutcomeStatus::Ok, None, Applied::Yes, approval.answer),
        Verdict::DidNotHappen => (OutcomeStatus::Error, Some(Code::EffectNotExecuted), Applied::No, None),
        // Given up: the call stays ambiguous, and the hop that reads it fails the run.
        Verdict::GiveUp | Verdict::Approve | Verdict::Reject | Verdict::Abstain => return,
    };
    let Some(call) = change.rows.calls.get(approval.call) else { return };
    let outcome = Outcome { status, code, applied, body, gate: call.gate().cloned(), at: change.now };
    step::conclude_keeping_waits(change, approval.call, outcome);
}
