//! Removing a final run as a whole, once it was kept for as long as the operator wants.
//!
//! No event tells of it: the run's chain goes with it, and the store keeps the digest of its head. Invariant: nothing goes
//! for which somebody may still come, to clean up or to say what became of an effect.

use super::{Cx, Decision, Hold};
use crate::call::{Call, State};
use crate::command::Answer;
use crate::job::Job;
use crate::rows::{Change, Rows};
use std::time::Duration;

pub(super) fn remove(retention: Duration, rows: Box<Rows>, hold: Hold, cx: &Cx<'_>) -> Decision {
    let run = Box::new(rows.run.clone());
    if !may_go(&rows, hold, retention, cx) {
        return Decision::stands(Answer::Settled { run, changed: false, repaired: false });
    }
    let mut change = Change::of(rows, cx.now);
    change.removed = true;
    Decision::done(change, Answer::Settled { run, changed: true, repaired: false })
}

fn may_go(rows: &Rows, hold: Hold, retention: Duration, cx: &Cx<'_>) -> bool {
    let kept = rows.run.finished_at().is_some_and(|at| cx.now >= at + retention);
    let asked = rows.approvals.iter().any(|approval| approval.is_pending());
    let unasked = |call: &Call| matches!(call.state, State::Ambiguous(_)) && call.settle.is_none();
    let to_stop = rows.obligations.iter().any(|obligation| obligation.is_open());
    let runs = rows.jobs.iter().any(Job::may_run);
    kept && !runs && !hold.owes && !hold.newest && !asked && !to_stop && !rows.calls.iter().any(unasked)
}
