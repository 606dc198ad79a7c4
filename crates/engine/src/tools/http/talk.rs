//! One request to a place that the operator named, and its whole answer: agents, probes and webhooks.
//!
//! No redirect is followed. A name is resolved once, and what it resolves to is what is connected to.

use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::time::timeout;
use url::{Host, Url};

use super::super::address::{self, Class};
use super::exchange::{Answer, Body};
use super::wire::Watch;
use super::{Net, Target, exchange, wire};

/// One request.
pub(super) struct Talk<'a> {
    pub(super) method: Method,
    pub(super) url: &'a Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Whether an address that is not public may be connected to.
    pub(super) private: bool,
    /// For the connection, its handshake, and each resolution.
    pub(super) limit: Duration,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Said {
    /// Nothing of it left this machine.
    Unsent(String),
    /// It left, or some of it, and there is no whole answer.
    Cut(String),
    Answered(StatusCode, Vec<u8>),
}

/// Sends it, and reads an answer of up to `most` bytes within `limit`.
pub(in crate::tools) async fn talk(
    method: Method,
    url: &Url,
    headers: HeaderMap,
    body: Bytes,
    (limit, most): (Duration, u64),
    net: &Net<'_>,
) -> Said {
    let watch = Watch::default();
    let whole = async {
        let answer = ask(Talk { method, url, headers, body, private: true, limit }, &watch, net).await?;
        let status = answer.response.status();
        match answer.body(most).await {
            Body::Whole(bytes) => Ok((status, bytes)),
            Body::Longer(_) => Err(format!("an answer of more than {most} bytes")),
            Body::Cut(error) => Err(format!("no whole answer: {error}")),
        }
    };
    let why = match timeout(limit, whole).await {
        Ok(Ok((status, bytes))) => return Said::Answered(status, bytes),
        Ok(Err(why)) => why,
        Err(_) => format!("no answer within {limit:?}"),
    };
    if watch.sent() { Said::Cut(why) } else { Said::Unsent(why) }
}

/// Sends it and waits for the head of the answer.
pub(super) async fn ask(talk: Talk<'_>, watch: &Watch, net: &Net<'_>) -> Result<Answer, String> {
    let Talk { method, url, headers, body, private, limit } = talk;
    let target = target(url).ok_or_else(|| format!("{url} names no host"))?;
    let addresses = net.names.resolve(&target.host).await.map_err(|error| format!("{target}: {error}"))?;
    let inner = addresses.iter().map(|at| address::class(*at)).find(|class| *class != Class::Public && !private);
    if let Some(class) = inner {
        return Err(format!("{target} is a {class} address, which `[server] private_webhooks` does not allow"));
    }
    let stream = wire::open(&target, &addresses, net.tls, limit, watch).await?;
    let mut request = Request::builder()
        .method(method)
        .uri(&url[url::Position::BeforePath..url::Position::AfterQuery])
        .header(header::HOST, target.authority())
        .header(header::USER_AGENT, concat!("stasis/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close");
    if !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let mut request = request.body(Full::new(body)).map_err(|error| format!("{url}: {error}"))?;
    request.headers_mut().extend(headers);
    exchange::ask(stream, request).await.map_err(|error| format!("{target}: no answer: {error}"))
}

fn target(url: &Url) -> Option<Target> {
    let host = match url.host()? {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    Some(Target { https: url.scheme() == "https", host, port: url.port_or_known_default()? })
}
