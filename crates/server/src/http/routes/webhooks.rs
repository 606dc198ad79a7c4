//! Webhooks out (I-34).

use super::{Done, answer};
use crate::auth::Caller;
use crate::http::App;
use crate::http::extract::{Body, Id, Ids, MaybeBody, NoQuery, Query};
use crate::http::problem::Refused;
use api::Problem;
use api::page::{ListQuery, Page};
use api::run::ActionRequest;
use api::webhook::{Message, NewWebhook, Webhook};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::id::{MessageId, WebhookId};

/// Say where messages are sent. The secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/v1/webhooks", tag = "webhooks", request_body = NewWebhook, responses(
    (status = 201, description = "The webhook with its secret.", body = Webhook),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn make(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<NewWebhook>,
) -> Result<Response, Refused> {
    Ok(answer(StatusCode::CREATED, app.service.new_webhook(&by, &request).await?))
}

/// List the webhooks, without their secrets.
#[utoipa::path(get, path = "/v1/webhooks", tag = "webhooks", responses(
    (status = 200, description = "All of them.", body = Page<Webhook>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Page<Webhook>> {
    Ok(Json(app.service.webhooks(&by)?))
}

/// Remove a webhook with its messages.
#[utoipa::path(delete, path = "/v1/webhooks/{id}", tag = "webhooks", request_body = Option<ActionRequest>, params(("id" = String, Path, description = "A `hook_` id.")), responses(
    (status = 200, description = "It was this.", body = Webhook),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<WebhookId>,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(ActionRequest { reason: _ }): MaybeBody<ActionRequest>,
) -> Done<Webhook> {
    Ok(Json(app.service.remove_webhook(&by, id).await?))
}

/// List the messages of a webhook, with what became of each.
#[utoipa::path(get, path = "/v1/webhooks/{id}/messages", tag = "webhooks", params(("id" = String, Path, description = "A `hook_` id."), ListQuery), responses(
    (status = 200, description = "A page, newest first.", body = Page<Message>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn messages(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<WebhookId>,
    Query(query): Query<ListQuery>,
) -> Done<Page<Message>> {
    Ok(Json(app.service.messages(&by, id, &query).await?))
}

/// Send a message again.
#[utoipa::path(post, path = "/v1/webhooks/{id}/messages/{msg}/redeliver", tag = "webhooks", request_body = Option<ActionRequest>,
    params(("id" = String, Path, description = "A `hook_` id."), ("msg" = String, Path, description = "A `msg_` id.")), responses(
    (status = 200, description = "The message, which is pending again.", body = Message),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn redeliver(
    State(app): State<App>,
    Caller(by): Caller,
    Ids(id, message): Ids<WebhookId, MessageId>,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(ActionRequest { reason: _ }): MaybeBody<ActionRequest>,
) -> Done<Message> {
    Ok(Json(app.service.redeliver(&by, id, message).await?))
}
