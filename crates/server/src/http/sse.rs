//! Server-sent events (I-32, R-363 to R-366).
//!
//! A stream is a task that reads the store page by page and hands lines to its connection through a bounded channel. A
//! reader that does not read fills the channel; when it has not taken a line for a heartbeat's time it is cut, and resumes
//! by its cursor. So a reader delays no write and no other reader, and memory is bounded.

use super::App;
use super::metrics::OpenStream;
use crate::service::problem::Answer;
use crate::service::{AllEvents, RunEvents};
use crate::service::{Next, Service};
use crate::view;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use protocol::id::RunId;
use std::convert::Infallible;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

/// What makes a stream look again, and what it tells on as it comes.
struct News {
    hints: Receiver<store::Hint>,
    progress: Receiver<engine::JobProgress>,
}

/// What a stream reads from.
enum Reader {
    Run(RunEvents),
    All(AllEvents),
}

impl Reader {
    async fn next(&mut self) -> Answer<Next> {
        match self {
            Reader::Run(reader) => reader.next().await,
            Reader::All(reader) => reader.next().await,
        }
    }

    /// Whether a hint about this run may mean something new.
    fn concerns(&self, run: RunId) -> bool {
        match self {
            Reader::Run(reader) => reader.run() == run,
            Reader::All(_) => true,
        }
    }
}

pub(super) fn of_run(app: App, reader: RunEvents) -> Response {
    respond(app, Reader::Run(reader))
}

pub(super) fn of_all(app: App, reader: AllEvents) -> Response {
    respond(app, Reader::All(reader))
}

fn respond(app: App, reader: Reader) -> Response {
    let (lines, taken) = mpsc::channel(app.streams.reader_buffer);
    let heartbeat = app.streams.heartbeat;
    // Listening starts before the first read, so nothing between the two is missed.
    let news = News { hints: Service::hints(&app.service), progress: app.service.job_progress() };
    app.clone().feeds.spawn(feed(app, reader, news, lines));
    let lines =
        stream::unfold(taken, |mut taken| async { taken.recv().await.map(|line| (Ok::<_, Infallible>(line), taken)) });
    Sse::new(lines).keep_alive(KeepAlive::new().interval(heartbeat).text("beat")).into_response()
}

/// Reads and hands on until the run has ended, the reader is gone or cut, or the server closes.
async fn feed(app: App, mut reader: Reader, mut news: News, lines: mpsc::Sender<Event>) {
    let _counted = OpenStream::new(app.clone());
    let closing = app.closing.clone();
    let work = async {
        loop {
            match reader.next().await {
                Ok(Next::Events(events)) => {
                    for (id, event) in events {
                        let line = Event::default().event(event.kind.clone()).id(id).data(text(&event));
                        if !hand_on(&app, &lines, line).await {
                            return;
                        }
                    }
                }
                Ok(Next::Gap { resume, gap }) => {
                    let line = Event::default().event("gap").data(text(&gap));
                    let line = if let Some(place) = resume { line.id(place) } else { line };
                    if !hand_on(&app, &lines, line).await {
                        return;
                    }
                }
                Ok(Next::Nothing) => look_again(&app, &reader, &mut news, &lines).await,
                Ok(Next::End) => return,
                Err(problem) => {
                    // The head of the answer has long gone; the reader comes back and is told why.
                    tracing::warn!(code = problem.code, detail = problem.detail, "an event stream ends early");
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = closing.cancelled() => {}
        () = lines.closed() => {}
    }
}

/// Gives a line to the connection; `false` if the reader is gone, or has read nothing for a heartbeat's time.
async fn hand_on(app: &App, lines: &mpsc::Sender<Event>, line: Event) -> bool {
    matches!(tokio::time::timeout(app.streams.heartbeat, lines.send(line)).await, Ok(Ok(())))
}

fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("events have text keys only")
}

/// Waits for a hint that concerns the reader, or for the next scan. What agents tell meanwhile is told on.
async fn look_again(app: &App, reader: &Reader, news: &mut News, lines: &mpsc::Sender<Event>) {
    let hint = async {
        loop {
            tokio::select! {
                hint = news.hints.recv() => match hint {
                    Ok(hint) if !reader.concerns(hint.run) => {}
                    // Told, or behind and missed some: look either way.
                    Ok(_) | Err(RecvError::Lagged(_)) => return,
                    // No hint will come any more; the scan goes on.
                    Err(RecvError::Closed) => std::future::pending().await,
                },
                Ok(told) = news.progress.recv() => tell(app, reader, &told, lines),
            }
        }
    };
    let _ = tokio::time::timeout(app.streams.scan_every, hint).await;
}

/// Hands a live-only line to who follows its run, without an id, so that nobody resumes from it; to a reader who has no room
/// now it is lost.
fn tell(app: &App, reader: &Reader, told: &engine::JobProgress, lines: &mpsc::Sender<Event>) {
    if let Reader::Run(reader) = reader
        && reader.run() == told.run
    {
        let line = view::event::progress(told, app.service.now());
        let _ = lines.try_send(Event::default().event(line.kind.clone()).data(text(&line)));
    }
}
