//! What surrounds every route: the request's id, the shape of errors, security headers, the count and the log line.
//!
//! A log line names the route as it is written in the table, never the address that was asked for, so that no token in a
//! link reaches the log (C-222).

use super::App;
use super::problem::{Refused, finish};
use crate::auth::guard;
use crate::clock;
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::HeaderName;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use protocol::code::Code;
use protocol::id::RequestId;
use tower_http::catch_panic::CatchPanicLayer;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Puts the layers around the routes.
pub(super) fn around(routes: Router<App>, app: App) -> Router {
    routes
        .fallback(|| async { Refused::new(Code::NotFound, "There is no such route.") })
        .method_not_allowed_fallback(|| async {
            Refused::new(Code::MethodNotAllowed, "This route does not take this method.")
        })
        .layer(CatchPanicLayer::custom(|panic: Box<dyn std::any::Any + Send>| panicked(&panic)))
        .layer(from_fn_with_state(app.clone(), outermost))
        .with_state(app)
}

async fn outermost(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id: RequestId = clock::request_id();
    let start = clock::instant();
    request.extensions_mut().insert(id);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("(none)", |path| path.as_str()).to_owned();
    let mut response = finish(next.run(request).await, id);
    guard::secure(response.headers_mut());
    let text = HeaderValue::from_str(&id.to_string()).expect("an id is ASCII");
    response.headers_mut().insert(REQUEST_ID, text);
    let (status, took) = (response.status(), start.elapsed());
    app.metrics.answered(&method, &route, status, took);
    if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
        tracing::error!(request = %id, %method, %route, status = status.as_u16(), ms = took.as_millis(), "answered");
    } else {
        tracing::debug!(request = %id, %method, %route, status = status.as_u16(), ms = took.as_millis(), "answered");
    }
    response
}

/// A panic of a handler is a bug of that request alone (I-47).
fn panicked(panic: &Box<dyn std::any::Any + Send>) -> Response {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
    tracing::error!(panic = said, "a handler panicked");
    Refused::new(Code::Internal, "This is a bug; the log of the server has it under the request id.").into_response()
}
