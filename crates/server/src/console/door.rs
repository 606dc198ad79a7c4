//! The way in: who is signed in, and the requests that sign in and out.
//!
//! A page without a session sends to sign-in and back. A sign-in by link or token has to come from a page of this server,
//! so that nobody is signed in as somebody else from outside; it opens a fresh session each time.

use super::draft::BareForm;
use super::forms::encoded;
use super::layout::{View, bare};
use super::pages::failed;
use super::posted::Posted;
use super::sign_in;
use crate::auth::session::{By, clear_cookie, set_cookie};
use crate::auth::{MaybeVisitor, Source, Visitor, cookie, guard};
use crate::clock;
use crate::http::App;
use crate::http::extract::{Name, Query};
use crate::http::problem::Refused;
use axum::extract::{FromRequestParts, State};
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{DOCTYPE, Markup, html};
use serde::Deserialize;

/// Where a sign-in leads that names no page.
const HOME: &str = "/console/approvals";

/// A person who is signed in. Others are sent to sign-in.
#[derive(Clone, Debug)]
pub(super) struct Signed(pub Visitor);

impl Signed {
    /// What pages say about the person who looks at them.
    pub(super) fn view(&self, app: &App) -> View {
        let principal = &self.0.caller.principal;
        View {
            subject: principal.id.clone(),
            name: principal.name.clone(),
            principal: principal.clone(),
            csrf: self.0.csrf.clone(),
            now: app.service.now(),
        }
    }
}

impl FromRequestParts<App> for Signed {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let Ok(MaybeVisitor(visitor)) = MaybeVisitor::from_request_parts(parts, app).await;
        visitor.map(Signed).ok_or_else(|| stranger(parts))
    }
}

/// A visitor without a session: to sign-in, and from there to the page that was asked for.
fn stranger(parts: &Parts) -> Response {
    let here = parts.uri.path_and_query().map_or(HOME, |path| path.as_str());
    let came_from_elsewhere = parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if parts.method != Method::GET {
        return Redirect::to("/console/sign-in").into_response();
    }
    if came_from_elsewhere {
        // The cookie is not sent along with a link of another site; it is with a request of our own page.
        return knock_again(here).into_response();
    }
    Redirect::to(&format!("/console/sign-in?next={}", encoded(here))).into_response()
}

fn knock_again(here: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en";
        head {
            meta charset="utf-8";
            title { "Stasis" }
            meta http-equiv="refresh" content=(format!("0;url={here}"));
        }
        body { a href=(here) { "Go on" } }
    }
}

/// A page of this console to go to, from a query or a form. Anything else is no place to be sent to.
fn page_of_ours(next: &str) -> Option<&str> {
    let plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    (next.starts_with("/console/") && plain && !next.contains("//") && !next.contains("/..")).then_some(next)
}

/// Query of the sign-in page.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SignInQuery {
    next: Option<String>,
    out: Option<String>,
}

/// The form of the sign-in page.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SignInForm {
    token: String,
    next: Option<String>,
}

pub(super) async fn sign_in(query: Result<Query<SignInQuery>, Refused>) -> Response {
    match query {
        Ok(Query(query)) if query.out.is_some() => bare("Signed out", &sign_in::signed_out()).into_response(),
        Ok(Query(query)) => bare("Sign in", &sign_in::form(query.next.as_deref(), None)).into_response(),
        Err(Refused(problem)) => failed(None, &problem),
    }
}

pub(super) async fn with_token(
    State(app): State<App>,
    source: Source,
    headers: HeaderMap,
    form: Result<Posted<SignInForm>, Refused>,
) -> Response {
    let Ok(Posted(form)) = form else { return again(None, "The form could not be read.", StatusCode::BAD_REQUEST) };
    let next = form.next.as_deref();
    if !guard::own_origin(&headers, app.public_origin.as_deref()) {
        return again(next, "This form did not come from a page of this server.", StatusCode::FORBIDDEN);
    }
    if let Some(answer) = held_back(&app, source, next) {
        return answer;
    }
    let token = form.token.trim();
    if app.service.authenticate(token).is_none() {
        app.guesses.wrong(source.0, clock::now());
        return again(next, "This token is unknown, expired or revoked.", StatusCode::FORBIDDEN);
    }
    welcome(&app, &headers, By::Token(token.to_owned()), next)
}

fn again(next: Option<&str>, fault: &str, status: StatusCode) -> Response {
    (status, bare("Sign in", &sign_in::form(next, Some(fault)))).into_response()
}

/// The page behind a link. It looks the same for every link and changes nothing (C-214, C-219).
pub(super) async fn link(Name(link): Name) -> Response {
    bare("Sign in", &sign_in::link(&super::sign_in_path(&encoded(&link)))).into_response()
}

pub(super) async fn with_link(
    State(app): State<App>,
    source: Source,
    Name(link): Name,
    headers: HeaderMap,
) -> Response {
    if !guard::own_origin(&headers, app.public_origin.as_deref()) {
        return again(None, "This form did not come from a page of this server.", StatusCode::FORBIDDEN);
    }
    if let Some(answer) = held_back(&app, source, None) {
        return answer;
    }
    match app.sessions.spend(&link, clock::now()) {
        Some(by) => welcome(&app, &headers, by, None),
        None => {
            app.guesses.wrong(source.0, clock::now());
            again(None, "This link is unknown, used or expired.", StatusCode::FORBIDDEN)
        }
    }
}

/// The answer to one guess too many (C-219); a right one is not looked at either, so that the answer tells nothing.
fn held_back(app: &App, source: Source, next: Option<&str>) -> Option<Response> {
    let wait = app.guesses.wait(source.0, clock::now())?;
    let mut answer = again(next, "Too many wrong tries. Wait a minute.", StatusCode::TOO_MANY_REQUESTS);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
    Some(answer)
}

/// Opens a session; the one before it ends.
fn welcome(app: &App, headers: &HeaderMap, by: By, next: Option<&str>) -> Response {
    if let Some(before) = cookie(headers) {
        app.sessions.close(before);
    }
    let secure = app.public_origin.as_deref().is_some_and(|origin| origin.starts_with("https:"));
    let cookie = set_cookie(&app.sessions.open(by, clock::now()), secure);
    let to = next.and_then(page_of_ours).unwrap_or(HOME);
    ([(SET_COOKIE, cookie)], Redirect::to(to)).into_response()
}

pub(super) async fn sign_out(
    State(app): State<App>,
    signed: Signed,
    headers: HeaderMap,
    form: Result<Posted<BareForm>, Refused>,
) -> Response {
    let token = form.map(|Posted(form)| form.csrf).unwrap_or_default();
    if let Err(Refused(problem)) = signed.0.guard(&headers, &app, &token) {
        return failed(Some(&signed.view(&app)), &problem);
    }
    if let Some(cookie) = cookie(&headers) {
        app.sessions.close(cookie);
    }
    ([(SET_COOKIE, clear_cookie())], Redirect::to("/console/sign-in?out=1")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_another_place() {
        for good in ["/console/approvals", "/console/runs?status=failed&workflow=a%20b"] {
            assert_eq!(page_of_ours(good), Some(good));
        }
        let evil =
            ["", "//evil.example", "/console//evil.example", "https://evil.example", "/v1/runs", "/console/\\evil"];
        for evil in evil.into_iter().chain(["/console/../v1/runs", "/console/a\nb"]) {
            assert_eq!(page_of_ours(evil), None, "{evil}");
        }
    }

    #[test]
    fn the_page_behind_a_link_sends_the_form_to_the_same_link() {
        let page = sign_in::link(&super::super::sign_in_path("secret")).into_string();
        assert!(page.contains("method=\"post\" action=\"/console/sign-in/secret\""), "{page}");
    }
}
