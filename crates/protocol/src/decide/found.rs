//! Calls in flight whose hop is gone: asking the other side to stop them, and what became of them.

use super::{Cx, Decision, hop, settle, step};
use crate::call::{Call, Outcome};
use crate::code::Code;
use crate::command::{Answer, Found, StopAlone};
use crate::rows::{Change, Rows};
use crate::run::{Phase, Run};
use crate::tool::Effect;

/// Ends the call as the lookup found it, or makes it ambiguous and asks a person; the run ends with its last obligation.
/// Whoever comes too late, or before the call's time is over, changes nothing.
pub(super) fn found(found: Found, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    let settled = |change: &Change, changed| {
        let run = Box::new(change.run().clone());
        Answer::Settled { run, changed, repaired: false }
    };
    let mut change = Change::of(rows, cx.now);
    if !is_given_up(&change, &found, cx) {
        return Decision::stands(settled(&change, false));
    }
    for body in found.bodies {
        change.rows.run.budget.body_bytes += u64::from(body.body.len);
        change.bodies.push(body);
    }
    if let Some((own, outcome)) = found.by {
        let id = own.id;
        hop::enter_own(&mut change, own);
        step::conclude(&mut change, id, Outcome { at: outcome.at.min(cx.now), ..outcome });
    }
    match found.outcome {
        Some(outcome) => {
            let call = change.rows.calls.get(found.call).expect("looked at above");
            if let Err(refusal) = hop::check_end(&change, call, &outcome) {
                return refusal.into();
            }
            let (gate, at) = (call.gate().cloned(), outcome.at.min(cx.now));
            step::conclude(&mut change, found.call, Outcome { gate, at, ..outcome });
        }
        None => settle::unknown(&mut change, found.call, cx),
    }
    step::contain(&mut change, cx);
    let answer = settled(&change, true);
    Decision::done(change, answer)
}

/// The gate of a cancel tool, where no hop has the call any more. A hop that is still there asks itself.
pub(super) fn ask_to_stop(alone: StopAlone, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    if !is_hopless(&rows.run) {
        let detail = format!("{} is {} and its hop would ask", rows.run.id, rows.run.status());
        return Decision::stands(Answer::NotDispatched { code: Code::IllegalTransition, detail });
    }
    let mut change = Change::of(rows, cx.now);
    for body in alone.bodies {
        change.rows.run.budget.body_bytes += u64::from(body.body.len);
        change.bodies.push(body);
    }
    hop::ask_to_stop(change, alone.asked, cx)
}

fn is_hopless(run: &Run) -> bool {
    matches!(run.phase, Phase::Stopping { hop: None, .. })
}

/// A write in flight on a run that stops and has no hop: a cancel tool, of which who called it tells, or one past its time.
fn is_given_up(change: &Change, found: &Found, cx: &Cx<'_>) -> bool {
    let call = change.rows.calls.get(found.call).filter(|call| call.effect == Effect::Write && call.in_flight());
    let told = |call: &Call| call.position.is_none() && found.by.is_none();
    let beyond = found.patience.beyond_tool_limit;
    is_hopless(change.run()) && call.is_some_and(|call| told(call) || call.is_over_time(beyond, cx.now))
}
