//! What handlers take from a request, read strictly.
//!
//! A body has a type, a limit that is judged before it is read (I-39), and a time in which it has to arrive; a query that
//! nobody knows is refused (I-37). An extractor that fails answers a problem, like everything else here.

use super::parse;
use super::problem::Refused;
use crate::service::problem::{not_found, problem, with_hint};
use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use protocol::code::Code;
use protocol::id::{RequestId, RunId};
use serde::de::DeserializeOwned;
use std::str::FromStr;
use std::time::Duration;

/// A body of verbs and small records.
pub(crate) const SMALL: usize = 64 << 10;
/// A body that carries an input, or arguments and an answer, of 1 MiB each, white space included.
pub(crate) const LARGE: usize = 4 << 20;
/// A body that carries a source of 1 MiB, in which JSON may write every byte as six, and its schemas.
pub(crate) const SOURCE: usize = 8 << 20;

/// How long a body may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);

/// A JSON body of at most `BYTES`.
#[derive(Debug)]
pub(crate) struct Body<T, const BYTES: usize = SMALL>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync, const BYTES: usize> FromRequest<S> for Body<T, BYTES> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        must_be_json(request.headers())?;
        let bytes = read(request, BYTES).await?;
        parse::body(&bytes, BYTES).map(Body)
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub(crate) struct MaybeBody<T, const BYTES: usize = SMALL>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync, const BYTES: usize> FromRequest<S> for MaybeBody<T, BYTES> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let headers = request.headers().clone();
        let bytes = read(request, BYTES).await?;
        if bytes.is_empty() {
            return Ok(MaybeBody(T::default()));
        }
        must_be_json(&headers)?;
        parse::body(&bytes, BYTES).map(MaybeBody)
    }
}

fn must_be_json(headers: &HeaderMap) -> Result<(), Refused> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let found = if kind.is_empty() { "none is named".to_owned() } else { format!("`{essence}` is another") };
    let detail = format!("the body has to be of type application/json; {found}");
    Err(Refused(with_hint(Code::UnsupportedMediaType, detail, "send `Content-Type: application/json`")))
}

async fn read(request: Request, limit: usize) -> Result<axum::body::Bytes, Refused> {
    let too_large = |size: String| {
        Refused::new(Code::RequestTooLarge, format!("the body has {size} bytes; this route takes {limit} at most"))
    };
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if let Some(length) = length.and_then(|length| length.parse::<u64>().ok())
        && length > limit as u64
    {
        return Err(too_large(length.to_string()));
    }
    match tokio::time::timeout(ARRIVES_WITHIN, to_bytes(request.into_body(), limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if over_limit(&error) => Err(too_large(format!("more than {limit}"))),
        Ok(Err(_)) => Err(Refused::new(Code::InvalidRequest, "the body ended too early")),
        Err(_) => Err(Refused::new(Code::InvalidRequest, format!("the body did not arrive within {ARRIVES_WITHIN:?}"))),
    }
}

fn over_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A query in which every name is known.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        parse::query(&parts.uri).map(Query)
    }
}

/// The query of a route that takes none.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoQuery {}

/// The one variable part of a route, as text.
#[derive(Debug)]
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match axum::extract::Path::<String>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(name)) => Ok(Name(name)),
            Err(_) => Err(Refused(not_found())),
        }
    }
}

/// An id in a path. A text that is no such id names nothing: the answer is that for an unknown one (C-306).
#[derive(Debug)]
pub(crate) struct Id<T>(pub(crate) T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Name(name) = Name::from_request_parts(parts, state).await?;
        name.parse().map(Id).map_err(|_| Refused(not_found()))
    }
}

/// Two ids in a path.
#[derive(Debug)]
pub(crate) struct Ids<A, B>(pub(crate) A, pub(crate) B);

impl<A: FromStr, B: FromStr, S: Send + Sync> FromRequestParts<S> for Ids<A, B> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let path = axum::extract::Path::<(String, String)>::from_request_parts(parts, state).await;
        let ids = path.ok().and_then(|axum::extract::Path((a, b))| Some(Ids(a.parse().ok()?, b.parse().ok()?)));
        ids.ok_or_else(|| Refused(not_found()))
    }
}

/// A run and a name in a path.
#[derive(Debug)]
pub(crate) struct NamedRun {
    pub(crate) run: RunId,
    pub(crate) name: String,
}

impl<S: Send + Sync> FromRequestParts<S> for NamedRun {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let path = axum::extract::Path::<(String, String)>::from_request_parts(parts, state).await;
        let named = path.ok().and_then(|axum::extract::Path((run, name))| Some((run.parse().ok()?, name)));
        let (run, name) = named.ok_or_else(|| Refused(not_found()))?;
        Ok(NamedRun { run, name })
    }
}

/// The request's own id, which the outermost layer minted.
pub(crate) fn request_id(parts: &Parts) -> RequestId {
    *parts.extensions.get::<RequestId>().expect("the outermost layer mints an id for every request")
}

/// The `Idempotency-Key` of a request: 1 to 256 visible characters.
#[derive(Debug)]
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else { return Ok(IdempotencyKey(None)) };
        let fits = |value: &HeaderValue| {
            let text = value.to_str().ok().filter(|text| (1..=256).contains(&text.len()))?;
            Some(text.to_owned())
        };
        match (fits(value), values.next()) {
            (Some(key), None) => Ok(IdempotencyKey(Some(key))),
            _ => Err(Refused(problem(
                Code::InvalidRequest,
                "`Idempotency-Key` has to be one text of 1 to 256 characters",
            ))),
        }
    }
}
