//! The console: pages for people, drawn on the server (interfaces.md section 3).
//!
//! Owns HTML, its forms, the style and the script. It reads and decides nothing itself: every page is drawn from what
//! [`crate::service`] answers to the person who is signed in, as the API would give it to them, and every form becomes a
//! call of the same service. Without script all of it works but the updates (I-51).
//!
//! Invariants. A GET changes nothing (C-214). A POST that changes something answers with a redirect, so a reload repeats nothing.
//! Text of guests and agents is never markup (I-52). There is no inline script or style, and nothing from another host.
//!
//! Where to start: [`router`] lists the pages; `layout` is their frame; `pages` and `actions` are the handlers.

mod actions;
mod approval;
mod approvals;
mod assets;
mod body;
mod door;
mod draft;
mod fields;
mod forms;
mod jobs;
mod lanes;
mod layout;
mod news;
mod pages;
mod posted;
mod resources;
mod run;
mod runs;
mod sign_in;
mod text;
mod timeline;
mod widgets;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use crate::http::App;
use crate::http::extract::{LARGE, SMALL};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

/// What the form of a decision may weigh: a browser may write one byte of an edit as three.
const DECISION: usize = 3 * LARGE;

/// Every route of the console.
pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/", get(pages::home))
        .route("/console", get(pages::home))
        .route("/console/approvals", get(pages::approvals))
        .route("/console/approvals/{id}", get(pages::approval))
        .route("/console/approvals/{id}/decisions", post(actions::decide).layer(DefaultBodyLimit::max(DECISION)))
        .route("/console/approvals/{id}/read", post(actions::read))
        .route("/console/runs", get(pages::runs))
        .route("/console/runs/{id}", get(pages::run))
        .route("/console/runs/{id}/cancel", get(pages::cancel).post(actions::cancel))
        .route("/console/jobs", get(pages::jobs))
        .route("/console/jobs/{id}", get(pages::job))
        .route("/console/resources", get(pages::resources))
        .route("/console/resources/{name}/reset", post(actions::reset))
        .route("/console/sign-in", get(door::sign_in).post(door::with_token))
        .route("/console/sign-in/{link}", get(door::link).post(door::with_link))
        .route("/console/sign-out", post(door::sign_out))
        .route("/console/news", get(news::news))
        .route("/console/assets/{name}", get(pages::asset))
        .layer(DefaultBodyLimit::max(SMALL))
}

/// The path of a one-time link.
pub(crate) fn sign_in_path(link: &str) -> String {
    format!("/console/sign-in/{link}")
}
