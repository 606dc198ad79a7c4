//! Errors at the door: every answer of 400 or more is `application/problem+json` with the request's id (I-36, I-46).
//!
//! Handlers and extractors answer [`Refused`]; it travels as an extension of the response and is written by the outermost
//! layer, which alone knows the request id. Whatever else answers with an error (a wrong method, an unknown route, a
//! panic) is turned into a problem there too, so no other shape ever leaves.

use api::Problem;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use protocol::code::Code;
use protocol::id::RequestId;

use crate::service::problem::problem;

/// A refusal on its way out.
#[derive(Clone, Debug)]
pub(crate) struct Refused(pub(crate) Box<Problem>);

impl From<Box<Problem>> for Refused {
    fn from(problem: Box<Problem>) -> Refused {
        Refused(problem)
    }
}

impl Refused {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Refused {
        Refused(problem(code, detail))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the problem of an answer that is an error; leaves every other answer as it is.
pub(crate) fn finish(mut response: Response, request: RequestId) -> Response {
    let status = response.status();
    let refused = response.extensions_mut().remove::<Refused>();
    let mut problem = match refused {
        Some(Refused(problem)) => problem,
        None if status.as_u16() < 400 || is_page(&response) => return response,
        None => plain(status),
    };
    problem.request_id = Some(request.to_string());
    let retry = problem.retry_after_ms.map(|ms| ms.div_ceil(1_000));
    let body = serde_json::to_vec(&problem).expect("a problem has text keys only");
    let headers = response.headers_mut();
    headers.remove(axum::http::header::CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(seconds) = retry {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    *response.body_mut() = Body::from(body);
    response
}

/// The console answers its own errors as pages; readiness answers 503 with its own object.
fn is_page(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.starts_with("text/html") || kind.starts_with("application/json")
}

/// The problem for an answer that a layer below gave without one.
fn plain(status: StatusCode) -> Box<Problem> {
    match status {
        StatusCode::NOT_FOUND => problem(Code::NotFound, "There is no such route."),
        StatusCode::METHOD_NOT_ALLOWED => problem(Code::MethodNotAllowed, "This route does not take this method."),
        StatusCode::PAYLOAD_TOO_LARGE => problem(Code::RequestTooLarge, "The body is over the limit."),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => problem(Code::UnsupportedMediaType, "The body is of another type."),
        status if status.is_client_error() => problem(Code::InvalidRequest, format!("{status}")),
        _ => problem(Code::Internal, "This is a bug; the log of the server has it under the request id."),
    }
}
