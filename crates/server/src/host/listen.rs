//! Connections: accepted, bounded, and drained.
//!
//! Owns sockets and what is done about slow, idle and too many connections (I-39). A connection knows through which door
//! it came and tells every request; nothing here looks at a request.

use super::StartError;
use super::options::Connections;
use super::places::Places;
use super::stall::Taken;
use crate::auth::Door;
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// Bytes of a request's head.
const HEAD_BYTES: usize = 64 << 10;
/// How long answers on their way may take when the server closes.
const DRAIN: Duration = Duration::from_secs(10);
/// After a failed accept, such as for want of file descriptors, the listener rests.
const REST: Duration = Duration::from_millis(100);

/// Binds the socket of a data directory for this user alone, in the place of a dead one.
pub(super) fn socket(path: &Path) -> Result<UnixListener, StartError> {
    let failed = |error| StartError::Folder { path: path.to_owned(), error };
    match std::fs::remove_file(path) {
        Ok(()) => tracing::info!(socket = %path.display(), "a socket of a process that is gone was there"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    // Nobody else can come in before the mode is set: the directory is ours alone.
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

pub(super) async fn tcp(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| StartError::Listen { address, error })
}

/// The listeners with the connections they accepted.
pub(super) struct Listening {
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What a listener needs for its connections.
#[derive(Clone)]
struct Around {
    router: Router,
    stop: CancellationToken,
    tasks: TaskTracker,
    limits: Connections,
    /// Of the listener.
    slots: Arc<Semaphore>,
    /// Of each address.
    places: Places,
}

impl Listening {
    /// Serves until `stop` fires; then connections finish what they have in hand and close.
    pub(super) fn start(
        router: Router,
        unix: UnixListener,
        tcp: Option<TcpListener>,
        stop: CancellationToken,
        limits: Connections,
    ) -> Listening {
        let tasks = TaskTracker::new();
        let around = || Around {
            router: router.clone(),
            stop: stop.clone(),
            tasks: tasks.clone(),
            limits,
            slots: Arc::new(Semaphore::new(limits.most)),
            places: Places::default(),
        };
        tasks.spawn(accept_unix(unix, around()));
        if let Some(tcp) = tcp {
            tasks.spawn(accept_tcp(tcp, around()));
        }
        Listening { stop, tasks }
    }

    /// Waits until every connection is closed, for a bounded time.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(DRAIN + REST, self.tasks.wait()).await.is_err() {
            tracing::warn!(left = self.tasks.len(), "connections did not close in time");
        }
    }
}

async fn accept_unix(listener: UnixListener, around: Around) {
    loop {
        let accept = async { listener.accept().await.map(|(stream, _)| (stream, Door::Socket)) };
        let Some(next) = around.accepted(accept).await else { return };
        around.take(next).await;
    }
}

async fn accept_tcp(listener: TcpListener, around: Around) {
    loop {
        let accept = async { listener.accept().await.map(|(stream, from)| (stream, Door::Tcp(from.ip()))) };
        let Some(next) = around.accepted(accept).await else { return };
        if let Ok(((stream, _), _)) = &next {
            // Small answers go out at once; a failure to say so only costs time.
            let _ = stream.set_nodelay(true);
        }
        around.take(next).await;
    }
}

type Accepted<S> = io::Result<((S, Door), tokio::sync::OwnedSemaphorePermit)>;

impl Around {
    /// The next connection, once there is a place for it; `None` when the server closes.
    async fn accepted<S>(&self, accept: impl Future<Output = io::Result<(S, Door)>>) -> Option<Accepted<S>> {
        let next = async {
            let slot = self.slots.clone().acquire_owned().await.expect("slots are never closed");
            accept.await.map(|stream| (stream, slot))
        };
        tokio::select! {
            next = next => Some(next),
            () = self.stop.cancelled() => None,
        }
    }

    /// Serves a connection in a task of its own.
    async fn take<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, accepted: Accepted<S>) {
        match accepted {
            Ok(((stream, door), slot)) => {
                let Some(place) = self.places.take(door, self.limits.of_one) else {
                    tracing::debug!(?door, "one connection too many of this address");
                    return;
                };
                let around = self.clone();
                self.tasks.spawn(async move {
                    around.serve(stream, door).await;
                    drop((slot, place));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(REST).await;
            }
        }
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S, door: Door) {
        let Around { router, stop, limits, .. } = self;
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let router = router.clone();
            async move {
                let mut request = request.map(axum::body::Body::new);
                request.extensions_mut().insert(door);
                Ok::<_, Infallible>(match router.oneshot(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                })
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_within)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(Taken::within(limits.taken_within, stream)), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(DRAIN, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, ?door, "a connection ended early");
        }
    }
}
