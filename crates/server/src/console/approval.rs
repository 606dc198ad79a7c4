//! The approval page: the question, the exact arguments, what is only claimed, who has said what, and the answer.
//!
//! Shows the canonical arguments whole with their digest (C-140), and everything derived from them below or beside,
//! labelled as derived. The agent's words stand apart and are called a claim (C-286). What is decided and what is final
//! is read from the record at each view; the page holds no truth of its own.

use super::approvals::{apart, deciders, progress, subject};
use super::body::{difference, exact, readable, readable_but};
use super::draft::Draft;
use super::forms;
use super::layout::{View, csrf};
use super::text::shown;
use super::widgets::{ago, countdown, digest, fact, lasting, question, stamp, standing, words};
use api::approval::{
    ApprovalKind, ApprovalStatus, Decision, EditRule, OnExpiry, Operand, ReasonRule, Strength, Verdict,
};
use api::{Approval, Json};
use maud::{Markup, html};
use protocol::limits::REASON_BYTES;
use protocol::principal::Right;

/// The content of the page. `draft` is what was typed into a form that was refused; `notice` says what the last request
/// did.
pub(super) fn content(view: &View, approval: &Approval, draft: &Draft, notice: Option<&Markup>) -> Markup {
    let (id, gate) = (approval.id, approval.kind == ApprovalKind::Gate);
    html! {
        div.approval {
            header.heading {
                p.crumb { a href="/console/approvals" data-key="u" { "Approvals" } " / " code { (id) } }
                // The title of a gate is its question, and says all that a heading has to.
                h1 { @if approval.kind != ApprovalKind::Gate { (question(approval.kind)) " " } (subject(approval)) }
                div #state data-live="swap" { (state(view, approval)) }
            }
            @if let Some(notice) = notice { (notice) }
            div.columns {
                div.primary {
                    (what(approval))
                    // The answer to a program's own question stands before its details, which may be long.
                    @if gate { (answer(view, approval, draft)) }
                    (arguments(view, approval))
                    @if let (Some(asked), Some(now)) = (&approval.asked_arguments, &approval.arguments) { (edited(asked, now)) }
                    @if let Some(claim) = &approval.claim { (said(claim)) }
                }
                div.secondary {
                    @if !gate { (answer(view, approval, draft)) }
                    section #rule data-live="swap" aria-labelledby="rule-title" {
                        h2 #rule-title { "Rule" }
                        (rule(approval))
                    }
                    section #history data-live="swap" aria-labelledby="history-title" {
                        h2 #history-title { "History" }
                        (history(view, approval))
                    }
                    section aria-labelledby="facts-title" {
                        h2 #facts-title { "Bound to" }
                        (facts(approval))
                    }
                }
            }
        }
    }
}

/// The forms in which somebody answers, or how it was answered.
fn answer(view: &View, approval: &Approval, draft: &Draft) -> Markup {
    html! {
        div #decide data-live="form" {
            @if approval.status == ApprovalStatus::Pending {
                (forms::decide(view, approval, draft))
            } @else {
                (ended(approval))
            }
        }
    }
}

fn state(view: &View, approval: &Approval) -> Markup {
    html! {
        p.standing {
            (standing(approval))
            @if approval.status == ApprovalStatus::Pending {
                @match approval.expires_at {
                    Some(at) => { span.soft { " expires in " } (countdown(approval.created_at, at, view.now)) span.soft { " at " } (stamp(at)) },
                    None => span.soft { " does not expire" },
                }
            } @else if let Some(at) = approval.decided_at {
                " " (ago(at, view.now)) span.soft { " at " } (stamp(at))
            }
        }
    }
}

fn what(approval: &Approval) -> Markup {
    html! {
        section.what aria-label="What is asked" {
            @if approval.kind != ApprovalKind::Gate {
                @if let Some(description) = &approval.description { p.description { (shown(description)) } }
            } @else {
                p.description { "The program asks, and waits for the answer." }
            }
            p.context {
                @if approval.kind != ApprovalKind::Gate { "Version " code { (shown(&approval.tool_version)) } ", asked by " } @else { "Asked by " }
                b { (shown(&approval.requester)) }
                @if let Some(person) = &approval.acts_for { " for " b { (shown(person)) } }
                " in " (shown(&approval.workflow)) ", "
                a href=(format!("/console/runs/{}", approval.run)) { "run " code { (approval.run) } }
            }
            @if approval.kind == ApprovalKind::Settle {
                p.notice.note {
                    "The call was sent and its outcome was lost. Find out in the other system whether it happened; "
                    "the run goes on with what you say here."
                }
                @if let Some(settle) = &approval.settle {
                    p {
                        "Sent " @if settle.attempts == 1 { "once" } @else { (settle.attempts) " times" } "; the last attempt saw "
                        @match &settle.seen {
                            Some(seen) => b { bdi { (shown(seen)) } },
                            None => "nothing: its process ended before an answer was stored",
                        }
                        "."
                    }
                }
            }
        }
    }
}

fn arguments(view: &View, approval: &Approval) -> Markup {
    html! {
        section.arguments aria-labelledby="arguments-title" {
            h2 #arguments-title data-live="swap" {
                @match (approval.kind, approval.status) {
                    (ApprovalKind::Call, ApprovalStatus::Pending) => "Arguments, exactly as they will be sent",
                    (ApprovalKind::Settle, _) => "Arguments, exactly as they were sent",
                    (ApprovalKind::Gate, _) => "The question as it was asked",
                    (ApprovalKind::Call, _) => "Arguments, exactly",
                }
            }
            @if approval.unrenderable {
                p.notice.bad { "These arguments are too long or too opaque to be judged by eye. Approving them has to be said apart." }
            }
            @match &approval.arguments {
                Some(arguments) => (whole(approval, arguments)),
                None => (withheld(view, approval)),
            }
            @if !approval.operands.is_empty() { (operands(&approval.operands)) }
        }
    }
}

/// What the arguments name and do not hold, by the digests that a yes is bound to (C-142).
fn operands(operands: &[Operand]) -> Markup {
    html! {
        h3 { "Content they name, as it was when this was asked" }
        dl.facts {
            @for operand in operands {
                (fact(&operand.pointer, &html! {
                    @if let Some(name) = &operand.name { code.long { (shown(name)) } " " }
                    (digest(operand.digest))
                }))
            }
        }
        p.soft { "If it is anything else by the time of the call, the call is not made." }
    }
}

fn whole(approval: &Approval, arguments: &Json) -> Markup {
    let under = html! {
        p.under { (digest(approval.arguments_digest)) span.soft { " is the digest of these bytes" } }
    };
    html! {
        @if approval.kind == ApprovalKind::Gate {
            (readable_but(arguments, apart(approval.kind)))
            details { summary { "Byte for byte" } (exact(arguments)) }
            (under)
        } @else {
            (exact(arguments))
            (under)
            details open[!approval.unrenderable] {
                summary { "The same, to read" }
                (readable(arguments))
            }
        }
    }
}

/// What stands where the arguments would be, for whom they are not (C-282).
fn withheld(view: &View, approval: &Approval) -> Markup {
    html! {
        p.notice.note { "They are for whoever asked and for those who may decide. Their digest is " (digest(approval.arguments_digest)) "." }
        @if view.principal.can(Right::AuditRead) {
            form method="post" action=(format!("/console/approvals/{}/read", approval.id)) {
                (csrf(view))
                div.field {
                    label for="audit-reason" { "Reason " span.soft { "not needed" } }
                    textarea #audit-reason name="reason" rows="2" maxlength=(REASON_BYTES) {}
                }
                p.soft { "Reading them as an auditor is an event of the run." }
                div.buttons { button type="submit" { "Read them as an auditor" } }
            }
        }
    }
}

fn edited(asked: &Json, now: &Json) -> Markup {
    html! {
        section.edited aria-labelledby="edited-title" {
            h2 #edited-title { "Edited: what differs from what was asked" }
            (difference(asked, now))
            details { summary { "Arguments as the program asked" } (exact(asked)) }
        }
    }
}

fn said(claim: &str) -> Markup {
    html! {
        figure.claim {
            figcaption { "What the agent claims. Its own words; nobody has checked them." }
            blockquote { bdi { (shown(claim)) } }
        }
    }
}

/// What stands where the forms were, once there is nothing left to decide.
fn ended(approval: &Approval) -> Markup {
    let settle = approval.kind == ApprovalKind::Settle;
    let text = match approval.status {
        ApprovalStatus::Approved if settle => "It happened.",
        ApprovalStatus::Rejected if settle => "It did not happen.",
        ApprovalStatus::Cancelled if settle => "Given up: nobody will find out.",
        ApprovalStatus::Pending => "Pending",
        ApprovalStatus::Approved if approval.arguments_digest != approval.asked_arguments_digest => {
            "Approved with an edit"
        }
        ApprovalStatus::Approved => "Approved",
        ApprovalStatus::Rejected => "Rejected",
        ApprovalStatus::Expired => "Expired: nobody decided in time, nothing was approved.",
        ApprovalStatus::Cancelled => "Cancelled: the question was withdrawn with its run.",
    };
    html! {
        section.decided aria-labelledby="decided-title" {
            h2 #decided-title { "Decided" }
            p.lead { (text) (winner(approval)) }
            @if let Some(answer) = &approval.answer { (exact(answer)) }
            @if let Some(dispatch) = &approval.dispatch {
                p {
                    @match (dispatch.executed, dispatch.outcome.as_deref()) {
                        (_, Some("delivered")) => "The program has read the answer.",
                        (true, Some(outcome)) => { "The call was made; its outcome is " b { (words(outcome)) } "." },
                        (true, None) => "The call is under way.",
                        (false, Some(outcome)) => { "The call was not made: " b { (words(outcome)) } "." },
                        (false, None) => "The call has not been made yet.",
                    }
                }
            }
        }
    }
}

/// Who decided, for a record that people decided.
pub(super) fn winner(approval: &Approval) -> Markup {
    let verdict = match (approval.status, approval.kind) {
        (ApprovalStatus::Approved, ApprovalKind::Settle) => Verdict::Happened,
        (ApprovalStatus::Rejected, ApprovalKind::Settle) => Verdict::DidNotHappen,
        (ApprovalStatus::Cancelled, ApprovalKind::Settle) => Verdict::GiveUp,
        (ApprovalStatus::Approved, _) => Verdict::Approve,
        (ApprovalStatus::Rejected, _) => Verdict::Reject,
        _ => return html! {},
    };
    let mut names: Vec<&str> = Vec::new();
    for decision in approval.decisions.iter().filter(|decision| decision.verdict == verdict && !decision.late) {
        if !names.contains(&decision.principal.as_str()) {
            names.push(&decision.principal);
        }
    }
    html! {
        @for (at, name) in names.iter().enumerate() {
            @if at == 0 { " by " } @else { ", " }
            b { (shown(name)) }
        }
    }
}

fn rule(approval: &Approval) -> Markup {
    let rule = &approval.rule;
    let number = |count: u32, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    html! {
        p.progress { (progress(approval)) @if let Some(of) = approval.progress.of { " (" (of) " named)" } }
        @if approval.kind != ApprovalKind::Settle {
            dl.facts {
                (fact("Needs", &html! { (number(rule.quorum, "approval")) ", or " (number(rule.reject_quorum, "rejection")) }))
                (fact("Who", &deciders(rule)))
                (fact("Requester", &html! { @if rule.separate_requester { "may not decide" } @else { "may decide" } }))
                (fact("Edit", &html! {
                    @match rule.edit {
                        EditRule::No => "not allowed",
                        EditRule::Yes => "allowed; the editor approves by it",
                        EditRule::Second => "allowed; somebody else approves",
                    }
                }))
                (fact("Reason", &html! {
                    @match rule.reason {
                        ReasonRule::None => "not needed",
                        ReasonRule::Reject => "needed to reject",
                        ReasonRule::Always => "always needed",
                    }
                }))
                (fact("At expiry", &html! {
                    @match rule.on_expiry {
                        OnExpiry::Reject => "the call is denied, the run goes on",
                        OnExpiry::Fail => "the run fails",
                        OnExpiry::Escalate => "others are asked",
                    }
                }))
                @if rule.strength == Strength::StepUp { (fact("Sign-in", &html! { "fresh" })) }
            }
        }
    }
}

fn history(view: &View, approval: &Approval) -> Markup {
    html! {
        ol.history {
            li { (stamp(approval.created_at)) p { b { (shown(&approval.requester)) } " asked" } }
            @for decision in &approval.decisions { (vote(decision)) }
            @if approval.status == ApprovalStatus::Expired && let Some(at) = approval.decided_at.or(approval.expires_at) {
                li { (stamp(at)) p { "expired, decided by nobody" } }
            }
            @if approval.status == ApprovalStatus::Pending {
                li.open { span.soft { "open for " (lasting(approval.created_at, view.now)) } }
            }
            @if let Some(dispatch) = &approval.dispatch {
                @if let Some(at) = dispatch.gate_at { li { (stamp(at)) p { "sent" } } }
                @if let Some(at) = dispatch.completed_at {
                    li { (stamp(at)) p { (words(dispatch.outcome.as_deref().unwrap_or("completed"))) } }
                }
            }
        }
    }
}

fn vote(decision: &Decision) -> Markup {
    let did = match decision.verdict {
        Verdict::Approve if decision.edited => "approved with an edit",
        Verdict::Approve => "approved",
        Verdict::Reject => "rejected",
        Verdict::Abstain => "abstained",
        Verdict::Happened => "said that it happened",
        Verdict::DidNotHappen => "said that it did not happen",
        Verdict::GiveUp => "gave up",
    };
    html! {
        li.late[decision.late] {
            (stamp(decision.at))
            p {
                b { (shown(&decision.principal)) } " " (did)
                @if decision.late { " " span.tag.warn { "too late to count" } }
                span.soft { " by " (shown(&decision.method)) }
            }
            @if let Some(reason) = &decision.reason { blockquote { bdi { (shown(reason)) } } }
        }
    }
}

fn facts(approval: &Approval) -> Markup {
    html! {
        dl.facts {
            (fact("Call", &html! { code.long { (shown(&approval.identity)) } }))
            (fact("Revision", &html! { (approval.revision) }))
            (fact("Arguments", &digest(approval.arguments_digest)))
            @if approval.arguments_digest != approval.asked_arguments_digest {
                (fact("Asked for", &digest(approval.asked_arguments_digest)))
            }
            (fact("Plan", &digest(approval.plan_digest)))
            (fact("Policy", &digest(approval.policy_digest)))
            (fact("Binding", &digest(approval.binding_digest)))
            @if let Some(at) = approval.valid_until_at { (fact("A yes holds until", &stamp(at))) }
        }
    }
}
