//! Giving a question more time (C-158, C-192): a recorded act of somebody who may decide it, and counts as no vote.

use super::approval::{answer, closed, expired, may_decide, refused_attempt, unknown};
use super::{Cx, Decision, expire};
use crate::approval::{Approval, Kind};
use crate::code::Code;
use crate::command::Extend;
use crate::event::{self, Facts};
use crate::limits::APPROVAL_LEASE_MAX;
use crate::refusal::Refusal;
use crate::rows::{Change, Rows};
use crate::time::Time;
use crate::wait::Owner;

pub(super) fn extend(extend: Extend, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    let Some(approval) = rows.approvals.get(extend.approval).cloned() else {
        return unknown(extend.approval).into();
    };
    if rows.run.namespace != extend.by.principal.namespace {
        return unknown(extend.approval).into();
    }
    if let Err(refusal) = may_decide(&approval, &extend.by).and_then(|()| not_own(&approval, &extend)) {
        return refuse(Change::of(rows, cx.now), &extend, refusal);
    }
    let mut change = Change::of(rows, cx.now);
    if let Some(member) = expire::lapse(&mut change, approval.id) {
        expire::after_end(&mut change, &Owner::Approval(approval.id), member, None, cx);
        return refuse(change, &extend, expired(&approval));
    }
    if let Some(refusal) = closed(&approval) {
        return refuse(change, &extend, refusal);
    }
    if approval.expires_at == Some(extend.until) {
        return answer(change, approval.id, false);
    }
    if let Err(refusal) = allowed(&change, &approval, extend.until) {
        return refusal.into();
    }
    move_to(&mut change, &approval, extend);
    answer(change, approval.id, true)
}

/// Whoever asked does not keep the own question open, whatever the rule lets them decide (C-192).
fn not_own(approval: &Approval, extend: &Extend) -> Result<(), Refusal> {
    let person = &extend.by.principal.id;
    if !approval.binding.is_asked_by(person) {
        return Ok(());
    }
    let detail = format!("{person} asked for this and cannot keep the question open");
    Err(Refusal::new(Code::SelfApprovalForbidden, detail).hint("somebody else among those who may decide has to"))
}

/// Later than now, within 400 days of the question, and never beyond the end of its run (C-192, C-194).
fn allowed(change: &Change, approval: &Approval, until: Time) -> Result<(), Refusal> {
    let refused = |detail: String, hint: String| Err(Refusal::new(Code::InvalidRequest, detail).hint(hint));
    let Some(expires_at) = approval.expires_at.filter(|_| approval.kind() != Kind::Settle) else {
        return refused("this question does not expire".to_owned(), "it stays open by itself".to_owned());
    };
    if until < expires_at {
        let detail = format!("`until` is {}, and the question is open until {}", until.second(), expires_at.second());
        return refused(detail, "an expiry is only moved to a later time".to_owned());
    }
    let longest = approval.binding.created_at + APPROVAL_LEASE_MAX;
    let latest = change.run().deadline.map_or(longest, |deadline| deadline.min(longest));
    if until > latest {
        let detail = format!("`until` is {}, and {} is the latest", until.second(), latest.second());
        return refused(detail, "400 days after it was asked, and never after the deadline of the run".to_owned());
    }
    Ok(())
}

fn move_to(change: &mut Change, approval: &Approval, extend: Extend) {
    let row = change.rows.approvals.edit(approval.id).expect("found above");
    row.expires_at = Some(extend.until);
    if let Some(wait) = change.rows.waits.edit(approval.wait) {
        wait.due_at = Some(extend.until);
    }
    let mut facts = Facts::new()
        .with("approval", approval.id)
        .with("principal", &extend.by.principal.id)
        .with("method", extend.by.method.as_str())
        .with("request", extend.by.request)
        .with("expires_at", extend.until)
        .maybe("replaced_expires_at", approval.expires_at);
    if let Some(reason) = extend.reason {
        facts = facts.with("reason_digest", reason.body.digest);
        change.bodies.push(reason);
    }
    change.event(event::Kind::ApprovalExtended, facts);
}

fn refuse(change: Change, extend: &Extend, refusal: Refusal) -> Decision {
    refused_attempt(change, extend.approval, &extend.by, "extend", refusal)
}
