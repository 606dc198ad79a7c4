//! The approvals inbox: what waits for a person, the most urgent first.
//!
//! It lists and never decides: a decision is made on the approval's own page, where the arguments stand whole (C-200,
//! C-285). The rows are links, so that it works without script; keys are an addition.

use super::body::summary;
use super::layout::View;
use super::text::{brief, shown};
use super::widgets::{ago, countdown, standing, unreadable};
use api::approval::{ApprovalKind, ApprovalQuery, ApprovalStatus, Order, Rule};
use api::{Approval, Page};
use maud::{Markup, html};

/// The orders of the list, as the link names them.
const ORDERS: [(Order, &str, &str); 3] = [
    (Order::Expiring, "expiring", "Most urgent first"),
    (Order::Oldest, "oldest", "Oldest first"),
    (Order::Newest, "newest", "Newest first"),
];

/// What the inbox shows: the query as it was understood.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    /// `None` is every status.
    pub status: Option<ApprovalStatus>,
    pub mine: bool,
    pub order: Order,
    pub run: Option<protocol::id::RunId>,
}

impl Filter {
    /// The filter of a query; what it does not say is pending and expiring first. Unknown words are read so too.
    pub(super) fn of(query: &ApprovalQuery) -> Filter {
        let status = match query.status.as_deref() {
            Some("all") => None,
            Some(text) => Some(ApprovalStatus::parse(text).unwrap_or(ApprovalStatus::Pending)),
            None => Some(ApprovalStatus::Pending),
        };
        let order = match query.order {
            Some(order) => order,
            None if status == Some(ApprovalStatus::Pending) => Order::Expiring,
            None => Order::Newest,
        };
        Filter { status, mine: query.mine.unwrap_or(false), order, run: query.run }
    }

    /// The query that the service gets.
    pub(super) fn query(&self, cursor: Option<String>, limit: u32) -> ApprovalQuery {
        ApprovalQuery {
            status: Some(self.status.map_or("all", ApprovalStatus::as_str).to_owned()),
            run: self.run,
            mine: Some(self.mine),
            order: Some(self.order),
            limit: Some(limit),
            cursor,
        }
    }

    fn href(&self, cursor: Option<&str>) -> String {
        let mut parts = vec![format!("status={}", self.status.map_or("all", ApprovalStatus::as_str))];
        let order = ORDERS.iter().find(|(order, ..)| *order == self.order).expect("every order is in the table");
        parts.push(format!("order={}", order.1));
        if self.mine {
            parts.push("mine=true".into());
        }
        parts.extend(self.run.map(|run| format!("run={run}")));
        parts.extend(cursor.map(|cursor| format!("cursor={}", super::forms::encoded(cursor))));
        format!("/console/approvals?{}", parts.join("&"))
    }
}

/// The content of the inbox.
pub(super) fn inbox(view: &View, filter: &Filter, page: &Page<Approval>) -> Markup {
    html! {
        div.heading {
            h1 { "Approvals" }
            (filters(filter))
        }
        section #list data-live="swap" aria-label="Approvals" {
            (unreadable(page.unreadable))
            @if page.items.is_empty() {
                (empty(filter))
            } @else {
                ol.cards data-keys="list" {
                    @for approval in &page.items { (card(view, approval)) }
                }
                @if let Some(cursor) = &page.next_cursor {
                    p.paging { a href=(filter.href(Some(cursor))) { "Further ones" } }
                }
            }
        }
    }
}

fn filters(filter: &Filter) -> Markup {
    let to = |changed: Filter, on: bool, text: &str| {
        html! {
            a href=(changed.href(None)) aria-current=[on.then_some("true")] { (text) }
        }
    };
    let statuses = [
        (Some(ApprovalStatus::Pending), "Pending"),
        (Some(ApprovalStatus::Approved), "Approved"),
        (Some(ApprovalStatus::Rejected), "Rejected"),
        (Some(ApprovalStatus::Expired), "Expired"),
        (None, "All"),
    ];
    html! {
        nav.filters aria-label="Which approvals" {
            div.choice {
                @for (status, text) in statuses {
                    (to(Filter { status, ..filter.clone() }, filter.status == status, text))
                }
            }
            div.choice {
                (to(Filter { mine: !filter.mine, ..filter.clone() }, filter.mine, "Mine to decide"))
            }
            div.choice {
                @for (order, _, text) in ORDERS {
                    (to(Filter { order, ..filter.clone() }, filter.order == order, text))
                }
            }
            @if let Some(run) = filter.run {
                div.choice { (to(Filter { run: None, ..filter.clone() }, true, &format!("Of {run} ✕"))) }
            }
        }
    }
}

fn empty(filter: &Filter) -> Markup {
    html! {
        div.empty {
            @if filter.status == Some(ApprovalStatus::Pending) {
                p.lead { "Nothing waits for a decision." }
                p { "When a program asks for something that needs a yes, it appears here by itself." }
            } @else {
                p.lead { "No approval fits these filters." }
                p { a href="/console/approvals" { "Show what is pending" } }
            }
        }
    }
}

fn card(view: &View, approval: &Approval) -> Markup {
    let pending = approval.status == ApprovalStatus::Pending;
    html! {
        li.card id=(approval.id) {
            a.cover href=(format!("/console/approvals/{}", approval.id)) {
                span.subject { (subject(approval)) }
                @if approval.kind == ApprovalKind::Settle {
                    " " @if pending { span.tag.warn { "did it happen?" } } @else { span.tag { "outcome asked" } }
                }
                @if approval.kind == ApprovalKind::Gate { " " span.tag { "question" } }
                @if approval.revision > 1 { " " span.tag { "edited" } }
                @if approval.unrenderable { " " span.tag.warn { "cannot be shown plainly" } }
            }
            p.summary { (summary(approval.arguments.as_ref(), apart(approval.kind))) }
            p.context {
                "asked by " b { (shown(&approval.requester)) } " in " (shown(&approval.workflow)) ", "
                (ago(approval.created_at, view.now))
            }
            p.due {
                @if pending {
                    @match approval.expires_at {
                        Some(at) => { span.soft { "expires in " } (countdown(approval.created_at, at, view.now)) },
                        None => span.soft { "does not expire" },
                    }
                } @else {
                    (standing(approval))
                    @if let Some(at) = approval.decided_at { " " (ago(at, view.now)) }
                }
            }
            p.votes { (progress(approval)) }
        }
    }
}

/// Arguments of a gate that have a place of their own: its title and its form.
pub(super) const fn apart(kind: ApprovalKind) -> &'static [&'static str] {
    match kind {
        ApprovalKind::Gate => &["form", "title"],
        ApprovalKind::Call | ApprovalKind::Settle => &[],
    }
}

/// The tool, or the title of a gate.
pub(super) fn subject(approval: &Approval) -> Markup {
    match (approval.kind, approval.title.as_deref()) {
        (ApprovalKind::Gate, Some(title)) => html! { bdi { (brief(title, 120)) } },
        _ => html! { code { (shown(&approval.tool)) } },
    }
}

/// `1 of 2 have approved`, and who can.
pub(super) fn progress(approval: &Approval) -> Markup {
    let votes = &approval.progress;
    html! {
        @if approval.kind != ApprovalKind::Settle {
            span.quorum { (votes.approve) " of " (votes.quorum) }
            " approved"
            @if votes.reject > 0 { ", " (votes.reject) " rejected" }
            @if votes.abstain > 0 { ", " (votes.abstain) " abstained" }
            " · "
        }
        (deciders(&approval.rule))
    }
}

/// Who may decide, in words.
pub(super) fn deciders(rule: &Rule) -> Markup {
    let roles = rule.roles.iter().map(|role| html! { "role " b { (shown(role)) } });
    let names = rule.principals.iter().map(|name| html! { b { (shown(name)) } });
    let all: Vec<Markup> = roles.chain(names).collect();
    html! {
        @if all.is_empty() { "anyone who may decide" }
        @for (at, one) in all.iter().enumerate() { @if at > 0 { ", " } (one) }
    }
}
