//! `/v1/approvals` (I-25 to I-27).

use super::Done;
use crate::auth::Caller;
use crate::http::App;
use crate::http::extract::{Body, Id, LARGE, MaybeBody, NoQuery, Query, SMALL};
use api::approval::{ApprovalQuery, BatchAnswer, BatchRequest, ExtendRequest};
use api::page::Page;
use api::run::ActionRequest;
use api::{Approval, DecisionRequest, Problem};
use axum::Json;
use axum::extract::State;
use protocol::id::ApprovalId;

/// List approvals; the pending ones unless told otherwise.
#[utoipa::path(get, path = "/v1/approvals", tag = "approvals", params(ApprovalQuery), responses(
    (status = 200, description = "A page.", body = Page<Approval>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(by): Caller,
    Query(query): Query<ApprovalQuery>,
) -> Done<Page<Approval>> {
    Ok(Json(app.service.approvals(&by, &query).await?))
}

/// Read an approval with the exact arguments.
#[utoipa::path(get, path = "/v1/approvals/{id}", tag = "approvals", params(("id" = String, Path, description = "An `apr_` id.")), responses(
    (status = 200, description = "The approval.", body = Approval),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn show(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<ApprovalId>,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Approval> {
    Ok(Json(app.service.approval(&by, id).await?))
}

/// Read an approval with its bodies as an auditor, which is an event of the run.
#[utoipa::path(post, path = "/v1/approvals/{id}/read", tag = "approvals", request_body = Option<ActionRequest>, params(("id" = String, Path, description = "An `apr_` id.")), responses(
    (status = 200, description = "The approval, with nothing withheld.", body = Approval),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn read(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<ApprovalId>,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(request): MaybeBody<ActionRequest>,
) -> Done<Approval> {
    Ok(Json(app.service.read_approval(&by, id, &request).await?))
}

/// Decide an approval.
#[utoipa::path(post, path = "/v1/approvals/{id}/decisions", tag = "approvals", request_body = DecisionRequest,
    params(("id" = String, Path, description = "An `apr_` id.")), responses(
    (status = 200, description = "The decision stands; the same again is answered so too.", body = Approval),
    (status = "default", description = "A problem; `truth` has the decision that won.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn decide(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<ApprovalId>,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<DecisionRequest, LARGE>,
) -> Done<Approval> {
    Ok(Json(app.service.decide(&by, id, request).await?))
}

/// Give a question more time; whoever asked it may not.
#[utoipa::path(post, path = "/v1/approvals/{id}/extend", tag = "approvals", request_body = ExtendRequest,
    params(("id" = String, Path, description = "An `apr_` id.")), responses(
    (status = 200, description = "The approval with its new expiry.", body = Approval),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn extend(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<ApprovalId>,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<ExtendRequest, SMALL>,
) -> Done<Approval> {
    Ok(Json(app.service.extend(&by, id, &request).await?))
}

/// Decide up to 100 approvals, each alone.
#[utoipa::path(post, path = "/v1/approvals:decide", tag = "approvals", request_body = BatchRequest, responses(
    (status = 200, description = "One result for each, in the order of the request.", body = BatchAnswer),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn decide_batch(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<BatchRequest, LARGE>,
) -> Done<BatchAnswer> {
    Ok(Json(app.service.decide_batch(&by, request).await?))
}
