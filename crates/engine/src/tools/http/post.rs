//! Sending a message to a webhook: one POST, whose status alone counts.
//!
//! An address that is not public is refused unless the operator allows it (I-34).

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use hyper::body::Bytes;
use tokio::time::timeout;
use url::Url;

use super::Net;
use super::talk::{Talk, ask};
use super::wire::Watch;

/// A receiver takes a message and works on it later.
const LIMIT: Duration = Duration::from_secs(15);

/// Sends `body`; the status of the answer, or why there is none.
pub(in crate::tools) async fn post(
    url: &Url,
    headers: HeaderMap,
    body: Bytes,
    private: bool,
    net: &Net<'_>,
) -> Result<StatusCode, String> {
    let talk = Talk { method: Method::POST, url, headers, body, private, limit: LIMIT };
    match timeout(LIMIT, ask(talk, &Watch::default(), net)).await {
        Ok(answer) => answer.map(|answer| answer.response.status()),
        Err(_) => Err(format!("no answer within {LIMIT:?}")),
    }
}
