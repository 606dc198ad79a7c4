//! One request and one answer over one connection.
//!
//! Owns the talk with the other side up to a whole answer, and the bounds on what is read. It judges no status and maps
//! no outcome.

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use protocol::digest::{Digest, Hasher};
use tokio_util::task::AbortOnDropHandle;

use super::wire::Stream;

/// Longest head of an answer, and most that is buffered beside the body.
const HEAD_BYTES: usize = 64 * 1024;

/// An answer whose head has come, and whose body has not.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    _connection: AbortOnDropHandle<()>,
}

/// How much of a body was read.
pub(super) enum Body {
    Whole(Vec<u8>),
    /// It is longer than wanted; these are its first bytes.
    Longer(Vec<u8>),
    /// The connection broke before the end.
    Cut(hyper::Error),
}

/// Sends the request and waits for the head of the answer. Dropping the future, or the answer, closes the connection.
pub(super) async fn ask(stream: Box<dyn Stream>, request: Request<Full<Bytes>>) -> Result<Answer, hyper::Error> {
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(HEAD_BYTES).handshake(TokioIo::new(stream)).await?;
    let connection = AbortOnDropHandle::new(tokio::spawn(async move {
        // What goes wrong here is told to the request or to its body.
        let _ = connection.await;
    }));
    let response = sender.send_request(request).await?;
    Ok(Answer { response, _connection: connection })
}

impl Answer {
    /// Reads the body to its end and keeps its digest alone; none if it is longer than `limit` bytes.
    pub(super) async fn digest(self, limit: u64) -> Result<Option<Digest>, hyper::Error> {
        let Self { response, _connection } = self;
        let mut body = response.into_body();
        let (mut hasher, mut read) = (Hasher::default(), 0);
        while let Some(frame) = body.frame().await {
            let frame = frame?;
            let data = frame.data_ref().map(|data| &data[..]).unwrap_or_default();
            read += data.len() as u64;
            if read > limit {
                return Ok(None);
            }
            hasher.update(data);
        }
        Ok(Some(hasher.finish()))
    }

    /// Reads the body up to `limit` bytes, and closes the connection.
    pub(super) async fn body(self, limit: u64) -> Body {
        let Self { response, _connection } = self;
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        loop {
            match body.frame().await {
                None => return Body::Whole(bytes),
                Some(Err(error)) => return Body::Cut(error),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        bytes.extend_from_slice(data);
                    }
                    if bytes.len() as u64 > limit {
                        bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
                        return Body::Longer(bytes);
                    }
                }
            }
        }
    }
}
