//! Whether something is ready: one GET, whose status alone counts.
//!
//! The url is the operator's own, so no grant is asked; nothing is sent with it and no redirect is followed.

use std::time::Duration;

use http::{HeaderMap, Method};
use hyper::body::Bytes;
use tokio::time::timeout;
use url::Url;

use super::Net;
use super::talk::{Talk, ask};
use super::wire::Watch;

/// A server that is ready says so at once.
const LIMIT: Duration = Duration::from_secs(2);

/// Asks once; why it is not ready, if it is not.
pub(in crate::tools) async fn probe(url: &Url, net: &Net<'_>) -> Result<(), String> {
    let (headers, body) = (HeaderMap::new(), Bytes::new());
    let talk = Talk { method: Method::GET, url, headers, body, private: true, limit: LIMIT };
    let answer = match timeout(LIMIT, ask(talk, &Watch::default(), net)).await {
        Ok(answer) => answer?,
        Err(_) => return Err(format!("{url} did not answer within {LIMIT:?}")),
    };
    let status = answer.response.status();
    if status.is_success() { Ok(()) } else { Err(format!("{url} answered with status {}", status.as_u16())) }
}
