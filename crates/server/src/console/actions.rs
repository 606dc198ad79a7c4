//! What forms do: each is checked for where it came from (C-221), becomes one call of the service, and is answered with a
//! redirect to the page that shows the truth. What is refused comes back with everything that was typed.

use super::door::Signed;
use super::draft::{BareForm, DecisionForm, Draft};
use super::forms::encoded;
use super::layout::{Section, View, page};
use super::pages::{Said, drawn, failed};
use super::posted::Posted;
use super::run::confirm_cancel;
use crate::http::App;
use crate::http::extract::{Id, Name};
use crate::http::problem::Refused;
use crate::service::Answer;
use api::run::ActionRequest;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use protocol::code::Code;
use protocol::id::{ApprovalId, RunId};

/// A form that came from a page of ours, or why it is not taken.
fn checked<T>(
    app: &App,
    signed: &Signed,
    headers: &HeaderMap,
    form: Result<Posted<T>, Refused>,
    csrf: impl Fn(&T) -> &str,
) -> Answer<T> {
    let Posted(form) = form.map_err(|Refused(problem)| problem)?;
    signed.0.guard(headers, app, csrf(&form)).map_err(|Refused(problem)| problem)?;
    Ok(form)
}

pub(super) async fn decide(
    State(app): State<App>,
    signed: Signed,
    headers: HeaderMap,
    id: Result<Id<ApprovalId>, Refused>,
    form: Result<Posted<DecisionForm>, Refused>,
) -> Response {
    let view = signed.view(&app);
    let form = match checked(&app, &signed, &headers, form, |form| &form.csrf) {
        Ok(form) => form,
        Err(problem) => return failed(Some(&view), &problem),
    };
    let id = match id {
        Ok(Id(id)) => id,
        Err(Refused(problem)) => return failed(Some(&view), &problem),
    };
    let request = match form.request() {
        Ok(request) => request,
        Err(draft) => return once_more(&app, &signed, &view, id, &draft, StatusCode::UNPROCESSABLE_ENTITY).await,
    };
    match app.service.decide(&signed.0.caller, id, request).await {
        Ok(_) => to(id, Said::Recorded),
        Err(problem) => match problem.code.parse::<Code>() {
            Ok(Code::AlreadyDecided | Code::ApprovalExpired | Code::ApprovalCancelled) => to(id, Said::Late),
            Ok(Code::ArgsDigestMismatch) => to(id, Said::Changed),
            Ok(Code::NotFound) => failed(Some(&view), &problem),
            _ => {
                let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                once_more(&app, &signed, &view, id, &Draft::refused(&form, &problem), status).await
            }
        },
    }
}

/// An auditor opens what is withheld. The answer is the page itself: where there is no redirect there is no address under
/// which the bodies could be read again without another event (C-282).
pub(super) async fn read(
    State(app): State<App>,
    signed: Signed,
    headers: HeaderMap,
    id: Result<Id<ApprovalId>, Refused>,
    form: Result<Posted<BareForm>, Refused>,
) -> Response {
    let view = signed.view(&app);
    let done = async {
        let BareForm { reason, .. } = checked(&app, &signed, &headers, form, |form| &form.csrf)?;
        let Id(id) = id.map_err(|Refused(problem)| problem)?;
        let approval = app.service.read_approval(&signed.0.caller, id, &ActionRequest { reason }).await?;
        Ok(drawn(&view, &approval, &Draft::default(), None).into_response())
    };
    let done: Answer<Response> = done.await;
    done.unwrap_or_else(|problem| failed(Some(&view), &problem))
}

fn to(id: ApprovalId, said: Said) -> Response {
    Redirect::to(&format!("/console/approvals/{id}?answer={}", said.word())).into_response()
}

/// The approval as it is now, with what was typed and why it was not taken.
async fn once_more(
    app: &App,
    signed: &Signed,
    view: &View,
    id: ApprovalId,
    draft: &Draft,
    status: StatusCode,
) -> Response {
    match app.service.approval(&signed.0.caller, id).await {
        Ok(approval) => (status, drawn(view, &approval, draft, None)).into_response(),
        Err(problem) => failed(Some(view), &problem),
    }
}

pub(super) async fn cancel(
    State(app): State<App>,
    signed: Signed,
    headers: HeaderMap,
    id: Result<Id<RunId>, Refused>,
    form: Result<Posted<BareForm>, Refused>,
) -> Response {
    let view = signed.view(&app);
    let done = async {
        let form = checked(&app, &signed, &headers, form, |form| &form.csrf)?;
        let Id(id) = id.map_err(|Refused(problem)| problem)?;
        let reason = form.reason.map(|reason| reason.trim().to_owned()).filter(|reason| !reason.is_empty());
        let by = &signed.0.caller;
        match app.service.cancel(by, id, &ActionRequest { reason }).await {
            Ok(_) => Ok(Redirect::to(&format!("/console/runs/{id}?cancelled=1")).into_response()),
            Err(problem) => {
                let run = app.service.run(by, id).await?;
                let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let body = confirm_cancel(&view, &run, Some(&problem.detail));
                Ok((status, page(&view, Section::Runs, "Cancel a run", &body)).into_response())
            }
        }
    };
    let done: Answer<Response> = done.await;
    done.unwrap_or_else(|problem| failed(Some(&view), &problem))
}

/// Opens a contained resource again, or says why it stays closed.
pub(super) async fn reset(
    State(app): State<App>,
    signed: Signed,
    headers: HeaderMap,
    Name(name): Name,
    form: Result<Posted<BareForm>, Refused>,
) -> Response {
    let view = signed.view(&app);
    let done = async {
        checked(&app, &signed, &headers, form, |form| &form.csrf)?;
        app.service.reset_resource(&signed.0.caller, &name).await?;
        Ok(Redirect::to(&format!("/console/resources?reset={}", encoded(&name))).into_response())
    };
    let done: Answer<Response> = done.await;
    done.unwrap_or_else(|problem| failed(Some(&view), &problem))
}
