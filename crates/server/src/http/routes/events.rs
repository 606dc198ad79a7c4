//! `/v1/runs/{id}/events` and `/v1/events`: a stream, or pages (I-32).
//!
//! Whoever accepts an event stream gets one, and so does whoever says nothing; `?after=` without that word, or a wish for
//! JSON, gets a page. In a stream `Last-Event-ID` wins over `after`, since a browser that reconnects repeats the address.

use crate::auth::Caller;
use crate::http::App;
use crate::http::extract::{Id, Query};
use crate::http::problem::Refused;
use crate::http::sse;
use api::event::TailQuery;
use api::page::Tail;
use api::{Event, Problem};
use axum::Json;
use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use protocol::id::RunId;

/// Read or follow the events of a run.
#[utoipa::path(get, path = "/v1/runs/{id}/events", tag = "events",
    params(("id" = String, Path, description = "A `run_` id."), TailQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The last event that the reader has.")), responses(
    (status = 200, description = "Events in order, as a page or as a stream that ends with the run's end.", content(
        (Tail<Event> = "application/json"), (String = "text/event-stream"))),
    (status = 204, description = "The run has ended and the reader has everything: there is nothing to follow."),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn of_run(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<RunId>,
    Query(query): Query<TailQuery>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    if wants_page(&headers, &query) {
        return Ok(Json(app.service.events(&by, id, &query).await?).into_response());
    }
    let reader = app.service.read_run(&by, id, place(&headers, &query)).await?;
    if reader.is_over().await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(sse::of_run(app, reader))
}

/// Read or follow the events of all runs.
#[utoipa::path(get, path = "/v1/events", tag = "events",
    params(TailQuery, ("Last-Event-ID" = Option<String>, Header, description = "The place of the last event that the reader has.")), responses(
    (status = 200, description = "Events in order of commit, as a page or as a stream that begins now or after the place.", content(
        (Tail<Event> = "application/json"), (String = "text/event-stream"))),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn of_all(
    State(app): State<App>,
    Caller(by): Caller,
    Query(query): Query<TailQuery>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    if wants_page(&headers, &query) {
        return Ok(Json(app.service.all_events(&by, &query).await?).into_response());
    }
    let reader = app.service.follow_all(&by, place(&headers, &query)).await?;
    Ok(sse::of_all(app, reader))
}

fn wants_page(headers: &HeaderMap, query: &TailQuery) -> bool {
    let accepts =
        |kind: &str| headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|value| value.contains(kind)));
    !accepts("text/event-stream") && (query.after.is_some() || query.limit.is_some() || accepts("application/json"))
}

/// The reader's place: the header that a reconnecting browser sends, else the query's.
fn place<'a>(headers: &'a HeaderMap, query: &'a TailQuery) -> Option<&'a str> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    last.or(query.after.as_deref())
}
