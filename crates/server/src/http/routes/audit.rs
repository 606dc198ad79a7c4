//! The proof of the record (I-33).

use super::Done;
use crate::auth::Caller;
use crate::http::App;
use crate::http::extract::{Body, MaybeBody, NoQuery, Query};
use api::audit::{AuditHead, CompareRequest, VerifyAnswer, VerifyRequest};
use api::event::TailQuery;
use api::run::ActionRequest;
use api::{Json as Text, Problem, Tail};
use axum::Json;
use axum::extract::State;

/// Tell which anchor was exported last, and whether the ledger stands by it.
#[utoipa::path(get, path = "/v1/audit/head", tag = "audit", responses(
    (status = 200, description = "The last anchor.", body = AuditHead),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn head(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<AuditHead> {
    Ok(Json(app.service.audit_head(&by).await?))
}

/// Read the exported anchors, each as it was signed.
#[utoipa::path(get, path = "/v1/audit/anchors", tag = "audit", params(TailQuery), responses(
    (status = 200, description = "Anchors after number `after`, about a megabyte of them.", body = Tail<Text>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn anchors(
    State(app): State<App>,
    Caller(by): Caller,
    Query(query): Query<TailQuery>,
) -> Done<Tail<Text>> {
    Ok(Json(app.service.anchors(&by, query.after.as_deref()).await?))
}

/// Make an anchor of what changed since the last one, and export it.
#[utoipa::path(post, path = "/v1/audit/anchor", tag = "audit", request_body = Option<ActionRequest>, responses(
    (status = 200, description = "The last anchor.", body = AuditHead),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn anchor(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(ActionRequest { reason: _ }): MaybeBody<ActionRequest>,
) -> Done<AuditHead> {
    Ok(Json(app.service.anchor(&by).await?))
}

/// Go on with a ledger that was restored from an old copy, for a reason that stays in the export.
#[utoipa::path(post, path = "/v1/audit/accept", tag = "audit", request_body = ActionRequest, responses(
    (status = 200, description = "The last anchor; `changed` tells whether the ledger was behind.", body = AuditHead),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn accept(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<ActionRequest>,
) -> Done<AuditHead> {
    Ok(Json(app.service.accept_restored(&by, &request).await?))
}

/// Recompute one run, or the whole ledger page by page, and compare it with the export.
#[utoipa::path(post, path = "/v1/audit/verify", tag = "audit", request_body = Option<VerifyRequest>, responses(
    (status = 200, description = "What was verified; `broken` is the first break.", body = VerifyAnswer),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn verify(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(request): MaybeBody<VerifyRequest>,
) -> Done<VerifyAnswer> {
    Ok(Json(app.service.verify(&by, &request).await?))
}

/// Compare the ledger with what an export that is kept elsewhere says of it.
#[utoipa::path(post, path = "/v1/audit/compare", tag = "audit", request_body = CompareRequest, responses(
    (status = 200, description = "How many stand; `broken` is the first break.", body = VerifyAnswer),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn compare(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<CompareRequest>,
) -> Done<VerifyAnswer> {
    Ok(Json(app.service.compare(&by, &request).await?))
}
