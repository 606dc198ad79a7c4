//! `/v1/effects` (I-30).

use super::Done;
use crate::auth::Caller;
use crate::http::App;
use crate::http::extract::{Body, Id, LARGE, NoQuery, Query};
use api::call::EffectQuery;
use api::page::Page;
use api::{Approval, DecisionRequest, EffectItem, Problem};
use axum::Json;
use axum::extract::State;
use protocol::id::CallId;

/// List the calls of tools that write, newest first.
#[utoipa::path(get, path = "/v1/effects", tag = "effects", params(EffectQuery), responses(
    (status = 200, description = "A page.", body = Page<EffectItem>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(by): Caller,
    Query(query): Query<EffectQuery>,
) -> Done<Page<EffectItem>> {
    Ok(Json(app.service.effects(&by, &query).await?))
}

/// Say whether an effect happened: the decision of its `settle` approval, by another name.
#[utoipa::path(post, path = "/v1/effects/{call}/settle", tag = "effects", request_body = DecisionRequest,
    params(("call" = String, Path, description = "A `call_` id.")), responses(
    (status = 200, description = "The approval that is decided.", body = Approval),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn settle(
    State(app): State<App>,
    Caller(by): Caller,
    Id(call): Id<CallId>,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<DecisionRequest, LARGE>,
) -> Done<Approval> {
    Ok(Json(app.service.settle(&by, call, request).await?))
}
