//! The dispatch gate of a cancel tool (C-22, C-234, C-235).
//!
//! Invariant: for one call in flight the other side is asked to stop at most once, however often whoever asks is killed:
//! that it was asked is written on the call's obligation in the commit of the gate. From then on the engine's call is a
//! call in flight like others, with an obligation of its own.

use super::{dispatch, progress};
use crate::call::{Applied, Call, Outcome, OutcomeStatus, State};
use crate::code::Code;
use crate::command::{Answer, AskToStop, StopGate};
use crate::decide::{Cx, Decision, rules, step};
use crate::digest::Digest;
use crate::event::{Facts, Kind};
use crate::id::CallId;
use crate::json::Canonical;
use crate::obligation::Subject;
use crate::policy::Judgement;
use crate::rows::Change;

/// Records the engine's call, as it goes or as it is denied. Where there is nothing to stop any more, nothing.
pub(in crate::decide) fn ask_to_stop(mut change: Change, asked: AskToStop, cx: &mut Cx<'_>) -> Decision {
    let AskToStop { call, by, gate } = asked;
    if let Err((code, detail)) = may_ask(&change, call) {
        return Decision::done(change, Answer::NotDispatched { code, detail });
    }
    let id = by.id;
    progress::enter_own(&mut change, Call { state: State::Entered, position: None, ..by });
    change.rows.obligations.edit(Subject::Call(call)).expect("looked at above").attempts += 1;
    let denied = match gate {
        StopGate::Pass { arguments, grant } => barred(&change, id, &arguments, grant, cx),
        StopGate::Denied(outcome) => {
            let code = outcome.code.unwrap_or(Code::PolicyDenied);
            step::conclude(&mut change, id, Outcome { at: outcome.at.min(cx.now), ..outcome });
            let detail = "the broker denied it".to_owned();
            return Decision::done(change, Answer::NotDispatched { code, detail });
        }
    };
    let Some((code, detail)) = denied else {
        dispatch::pass(&mut change, id);
        step::open(&mut change, Subject::Call(id));
        return Decision::done(change, Answer::Dispatched { attempt: 1 });
    };
    change.event(Kind::AttemptRefused, Facts::new().with("call", id).with("code", code.as_str()));
    let outcome = Outcome {
        status: OutcomeStatus::Denied,
        code: Some(code),
        applied: Applied::No,
        body: None,
        gate: None,
        at: cx.now,
    };
    step::conclude(&mut change, id, outcome);
    Decision::done(change, Answer::NotDispatched { code, detail })
}

/// The call is in flight and the other side was not asked yet.
fn may_ask(change: &Change, id: CallId) -> Result<(), (Code, String)> {
    if !change.rows.calls.get(id).is_some_and(Call::in_flight) {
        return Err((Code::AlreadyCompleted, format!("{id} is not in flight")));
    }
    match change.rows.obligations.get(Subject::Call(id)) {
        Some(obligation) if obligation.attempts == 0 => Ok(()),
        Some(_) => Err((Code::AlreadyDispatched, format!("the other side was asked to stop {id} already"))),
        None => Err((Code::IllegalTransition, format!("{} is not stopping", change.run().id))),
    }
}

/// What the gate of any call looks at, with the policy as it is now. Nobody is asked for it (C-235).
fn barred(change: &Change, id: CallId, arguments: &Canonical, grant: Digest, cx: &Cx<'_>) -> Option<(Code, String)> {
    let (run, call) = (change.run(), change.rows.calls.get(id)?);
    let digest = Digest::of(arguments.as_bytes());
    if digest != call.arguments.digest {
        return Some((Code::DigestMismatch, format!("{digest} is to be dispatched")));
    }
    dispatch::authority(run, call, grant, cx).or_else(|| match rules::judge(cx, run, call, arguments) {
        Judgement::Allow => None,
        Judgement::Deny { reason } => Some((Code::PolicyDenied, reason)),
        Judgement::Ask(_) => Some((Code::PolicyDenied, "a person would have to be asked for it".to_owned())),
    })
}
