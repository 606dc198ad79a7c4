//! `/v1/workflows` and `/v1/patterns` (I-20).

use super::{Done, answer};
use crate::auth::Caller;
use crate::http::App;
use crate::http::extract::{Body, Id, MaybeBody, Name, NoQuery, Query, SOURCE};
use crate::http::problem::Refused;
use api::page::{ListQuery, Page};
use api::run::ActionRequest;
use api::workflow::ActivateRequest;
use api::{Pattern, Problem, RegisterWorkflow, Registered, Workflow};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::id::PatternId;

/// Register a workflow. The same content again is the known pattern.
#[utoipa::path(post, path = "/v1/workflows", tag = "workflows", request_body = RegisterWorkflow, responses(
    (status = 201, description = "A new pattern.", body = Registered),
    (status = 200, description = "The pattern that has this content.", body = Registered),
    (status = "default", description = "A problem; its `errors` list every fault.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn register(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<RegisterWorkflow, SOURCE>,
) -> Result<Response, Refused> {
    let registered = app.service.register(&by, request).await?;
    let status = if registered.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, registered))
}

/// List the workflows.
#[utoipa::path(get, path = "/v1/workflows", tag = "workflows", params(ListQuery), responses(
    (status = 200, description = "A page, newest first.", body = Page<Workflow>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(by): Caller,
    Query(query): Query<ListQuery>,
) -> Done<Page<Workflow>> {
    Ok(Json(app.service.workflows(&by, &query).await?))
}

/// Read a workflow with its revisions.
#[utoipa::path(get, path = "/v1/workflows/{key}", tag = "workflows", params(("key" = String, Path, description = "Its key.")), responses(
    (status = 200, description = "The workflow.", body = Workflow),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn show(
    State(app): State<App>,
    Caller(by): Caller,
    Name(key): Name,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Workflow> {
    Ok(Json(app.service.workflow(&by, &key).await?))
}

/// Let new runs use a revision.
#[utoipa::path(post, path = "/v1/workflows/{key}/activate", tag = "workflows", request_body = ActivateRequest,
    params(("key" = String, Path, description = "Its key.")), responses(
    (status = 200, description = "The workflow.", body = Workflow),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn activate(
    State(app): State<App>,
    Caller(by): Caller,
    Name(key): Name,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<ActivateRequest>,
) -> Done<Workflow> {
    Ok(Json(app.service.activate(&by, &key, &request).await?))
}

/// Pause every run of a workflow. What has begun goes on to its next safe place.
#[utoipa::path(post, path = "/v1/workflows/{key}/pause", tag = "workflows", request_body = Option<ActionRequest>,
    params(("key" = String, Path, description = "Its key.")), responses(
    (status = 200, description = "The workflow with its pause; `changed` tells.", body = Workflow),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn pause(
    State(app): State<App>,
    Caller(by): Caller,
    Name(key): Name,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(request): MaybeBody<ActionRequest>,
) -> Done<Workflow> {
    Ok(Json(app.service.pause_workflow(&by, &key, &request).await?))
}

/// Clear the pause of a workflow, and no other over its runs.
#[utoipa::path(post, path = "/v1/workflows/{key}/resume", tag = "workflows", request_body = Option<ActionRequest>,
    params(("key" = String, Path, description = "Its key.")), responses(
    (status = 200, description = "The workflow; `changed` tells.", body = Workflow),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn resume(
    State(app): State<App>,
    Caller(by): Caller,
    Name(key): Name,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(ActionRequest { reason: _ }): MaybeBody<ActionRequest>,
) -> Done<Workflow> {
    Ok(Json(app.service.resume_workflow(&by, &key).await?))
}

/// Read one revision with its source.
#[utoipa::path(get, path = "/v1/patterns/{id}", tag = "workflows", params(("id" = String, Path, description = "A `pat_` id.")), responses(
    (status = 200, description = "The pattern.", body = Pattern),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn pattern(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<PatternId>,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Pattern> {
    Ok(Json(app.service.pattern(&by, id).await?))
}
