//! The HTTP interface (interfaces.md, section 2).
//!
//! Owns routes, extractors, streams, errors and the document that describes them; never a decision or a row: every handler
//! asks one method of [`crate::service`] and says with which status its answer goes out. The socket and TCP serve the same
//! router (I-18); what differs is who the caller is, which [`crate::auth`] knows.
//!
//! Where to start: [`table`] lists every route with the right it needs.

pub(crate) mod extract;
mod layer;
pub(crate) mod metrics;
mod nearest;
pub(crate) mod openapi;
mod parse;
pub(crate) mod problem;
mod routes;
mod sse;
pub(crate) mod table;

use crate::auth::guesses::Guesses;
use crate::auth::session::Sessions;
use crate::service::Service;
use axum::Router;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What every handler shares.
pub(crate) struct State {
    pub(crate) service: Service,
    pub(crate) sessions: Sessions,
    pub(crate) guesses: Guesses,
    pub(crate) metrics: metrics::Metrics,
    /// Streams that are fed; whoever closes the server waits for them, since they hold the store.
    pub(crate) feeds: TaskTracker,
    /// Fires when the server closes: streams and long polls end by it.
    pub(crate) closing: CancellationToken,
    pub(crate) streams: Streams,
    /// Where people reach the console, if not where they say they do (`server.public_url`).
    pub(crate) public_origin: Option<String>,
}

/// The times and counts of streams and long polls (runs.md, section 20).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    pub(crate) heartbeat: Duration,
    pub(crate) long_poll: Duration,
    pub(crate) reader_buffer: usize,
    /// Without any hint a stream looks at the store this often.
    pub(crate) scan_every: Duration,
}

pub(crate) type App = Arc<State>;

/// The whole interface with its console, ready to serve.
pub(crate) fn router(app: App) -> Router {
    let routes = table::router().merge(crate::console::router());
    layer::around(routes, app)
}
