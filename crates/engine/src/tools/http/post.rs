//! Sending a message to a webhook: one POST, whose status alone counts.
//!
//! No redirect is followed. A name is resolved once, and what it resolves to is what is connected to: an address that is not
//! public is refused unless the operator allows it (I-34).

use std::time::Duration;

use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::time::timeout;
use url::Url;

use super::super::address::{self, Class};
use super::probe::target;
use super::wire::Watch;
use super::{Net, exchange, wire};

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
    match timeout(LIMIT, send(url, headers, body, private, net)).await {
        Ok(told) => told,
        Err(_) => Err(format!("no answer within {LIMIT:?}")),
    }
}

async fn send(url: &Url, headers: HeaderMap, body: Bytes, private: bool, net: &Net<'_>) -> Result<StatusCode, String> {
    let target = target(url).ok_or_else(|| "the url names no host".to_owned())?;
    let addresses = net.names.resolve(&target.host).await.map_err(|error| format!("{target}: {error}"))?;
    if let Some(class) =
        addresses.iter().map(|at| address::class(*at)).find(|class| *class != Class::Public && !private)
    {
        return Err(format!("{target} is a {class} address, which `[server] private_webhooks` does not allow"));
    }
    let stream = wire::open(&target, &addresses, net.tls, LIMIT, &Watch::default()).await?;
    let mut request = Request::post(&url[url::Position::BeforePath..url::Position::AfterQuery])
        .header(header::HOST, target.authority())
        .header(header::USER_AGENT, concat!("stasis/", env!("CARGO_PKG_VERSION")))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    request.headers_mut().extend(headers);
    let answer = exchange::ask(stream, request).await.map_err(|error| format!("{target}: no answer: {error}"))?;
    Ok(answer.response.status())
}
