//! Whether something is ready: one GET, whose status alone counts.
//!
//! The url is the operator's own, so no grant is asked; nothing is sent with it and no redirect is followed.

use std::time::Duration;

use http::{Request, header};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::time::timeout;
use url::{Host, Url};

use super::wire::Watch;
use super::{Net, Target, exchange, wire};

/// A server that is ready says so at once.
const LIMIT: Duration = Duration::from_secs(2);

/// Asks once; why it is not ready, if it is not.
pub(in crate::tools) async fn probe(url: &Url, net: &Net<'_>) -> Result<(), String> {
    match timeout(LIMIT, ask(url, net)).await {
        Ok(told) => told,
        Err(_) => Err(format!("{url} did not answer within {LIMIT:?}")),
    }
}

async fn ask(url: &Url, net: &Net<'_>) -> Result<(), String> {
    let target = target(url).ok_or_else(|| format!("{url} names no host"))?;
    let addresses = net.names.resolve(&target.host).await.map_err(|error| format!("{target}: {error}"))?;
    let stream = wire::open(&target, &addresses, net.tls, LIMIT, &Watch::default()).await?;
    let request = Request::get(&url[url::Position::BeforePath..url::Position::AfterQuery])
        .header(header::HOST, target.authority())
        .header(header::USER_AGENT, concat!("stasis/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close")
        .body(Full::new(Bytes::new()))
        .map_err(|error| format!("{url}: {error}"))?;
    let answer = exchange::ask(stream, request).await.map_err(|error| format!("{target}: no answer: {error}"))?;
    let status = answer.response.status();
    if status.is_success() { Ok(()) } else { Err(format!("{url} answered with status {}", status.as_u16())) }
}

pub(super) fn target(url: &Url) -> Option<Target> {
    let host = match url.host()? {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    Some(Target { https: url.scheme() == "https", host, port: url.port_or_known_default()? })
}
