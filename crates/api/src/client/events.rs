//! The event stream (I-32): every event once and in order, over as many connections as it takes.
//!
//! Keeps the id of the last frame and asks for what comes after it whenever a connection ends too early. It ends
//! by itself after the terminal event of a run, and otherwise only by an error.

use super::sse::Frames;
use super::{Client, ClientError};
use crate::event::{Event, Gap};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use protocol::id::RunId;
use reqwest::header::{ACCEPT, HeaderName};
use reqwest::{Method, StatusCode};
use std::collections::VecDeque;
use std::time::Duration;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Reconnecting waits 0.1 s, doubling, and gives up after this many tries in a row that brought nothing.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The server's heartbeat is 15 s (runs.md section 20): thrice that without a byte is a dead connection.
const SILENCE: Duration = Duration::from_secs(45);

/// One thing a stream says.
#[derive(Clone, PartialEq, Debug)]
pub enum StreamItem {
    Event(Event),
    /// Events that cannot be given any more.
    Gap(Gap),
    /// A line that is not stored and may be lost.
    Live {
        kind: String,
        data: String,
    },
}

/// Reads the events of one run, or of all.
pub struct EventStream {
    client: Client,
    run: Option<RunId>,
    last: Option<String>,
    body: Option<BoxStream<'static, reqwest::Result<Vec<u8>>>>,
    frames: Frames,
    ready: VecDeque<StreamItem>,
    failures: u32,
    ended: bool,
}

impl Client {
    /// The events after `after` (from the first if `None`), then live ones; of one run, or of all.
    pub fn follow(&self, run: Option<RunId>, after: Option<String>) -> EventStream {
        EventStream {
            client: self.clone(),
            run,
            last: after,
            body: None,
            frames: Frames::default(),
            ready: VecDeque::new(),
            failures: 0,
            ended: false,
        }
    }
}

impl EventStream {
    /// The next item; `None` after the terminal event of the run.
    ///
    /// # Errors
    /// The server refuses, cannot be reached in several tries, or says something that is no event stream. After an error
    /// the stream has ended.
    pub async fn next(&mut self) -> Option<Result<StreamItem, ClientError>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                self.ended |= self.run.is_some() && matches!(&item, StreamItem::Event(e) if e.is_terminal());
                return Some(Ok(item));
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.advance().await {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }

    /// Reads one chunk, connecting first where there is no connection.
    async fn advance(&mut self) -> Result<(), ClientError> {
        let Some(body) = &mut self.body else {
            return self.connect().await;
        };
        match tokio::time::timeout(SILENCE, body.next()).await {
            Ok(Some(Ok(bytes))) => self.take(&bytes),
            // Cut, ended or silent: what is missing is asked for on the next connection.
            Ok(Some(Err(_)) | None) | Err(_) => {
                self.body = None;
                Ok(())
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        let frames = self.frames.feed(bytes).map_err(|_| ClientError::Protocol {
            target: self.client.target.clone(),
            cause: "an endless line in the event stream".into(),
        })?;
        for frame in frames {
            let item = if frame.event == "gap" {
                StreamItem::Gap(serde_json::from_str(&frame.data).map_err(|error| self.client.protocol(&error))?)
            } else if frame.id.is_some() {
                StreamItem::Event(serde_json::from_str(&frame.data).map_err(|error| self.client.protocol(&error))?)
            } else {
                StreamItem::Live { kind: frame.event, data: frame.data }
            };
            if frame.id.is_some() {
                self.last = frame.id;
            }
            self.ready.push_back(item);
            self.failures = 0;
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        if self.failures > 0 {
            tokio::time::sleep(FIRST_PAUSE * 2u32.saturating_pow(self.failures - 1)).await;
        }
        self.failures += 1;
        self.frames = Frames::default();
        let run = self.run.map(|run| run.to_string());
        let path: &[&str] = match &run {
            Some(run) => &["v1", "runs", run, "events"],
            None => &["v1", "events"],
        };
        let url = self.client.url(path, &())?;
        let mut request = self.client.request(Method::GET, url).header(ACCEPT, "text/event-stream");
        if let Some(last) = &self.last {
            request = request.header(LAST_EVENT_ID, last);
        }
        match self.client.send(request).await {
            // The run has ended, and everything up to its end was read before.
            Ok(response) if response.status() == StatusCode::NO_CONTENT => {
                self.ended = true;
                Ok(())
            }
            Ok(response) => {
                self.body = Some(response.bytes_stream().map(|chunk| chunk.map(|bytes| bytes.to_vec())).boxed());
                Ok(())
            }
            Err(error) if error.is_unreachable() && self.failures < TRIES => Ok(()),
            Err(error) => Err(error),
        }
    }
}
