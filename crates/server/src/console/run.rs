//! The run page: where a run is and why, drawn to time, with its calls, effects, log and events.
//!
//! Everything on it is what the service says of the run; `explain` gives the sentences. Nothing here changes a
//! run but the form that asks to cancel it, behind a page of its own.

use super::approvals::apart;
use super::body::{readable, summary};
use super::layout::{View, csrf};
use super::runs::{unknown, waits};
use super::text::shown;
use super::timeline::{Timeline, drawn};
use super::widgets::{ago, digest, fact, lasting, outcome_hue, run_status, span, stamp, state, words};
use api::run::{Clocks, Effect, Failure, WaitKind};
use api::{Approval, Call, Event, Explain, Json, LogLine, Run};
use maud::{Markup, html};
use protocol::limits::REASON_BYTES;
use protocol::principal::Right;
use std::time::Duration;

/// What the page is made from, read in one go.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub run: Run,
    pub explain: Explain,
    /// In the order in which they were made.
    pub calls: Vec<Call>,
    /// Those that are pending.
    pub approvals: Vec<Approval>,
    pub log: Vec<LogLine>,
    pub events: Vec<Event>,
    /// Whether there are more calls, lines or events than were read.
    pub cut: bool,
}

/// The content of the page.
pub(super) fn content(view: &View, facts: &Facts, notice: Option<&Markup>) -> Markup {
    let run = &facts.run;
    html! {
        header.heading {
            p.crumb { a href="/console/runs" { "Runs" } " / " code { (run.id) } }
            h1 { (shown(&run.workflow)) " " span.soft { "@" (run.revision) } }
            div #state data-live="swap" {
                p.standing {
                    (run_status(run.status)) @if unknown(run) { " " span.tag.warn { "outcome unknown" } } " " span.soft { "for " (lasting(run.since_at, view.now)) }
                    @if !run.waiting_for.is_empty() { span.soft { "waits for" } (waits(view, &run.waiting_for)) }
                 }
            }
        }
        @if let Some(notice) = notice { (notice) }
        div.columns {
            div.primary {
                div #why data-live="swap" { (why(view, facts)) }
                section #timeline data-live="quiet" aria-labelledby="timeline-title" {
                    h2 #timeline-title { "Timeline" }
                    (drawn(&Timeline::of(run, &facts.events, &facts.calls, view.now)))
                }
                section #calls data-live="swap" aria-labelledby="calls-title" { h2 #calls-title { "Calls" } (calls(view, &facts.calls)) }
                section #log data-live="swap" aria-labelledby="log-title" { h2 #log-title { "Log" } (log(&facts.log)) }
                section #events data-live="swap" aria-labelledby="events-title" { h2 #events-title { "Events" } (events(&facts.events)) }
                @if facts.cut { p.soft { "Not everything is shown; " code { "stasis run events " (run.id) } " has the rest." } }
            }
            div.secondary {
                div #actions data-live="swap" {
                    @if !run.status.is_final() && !run.status.is_stopping() && view.principal.can(Right::RunsCancel) {
                        p.buttons { a.button.danger href=(format!("/console/runs/{}/cancel", run.id)) { "Cancel this run" } }
                    }
                }
                section #effects data-live="swap" aria-labelledby="effects-title" { h2 #effects-title { "Effects" } (effects(&run.effects)) }
                section #about data-live="quiet" aria-labelledby="about-title" { h2 #about-title { "About" } (about(run)) }
                section #clocks data-live="quiet" aria-labelledby="clocks-title" { h2 #clocks-title { "Time spent" } (clocks(&run.clocks_ms)) }
            }
        }
    }
}

/// The sentences of `explain`, the questions that are open, and how it ended.
fn why(view: &View, facts: &Facts) -> Markup {
    let (run, explain) = (&facts.run, &facts.explain);
    html! {
        section.why aria-label="Why it is here" {
            p.lead { (shown(&explain.why)) }
            @if let Some(next) = &explain.next { p { (shown(next)) } }
            @for wait in &explain.waits {
                p.soft {
                    @match wait.kind {
                        WaitKind::Job => a href=(format!("/console/jobs/{}", wait.id)) { (wait.kind.as_str()) },
                        WaitKind::Hardware => a href="/console/resources" { (wait.kind.as_str()) },
                        WaitKind::Approval | WaitKind::Signal | WaitKind::Timer => (wait.kind.as_str()),
                    }
                    ": " (shown(&wait.ended_by))
                }
            }
            @if let Some(blocked) = &run.blocked { p.notice.bad { (shown(blocked)) } }
            @for pause in &run.paused {
                p.notice.note {
                    "Paused by " b { (shown(&pause.by)) } @if let Some(reason) = &pause.reason { ": " bdi { (shown(reason)) } }
                }
            }
            @if !facts.approvals.is_empty() {
                ul.open-questions {
                    @for approval in &facts.approvals {
                        li {
                            a.button.primary href=(format!("/console/approvals/{}", approval.id)) {
                                @if view.may_decide(approval).is_ok() { "Decide" } @else { "Look at it" }
                            }
                            " " code { (shown(&approval.tool)) } " " span.summary { (summary(approval.arguments.as_ref(), apart(approval.kind))) }
                        }
                    }
                }
            }
            @if facts.approvals.is_empty() && !explain.moves.is_empty() {
                ul.moves { @for step in &explain.moves { li { (shown(step)) } } }
            }
            @for debt in &run.obligations {
                p.notice.note {
                    (match debt.kind { api::run::ObligationKind::Hop => "Hop ", api::run::ObligationKind::Call => "Call ", api::run::ObligationKind::Job => "Job " })
                    code { (shown(&debt.of)) }
                    @if let Some(name) = &debt.name { " of " bdi { (shown(name)) } }
                    (match debt.state { api::run::ObligationState::Open => " has not stopped yet", api::run::ObligationState::Acknowledged => " has stopped", api::run::ObligationState::Attested => " was attested to have stopped" })
                    @if let (Some(by), Some(reason)) = (&debt.by, &debt.reason) { " by " bdi { (shown(by)) } ": " bdi { (shown(reason)) } }
                    @if let Some(error) = &debt.last_error { ": " bdi { (shown(error)) } }
                }
            }
        }
        @if let Some(result) = &run.result {
            section.result aria-labelledby="result-title" { h2 #result-title { "Result" } (readable(result)) }
        }
        @if let Some(failure) = &run.failure { (failed(failure)) }
    }
}

fn failed(failure: &Failure) -> Markup {
    let detail = failure.detail.as_ref().and_then(super::body::value);
    let traceback = detail.as_ref().and_then(|detail| detail.get("traceback")?.as_str());
    html! {
        section.failure aria-labelledby="failure-title" {
            h2 #failure-title { "Failure" }
            p.lead { bdi { (shown(&failure.message)) } }
            p.soft { "code " code { (shown(&failure.code)) } }
            @match (traceback, &failure.detail) {
                (Some(traceback), _) => pre.traceback tabindex="0" { (lines(traceback)) },
                (None, Some(detail)) => (readable(detail)),
                (None, None) => {},
            }
        }
    }
}

/// Text of several lines, without the marks at their ends.
fn lines(text: &str) -> Markup {
    html! { @for (at, line) in text.trim_end().lines().enumerate() { @if at > 0 { "\n" } (shown(line)) } }
}

fn calls(view: &View, calls: &[Call]) -> Markup {
    html! {
        @if calls.is_empty() { p.soft { "No calls yet." } }
        @else {
            // The roles are said because a narrow screen draws the rows as blocks, which would take them away.
            table.stack.calls role="table" {
                thead role="rowgroup" { tr role="row" {
                    th role="columnheader" { "Call" }
                    th role="columnheader" { "State" }
                    th role="columnheader" { "Arguments and result" }
                    th.wide role="columnheader" { "Asked" }
                } }
                tbody role="rowgroup" { @for call in calls { (call_row(view, call)) } }
            }
        }
    }
}

fn call_row(view: &View, call: &Call) -> Markup {
    let edited = call.arguments_digest != call.asked_arguments_digest;
    html! {
        tr id=(call.id) role="row" {
            td role="cell" {
                code.tool { (shown(&call.tool)) } span.soft { " " (call.effect.as_str()) }
                code.sub { (shown(call.identity.split_once('/').map_or(&*call.identity, |(_, place)| place))) }
            }
            td role="cell" {
                @match call.outcome {
                    Some(outcome) => (state(outcome_hue(outcome), outcome.as_str())),
                    None => (words(call.state.as_str())),
                }
                @if let Some(code) = &call.code { code.sub { (shown(code)) } }
                @if let Some(approval) = call.approval { a.sub href=(format!("/console/approvals/{approval}")) { "approval" } }
                @if edited { " " span.tag { "edited" } }
            }
            td role="cell" {
                @match &call.arguments {
                    Some(arguments) => (readable(arguments)),
                    None => span.soft { "for whoever asked, who may decide, and auditors" },
                }
                @if let Some(result) = &call.result { details { summary { "Result" } (readable(result)) } }
                @if let Some(detail) = &call.detail { (reason(detail)) }
                @if let Some(seen) = &call.seen { p.reason { span.soft { "last attempt saw " } bdi { (lines(seen)) } } }
            }
            td.wide role="cell" { (ago(call.created_at, view.now)) @if call.attempts > 1 { span.soft { ", " (call.attempts) " attempts" } } }
        }
    }
}

/// What the other side said, in its own words; all that is told beside it can be opened.
fn reason(detail: &Json) -> Markup {
    let value = super::body::value(detail);
    let said = value.as_ref().and_then(|value| value.get("detail")?.as_str());
    html! {
        @if let Some(said) = said { p.reason { bdi { (lines(said)) } } }
        @else { details { summary { "Detail" } (readable(detail)) } }
    }
}

fn effects(effects: &[Effect]) -> Markup {
    html! {
        @if effects.is_empty() { p.soft { "Nothing was changed outside." } }
        @else {
            ul.effects {
                @for effect in effects {
                    li {
                        code { (shown(&effect.tool)) } " "
                        @match effect.outcome { Some(outcome) => (state(outcome_hue(outcome), outcome.as_str())), None => span.soft { "open" } }
                        @if let Some(applied) = effect.applied {
                            span.soft { (match applied { api::run::Applied::Yes => " happened", api::run::Applied::No => " did not happen", api::run::Applied::Unknown => " unknown whether it happened" }) }
                        }
                        @if let Some(code) = &effect.code { code.sub { (shown(code)) } }
                    }
                }
            }
        }
    }
}

fn log(log: &[LogLine]) -> Markup {
    html! {
        @if log.is_empty() { p.soft { "The program has printed nothing." } }
        @else {
            pre.log tabindex="0" {
                @for line in log { time datetime=(line.at) title=(line.at) { (clock(&line.at.to_string())) } " " (lines(&line.text)) "\n" }
            }
        }
    }
}

/// `09:30:00` of a time.
fn clock(time: &str) -> &str {
    time.get(11..19).unwrap_or(time)
}

fn events(events: &[Event]) -> Markup {
    html! {
        details.events {
            summary { (events.len()) " events" }
            ol {
                @for event in events.iter().rev() {
                    li value=(event.seq) {
                        p { code { (shown(&event.kind)) } " " (stamp(event.at)) " " (digest(event.digest)) }
                        (readable(&event.facts))
                    }
                }
            }
        }
    }
}

fn about(run: &Run) -> Markup {
    html! {
        dl.facts {
            (fact("Started by", &shown(&run.principal)))
            (fact("Created", &stamp(run.created_at)))
            @if let Some(at) = run.finished_at { (fact("Ended", &stamp(at))) }
            @if let Some(at) = run.deadline_at { (fact("Deadline", &stamp(at))) }
            (fact("Hop", &html! { (run.seq) }))
            (fact("Calls", &html! { (run.budgets.calls.used) " of " (run.budgets.calls.of) }))
            (fact("Active time", &html! {
                (span(Duration::from_millis(run.budgets.active_ms.used))) " of " (span(Duration::from_millis(run.budgets.active_ms.of)))
            }))
            @let hardware = &run.budgets.hardware;
            @if hardware.total > 0 {
                (fact("Waits for hardware", &html! { (hardware.total) " of " (hardware.of) }))
            }
            (fact("Queue", &html! { (shown(&run.queue)) ", priority " (run.priority) }))
            @if let Some(session) = &run.session { (fact("Session", &shown(session))) }
            @for (key, value) in &run.labels { (fact("Label", &html! { (shown(key)) " = " (shown(value)) })) }
            @if let Some(other) = run.retry_of { (fact("Retry of", &html! { a href=(format!("/console/runs/{other}")) { code { (other) } } })) }
            (fact("Pattern", &digest(run.pattern_digest)))
            (fact("Plan", &digest(run.plan_digest)))
            (fact("Input", &digest(run.input_digest)))
        }
    }
}

/// Who the time was spent on; what was nothing is left out.
fn clocks(clocks: &Clocks) -> Markup {
    let all = [
        ("In the queue", clocks.queued),
        ("Own code", clocks.active),
        ("Calls", clocks.calls),
        ("Resources", clocks.hold),
        ("People", clocks.person),
        ("Jobs, signals, timers", clocks.machine),
        ("Paused", clocks.paused),
        ("Stopping", clocks.stopping),
    ];
    html! {
        dl.facts {
            @for (name, ms) in all.iter().filter(|(_, ms)| *ms > 0) { (fact(name, &html! { (span(Duration::from_millis(*ms))) })) }
        }
    }
}

/// The page that asks before a run is cancelled.
pub(super) fn confirm_cancel(view: &View, run: &Run, fault: Option<&str>) -> Markup {
    html! {
        div.narrow {
            p.crumb { a href="/console/runs" { "Runs" } " / " a href=(format!("/console/runs/{}", run.id)) { code { (run.id) } } }
            h1 { "Cancel this run?" }
            p.lead { b { (shown(&run.workflow)) } " is " (run_status(run.status)) " for " (lasting(run.since_at, view.now)) "." }
            p {
                "It ends for good. Open questions are withdrawn. What was already sent is not undone; where something outside has "
                "still to stop, the run shows it until it has."
            }
            @if let Some(fault) = fault { p.fault role="alert" { (shown(fault)) } }
            form method="post" action=(format!("/console/runs/{}/cancel", run.id)) {
                (csrf(view))
                div.field {
                    label for="reason" { "Reason " span.soft { "not needed" } }
                    textarea #reason name="reason" rows="2" maxlength=(REASON_BYTES) {}
                }
                div.buttons {
                    button.danger #cancel type="submit" { "Cancel the run" }
                    a.button href=(format!("/console/runs/{}", run.id)) { "Keep it" }
                }
            }
        }
    }
}
