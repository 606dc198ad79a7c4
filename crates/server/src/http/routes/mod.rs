//! The handlers, one file a noun: each takes a request apart, asks the service, and names the status of the answer.

pub(super) mod approvals;
pub(super) mod audit;
pub(super) mod effects;
pub(super) mod events;
pub(super) mod jobs;
pub(super) mod operate;
pub(super) mod runs;
pub(super) mod signals;
pub(super) mod webhooks;
pub(super) mod workflows;

use super::problem::Refused;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// An answer with its status.
fn answer(status: StatusCode, body: impl Serialize) -> Response {
    (status, Json(body)).into_response()
}

/// 200 with an object, or the problem.
type Done<T> = Result<Json<T>, Refused>;
