//! The pages of delegated jobs: what agents outside have in hand, and whether they are still heard of (I-50).
//!
//! Nothing here changes a job: its agent's verbs are the API's alone, and a person stops it by cancelling its run.

use super::body::readable;
use super::forms::encoded;
use super::layout::{Tone, View, notice};
use super::text::{brief, shown};
use super::widgets::{Hue, ago, countdown, digest, fact, run_status, span, stamp, state, unreadable, words};
use api::job::{Job, JobAgent, JobQuery, JobState, LateReport};
use api::{Page, Run};
use maud::{Markup, html};
use protocol::principal::Right;
use std::time::Duration;

pub(super) const fn hue(state: JobState) -> Hue {
    match state {
        JobState::Queued => Hue::Idle,
        JobState::Running => Hue::Busy,
        JobState::Cancelling => Hue::Stopping,
        JobState::Succeeded => Hue::Good,
        JobState::Failed | JobState::Lost | JobState::TimedOut => Hue::Bad,
        JobState::Cancelled => Hue::Ended,
    }
}

fn standing(job: &Job) -> Markup {
    state(hue(job.state), &words(job.state.as_str()))
}

/// The content of the list.
pub(super) fn list(view: &View, query: &JobQuery, page: &Page<Job>) -> Markup {
    html! {
        div.heading {
            h1 { "Jobs" }
            (filters(query))
        }
        section #list data-live="swap" data-every="3" aria-label="Jobs" {
            (unreadable(page.unreadable))
            @if page.items.is_empty() {
                div.empty {
                    @if *query == JobQuery::default() {
                        p.lead { "No job was handed over yet." }
                        p { "A program does it with " code { "stasis.delegate(kind, task)" } "; it appears here by itself." }
                    } @else {
                        p.lead { "No job fits these filters." }
                        p { a href="/console/jobs" { "Show all jobs" } }
                    }
                }
            } @else {
                (table(view, &page.items))
                @if let Some(cursor) = &page.next_cursor {
                    p.paging { a href=(href(&JobQuery { cursor: Some(cursor.clone()), ..query.clone() })) { "Older ones" } }
                }
            }
        }
    }
}

fn table(view: &View, jobs: &[Job]) -> Markup {
    html! {
        // The roles are said because a narrow screen draws the rows as blocks, which would take them away.
        table.stack.runs role="table" {
            thead role="rowgroup" { tr role="row" {
                th role="columnheader" { "State" }
                th role="columnheader" { "Kind" }
                th role="columnheader" { "Agent" }
                th.wide role="columnheader" { "Late reports" }
                th role="columnheader" { "Created" }
                th.wide role="columnheader" { "Ended" }
            } }
            tbody role="rowgroup" data-keys="list" {
                @for job in jobs {
                    tr id=(job.id) role="row" {
                        td role="cell" { (standing(job)) @if job.ended_at.is_some() && job.may_still_run { " " span.tag.warn { "may still run" } } }
                        td role="cell" {
                            a.cover href=(format!("/console/jobs/{}", job.id)) { (shown(&job.kind)) }
                            code.sub { (job.id) }
                        }
                        td role="cell" { (heard(view, job)) }
                        td.wide role="cell" { @if !job.late.is_empty() { (job.late.len()) } }
                        td role="cell" { (ago(job.created_at, view.now)) }
                        td.wide role="cell" { @if let Some(at) = job.ended_at { (ago(at, view.now)) } }
                    }
                }
            }
        }
    }
}

/// Who has it, and until when it must be heard of again.
fn heard(view: &View, job: &Job) -> Markup {
    let alive = matches!(job.state, JobState::Running | JobState::Cancelling);
    html! {
        @match &job.agent {
            None if job.ended_at.is_none() => span.soft { "nobody claimed it yet" },
            None => {},
            Some(agent) => {
                bdi { (brief(&agent.worker, 40)) }
                @if agent.worker != agent.principal { span.soft { " of " bdi { (shown(&agent.principal)) } } }
                @if alive { span.soft { ", next heartbeat within " (due(view, agent)) } }
            },
        }
    }
}

fn due(view: &View, agent: &JobAgent) -> Markup {
    countdown(agent.claimed_at, agent.due_at, view.now)
}

fn filters(query: &JobQuery) -> Markup {
    let choice = |open: Option<bool>| JobQuery { open, cursor: None, ..query.clone() };
    html! {
        nav.filters aria-label="Which jobs" {
            div.choice {
                @for (word, open) in [("All", None), ("Open", Some(true))] {
                    a href=(href(&choice(open))) aria-current=[(query.open.unwrap_or(false) == open.is_some()).then_some("true")] { (word) }
                }
            }
            form.search method="get" action="/console/jobs" role="search" {
                @if query.open == Some(true) { input type="hidden" name="open" value="true"; }
                label.hidden for="kind" { "Kind" }
                input #kind type="search" name="kind" placeholder="Kind" value=(query.kind.as_deref().unwrap_or(""));
                button type="submit" { "Filter" }
            }
        }
    }
}

fn href(query: &JobQuery) -> String {
    let run = query.run.map(|run| run.to_string());
    let open = query.open.filter(|open| *open).map(|open| open.to_string());
    let fields = [("run", &run), ("kind", &query.kind), ("open", &open), ("cursor", &query.cursor)];
    let parts = fields.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encoded(value.as_deref()?))));
    let query = parts.collect::<Vec<_>>().join("&");
    if query.is_empty() { "/console/jobs".to_owned() } else { format!("/console/jobs?{query}") }
}

/// The content of one job's page.
pub(super) fn content(view: &View, job: &Job, run: &Run) -> Markup {
    html! {
        header.heading {
            p.crumb { a href="/console/jobs" { "Jobs" } " / " code { (job.id) } }
            h1 { (shown(&job.kind)) }
            div #state data-live="swap" data-every="3" {
                p.standing { (standing(job)) @if job.agent.is_some() || job.ended_at.is_none() { span { (heard(view, job)) } } }
            }
        }
        div.columns {
            div.primary {
                div #why data-live="swap" { (why(job)) }
                section #progress data-live="swap" aria-labelledby="progress-title" {
                    h2 #progress-title { "Progress" }
                    @match &job.progress {
                        Some(progress) => (readable(progress)),
                        None => p.soft { "Its agent has told nothing." },
                    }
                }
                section #late data-live="swap" aria-labelledby="late-title" { h2 #late-title { "Late reports" } (late(&job.late)) }
            }
            div.secondary {
                div #actions data-live="swap" {
                    @if job.ended_at.is_none() && !run.status.is_final() && !run.status.is_stopping() && view.principal.can(Right::RunsCancel) {
                        p.buttons { a.button.danger href=(format!("/console/runs/{}/cancel", run.id)) { "Cancel its run" } }
                    }
                }
                section #about data-live="quiet" aria-labelledby="about-title" { h2 #about-title { "About" } (about(view, job, run)) }
            }
        }
    }
}

/// What somebody has to know who wonders about it.
fn why(job: &Job) -> Markup {
    let lead = match (job.state, &job.agent) {
        (JobState::Queued, _) => "It waits for an agent of its kind to claim it.",
        (JobState::Running, _) => "An agent works on it. Unless it is heard of again in time, the job is lost.",
        (JobState::Cancelling, _) => "It is to stop, and its agent has not said yet that it did.",
        (JobState::Succeeded, _) => "Its agent brought a result, which its program got.",
        (JobState::Failed, _) => "Its agent said that it failed, and its program was told.",
        (JobState::Lost, _) => {
            "Nothing was heard of its agent in time. What came of it is unknown; its program was told."
        }
        (JobState::TimedOut, _) => "Its time was over before it ended.",
        (JobState::Cancelled, None) => "It was cancelled before anybody claimed it.",
        (JobState::Cancelled, Some(_)) => "It was cancelled, and its agent stopped.",
    };
    html! {
        p.lead { (lead) }
        @if job.ended_at.is_some() && job.may_still_run {
            (notice(Tone::Plain, &html! { "Nobody knows that its agent stopped. Whatever it brings now is kept as a late report and changes nothing." }))
        }
    }
}

fn late(reports: &[LateReport]) -> Markup {
    html! {
        @if reports.is_empty() { p.soft { "Nothing came after the end." } }
        @else {
            ul.effects {
                @for report in reports {
                    li {
                        (state(hue(report.outcome), &words(report.outcome.as_str()))) " by " bdi { (shown(&report.by)) } ", "
                        (stamp(report.at)) " " (digest(report.digest))
                    }
                }
            }
        }
    }
}

fn about(view: &View, job: &Job, run: &Run) -> Markup {
    html! {
        dl.facts {
            (fact("Run", &html! { a href=(format!("/console/runs/{}", run.id)) { (shown(&run.workflow)) } " " (run_status(run.status)) }))
            (fact("Created", &stamp(job.created_at)))
            @if let Some(at) = job.deadline_at { (fact("Deadline", &stamp(at))) }
            @if let Some(agent) = &job.agent {
                (fact("Claimed", &ago(agent.claimed_at, view.now)))
                (fact("Heartbeat", &html! { "every " (span(Duration::from_millis(agent.lease_ms))) " at most" }))
            }
            @if let Some(at) = job.ended_at { (fact("Ended", &stamp(at))) }
            @if let Some(at) = job.stopped_at { (fact("Stopped", &stamp(at))) }
            (fact("Priority", &html! { (job.priority) }))
            (fact("Task", &digest(job.task_digest)))
            @if let Some(result) = job.result_digest { (fact("Result", &digest(result))) }
            @if let Some(error) = job.error_digest { (fact("Error", &digest(error))) }
        }
    }
}
