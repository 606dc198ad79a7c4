//! Signals (I-29).

use super::answer;
use crate::auth::Caller;
use crate::http::App;
use crate::http::extract::{Id, LARGE, MaybeBody, NamedRun, NoQuery, Query};
use crate::http::problem::Refused;
use api::{Problem, Signal, SignalRequest};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::command::Target;
use protocol::id::WaitId;

/// Send a signal to a name of a run. It is kept where no wait is open for it.
#[utoipa::path(post, path = "/v1/runs/{id}/signals/{name}", tag = "signals", request_body = Option<SignalRequest>,
    params(("id" = String, Path, description = "A `run_` id."), ("name" = String, Path, description = "The signal's name.")), responses(
    (status = 202, description = "It is taken in, or was before; `changed` tells.", body = Signal),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn to_run(
    State(app): State<App>,
    Caller(by): Caller,
    NamedRun { run, name }: NamedRun,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(request): MaybeBody<SignalRequest, LARGE>,
) -> Result<Response, Refused> {
    let to = Target::Name { run, name };
    Ok(answer(StatusCode::ACCEPTED, app.service.signal(&by, to, &request).await?))
}

/// Send a signal to one wait. It is refused where that is over.
#[utoipa::path(post, path = "/v1/waits/{id}/signals", tag = "signals", request_body = Option<SignalRequest>,
    params(("id" = String, Path, description = "A `wait_` id.")), responses(
    (status = 202, description = "It ended the wait, or had before; `changed` tells.", body = Signal),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn to_wait(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<WaitId>,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(request): MaybeBody<SignalRequest, LARGE>,
) -> Result<Response, Refused> {
    Ok(answer(StatusCode::ACCEPTED, app.service.signal(&by, Target::Wait(id), &request).await?))
}
