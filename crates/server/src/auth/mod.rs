//! Who is asking: from a request to a principal (I-19a, I-52, I-65).
//!
//! Three doors. The socket is open to whoever may reach its file, as `local`; TCP wants a bearer token; the console wants
//! a session, and for every change the page's anti-forgery token and an origin of this server (C-221). A token may be
//! given at every door. A body never says who somebody is (C-177), and nothing here decides what a principal may do:
//! the rights are checked inside the commands.

pub(crate) mod guard;
pub(crate) mod guesses;
pub(crate) mod session;

use crate::http::App;
use crate::http::extract::request_id;
use crate::http::problem::Refused;
use crate::service::problem::with_hint;
use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method as Verb};
use protocol::approval::Method;
use protocol::code::Code;
use protocol::command;
use protocol::policy::Strength;
use session::Session;
use std::net::IpAddr;

/// Through which listener a request came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Door {
    /// `stasis.sock` of the data directory: its file mode is the sign-in.
    Socket,
    Tcp(IpAddr),
}

/// Where a request came from; nowhere, for the socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source(pub(crate) Option<IpAddr>);

impl FromRequestParts<App> for Source {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Self::Rejection> {
        Ok(Source(match door(parts) {
            Door::Socket => None,
            Door::Tcp(from) => Some(from),
        }))
    }
}

/// The authenticated caller of an API route.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) command::Caller);

impl FromRequestParts<App> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refused> {
        let door = door(parts);
        let request = request_id(parts);
        if let Some(secret) = bearer(&parts.headers)? {
            let principal = app.service.authenticate(secret).ok_or_else(|| {
                unauthenticated("this token is unknown, expired or revoked", "stasis token new --principal P")
            })?;
            let method = if door == Door::Socket { Method::Cli } else { Method::Api };
            return Ok(Caller(command::Caller { principal, method, strength: Strength::Session, request }));
        }
        if door == Door::Socket {
            let principal = app.service.local();
            return Ok(Caller(command::Caller {
                principal,
                method: Method::Cli,
                strength: Strength::Session,
                request,
            }));
        }
        // A session of the console may read; what it changes goes through the pages, whose forms carry the token.
        if parts.method == Verb::GET
            && let Some(visitor) = visitor(parts, app)
        {
            return Ok(Caller(visitor.caller));
        }
        Err(unauthenticated(
            "this needs a token",
            "give it with --token or STASIS_TOKEN (over HTTP: `Authorization: Bearer <token>`); `stasis token new --principal P` makes one",
        ))
    }
}

/// A signed-in person on a page of the console.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) caller: command::Caller,
    /// What every form of the page carries (C-221).
    pub(crate) csrf: String,
}

impl Visitor {
    /// Refuses a change that did not come from a page of ours: token and origin have both to fit (C-221).
    pub(crate) fn guard(&self, headers: &HeaderMap, app: &App, csrf: &str) -> Result<(), Refused> {
        if !guard::same(csrf.as_bytes(), self.csrf.as_bytes())
            || !guard::own_origin(headers, app.public_origin.as_deref())
        {
            let detail = "this form did not come from a page of this server";
            return Err(Refused(with_hint(Code::NotPermitted, detail, "reload the page and try again")));
        }
        Ok(())
    }
}

/// Who a session is; `None` without one, and then a page sends to sign-in.
#[derive(Clone, Debug)]
pub(crate) struct MaybeVisitor(pub(crate) Option<Visitor>);

impl FromRequestParts<App> for MaybeVisitor {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        Ok(MaybeVisitor(visitor(parts, app)))
    }
}

/// The session's principal, looked up anew at every request: what was revoked meanwhile is gone.
fn visitor(parts: &Parts, app: &App) -> Option<Visitor> {
    let Session { by, csrf } = app.sessions.find(cookie(&parts.headers)?, crate::clock::now())?;
    let principal = match by {
        session::By::Link(subject) => app.service.principal(&subject)?,
        session::By::Token(secret) => app.service.authenticate(&secret)?,
    };
    let request = request_id(parts);
    let caller = command::Caller { principal, method: Method::Console, strength: Strength::Session, request };
    Some(Visitor { caller, csrf })
}

/// The session cookie of a request.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == session::COOKIE).map(|(_, value)| value)
}

fn door(parts: &Parts) -> Door {
    *parts.extensions.get::<Door>().expect("every listener says which door it is")
}

/// The bearer token, if one is given; another scheme is refused rather than ignored.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refused> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let token = value.to_str().ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    match token {
        Some(token) if !token.is_empty() => Ok(Some(token)),
        _ => Err(unauthenticated("the `Authorization` header is not of the form `Bearer <token>`", "stasis token new")),
    }
}

fn unauthenticated(detail: &str, hint: &str) -> Refused {
    Refused(with_hint(Code::Unauthenticated, detail, hint))
}
