//! `/console/news`: a line whenever something may have changed that the person may see.
//!
//! The line carries nothing: a page that gets it reads itself again, and so shows what the store says. Changes in
//! quick succession become one line.

use super::door::Signed;
use crate::http::App;
use crate::http::extract::Query;
use crate::http::metrics::OpenStream;
use crate::service::{AllEvents, Next, Service};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use protocol::id::RunId;
use serde::Deserialize;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;

/// Lines to one page are at least this far apart.
const APART: Duration = Duration::from_millis(250);

/// Query: the run that a page is about, if it is about one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NewsQuery {
    run: Option<RunId>,
}

struct Watch {
    app: App,
    reader: AllEvents,
    hints: Receiver<store::Hint>,
    run: Option<RunId>,
    _counted: OpenStream,
}

pub(super) async fn news(
    State(app): State<App>,
    signed: Signed,
    query: Result<Query<NewsQuery>, crate::http::problem::Refused>,
) -> Response {
    let Ok(Query(NewsQuery { run })) = query else { return StatusCode::BAD_REQUEST.into_response() };
    // Listening starts before the place is taken, so nothing between the two is missed.
    let hints = Service::hints(&app.service);
    // Whoever may not read events gets no news: 204 tells a browser not to ask again.
    let Ok(reader) = app.service.follow_all(&signed.0.caller, None).await else {
        return StatusCode::NO_CONTENT.into_response();
    };
    let heartbeat = app.streams.heartbeat;
    let watch = Watch { _counted: OpenStream::new(app.clone()), app, reader, hints, run };
    let lines = stream::unfold((watch, false), |(mut watch, told)| async move {
        if told {
            tokio::time::sleep(APART).await;
        }
        let line = Event::default().event("look").data("look");
        watch.changed().await.then_some((Ok::<_, Infallible>(line), (watch, true)))
    });
    Sse::new(lines).keep_alive(KeepAlive::new().interval(heartbeat).text("beat")).into_response()
}

impl Watch {
    /// Waits until there is something to look at; `false` when the server closes or the store cannot be read.
    async fn changed(&mut self) -> bool {
        let closing = self.app.closing.clone();
        tokio::select! {
            found = self.found() => found,
            () = closing.cancelled() => false,
        }
    }

    async fn found(&mut self) -> bool {
        let mut found = false;
        loop {
            match self.reader.next().await {
                Ok(Next::Events(events)) => {
                    found |= events.iter().any(|(_, event)| self.run.is_none_or(|run| event.run == run));
                }
                Ok(Next::Gap { .. }) => found = true,
                Ok(Next::Nothing) if found => return true,
                // A hint, or being behind on hints, or the time of a scan: look at the store again.
                Ok(Next::Nothing) => drop(tokio::time::timeout(self.app.streams.scan_every, self.hints.recv()).await),
                Ok(Next::End) | Err(_) => return false,
            }
        }
    }
}
