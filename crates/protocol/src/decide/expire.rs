//! A wait whose time has come, found by a timer. The same judgement is made inside every decision, so
//! expiry does not depend on anybody looking.

use super::{Cx, Decision, step};
use crate::approval::{Kind, Status};
use crate::code::Code;
use crate::command::Answer;
use crate::digest::Digest;
use crate::event::{self, Facts};
use crate::fault::{Fault, planted};
use crate::id::{ApprovalId, WaitId};
use crate::policy::OnExpiry;
use crate::rows::{Change, Rows};
use crate::run::{Charge, Edge, Failure, Status as RunStatus, Stop};
use crate::wait::{Owner, Wait};

/// Ends the wait if it is open and due; else nothing happens.
pub(super) fn expire(wait: WaitId, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    let unchanged = |run| Answer::Settled { run: Box::new(run), changed: false, repaired: false };
    let Some(row) = rows.waits.get(wait) else { return Decision::stands(unchanged(rows.run)) };
    if !row.is_open() || row.due_at.is_none_or(|due| cx.now < due) {
        return Decision::stands(unchanged(rows.run));
    }
    let row = row.clone();
    let mut change = Change::of(rows, cx.now);
    // What expires with its run is no answer: the run ends by its own deadline.
    if change.run().status().is_parked() && change.run().deadline.is_some_and(|deadline| cx.now >= deadline) {
        fail_parked(&mut change, Failure::deadline(), cx);
    } else {
        end_due(&mut change, &row, cx);
    }
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Settled { run, changed: true, repaired: false })
}

/// Ends a wait that is due, and does what follows.
pub(super) fn end_due(change: &mut Change, row: &Wait, cx: &mut Cx<'_>) {
    let member = match row.owner {
        Owner::Timer(_) => {
            change.event(event::Kind::TimerFired, Facts::new().with("wait", row.id));
            step::end_wait(change, row.id, Digest::of(row.id.to_string()))
        }
        Owner::Approval(id) => lapse(change, id).unwrap_or(false),
        // A signal's wait is limited by a timer beside it, and a job knows its own time.
        Owner::Signal(_) | Owner::Job(_) => false,
    };
    after_end(change, &row.owner, member, None, cx);
}

/// `pending` becomes `expired`, by nobody's hand (C-151, C-175). A settle question never does (C-241).
///
/// The approval's wait ends with it; given is whether that was a member of the set on which the run is parked, or nothing
/// where the approval is not due.
pub(super) fn lapse(change: &mut Change, id: ApprovalId) -> Option<bool> {
    let now = change.now;
    let due = change
        .rows
        .approvals
        .get(id)
        .is_some_and(|a| a.is_pending() && a.kind() != Kind::Settle && a.expires_at.is_some_and(|at| now >= at));
    if !due || planted(Fault::ExpiryIgnored) {
        return None;
    }
    let row = change.rows.approvals.edit(id).expect("found above");
    row.status = Status::Expired { at: now };
    let wait = row.wait;
    change.event(event::Kind::ApprovalExpired, Facts::new().with("approval", id).with("wait", wait));
    Some(step::end_wait(change, wait, Digest::of(format!("{id} expired"))))
}

/// What follows the end of a wait: a parked run returns, or fails where the approval's rule says so (C-191).
pub(super) fn after_end(
    change: &mut Change,
    owner: &Owner,
    member: bool,
    taker: Option<crate::command::Taker>,
    cx: &mut Cx<'_>,
) {
    let expired_to_fail =
        match owner {
            Owner::Approval(id) => change.rows.approvals.get(*id).is_some_and(|a| {
                matches!(a.status, Status::Expired { .. }) && a.obligation.on_expiry == OnExpiry::Fail
            }),
            Owner::Timer(_) | Owner::Signal(_) | Owner::Job(_) => false,
        };
    if expired_to_fail && change.run().status().is_parked() {
        let Owner::Approval(id) = owner else { return };
        fail_parked(
            change,
            Failure {
                code: Code::ApprovalExpired,
                message: Code::ApprovalExpired.as_str().to_owned(),
                detail: crate::json::to_canonical(&[id.to_string()]).ok(),
            },
            cx,
        );
    } else if member {
        step::member_ended(change, taker, cx);
    }
}

/// E-15, with E-18 where nothing is left to stop.
pub(super) fn fail_parked(change: &mut Change, failure: Failure, cx: &mut Cx<'_>) {
    debug_assert!(change.run().status().is_parked() || change.run().status() == RunStatus::Queued);
    let edges = step::StopEdges::of_failure(Edge(15), None);
    step::stop(change, Stop::Fail(failure), edges, Charge::default(), cx);
}
