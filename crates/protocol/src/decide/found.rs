//! What a lookup says of a call in flight, once the hop that made it is gone.

use super::{Cx, Decision, hop, settle, step};
use crate::call::Outcome;
use crate::command::{Answer, Found};
use crate::rows::{Change, Rows};
use crate::run::Phase;
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

/// A write past its time, on a run that stops and has no hop.
fn is_given_up(change: &Change, found: &Found, cx: &Cx<'_>) -> bool {
    let hopless = matches!(change.run().phase, Phase::Stopping { hop: None, .. });
    let call = change.rows.calls.get(found.call).filter(|call| call.effect == Effect::Write);
    hopless && call.is_some_and(|call| call.is_over_time(found.patience.beyond_tool_limit, cx.now))
}
