//! E-3: a worker takes a hop (runs.md section 5).

use super::{Cx, Decision, step};
use crate::code::Code;
use crate::command::{Answer, Claim};
use crate::delivery::State;
use crate::fault::{Fault, planted};
use crate::pause;
use crate::refusal::Refusal;
use crate::rows::{Change, Rows};

/// Of any number of claims of one hop exactly one wins; the others are `skipped` without a side effect.
pub(super) fn claim(claim: Claim, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    let run = &rows.run;
    let claimable = run.delivery().is_some_and(|d| matches!(d.state, State::Pending | State::Published));
    let of_this_hop = run.seq == claim.seq || planted(Fault::OldMessageClaims);
    if !of_this_hop || !claimable {
        let detail = format!("{} is {} at hop {}", run.id, run.status(), run.seq);
        return Refusal::new(Code::Skipped, detail).into();
    }
    if run.deadline.is_some_and(|deadline| cx.now >= deadline) {
        return Refusal::new(Code::NotNow, format!("the deadline of {} has passed", run.id)).into();
    }
    let pauses = pause::over(run, cx.registry);
    if !pauses.is_empty() {
        return Refusal::new(Code::NotNow, pause::told(&pauses)).into();
    }
    if let Some(why) = claim.taker.able.lacks(run, cx.registry) {
        let detail = format!("this worker cannot run {}@{}: {why}", run.pattern.key, run.pattern.revision);
        return Refusal::new(Code::NotNow, detail).into();
    }
    let mut change = Change::of(rows, cx.now);
    step::charge_queue(&mut change, cx);
    step::take(&mut change, claim.taker);
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Claimed { run })
}
