//! What a url answers, read for its digest alone (C-142).
//!
//! The url is an argument: whoever wrote it does not choose where this machine connects. It is fetched only where the
//! tool's grant leads (C-251, C-253), without the tool's headers, whose secrets are for the tool's own server. Redirects
//! are those of a `read` (C-252).

use http_body_util::Full;
use hyper::body::Bytes;
use protocol::digest::Digest;
use protocol::limits::OPERAND_BYTES;
use protocol::tool::Effect;
use url::Url;

use super::request::{Parts, Target};
use super::verdict::{Verdict, verdict};
use super::wire::{self, Watch};
use super::{Ask, CONNECT_LIMIT, Net, REDIRECTS, Step, addresses, exchange, follow, head, status_text};
use crate::tools::grant::Grant;
use crate::tools::outcome::Outcome;

/// The digest of what the url answers, or why there is none. The caller bounds its time.
pub(in crate::tools) async fn digest(url: &str, grant: &Grant, net: &Net<'_>) -> Result<Digest, String> {
    let (target, uri) = place(url)?;
    let addresses = addresses(&target, grant, net.names).await?;
    let mut ask = Ask { method: http::Method::GET, parts: Parts { uri, body: None } };
    for _ in 0..=REDIRECTS {
        let request = head(&target, &ask).and_then(|head| head.body(Full::new(Bytes::new())));
        let request = request.map_err(|error| error.to_string())?;
        let stream = wire::open(&target, &addresses, net.tls, CONNECT_LIMIT, &Watch::default()).await?;
        let cut = |error: hyper::Error| format!("{target}: no whole answer: {error}");
        let answer = exchange::ask(stream, request).await.map_err(cut)?;
        let status = answer.response.status();
        match verdict(Effect::Read, status.as_u16(), None) {
            Verdict::Ok => {
                let digest = answer.digest(OPERAND_BYTES).await.map_err(cut)?;
                return digest.ok_or_else(|| format!("has more than {OPERAND_BYTES} bytes"));
            }
            Verdict::Follow(again) => match follow(&target, &ask, &answer, again) {
                Step::Follow(next) => ask = next,
                Step::End(Outcome::Error { detail, .. } | Outcome::Ambiguous { detail }) => return Err(detail),
                Step::End(Outcome::Ok { .. }) => unreachable!("a redirect is no result"),
            },
            _ => return Err(format!("{target} answers {}", status_text(status))),
        }
    }
    Err(format!("more than {REDIRECTS} redirects"))
}

/// Where a url leads, and the path and query to ask for.
fn place(text: &str) -> Result<(Target, String), String> {
    let url = Url::parse(text).map_err(|error| format!("is no url: {error}"))?;
    let https = match url.scheme() {
        "https" => true,
        "http" => false,
        other => return Err(format!("is a url of scheme `{other}`, which is not read")),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err("is a url with a user name or a password in it".to_owned());
    }
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err("is a url without a host".to_owned());
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let uri = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    Ok((Target { https, host, port }, uri))
}
