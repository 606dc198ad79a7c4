//! The pages: each asks the service and draws the answer. None of them changes anything (C-214).

use super::approvals::Filter;
use super::assets::Asset;
use super::door::Signed;
use super::draft::Draft;
use super::layout::{Section, Tone, View, bare, notice, page};
use super::run::Facts;
use super::text::shown;
use super::widgets::{stamp, words};
use super::{
    approval as approval_page, approvals as inbox, jobs as job_pages, resources as resource_page, run as run_page,
    runs as run_list,
};
use crate::http::App;
use crate::http::extract::{Id, Name, Query};
use crate::http::problem::Refused;
use crate::service::Answer;
use api::approval::{ApprovalKind, ApprovalQuery, ApprovalStatus, Order};
use api::event::TailQuery;
use api::job::JobQuery;
use api::page::ListQuery;
use api::run::RunQuery;
use api::{Approval, Problem};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use protocol::command::Caller;
use protocol::id::{ApprovalId, JobId, RunId};
use serde::Deserialize;

/// Items of a page of a list.
const ITEMS: u32 = 50;
/// Calls, questions and lines that a run page reads; it says when there are more.
const CALLS: u32 = 500;
const QUESTIONS: u32 = 50;
const LINES: u32 = 1_000;

pub(super) async fn home() -> Redirect {
    Redirect::to("/console/approvals")
}

/// A file of the binary, under the name with its hash.
pub(super) async fn asset(Name(name): Name) -> Response {
    match Asset::named(&name) {
        Some(asset) => {
            let headers = [(CONTENT_TYPE, asset.media_type), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
            (headers, asset.content).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

pub(super) async fn approvals(
    State(app): State<App>,
    signed: Signed,
    query: Result<Query<ApprovalQuery>, Refused>,
) -> Response {
    let view = signed.view(&app);
    let draw = async {
        let Query(query) = query.map_err(|Refused(problem)| problem)?;
        let filter = Filter::of(&query);
        let list = app.service.approvals(&signed.0.caller, &filter.query(query.cursor, ITEMS)).await?;
        Ok(page(&view, Section::Approvals, "Approvals", &inbox::inbox(&view, &filter, &list)))
    };
    answered(&view, draw.await)
}

/// What the last answer did, as the redirect after it says. The page believes only what the record bears out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// It was recorded.
    Recorded,
    /// Somebody or the clock was first.
    Late,
    /// The arguments had changed since the form was drawn.
    Changed,
}

impl Said {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Said::Recorded => "recorded",
            Said::Late => "late",
            Said::Changed => "changed",
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ApprovalPageQuery {
    answer: Option<Said>,
}

pub(super) async fn approval(
    State(app): State<App>,
    signed: Signed,
    id: Result<Id<ApprovalId>, Refused>,
    query: Result<Query<ApprovalPageQuery>, Refused>,
) -> Response {
    let view = signed.view(&app);
    let draw = async {
        let Id(id) = id.map_err(|Refused(problem)| problem)?;
        let Query(query) = query.map_err(|Refused(problem)| problem)?;
        let approval = app.service.approval(&signed.0.caller, id).await?;
        let notice = query.answer.and_then(|said| after(&view, &approval, said));
        Ok(drawn(&view, &approval, &Draft::default(), notice.as_ref()))
    };
    answered(&view, draw.await)
}

pub(super) fn drawn(view: &View, approval: &Approval, draft: &Draft, notice: Option<&Markup>) -> Markup {
    let title = format!("{} · {}", approval.tool, approval.status.as_str());
    page(view, Section::Approvals, &title, &approval_page::content(view, approval, draft, notice))
}

/// The notice after an answer, if the record bears it out.
fn after(view: &View, approval: &Approval, said: Said) -> Option<Markup> {
    let pending = approval.status == ApprovalStatus::Pending;
    let own = approval.decisions.iter().rev().find(|decision| decision.principal == view.subject);
    match said {
        Said::Recorded => {
            let own = own?;
            let more = pending && approval.kind != ApprovalKind::Settle;
            Some(notice(
                Tone::Good,
                &html! {
                    "Recorded: " b { (words(own.verdict.as_str())) } "."
                    @if more { " More people have to answer before it is decided: " (inbox::progress(approval)) "." }
                },
            ))
        }
        Said::Late if pending => None,
        Said::Late => Some(notice(
            Tone::Bad,
            &html! {
                @if approval.status == ApprovalStatus::Expired {
                    "Your answer came after the expiry. Nothing was approved."
                } @else {
                    "It had been decided before your answer came: " b { (approval.status.as_str()) } (approval_page::winner(approval))
                    @if let Some(at) = approval.decided_at { " at " (stamp(at)) }
                    ". Your answer changed nothing."
                }
            },
        )),
        Said::Changed if pending => Some(notice(
            Tone::Bad,
            &html! {
                "The arguments had changed since you looked, so your answer was not taken. Read them again."
            },
        )),
        Said::Changed => None,
    }
}

pub(super) async fn runs(State(app): State<App>, signed: Signed, query: Result<Query<RunQuery>, Refused>) -> Response {
    let view = signed.view(&app);
    let draw = async {
        let Query(mut query) = query.map_err(|Refused(problem)| problem)?;
        // A form sends its empty fields too.
        query.workflow = query.workflow.filter(|text| !text.trim().is_empty());
        let asked = RunQuery { limit: Some(query.limit.unwrap_or(ITEMS)), ..query.clone() };
        let list = app.service.runs(&signed.0.caller, &asked).await?;
        Ok(page(&view, Section::Runs, "Runs", &run_list::list(&view, &query, &list)))
    };
    answered(&view, draw.await)
}

pub(super) async fn jobs(State(app): State<App>, signed: Signed, query: Result<Query<JobQuery>, Refused>) -> Response {
    let view = signed.view(&app);
    let draw = async {
        let Query(mut query) = query.map_err(|Refused(problem)| problem)?;
        // A form sends its empty fields too.
        query.kind = query.kind.filter(|text| !text.trim().is_empty());
        let asked = JobQuery { limit: Some(query.limit.unwrap_or(ITEMS)), ..query.clone() };
        let list = app.service.jobs(&signed.0.caller, &asked).await?;
        Ok(page(&view, Section::Jobs, "Jobs", &job_pages::list(&view, &query, &list)))
    };
    answered(&view, draw.await)
}

pub(super) async fn job(State(app): State<App>, signed: Signed, id: Result<Id<JobId>, Refused>) -> Response {
    let view = signed.view(&app);
    let draw = async {
        let Id(id) = id.map_err(|Refused(problem)| problem)?;
        let by = &signed.0.caller;
        let job = app.service.job(by, id).await?;
        let run = app.service.run(by, job.run).await?;
        let title = format!("{} · {}", job.kind, words(job.state.as_str()));
        Ok(page(&view, Section::Jobs, &title, &job_pages::content(&view, &job, &run)))
    };
    answered(&view, draw.await)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ResourcesPageQuery {
    reset: Option<String>,
}

pub(super) async fn resources(
    State(app): State<App>,
    signed: Signed,
    query: Result<Query<ResourcesPageQuery>, Refused>,
) -> Response {
    let view = signed.view(&app);
    let draw = async {
        let Query(query) = query.map_err(|Refused(problem)| problem)?;
        let list = app.service.resources(&signed.0.caller).await?;
        // The page believes only what the record bears out.
        let open = |name: &String| list.items.iter().any(|item| item.name == *name && item.state != "contained");
        let notice = query
            .reset
            .filter(open)
            .map(|name| notice(Tone::Good, &html! { code { (shown(&name)) } " is open again." }));
        Ok(page(&view, Section::Resources, "Resources", &resource_page::list(&view, &list, notice.as_ref())))
    };
    answered(&view, draw.await)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunPageQuery {
    cancelled: Option<String>,
}

pub(super) async fn run(
    State(app): State<App>,
    signed: Signed,
    id: Result<Id<RunId>, Refused>,
    query: Result<Query<RunPageQuery>, Refused>,
) -> Response {
    let view = signed.view(&app);
    let draw = async {
        let Id(id) = id.map_err(|Refused(problem)| problem)?;
        let Query(query) = query.map_err(|Refused(problem)| problem)?;
        let facts = facts(&app, &signed.0.caller, id).await?;
        let stopping = facts.run.status.is_stopping() && query.cancelled.is_some();
        let notice = stopping.then(|| {
            notice(Tone::Plain, &html! { "Cancelling: something outside has not yet acknowledged that it stopped." })
        });
        let title = format!("{} · {}", facts.run.workflow, words(facts.run.status.as_str()));
        Ok(page(&view, Section::Runs, &title, &run_page::content(&view, &facts, notice.as_ref())))
    };
    answered(&view, draw.await)
}

/// What a run page is drawn from. The run is read first: what is read after it is at least as new.
async fn facts(app: &App, by: &Caller, id: RunId) -> Answer<Facts> {
    let service = &app.service;
    let run = service.run(by, id).await?;
    let explain = service.explain(by, id).await?;
    let calls = service.calls(by, id, &ListQuery { limit: Some(CALLS), cursor: None }).await?;
    let pending =
        ApprovalQuery { run: Some(id), order: Some(Order::Oldest), limit: Some(QUESTIONS), ..ApprovalQuery::default() };
    let approvals = service.approvals(by, &pending).await?;
    let tail = TailQuery { after: None, limit: Some(LINES) };
    let (log, events) = (service.log(by, id, &tail).await?, service.events(by, id, &tail).await?);
    let full = LINES as usize;
    let cut = calls.next_cursor.is_some() || log.items.len() == full || events.items.len() == full;
    Ok(Facts {
        run,
        explain,
        calls: calls.items,
        approvals: approvals.items,
        log: log.items,
        events: events.items,
        cut,
    })
}

/// The page that asks before a run is cancelled.
pub(super) async fn cancel(State(app): State<App>, signed: Signed, id: Result<Id<RunId>, Refused>) -> Response {
    let view = signed.view(&app);
    let draw = async {
        let Id(id) = id.map_err(|Refused(problem)| problem)?;
        let run = app.service.run(&signed.0.caller, id).await?;
        Ok(page(&view, Section::Runs, "Cancel a run", &run_page::confirm_cancel(&view, &run, None)))
    };
    answered(&view, draw.await)
}

/// The page, or the problem as a page.
fn answered(view: &View, drawn: Answer<Markup>) -> Response {
    match drawn {
        Ok(page) => page.into_response(),
        Err(problem) => failed(Some(view), &problem),
    }
}

/// A problem as a page, with its own status.
pub(super) fn failed(view: Option<&View>, problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = html! {
        div.narrow {
            h1 { (problem.title) }
            p.lead { (shown(&problem.detail)) }
            @if let Some(hint) = &problem.hint { p.soft { (shown(hint)) } }
            p.soft { "code " code { (problem.code) } }
            p { a.button href="/console/approvals" { "Approvals" } }
        }
    };
    let page = match view {
        Some(view) => page(view, Section::None, &problem.title, &body),
        None => bare(&problem.title, &body),
    };
    (status, page).into_response()
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use maud::Render;

    fn said(approval: &Approval, said: Said) -> Option<String> {
        after(&samples::view(), approval, said).map(|notice| notice.render().into_string())
    }

    #[test]
    fn a_notice_says_only_what_the_record_bears_out() {
        let mut approval = samples::approval();
        assert!(said(&approval, Said::Recorded).unwrap().contains("More people")); // C-180
        assert_eq!(said(&approval, Said::Late), None);
        approval.decisions.clear();
        assert_eq!(said(&approval, Said::Recorded), None);
        approval.status = ApprovalStatus::Expired;
        assert!(said(&approval, Said::Late).unwrap().contains("Nothing was approved")); // C-175
        assert_eq!(said(&approval, Said::Changed), None);
        let mut rejected = samples::approval();
        rejected.status = ApprovalStatus::Rejected;
        rejected.decisions[0].verdict = api::Verdict::Reject;
        let truth = said(&rejected, Said::Late).unwrap();
        assert!(truth.contains("rejected") && truth.contains("maria"), "{truth}"); // C-169
    }
}
