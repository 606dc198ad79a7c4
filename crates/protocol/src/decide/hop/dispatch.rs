//! The dispatch gate (calls.md section 8): the one point after which a tool's handler may start.
//!
//! Invariant: recording the gate is the linearization point (C-112). Before it the handler never started, and a cancel
//! or an expiry means that it never will; after it they change nothing about the call.

use crate::approval::{self, Approval, Ending};
use crate::call::{Call, Gate, State};
use crate::code::Code;
use crate::command::Answer;
use crate::decide::{Cx, Decision, rules, step};
use crate::digest::Digest;
use crate::event::{Facts, Kind};
use crate::fault::{Fault, planted};
use crate::id::CallId;
use crate::json::Canonical;
use crate::pause;
use crate::policy::Judgement;
use crate::refusal::Refusal;
use crate::rows::Change;
use crate::run::{Phase, Run, Status};

/// Why a call does not pass.
enum Stop {
    /// Nothing is written: an old or double attempt (C-104, C-106).
    Refused(Refusal),
    /// It waits, and nothing is recorded (C-105).
    Waits(String),
    /// No dispatch ever, or asked anew; recorded on the approval, if there is one.
    Closed { code: Code, detail: String, how: Ending },
}

/// Makes the checks of C-104 to C-111 in order and records the gate (C-103). The token was checked with the hop.
pub(super) fn dispatch(
    mut change: Change,
    id: CallId,
    arguments: Canonical,
    operands: Vec<(String, Digest)>,
    grant: Digest,
    cx: &mut Cx<'_>,
) -> Decision {
    match check(&change, id, &arguments, &operands, grant, cx) {
        Ok(()) => {}
        Err(Stop::Refused(refusal)) => return refusal.into(),
        Err(Stop::Waits(detail)) => {
            return Decision::done(change, Answer::NotDispatched { code: Code::RunPaused, detail });
        }
        Err(Stop::Closed { code, detail, how }) => {
            if let Some(approval) = change.rows.calls.get(id).and_then(|c| c.approval) {
                step::end_yes(&mut change, approval, how);
            }
            let facts = Facts::new().with("call", id).with("code", code.as_str());
            change.event(Kind::AttemptRefused, facts);
            return Decision::done(change, Answer::NotDispatched { code, detail });
        }
    }
    pass(&mut change, id);
    Decision::done(change, Answer::Dispatched { attempt: 1 })
}

pub(super) fn pass(change: &mut Change, id: CallId) {
    let now = change.now;
    let token = change.run().fence;
    let row = change.rows.calls.edit(id).expect("checked");
    row.state = State::Dispatched(Gate { attempt: 1, at: now, token });
    let facts = Facts::new()
        .with("call", id)
        .number("attempt", 1_u8)
        .with("tool", &row.tool.name)
        .with("arguments_digest", row.arguments.digest);
    let (approval, facts) = match row.approval {
        Some(approval) => (Some(approval), facts.with("approval", approval)),
        None => (None, facts),
    };
    if let Some(approval) = approval.and_then(|a| change.rows.approvals.edit(a)) {
        if let approval::Status::Approved { phase, .. } = &mut approval.status {
            *phase = approval::Phase::Gated { at: now };
        }
        let wait = approval.wait;
        change.rows.waits.remove(wait);
    }
    change.event(Kind::CallDispatched, facts);
}

fn check(
    change: &Change,
    id: CallId,
    arguments: &Canonical,
    operands: &[(String, Digest)],
    grant: Digest,
    cx: &Cx<'_>,
) -> Result<(), Stop> {
    let run = change.run();
    let refused = |code, detail: String| Stop::Refused(Refusal::new(code, detail));
    alive(run, cx)?;
    let pauses = pause::over(run, cx.registry);
    if !pauses.is_empty() {
        return Err(Stop::Waits(pause::told(&pauses)));
    }
    let Some(call) = change.rows.calls.get(id) else {
        return Err(refused(Code::AlreadyCompleted, format!("{id} has its outcome already")));
    };
    let question = match call.approval {
        None => None,
        Some(approval) => Some(
            change
                .rows
                .approvals
                .get(approval)
                .ok_or_else(|| refused(Code::NotApproved, format!("{approval} is not open")))?,
        ),
    };
    single_use(call, question)?;
    let closed = |code: Code, detail: String, how| Err(Stop::Closed { code, detail, how });
    if let Some(approval::Status::Approved { valid_until: Some(until), .. }) = question.map(|a| &a.status)
        && cx.now >= *until
    {
        let detail = format!("the approval was valid until {}", until.second());
        return closed(Code::ExpiredBeforeDispatch, detail, Ending::ExpiredBeforeDispatch);
    }
    let invalid = |code: Code, detail: String| closed(code, detail, Ending::InvalidatedBeforeDispatch(code));
    let digest = Digest::of(arguments.as_bytes());
    let bound = question.is_none_or(|a| {
        a.binding.arguments == digest
            && a.binding.digest() == a.binding_digest
            && a.binding.tool_digest == call.tool.digest
            && a.binding.plan == run.plan
            && a.binding.call == call.identity.text(run.id)
    });
    if (digest != call.arguments.digest || !bound) && !planted(Fault::BytesNotCompared) {
        let detail = format!("{digest} is to be dispatched, {} was approved", call.arguments.digest);
        return invalid(Code::DigestMismatch, detail);
    }
    if let Some(approval) = question
        && let Some((pointer, _)) = approval.binding.operands.iter().find(|o| !operands.contains(o))
    {
        let detail = format!("the content named by `{pointer}` is not what was approved");
        return invalid(Code::OperandChanged, detail);
    }
    if let Some((code, detail)) = authority(run, call, grant, cx) {
        return invalid(code, detail);
    }
    match rules::judge(cx, run, call, arguments) {
        Judgement::Deny { reason } => invalid(Code::PolicyDenied, reason),
        Judgement::Ask(now) if !question.is_some_and(|a| rules::meets(cx, a, &now)) => {
            let detail = "the policy now asks for more than the recorded votes give".to_owned();
            invalid(Code::PolicyChanged, detail)
        }
        Judgement::Ask(_) | Judgement::Allow => Ok(()),
    }
}

/// The claim has not lapsed and the run is RUNNING.
fn alive(run: &Run, cx: &Cx<'_>) -> Result<(), Stop> {
    match &run.phase {
        Phase::Active { claim, hardware: false } if cx.now < claim.deadline => Ok(()),
        Phase::Active { hardware: false, .. } => Err(Stop::Refused(super::stale_claim(run))),
        _ => Err(Stop::Refused(super::illegal(run, Status::Running))),
    }
}

/// One approval passes the gate at most once (C-117), one call too.
fn single_use(call: &Call, question: Option<&Approval>) -> Result<(), Stop> {
    let refused = |code, detail: String| Err(Stop::Refused(Refusal::new(code, detail)));
    match call.state {
        State::Dispatched(_) | State::Ambiguous(_) => {
            return refused(Code::AlreadyDispatched, format!("{} was dispatched already", call.id));
        }
        State::Ended(_) => {
            return refused(Code::AlreadyCompleted, format!("{} has its outcome already", call.id));
        }
        State::Entered | State::Asked => {}
    }
    match question.map(|a| (&a.status, a.id)) {
        _ if planted(Fault::GateWithoutYes) => Ok(()),
        None if call.state == State::Asked => refused(Code::NotApproved, format!("{} waits for its approval", call.id)),
        None => Ok(()),
        Some((approval::Status::Approved { phase: approval::Phase::Open, .. }, _)) => Ok(()),
        Some((approval::Status::Approved { .. }, id)) => {
            refused(Code::AlreadyDispatched, format!("{id} was used already"))
        }
        Some((status, id)) => refused(Code::NotApproved, format!("{id} is {}", status.as_str())),
    }
}

/// C-110: plan, grant and tool as they are now.
pub(super) fn authority(run: &Run, call: &Call, grant: Digest, cx: &Cx<'_>) -> Option<(Code, String)> {
    if run.settings.not_after.is_some_and(|end| cx.now >= end) {
        return Some((Code::AuthorityUnavailable, "authority unavailable: expired".to_owned()));
    }
    if cx.registry.revoked_grants.contains(&grant) {
        return Some((Code::AuthorityUnavailable, "authority unavailable: revoked".to_owned()));
    }
    let name = &call.tool.name;
    match cx.registry.tools.get(name).and_then(|versions| versions.get(&call.tool.version)) {
        // Built-in tools are part of the runtime and stand in no registry.
        None if crate::builtin::spec(name).is_some() => None,
        None => Some((Code::ToolUnavailable, format!("{name} is not registered"))),
        Some(tool) if tool.withdrawn.is_some() => Some((Code::ToolUnavailable, format!("{name} was withdrawn"))),
        Some(tool) if tool.digest != call.tool.digest => {
            Some((Code::ToolChanged, format!("{name} is now another tool; fresh consent is required")))
        }
        Some(_) => None,
    }
}
