//! Guests, tools, tokens, the doctor, health and metrics (I-31, I-11, I-35).

use super::{Done, answer};
use crate::auth::Caller;
use crate::http::App;
use crate::http::extract::{Body, Id, MaybeBody, Name, NoQuery, Query};
use crate::http::problem::Refused;
use api::operate::NewToken;
use api::page::{ListQuery, Page};
use api::run::ActionRequest;
use api::{DoctorReport, Guest, Problem, Queue, Ready, Resource, Token, Tool};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::id::TokenId;
use tokio::io::AsyncReadExt as _;

/// How much of a file is read at once.
const PIECE: usize = 256 * 1024;

/// List the guests that live in this process.
#[utoipa::path(get, path = "/v1/guests", tag = "operate", responses(
    (status = 200, description = "All of them.", body = Page<Guest>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn guests(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Page<Guest>> {
    Ok(Json(app.service.guests(&by).await?))
}

/// List the tools in every version.
#[utoipa::path(get, path = "/v1/tools", tag = "operate", params(ListQuery), responses(
    (status = 200, description = "A page, by name, newest version first.", body = Page<Tool>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn tools(
    State(app): State<App>,
    Caller(by): Caller,
    Query(query): Query<ListQuery>,
) -> Done<Page<Tool>> {
    Ok(Json(app.service.tools(&by, &query).await?))
}

/// Read every version of one tool.
#[utoipa::path(get, path = "/v1/tools/{name}", tag = "operate", params(("name" = String, Path, description = "`module.function`.")), responses(
    (status = 200, description = "Newest version first.", body = Page<Tool>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn tool(
    State(app): State<App>,
    Caller(by): Caller,
    Name(name): Name,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Page<Tool>> {
    Ok(Json(app.service.tool(&by, &name).await?))
}

/// Withdraw a tool, in one version or in all.
#[utoipa::path(post, path = "/v1/tools/{name}/withdraw", tag = "operate", request_body = Option<ActionRequest>,
    params(("name" = String, Path, description = "`module.function`, or with `@<version>`.")), responses(
    (status = 200, description = "The tool as it is now.", body = Page<Tool>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn withdraw(
    State(app): State<App>,
    Caller(by): Caller,
    Name(name): Name,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(ActionRequest { reason }): MaybeBody<ActionRequest>,
) -> Done<Page<Tool>> {
    Ok(Json(app.service.withdraw(&by, &name, reason.as_deref()).await?))
}

/// List the resources of this process.
#[utoipa::path(get, path = "/v1/resources", tag = "operate", responses(
    (status = 200, description = "All of them, by name.", body = Page<Resource>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn resources(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Page<Resource>> {
    Ok(Json(app.service.resources(&by).await?))
}

/// Bring a contained resource to a known state: what may still run of it is ended.
#[utoipa::path(post, path = "/v1/resources/{name}/reset", tag = "operate", request_body = Option<ActionRequest>,
    params(("name" = String, Path, description = "Its name.")), responses(
    (status = 200, description = "The resource; `changed` tells.", body = Resource),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn reset_resource(
    State(app): State<App>,
    Caller(by): Caller,
    Name(name): Name,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(ActionRequest { .. }): MaybeBody<ActionRequest>,
) -> Done<Resource> {
    Ok(Json(app.service.reset_resource(&by, &name).await?))
}

/// List the queues.
#[utoipa::path(get, path = "/v1/queues", tag = "operate", responses(
    (status = 200, description = "All of them.", body = Page<Queue>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn queues(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<Page<Queue>> {
    Ok(Json(app.service.queues(&by).await?))
}

/// Pause every run of a queue. What has begun goes on to its next safe place.
#[utoipa::path(post, path = "/v1/queues/{name}/pause", tag = "operate", request_body = Option<ActionRequest>,
    params(("name" = String, Path, description = "Its name.")), responses(
    (status = 200, description = "The queue with its pause; `changed` tells.", body = Queue),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn pause_queue(
    State(app): State<App>,
    Caller(by): Caller,
    Name(name): Name,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(ActionRequest { reason }): MaybeBody<ActionRequest>,
) -> Done<Queue> {
    Ok(Json(app.service.pause_queue(&by, &name, reason.as_deref()).await?))
}

/// Clear the pause of a queue, and no other over its runs.
#[utoipa::path(post, path = "/v1/queues/{name}/resume", tag = "operate", request_body = Option<ActionRequest>,
    params(("name" = String, Path, description = "Its name.")), responses(
    (status = 200, description = "The queue; `changed` tells.", body = Queue),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn resume_queue(
    State(app): State<App>,
    Caller(by): Caller,
    Name(name): Name,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(ActionRequest { reason: _ }): MaybeBody<ActionRequest>,
) -> Done<Queue> {
    Ok(Json(app.service.resume_queue(&by, &name).await?))
}

/// Make a token. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/v1/tokens", tag = "operate", request_body = NewToken, responses(
    (status = 201, description = "The token with its secret.", body = Token),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn new_token(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<NewToken>,
) -> Result<Response, Refused> {
    Ok(answer(StatusCode::CREATED, app.service.new_token(&by, &request).await?))
}

/// List the tokens, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", tag = "operate", params(ListQuery), responses(
    (status = 200, description = "A page, newest first.", body = Page<Token>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn tokens(
    State(app): State<App>,
    Caller(by): Caller,
    Query(query): Query<ListQuery>,
) -> Done<Page<Token>> {
    Ok(Json(app.service.tokens(&by, &query).await?))
}

/// Revoke a token.
#[utoipa::path(post, path = "/v1/tokens/{id}/revoke", tag = "operate", request_body = Option<ActionRequest>,
    params(("id" = String, Path, description = "A `tok_` id.")), responses(
    (status = 200, description = "The token; `changed` tells whether it was revoked just now.", body = Token),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn revoke_token(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<TokenId>,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(ActionRequest { reason: _ }): MaybeBody<ActionRequest>,
) -> Done<Token> {
    Ok(Json(app.service.revoke_token(&by, id).await?))
}

/// Check the store, its durability, the clock, the guest image, the approvers, and the runs that cannot go on.
#[utoipa::path(get, path = "/v1/doctor", tag = "operate", responses(
    (status = 200, description = "What was found.", body = DoctorReport),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn doctor(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
) -> Done<DoctorReport> {
    Ok(Json(app.service.doctor(&by).await?))
}

/// Copy the embedded store while it is in use. The copy is checked before it is sent.
#[utoipa::path(post, path = "/v1/backup", tag = "operate", request_body = Option<ActionRequest>, responses(
    (status = 200, description = "The copy, a SQLite database; `Repr-Digest` has its SHA-256.", body = Vec<u8>, content_type = "application/vnd.sqlite3"),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn backup(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    MaybeBody(ActionRequest { reason: _ }): MaybeBody<ActionRequest>,
) -> Result<Response, Refused> {
    let crate::service::Backup { file, bytes, digest } = app.service.backup(&by).await?;
    let pieces = futures_util::stream::try_unfold(file, async |mut file| {
        let mut piece = vec![0; PIECE];
        let n = file.read(&mut piece).await?;
        piece.truncate(n);
        Ok::<_, std::io::Error>((n > 0).then_some((piece, file)))
    });
    let digest = format!("sha-256=:{}:", STANDARD.encode(digest.as_bytes()));
    let headers = [
        (CONTENT_TYPE, "application/vnd.sqlite3".to_owned()),
        (CONTENT_LENGTH, bytes.to_string()),
        (HeaderName::from_static("repr-digest"), digest),
    ];
    Ok((headers, axum::body::Body::from_stream(pieces)).into_response())
}

/// Tell that the process answers.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()), responses((status = 200, description = "`ok`.", body = String)))]
pub(crate) async fn healthy(Query(NoQuery {}): Query<NoQuery>) -> &'static str {
    "ok\n"
}

/// Tell whether commands are taken.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()), responses(
    (status = 200, description = "It takes commands; `recovering` until one full recovery pass is done.", body = Ready),
    (status = 503, description = "It does not, and `reason` says why.", body = Ready)
))]
pub(crate) async fn ready(State(app): State<App>, Query(NoQuery {}): Query<NoQuery>) -> Response {
    let ready = app.service.ready(app.closing.is_cancelled());
    let status = if ready.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, ready)
}

/// Read the counts of this process in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health", security(()), responses(
    (status = 200, description = "Text format 0.0.4.", body = String, content_type = "text/plain; version=0.0.4")
))]
pub(crate) async fn metrics(State(app): State<App>, Query(NoQuery {}): Query<NoQuery>) -> Response {
    let page = app.metrics.page(&app.service.gauges().await);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
}
