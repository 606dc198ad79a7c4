//! The list of runs, with filters in the address so that a link shows the same list again.

use super::forms::encoded;
use super::layout::View;
use super::text::{brief, shown};
use super::widgets::{ago, countdown, run_status, unreadable, words};
use api::run::{CallOutcome, RunQuery, WaitingFor};
use api::{Page, Run};
use maud::{Markup, html};
use protocol::run::Status;

/// The choices of the status filter: a word, and the statuses it stands for.
const GROUPS: [(&str, &[Status]); 6] = [
    ("All", &[]),
    (
        "Waiting",
        &[
            Status::AwaitingConsent,
            Status::AwaitingDelegate,
            Status::AwaitingSignal,
            Status::AwaitingTimer,
            Status::AwaitingHardware,
        ],
    ),
    ("Running", &[Status::Queued, Status::Running]),
    ("Stopping", &[Status::Cancelling, Status::Failing]),
    ("Failed", &[Status::Failed]),
    ("Done", &[Status::Done, Status::Cancelled]),
];

/// The content of the page.
pub(super) fn list(view: &View, query: &RunQuery, page: &Page<Run>) -> Markup {
    html! {
        div.heading {
            h1 { "Runs" }
            (filters(query))
        }
        section #list data-live="swap" aria-label="Runs" {
            (unreadable(page.unreadable))
            @if page.items.is_empty() {
                div.empty {
                    @if *query == RunQuery::default() {
                        p.lead { "Nothing has run yet." }
                        p { "Start with " code { "stasis run FILE" } "; it appears here by itself." }
                    } @else {
                        p.lead { "No run fits these filters." }
                        p { a href="/console/runs" { "Show all runs" } }
                    }
                }
            } @else {
                (table(view, page))
                @if let Some(cursor) = &page.next_cursor {
                    p.paging { a href=(href(&RunQuery { cursor: Some(cursor.clone()), ..query.clone() })) { "Older ones" } }
                }
            }
        }
    }
}

fn table(view: &View, page: &Page<Run>) -> Markup {
    html! {
        // The roles are said because a narrow screen draws the rows as blocks, which would take them away.
        table.stack.runs role="table" {
            thead role="rowgroup" { tr role="row" {
                th role="columnheader" { "Status" }
                th role="columnheader" { "Workflow" }
                th role="columnheader" { "Waits for" }
                th.wide role="columnheader" { "Started by" }
                th role="columnheader" { "Since" }
                th.wide role="columnheader" { "Created" }
            } }
            tbody role="rowgroup" data-keys="list" {
                @for run in &page.items {
                    tr id=(run.id) role="row" {
                        td role="cell" { (run_status(run.status)) @if unknown(run) { " " span.tag.warn { "outcome unknown" } } @if !run.paused.is_empty() { " " span.tag { "paused" } } }
                        td role="cell" {
                            a.cover href=(format!("/console/runs/{}", run.id)) { (shown(&run.workflow)) }
                            span.soft { " @" (run.revision) }
                            code.sub { (run.id) }
                        }
                        td role="cell" { (waits(view, &run.waiting_for)) (failure(run)) }
                        td.wide role="cell" { (shown(&run.principal)) }
                        td role="cell" { (ago(run.since_at, view.now)) }
                        td.wide role="cell" { (ago(run.created_at, view.now)) }
                    }
                }
            }
        }
    }
}

/// Whether nobody knows yet if one of its calls happened.
pub(super) fn unknown(run: &Run) -> bool {
    run.effects.iter().any(|effect| effect.outcome == Some(CallOutcome::Ambiguous))
}

/// What a run waits for, the first two of it.
pub(super) fn waits(view: &View, waits: &[WaitingFor]) -> Markup {
    html! {
        @for wait in waits.iter().take(2) {
            span.wait {
                (wait.kind.as_str())
                @if let Some(name) = &wait.name { " " code { (brief(name, 40)) } }
                @if let Some(tier) = wait.tier { " " span.tag { (tier.as_str()) } }
                @if let Some(at) = wait.due_at { span.soft { ", " (countdown(wait.since_at, at, view.now)) " left" } }
            }
        }
        @if waits.len() > 2 { span.soft { (waits.len() - 2) " more" } }
    }
}

fn failure(run: &Run) -> Markup {
    html! { @if let Some(failure) = &run.failure { span.soft { bdi { (brief(&failure.message, 80)) } } } }
}

fn filters(query: &RunQuery) -> Markup {
    let text = |statuses: &[Status]| statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(",");
    let chosen = query.status.as_deref().unwrap_or("");
    let status =
        |group: String| RunQuery { status: Some(group).filter(|text| !text.is_empty()), cursor: None, ..query.clone() };
    html! {
        nav.filters aria-label="Which runs" {
            div.choice {
                @for (word, statuses) in GROUPS {
                    @let group = text(statuses);
                    a href=(href(&status(group.clone()))) aria-current=[(group == chosen).then_some("true")] { (word) }
                }
                @if Status::parse(chosen).is_some() && !GROUPS.iter().any(|(_, statuses)| text(statuses) == chosen) {
                    a href=(href(&status(chosen.to_owned()))) aria-current="true" { (words(chosen)) }
                }
            }
            form.search method="get" action="/console/runs" role="search" {
                @if !chosen.is_empty() { input type="hidden" name="status" value=(chosen); }
                label.hidden for="workflow" { "Workflow" }
                input #workflow type="search" name="workflow" placeholder="Workflow" value=(query.workflow.as_deref().unwrap_or(""));
                button type="submit" { "Filter" }
            }
        }
    }
}

fn href(query: &RunQuery) -> String {
    let fields = [
        ("status", &query.status),
        ("workflow", &query.workflow),
        ("label", &query.label),
        ("waiting_for", &query.waiting_for),
        ("created_after", &query.created_after),
        ("created_before", &query.created_before),
        ("cursor", &query.cursor),
    ];
    let parts = fields.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encoded(value.as_deref()?))));
    let query = parts.collect::<Vec<_>>().join("&");
    if query.is_empty() { "/console/runs".to_owned() } else { format!("/console/runs?{query}") }
}
