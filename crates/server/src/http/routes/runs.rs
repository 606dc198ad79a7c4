//! `/v1/runs` (I-21 to I-24).

use super::{Done, answer};
use crate::auth::Caller;
use crate::http::App;
use crate::http::extract::{Body, Id, IdempotencyKey, LARGE, MaybeBody, NoQuery, Query};
use crate::http::problem::Refused;
use crate::service::problem::problem;
use api::event::TailQuery;
use api::page::{ListQuery, Page, Tail};
use api::run::{ActionRequest, AttestRequest, Checkpoint, ForkRequest, MoveRequest, RunQuery, WaitQuery};
use api::{Call, Explain, LogLine, Problem, Run, StartRun};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::code::Code;
use protocol::id::{CallId, RunId};
use protocol::time::parse_duration;

/// Start a run. Send `Idempotency-Key` to be able to repeat the request.
#[utoipa::path(post, path = "/v1/runs", tag = "runs", request_body = StartRun,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 256 characters; scoped to the caller.")), responses(
    (status = 201, description = "A new run.", body = Run),
    (status = 200, description = "The run that an equal request made; `created` is false.", body = Run),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn start(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    IdempotencyKey(key): IdempotencyKey,
    Body(request): Body<StartRun, LARGE>,
) -> Result<Response, Refused> {
    let run = app.service.start(&by, None, key, request).await?;
    Ok(started(run))
}

/// Start a run under an id of the caller's, which is the idempotency key too.
#[utoipa::path(put, path = "/v1/runs/{id}", tag = "runs", request_body = StartRun,
    params(("id" = String, Path, description = "A `run_` id that the caller made.")), responses(
    (status = 201, description = "A new run.", body = Run),
    (status = 200, description = "The run that an equal request made; `created` is false.", body = Run),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn put(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(NoQuery {}): Query<NoQuery>,
    IdempotencyKey(key): IdempotencyKey,
    Body(request): Body<StartRun, LARGE>,
) -> Result<Response, Refused> {
    if key.is_some() {
        let detail = "the id of the run is the idempotency key here; `Idempotency-Key` would be a second one";
        return Err(Refused(problem(Code::InvalidRequest, detail)));
    }
    let run = app.service.start(&by, Some(id), None, request).await?;
    Ok(started(run))
}

fn started(run: Run) -> Response {
    let status = if run.created == Some(true) { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, run)
}

/// List runs.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", params(RunQuery), responses(
    (status = 200, description = "A page, newest first.", body = Page<Run>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn list(State(app): State<App>, Caller(by): Caller, Query(query): Query<RunQuery>) -> Done<Page<Run>> {
    Ok(Json(app.service.runs(&by, &query).await?))
}

/// Read a run.
#[utoipa::path(get, path = "/v1/runs/{id}", tag = "runs", params(("id" = String, Path, description = "A `run_` id.")), responses(
    (status = 200, description = "The run.", body = Run),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn show(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Run> {
    Ok(Json(app.service.run(&by, id).await?))
}

/// Wait until a run stops or ends.
#[utoipa::path(get, path = "/v1/runs/{id}/wait", tag = "runs",
    params(("id" = String, Path, description = "A `run_` id."), WaitQuery), responses(
    (status = 200, description = "The run, which got there.", body = Run),
    (status = 204, description = "The time is over and the run is not there yet."),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn wait(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(query): Query<WaitQuery>,
) -> Result<Response, Refused> {
    let most = app.streams.long_poll;
    let timeout = match query.timeout.as_deref().map(parse_duration).transpose() {
        Ok(asked) => asked.unwrap_or(most).min(most),
        Err(error) => {
            return Err(Refused(problem(Code::InvalidRequest, format!("query parameter `timeout`: {error}"))));
        }
    };
    let arrived = tokio::select! {
        arrived = app.service.wait(&by, id, query.until, timeout) => arrived?,
        () = app.closing.cancelled() => None,
    };
    Ok(match arrived {
        Some(run) => answer(StatusCode::OK, run),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Cancel a run.
#[utoipa::path(post, path = "/v1/runs/{id}/cancel", tag = "runs", request_body = Option<ActionRequest>,
    params(("id" = String, Path, description = "A `run_` id.")), responses(
    (status = 202, description = "Begun: the run names what has still to stop.", body = Run),
    (status = 200, description = "It stopped at once, or had ended before; `changed` tells.", body = Run),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn cancel(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(request): MaybeBody<ActionRequest>,
) -> Result<Response, Refused> {
    let run = app.service.cancel(&by, id, &request).await?;
    let status = if run.status.is_final() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(answer(status, run))
}

/// Keep a run from workers. Its answers, expiries, timers and deadline go on.
#[utoipa::path(post, path = "/v1/runs/{id}/pause", tag = "runs", request_body = Option<ActionRequest>,
    params(("id" = String, Path, description = "A `run_` id.")), responses(
    (status = 202, description = "Begun: its hop goes on to the next safe place.", body = Run),
    (status = 200, description = "It is paused; `changed` tells whether it was not before.", body = Run),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn pause(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(request): MaybeBody<ActionRequest>,
) -> Result<Response, Refused> {
    let run = app.service.pause(&by, id, &request).await?;
    let status = if run.status.is_active() { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(answer(status, run))
}

/// Clear the pause of a run, and no other over it.
#[utoipa::path(post, path = "/v1/runs/{id}/resume", tag = "runs", request_body = Option<ActionRequest>,
    params(("id" = String, Path, description = "A `run_` id.")), responses(
    (status = 200, description = "The run with the pauses that are left; `changed` tells.", body = Run),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn resume(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(request): MaybeBody<ActionRequest>,
) -> Done<Run> {
    Ok(Json(app.service.resume(&by, id, &request).await?))
}

/// Begin a new run with what this one had come to at an event: the outcomes of its calls up to there, which are not made
/// again. What was open then is asked anew.
#[utoipa::path(post, path = "/v1/runs/{id}/fork", tag = "runs", request_body = ForkRequest,
    params(("id" = String, Path, description = "A `run_` id.")), responses(
    (status = 201, description = "A new run.", body = Run),
    (status = 200, description = "The run that an equal request with this `id` made; `created` is false.", body = Run),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn fork(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<ForkRequest>,
) -> Result<Response, Refused> {
    let run = app.service.fork(&by, id, &request).await?;
    Ok(started(run))
}

/// Pin a run that rests to another revision of its workflow. Its journal is told again to that program first, without any
/// effect; a program that would do something else is refused with the first difference.
#[utoipa::path(post, path = "/v1/runs/{id}/move", tag = "runs", request_body = MoveRequest,
    params(("id" = String, Path, description = "A `run_` id.")), responses(
    (status = 200, description = "The run; `changed` tells whether it was pinned to another revision before.", body = Run),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn move_run(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<MoveRequest>,
) -> Done<Run> {
    Ok(Json(app.service.move_run(&by, id, &request).await?))
}

/// Vouch that something of a stopping run has stopped. It is recorded as your word, not as an acknowledgement.
#[utoipa::path(post, path = "/v1/runs/{id}/attest", tag = "runs", request_body = AttestRequest,
    params(("id" = String, Path, description = "A `run_` id.")), responses(
    (status = 202, description = "Recorded: the run names what has still to stop.", body = Run),
    (status = 200, description = "Nothing is left to stop; `changed` tells whether this was open.", body = Run),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn attest(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<AttestRequest>,
) -> Result<Response, Refused> {
    let run = app.service.attest(&by, id, &request).await?;
    let status = if run.status.is_final() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(answer(status, run))
}

/// Say why a run is where it is and what would move it.
#[utoipa::path(get, path = "/v1/runs/{id}/explain", tag = "runs", params(("id" = String, Path, description = "A `run_` id.")), responses(
    (status = 200, description = "In words.", body = Explain),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn explain(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Explain> {
    Ok(Json(app.service.explain(&by, id).await?))
}

/// List the calls of a run in the order in which they were made.
#[utoipa::path(get, path = "/v1/runs/{id}/calls", tag = "runs",
    params(("id" = String, Path, description = "A `run_` id."), ListQuery), responses(
    (status = 200, description = "A page.", body = Page<Call>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn calls(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(query): Query<ListQuery>,
) -> Done<Page<Call>> {
    Ok(Json(app.service.calls(&by, id, &query).await?))
}

/// Read a call with its bodies as an auditor, which is an event of its run.
#[utoipa::path(post, path = "/v1/calls/{id}/read", tag = "runs", request_body = Option<ActionRequest>,
    params(("id" = String, Path, description = "A `call_` id.")), responses(
    (status = 200, description = "The call, with nothing withheld.", body = Call),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn read_call(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<CallId>,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(request): MaybeBody<ActionRequest>,
) -> Done<Call> {
    Ok(Json(app.service.read_call(&by, id, &request).await?))
}

/// Read what the program of a run printed.
#[utoipa::path(get, path = "/v1/runs/{id}/log", tag = "runs",
    params(("id" = String, Path, description = "A `run_` id."), TailQuery), responses(
    (status = 200, description = "Lines, in order.", body = Tail<LogLine>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn log(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(query): Query<TailQuery>,
) -> Done<Tail<LogLine>> {
    Ok(Json(app.service.log(&by, id, &query).await?))
}

/// Read what the current checkpoint of a run says of itself; its body stays inside.
#[utoipa::path(get, path = "/v1/runs/{id}/checkpoint", tag = "runs", params(("id" = String, Path, description = "A `run_` id.")), responses(
    (status = 200, description = "The checkpoint.", body = Checkpoint),
    (status = "default", description = "A problem; a run that never parked has none.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn checkpoint(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Checkpoint> {
    Ok(Json(app.service.checkpoint(&by, id).await?))
}
