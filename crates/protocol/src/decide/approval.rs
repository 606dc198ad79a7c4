//! The one function that decides an approval, whatever door the verdict came through (calls.md section 10.3).
//!
//! Invariant: a decision and what it sets free are one commit: the row, its wait and, if the run is parked on it, the
//! next delivery. Expiry is judged here, in the deciding transaction, whether or not anybody swept (C-174).

use super::{Cx, Decision, admit::not_permitted, expire, rules, settle, step};
use crate::approval::{Approval, Closer, Kind, Status, Verdict, Vote};
use crate::code::Code;
use crate::command::{Answer, Caller, Decide, Decided, Edit};
use crate::digest::Digest;
use crate::event::{self, Facts};
use crate::fault::{Fault, planted};
use crate::id::ApprovalId;
use crate::policy::{Edit as EditRule, ReasonRule};
use crate::principal::{self, Right};
use crate::refusal::Refusal;
use crate::rows::{Change, NewBody, Rows};
use crate::run::Body;
use crate::time::Time;
use crate::wait::Owner;
use std::sync::Arc;

/// Decides one verdict. Checks are made in the order of C-165 to C-173; refused attempts of people who may know of the
/// approval are events (C-176).
pub(super) fn decide(decide: Decide, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    let Some(approval) = rows.approvals.get(decide.approval).cloned() else {
        return unknown(decide.approval).into();
    };
    if rows.run.namespace != decide.by.principal.namespace {
        return unknown(decide.approval).into();
    }
    let mut change = Change::of(rows, cx.now);
    if let Err(refusal) = may_decide(&approval, &decide.by) {
        return refuse(change, &decide, refusal);
    }
    if stands_already(&approval, &decide) {
        let changed = expire_or_return(&mut change, &approval, &decide, cx);
        return answer(change, decide.approval, changed);
    }
    if let Err(refusal) = still_open(&mut change, &approval, &decide, cx) {
        return refuse(change, &decide, refusal);
    }
    if let Err(refusal) = fits(&mut change, &approval, &decide, cx) {
        return refuse(change, &decide, refusal);
    }
    vote(&mut change, &decide);
    close(&mut change, &decide, cx);
    answer(change, decide.approval, true)
}

/// C-165: unknown and foreign are one answer.
pub(super) fn unknown(approval: ApprovalId) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no approval {approval}"))
}

/// C-166, C-167, C-178: right, eligibility, strength of sign-in, and not the person who asked.
pub(super) fn may_decide(approval: &Approval, by: &Caller) -> Result<(), Refusal> {
    let person = &by.principal;
    if !person.rights.has(Right::ApprovalsDecide) {
        return Err(not_permitted(by, Right::ApprovalsDecide));
    }
    let rule = &approval.obligation;
    let named_program = person.kind == principal::Kind::Person || rule.principals.contains(&person.id);
    if !rule.eligible(person) || !named_program {
        let who = rule.roles.iter().chain(&rule.principals).cloned().collect::<Vec<_>>().join(", ");
        let detail = format!("{} is not among those who may decide this: {who}", person.id);
        return Err(Refusal::new(Code::NotPermitted, detail).hint(format!("stasis approval show {}", approval.id)));
    }
    if by.strength < rule.strength {
        let detail = "this decision needs a stronger sign-in".to_owned();
        return Err(Refusal::new(Code::StrengthRequired, detail));
    }
    if rule.separate_requester && approval.binding.is_asked_by(&person.id) {
        let detail = format!("{} asked for this and cannot decide it", person.id);
        return Err(
            Refusal::new(Code::SelfApprovalForbidden, detail).hint("somebody else among those who may decide has to")
        );
    }
    Ok(())
}

/// C-168: the same principal said the same about the same bytes before.
fn stands_already(approval: &Approval, decide: &Decide) -> bool {
    let same_bytes = |vote: &Vote| match &decide.edit {
        Some(edit) => vote.edited && Digest::of(edit.arguments.as_bytes()) == approval.arguments.digest,
        None => decide.arguments_digest.is_none_or(|d| d == approval.arguments.digest),
    };
    let latest = approval.votes.iter().rfind(|vote| {
        vote.principal == decide.by.principal.id && vote.binding == approval.binding_digest && !vote.late
    });
    latest.is_some_and(|vote| vote.verdict == decide.verdict && same_bytes(vote))
}

/// A repeat makes sure that the run was queued (R-167, C-202).
fn expire_or_return(change: &mut Change, approval: &Approval, decide: &Decide, cx: &Cx<'_>) -> bool {
    if approval.is_pending() {
        return false;
    }
    step::end_wait(change, approval.wait, approval.binding_digest)
        && step::member_ended(change, decide.taker.clone(), cx)
}

/// C-169, C-170: final is final, and expiry is judged now. A late reject is kept as such.
fn still_open(change: &mut Change, approval: &Approval, decide: &Decide, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    if let Some(member) = expire::lapse(change, approval.id) {
        late(change, decide, approval.binding_digest);
        // A refusal carries no run that its caller could go on with, so no worker of his takes it.
        expire::after_end(change, &Owner::Approval(approval.id), member, None, cx);
        return Err(expired(approval));
    }
    let Some(refusal) = closed(approval) else { return Ok(()) };
    if matches!(approval.status, Status::Expired { .. }) {
        late(change, decide, approval.binding_digest);
    }
    Err(refusal)
}

/// Why nothing can be said about a question any more; nothing while it is pending.
pub(super) fn closed(approval: &Approval) -> Option<Refusal> {
    match &approval.status {
        Status::Pending => None,
        Status::Expired { .. } => Some(expired(approval)),
        // Nobody withdraws the question what became of an effect: one that is closed was given up by a person (C-238).
        Status::Cancelled { .. } if approval.kind() == Kind::Settle => Some(already(approval)),
        Status::Cancelled { at, by } => {
            let detail = format!("this question was withdrawn by {by} at {}", at.second());
            Some(Refusal::new(Code::ApprovalCancelled, detail))
        }
        Status::Approved { .. } | Status::Rejected { .. } => Some(already(approval)),
    }
}

pub(super) fn expired(approval: &Approval) -> Refusal {
    let at = approval.expires_at.map_or_else(String::new, |at| at.second().to_string());
    Refusal::new(Code::ApprovalExpired, format!("this question expired at {at}; nobody decided it"))
        .hint("the program has to ask again")
}

fn late(change: &mut Change, decide: &Decide, binding: Digest) {
    if decide.verdict != Verdict::Reject {
        return;
    }
    let vote = Vote { late: true, ..record(decide, binding, change.now, false) };
    let row = change.rows.approvals.edit(decide.approval).expect("decided approvals are loaded");
    let known = row.votes.iter().any(|v| v.late && v.principal == vote.principal);
    if !known {
        row.votes.push(vote);
        change.bodies.extend(decide.reason.clone());
        let facts = Facts::new()
            .with("approval", decide.approval)
            .with("principal", &decide.by.principal.id)
            .with("verdict", Verdict::Reject.as_str());
        change.event(event::Kind::ReportLate, facts);
    }
}

fn already(approval: &Approval) -> Refusal {
    #[derive(serde::Serialize)]
    struct Truth<'a> {
        status: &'static str,
        decided_by: Option<&'a str>,
        decided_at: Option<Time>,
    }
    let who = approval.standing().last().map(|vote| vote.principal.as_str());
    let at = approval.decided_at();
    let when = at.map_or_else(String::new, |at| format!(" at {}", at.second()));
    let who_or = who.unwrap_or("The runtime");
    let detail = match approval.kind() {
        Kind::Settle => format!("{who_or} said what became of it{when}."),
        Kind::Call | Kind::Gate => format!("{who_or} {} this approval{when}.", approval.status.as_str()),
    };
    Refusal::new(Code::AlreadyDecided, detail).hint(format!("stasis approval show {}", approval.id)).truth(&Truth {
        status: approval.status.as_str(),
        decided_by: who,
        decided_at: at,
    })
}

/// C-171, C-172, C-173: the bytes that were shown, the shape of the verdict, the edit.
fn fits(change: &mut Change, approval: &Approval, decide: &Decide, cx: &Cx<'_>) -> Result<(), Refusal> {
    match decide.arguments_digest {
        Some(shown) if shown != approval.arguments.digest => {
            let detail = format!("{shown} was shown, {} is to be decided", approval.arguments.digest);
            return Err(Refusal::new(Code::ArgsDigestMismatch, detail).hint("look at the approval again"));
        }
        None if !matches!(decide.verdict, Verdict::Reject | Verdict::Abstain) => {
            let detail = "`arguments_digest` says which arguments were shown; it is required".to_owned();
            return Err(Refusal::new(Code::InvalidRequest, detail));
        }
        _ => {}
    }
    if !decide.verdict.fits(approval.kind()) {
        let detail =
            format!("a question of kind {} has no answer `{}`", approval.kind().as_str(), decide.verdict.as_str());
        let refusal = Refusal::new(Code::InvalidAnswer, detail);
        return Err(match approval.kind() {
            Kind::Settle => refusal.hint(format!(
                "stasis effect settle {} --happened JSON, --did-not-happen or --give-up, --reason TEXT",
                approval.call
            )),
            Kind::Call | Kind::Gate => refusal.hint("stasis approve, reject or abstain"),
        });
    }
    if needs_reason(approval, decide.verdict) && decide.reason.is_none() {
        let detail = format!("`{}` needs a reason here", decide.verdict.as_str());
        return Err(Refusal::new(Code::ReasonRequired, detail).hint("--reason TEXT"));
    }
    if approval.unrenderable && decide.verdict == Verdict::Approve && !decide.unrenderable {
        let detail = "these arguments cannot be shown whole; approving them needs `unrenderable: true`".to_owned();
        return Err(Refusal::new(Code::InvalidAnswer, detail));
    }
    answer_fits(approval, decide)?;
    match &decide.edit {
        None => Ok(()),
        Some(edit) => apply_edit(change, approval, decide, edit, cx),
    }
}

fn needs_reason(approval: &Approval, verdict: Verdict) -> bool {
    match approval.obligation.reason {
        _ if approval.kind() == Kind::Settle => true,
        ReasonRule::None => false,
        ReasonRule::Reject => verdict == Verdict::Reject,
        ReasonRule::Always => true,
    }
}

fn answer_fits(approval: &Approval, decide: &Decide) -> Result<(), Refusal> {
    let refused = |detail: String| Err(Refusal::new(Code::InvalidAnswer, detail));
    let wanted = match (approval.kind(), decide.verdict) {
        (Kind::Settle, Verdict::Happened) => true,
        (Kind::Gate, Verdict::Approve) => approval.form.is_some(),
        _ => false,
    };
    match (&decide.answer, wanted) {
        (None, false) => Ok(()),
        (None, true) => refused("an answer is required".to_owned()),
        (Some(_), false) => refused(format!("`{}` takes no answer here", decide.verdict.as_str())),
        (Some(answer), true) => answer.fault.clone().map_or(Ok(()), refused),
    }
}

/// C-184, C-185: new arguments make a new revision; every vote on the old one is void, and the rule only gets stricter.
fn apply_edit(
    change: &mut Change,
    approval: &Approval,
    decide: &Decide,
    edit: &Edit,
    cx: &Cx<'_>,
) -> Result<(), Refusal> {
    let refused = |detail: String| Err(Refusal::new(Code::EditRefused, detail));
    if approval.kind() != Kind::Call || decide.verdict != Verdict::Approve {
        return refused("only the approval of a call can be edited".to_owned());
    }
    if approval.obligation.edit == EditRule::No {
        return refused("the rule of this approval allows no edit".to_owned());
    }
    if edit.judged_by != approval.binding.tool_digest {
        return refused("the edit was checked against another tool".to_owned());
    }
    if let Some((code, detail)) = &edit.fault {
        return refused(format!("{code}: {detail}"));
    }
    let call = change.rows.calls.get(approval.call).expect("the call of an approval is loaded").clone();
    let obligation = match rules::judge(cx, change.run(), &call, &edit.arguments) {
        crate::policy::Judgement::Deny { reason } => {
            return refused(format!("{}: {reason}", Code::PolicyDenied.as_str()));
        }
        crate::policy::Judgement::Ask(new) => Arc::new(rules::stricter(&approval.obligation, &new)),
        crate::policy::Judgement::Allow => Arc::clone(&approval.obligation),
    };
    if !obligation.eligible(&decide.by.principal) {
        return refused("the new arguments need somebody else's approval".to_owned());
    }
    revise(change, approval, decide, edit, obligation);
    Ok(())
}

fn revise(
    change: &mut Change,
    approval: &Approval,
    decide: &Decide,
    edit: &Edit,
    obligation: Arc<crate::policy::Obligation>,
) {
    let body = NewBody::new(edit.arguments.as_bytes());
    let arguments: Body = body.body;
    change.bodies.push(body);
    let row = change.rows.approvals.edit(approval.id).expect("decided approvals are loaded");
    let binding = Arc::make_mut(&mut row.binding);
    binding.revision += 1;
    binding.arguments = arguments.digest;
    binding.operands = edit.operands.clone();
    binding.obligation = obligation.digest();
    row.binding_digest = binding.digest();
    row.arguments = arguments;
    row.unrenderable = crate::text::unrenderable(&edit.arguments);
    // C-185: never later. Time that somebody gave it stays where the rule is the same (C-192).
    if obligation.lease < row.obligation.lease {
        let latest = row.binding.created_at + obligation.lease;
        row.expires_at = row.expires_at.map(|at| at.min(latest));
    }
    row.obligation = obligation;
    let (revision, wait, due) = (row.binding.revision, row.wait, row.expires_at);
    if let Some(wait) = change.rows.waits.edit(wait) {
        wait.due_at = due;
    }
    let call = change.rows.calls.edit(approval.call).expect("the call of an approval is loaded");
    call.arguments = arguments;
    call.edited = call.asked != arguments.digest;
    let facts = Facts::new()
        .with("approval", approval.id)
        .with("principal", &decide.by.principal.id)
        .with("method", decide.by.method.as_str())
        .number("revision", revision)
        .with("arguments_digest", arguments.digest)
        .with("replaced_digest", approval.arguments.digest);
    change.event(event::Kind::ApprovalEdited, facts);
}

fn record(decide: &Decide, binding: Digest, at: Time, edited: bool) -> Vote {
    Vote {
        principal: decide.by.principal.id.clone(),
        method: decide.by.method,
        strength: decide.by.strength,
        verdict: decide.verdict,
        reason: decide.reason.as_ref().map(|r| r.body),
        binding,
        edited,
        at,
        request: decide.by.request,
        late: false,
    }
}

/// Votes on the revision that stands now: an edit has made its own.
fn vote(change: &mut Change, decide: &Decide) {
    change.bodies.extend(decide.reason.clone());
    let row = change.rows.approvals.edit(decide.approval).expect("decided approvals are loaded");
    row.votes.push(record(decide, row.binding_digest, change.now, decide.edit.is_some()));
    if let Some(answer) = &decide.answer {
        row.answer = Some(answer.body.body);
        change.bodies.push(answer.body.clone());
    }
}

/// Ends the question if the votes are enough, and with it whatever waits for it.
fn close(change: &mut Change, decide: &Decide, cx: &Cx<'_>) {
    let approval = change.rows.approvals.get(decide.approval).expect("decided approvals are loaded").clone();
    let Some(status) = outcome(&approval, decide, cx) else {
        let facts = vote_facts(&approval, decide);
        change.event(event::Kind::ApprovalVoted, facts);
        return;
    };
    let kind = match status {
        Status::Approved { .. } => event::Kind::ApprovalApproved,
        Status::Rejected { .. } => event::Kind::ApprovalRejected,
        Status::Cancelled { .. } => event::Kind::ApprovalCancelled,
        Status::Expired { .. } | Status::Pending => unreachable!("votes end a question by people only"),
    };
    let row = change.rows.approvals.edit(decide.approval).expect("decided approvals are loaded");
    row.status = status;
    change.event(kind, vote_facts(&approval, decide));
    let member = step::end_wait(change, approval.wait, approval.binding_digest);
    if approval.kind() == Kind::Settle {
        settle::answered(change, &approval, decide.verdict);
    }
    if member && !planted(Fault::AnswerWithoutReturn) {
        step::member_ended(change, decide.taker.clone(), cx);
    }
}

fn vote_facts(approval: &Approval, decide: &Decide) -> Facts {
    Facts::new()
        .with("approval", approval.id)
        .with("principal", &decide.by.principal.id)
        .with("verdict", decide.verdict.as_str())
        .with("method", decide.by.method.as_str())
        .with("arguments_digest", approval.arguments.digest)
        .number("revision", approval.binding.revision)
        .flag("separate_requester", approval.obligation.separate_requester)
}

/// C-180 to C-183: quorum over the current binding; for `settle` one person is enough (C-162).
fn outcome(approval: &Approval, decide: &Decide, cx: &Cx<'_>) -> Option<Status> {
    let at = cx.now;
    match decide.verdict {
        Verdict::Happened => {
            let phase = crate::approval::Phase::Ended { gate_at: None, at, how: crate::approval::Ending::Delivered };
            return Some(Status::Approved { at, valid_until: None, phase });
        }
        Verdict::DidNotHappen => return Some(Status::Rejected { at, by: Closer::People }),
        Verdict::GiveUp => {
            return Some(Status::Cancelled { at, by: decide.by.principal.id.clone() });
        }
        Verdict::Approve | Verdict::Reject | Verdict::Abstain => {}
    }
    let (rule, tally) = (&approval.obligation, approval.tally());
    if tally.approve >= rule.quorum {
        // C-114: a yes given just before the expiry is not lost while its run returns.
        let grace = at + rule.dispatch_within;
        let valid_until = approval.expires_at.map(|expires| expires.max(grace));
        return Some(Status::Approved { at, valid_until, phase: crate::approval::Phase::Open });
    }
    if tally.reject >= rule.reject_quorum {
        return Some(Status::Rejected { at, by: Closer::People });
    }
    rules::unreachable(approval).then_some(Status::Rejected { at, by: Closer::QuorumUnreachable })
}

/// C-176: refused attempts are events; a malformed one is only answered.
fn refuse(change: Change, decide: &Decide, refusal: Refusal) -> Decision {
    let malformed =
        matches!(refusal.code, Code::InvalidRequest | Code::InvalidAnswer | Code::ReasonRequired | Code::EditRefused);
    if malformed {
        return refusal.into();
    }
    refused_attempt(change, decide.approval, &decide.by, decide.verdict.as_str(), refusal)
}

/// What somebody tried in vain, told by the timeline.
pub(super) fn refused_attempt(
    mut change: Change,
    approval: ApprovalId,
    by: &Caller,
    tried: &str,
    refusal: Refusal,
) -> Decision {
    let facts = Facts::new()
        .with("approval", approval)
        .with("principal", &by.principal.id)
        .with("verdict", tried)
        .with("code", refusal.code.as_str());
    change.event(event::Kind::AttemptRefused, facts);
    Decision { change: Some(Box::new(change)), answer: Err(refusal.recorded()) }
}

pub(super) fn answer(change: Change, id: ApprovalId, changed: bool) -> Decision {
    let approval = change.rows.approvals.get(id).expect("decided approvals are loaded").clone();
    let run = change.run().clone();
    let decided = Box::new(Decided { approval, run, changed });
    if changed { Decision::done(change, Answer::Decided(decided)) } else { Decision::stands(Answer::Decided(decided)) }
}
