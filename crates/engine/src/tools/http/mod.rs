//! The HTTP connector (C-251 to C-260).
//!
//! Owns one call from resolved address to outcome: connect to a checked address, send once, judge the answer. It keeps
//! no connection and retries nothing: whether a call may be made again is decided above, by the tool's recovery class.
//! Invariant: an error that says "nothing was changed" is backed by the socket or by the other side's own answer.

mod content;
mod exchange;
mod post;
mod probe;
mod request;
mod talk;
mod tls;
mod verdict;
mod wire;

use std::net::IpAddr;
use std::time::Duration;

use http::header::{self, HeaderName, HeaderValue};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Bytes;
use protocol::call::Applied;
use protocol::code::Code;
use protocol::json::Value;
use protocol::tool::{Effect, Http, Method};
use url::Url;

use super::address::{self, Class};
use super::answer::{self, Form};
use super::grant::Grant;
use super::names::Names;
use super::outcome::{Outcome, detail};
use super::secret::Redactor;
use super::{Unfit, Unready};

use exchange::{Answer, Body};
use verdict::{Again, Verdict, verdict};
use wire::Watch;

use request::Parts;

pub(super) use content::digest;
pub(super) use post::post;
pub(super) use probe::probe;
pub(crate) use request::{Target, canonical};
pub(crate) use talk::Said;
pub(super) use talk::talk;
pub(super) use tls::Tls;
pub use tls::Trust;

/// Longest time to connect, and again to shake hands, whatever the tool's own limit (C-250).
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Redirects a `read` follows (C-252).
const REDIRECTS: usize = 3;

/// What is read of an answer that is no result: enough for a detail, and for a secret in it to be whole.
const REFUSAL_BYTES: u64 = 66 * 1024;

/// The header that carries the key (C-254).
const KEY_HEADER: &str = "idempotency-key";

/// What every call needs from its surroundings.
pub(super) struct Net<'a> {
    pub(super) names: &'a Names,
    pub(super) tls: &'a Tls,
}

/// One call, ready to go.
pub(super) struct Call<'a> {
    pub(super) effect: Effect,
    pub(super) http: &'a Http,
    pub(super) grant: &'a Grant,
    /// With the values of secrets in place of their names (C-270).
    pub(super) arguments: &'a Value,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) key: Option<&'a str>,
    pub(super) result_bytes: u64,
    pub(super) redactor: &'a Redactor,
    pub(super) progress: &'a Progress,
}

/// How far a call has come, for whoever has to cut it.
#[derive(Default)]
pub(super) struct Progress(Watch);

impl Progress {
    /// Whether a byte of the request may have left this machine.
    pub(super) fn sent(&self) -> bool {
        self.0.sent()
    }
}

/// Makes the call. The caller bounds its time; a future that is dropped closes the connection.
pub(super) async fn run(call: &Call<'_>, net: &Net<'_>) -> Outcome {
    let parts = match request::parts(call.http, call.arguments) {
        Ok(parts) => parts,
        Err(unfit) => return Outcome::error(Code::InvalidArguments, unfit.to_string(), Applied::No),
    };
    let target = Target::of(&call.http.url);
    let addresses = match addresses(&target, call.grant, net.names).await {
        Ok(addresses) => addresses,
        Err(why) => return Outcome::error(Code::ConnectorUnreachable, why, Applied::No),
    };
    let mut ask = Ask { method: method(call.http), parts };
    for _ in 0..=REDIRECTS {
        match step(call, net, &target, &addresses, &ask).await {
            Step::End(outcome) => return outcome,
            Step::Follow(next) => ask = next,
        }
    }
    Outcome::error(Code::RedirectRefused, format!("more than {REDIRECTS} redirects"), Applied::No)
}

/// Whether the arguments make a request (broker step 9).
pub(super) fn fit(http: &Http, arguments: &Value) -> Result<(), Unfit> {
    request::parts(http, arguments).map(drop)
}

/// Whether the grant covers the place the url names (C-251).
pub(super) fn ready(http: &Http, grant: &Grant) -> Result<(), Unready> {
    let target = Target::of(&http.url);
    if grant.allows(&target.host, target.port) {
        return Ok(());
    }
    Err(Unready::new(format!("{target} is not in the grant")))
}

/// One request; the headers are the same for all of a call.
struct Ask {
    method: http::Method,
    parts: Parts,
}

enum Step {
    End(Outcome),
    Follow(Ask),
}

fn method(http: &Http) -> http::Method {
    match http.method {
        Method::Get => http::Method::GET,
        Method::Head => http::Method::HEAD,
        Method::Post => http::Method::POST,
        Method::Put => http::Method::PUT,
        Method::Patch => http::Method::PATCH,
        Method::Delete => http::Method::DELETE,
    }
}

/// The addresses of the target that may be connected to: resolved once, each checked (C-253).
async fn addresses(target: &Target, grant: &Grant, names: &Names) -> Result<Vec<IpAddr>, String> {
    if !grant.allows(&target.host, target.port) {
        return Err(format!("{target} is not in the grant"));
    }
    let found = match tokio::time::timeout(CONNECT_LIMIT, names.resolve(&target.host)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(format!("{target}: the name does not resolve: {error}")),
        Err(_) => return Err(format!("{target}: the name does not resolve within {CONNECT_LIMIT:?}")),
    };
    let allowed: Vec<IpAddr> = found.iter().copied().filter(|address| may_reach(target, *address, grant)).collect();
    match (allowed.is_empty(), found.first()) {
        (true, Some(first)) => Err(format!(
            "{target}: the name leads to the {} address {first}, which the grant does not name",
            address::class(*first)
        )),
        _ => Ok(allowed),
    }
}

fn may_reach(target: &Target, address: IpAddr, grant: &Grant) -> bool {
    let host = target.host.as_str();
    match address::class(address) {
        Class::Public => true,
        // `localhost` written out names this machine, and an address written out names itself.
        Class::Loopback if host == "localhost" => true,
        _ => host.parse::<IpAddr>() == Ok(address) || grant.names_address(address, target.port),
    }
}

async fn step(call: &Call<'_>, net: &Net<'_>, target: &Target, addresses: &[IpAddr], ask: &Ask) -> Step {
    let request = match request(call, target, ask) {
        Ok(request) => request,
        Err(error) => return Step::End(Outcome::error(Code::InvalidArguments, error.to_string(), Applied::No)),
    };
    let watch = &call.progress.0;
    let stream = match wire::open(target, addresses, net.tls, CONNECT_LIMIT, watch).await {
        Ok(stream) => stream,
        Err(why) => return Step::End(Outcome::error(Code::ConnectorUnreachable, why, Applied::No)), // C-259
    };
    let answer = match exchange::ask(stream, request).await {
        Ok(answer) => answer,
        Err(error) => return Step::End(broken(call, &error)),
    };
    let status = answer.response.status();
    match verdict(call.effect, status.as_u16(), call.http.statuses.get(&status.as_u16()).copied()) {
        Verdict::Ok => Step::End(result(call, answer).await),
        Verdict::Error => Step::End(Outcome::error(Code::HandlerError, refusal(call, answer).await, Applied::No)),
        Verdict::Ambiguous => Step::End(Outcome::ambiguous(refusal(call, answer).await)),
        Verdict::RedirectRefused => {
            let detail = format!("status {status}: a call that changes something follows no redirect");
            Step::End(Outcome::error(Code::RedirectRefused, detail, Applied::No))
        }
        Verdict::Follow(again) => follow(target, ask, &answer, again),
    }
}

fn request(call: &Call<'_>, target: &Target, ask: &Ask) -> Result<Request<Full<Bytes>>, http::Error> {
    let mut request = head(target, ask)?.header(header::ACCEPT, "application/json, */*;q=0.5");
    if ask.parts.body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = ask.parts.body.clone().unwrap_or_default();
    let mut request = request.body(Full::new(Bytes::from(body)))?;
    for (name, value) in &call.headers {
        request.headers_mut().insert(name.clone(), value.clone());
    }
    if let Some(key) = call.key {
        let name = call.http.idempotency_header.as_deref().unwrap_or(KEY_HEADER);
        request.headers_mut().insert(HeaderName::try_from(name)?, HeaderValue::try_from(key)?);
    }
    Ok(request)
}

/// What every request says.
fn head(target: &Target, ask: &Ask) -> Result<http::request::Builder, http::Error> {
    let head = Request::builder()
        .method(ask.method.clone())
        .uri(ask.parts.uri.parse::<Uri>()?)
        .header(header::HOST, target.authority())
        .header(header::USER_AGENT, concat!("stasis/", env!("CARGO_PKG_VERSION")))
        // Nothing is decompressed, so nothing can unfold beyond its limit (C-254).
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::CONNECTION, "close");
    Ok(head)
}

/// No whole answer.
fn broken(call: &Call<'_>, error: &hyper::Error) -> Outcome {
    let mut text = format!("no whole answer: {error}");
    if let Some(source) = std::error::Error::source(error) {
        text = format!("{text}: {source}");
    }
    match (call.effect, call.progress.sent()) {
        (Effect::Write, true) => Outcome::ambiguous(text), // C-121, C-258
        _ => Outcome::error(Code::ConnectorUnreachable, text, Applied::No),
    }
}

/// The other side reported success: read what it says.
async fn result(call: &Call<'_>, answer: Answer) -> Outcome {
    let form = form(answer.response.headers());
    let unfit = match answer.body(call.result_bytes).await {
        Body::Cut(error) => return broken(call, &error),
        Body::Longer(_) => answer::Unfit::too_large(call.result_bytes),
        Body::Whole(bytes) => match answer::read(&bytes, form, call.result_bytes, call.redactor) {
            Ok(result) => return Outcome::Ok { result },
            Err(unfit) => unfit,
        },
    };
    unfit.outcome(call.effect)
}

/// What the headers say about the form of the body. An encoded body is bytes: nothing is unfolded.
fn form(headers: &http::HeaderMap) -> Form {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if text(header::CONTENT_ENCODING).is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return Form::Other;
    }
    match text(header::CONTENT_TYPE) {
        None | Some("") => Form::Unsaid,
        Some(full) => {
            let kind = full.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            if kind == "application/json" || kind.ends_with("+json") { Form::Json } else { Form::Other }
        }
    }
}

/// Status and scrubbed text of an answer that is no result.
async fn refusal(call: &Call<'_>, answer: Answer) -> String {
    let status = answer.response.status();
    let text = match answer.body(REFUSAL_BYTES).await {
        Body::Whole(bytes) | Body::Longer(bytes) => bytes,
        // The status is the answer; its text is only for people.
        Body::Cut(_) => Vec::new(),
    };
    detail(&format!("status {}", status_text(status)), &text, call.redactor)
}

fn status_text(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// Where a redirect leads, if it stays with the same scheme, host and port (C-252).
fn follow(target: &Target, ask: &Ask, answer: &Answer, again: Again) -> Step {
    let refuse = |why: String| Step::End(Outcome::error(Code::RedirectRefused, why, Applied::No));
    let status = answer.response.status().as_u16();
    let location = answer.response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    let Some(location) = location else {
        return refuse(format!("status {status} without a place to go"));
    };
    let Ok(url) = Url::parse(&format!("{target}{}", ask.parts.uri)).and_then(|base| base.join(location)) else {
        return refuse(format!("status {status} to what is no url"));
    };
    let host = url.host_str().map(|host| host.trim_start_matches('[').trim_end_matches(']'));
    let same = url.scheme() == target.scheme()
        && host == Some(target.host.as_str())
        && url.port_or_known_default() == Some(target.port)
        && url.username().is_empty()
        && url.password().is_none();
    if !same {
        return refuse(format!("status {status} to another place than {target}"));
    }
    let uri = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let (method, body) = match again {
        Again::Same => (ask.method.clone(), ask.parts.body.clone()),
        Again::Get if ask.method == http::Method::HEAD => (http::Method::HEAD, None),
        Again::Get => (http::Method::GET, None),
    };
    Step::Follow(Ask { method, parts: Parts { uri, body } })
}
