//! The connection of one call, watched at the socket.
//!
//! Owns the only evidence for "no byte of the request left this machine" (C-122, C-259): a flag that the socket itself
//! sets when the kernel has taken the first byte after the connection stood. A call has a connection of its own: one
//! kept from an earlier call may be dead already, and would make a write ambiguous for nothing.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::request::Target;
use super::tls::Tls;

/// Whether a byte of the request may have left.
#[derive(Debug, Default, Clone)]
pub(super) struct Watch(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    /// The connection stands, TLS included: what is written from here on is the request.
    armed: AtomicBool,
    sent: AtomicBool,
}

impl Watch {
    pub(super) fn sent(&self) -> bool {
        self.0.sent.load(Ordering::SeqCst)
    }

    fn arm(&self) {
        self.0.armed.store(true, Ordering::SeqCst);
    }

    fn wrote(&self, bytes: usize) {
        if bytes > 0 && self.0.armed.load(Ordering::SeqCst) {
            self.0.sent.store(true, Ordering::SeqCst);
        }
    }
}

/// A connection, plain or with TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to one of the checked addresses and, for https, shakes hands; nothing of the request is written.
///
/// Another address is tried only while none has accepted. The error is text for the detail of the outcome.
pub(super) async fn open(
    target: &Target,
    addresses: &[IpAddr],
    tls: &Tls,
    limit: Duration,
    watch: &Watch,
) -> Result<Box<dyn Stream>, String> {
    let mut failure = "no address to connect to".to_owned();
    for address in addresses {
        let tcp = match timeout(limit, TcpStream::connect((*address, target.port))).await {
            Ok(Ok(tcp)) => tcp,
            Ok(Err(error)) => {
                failure = format!("{target}: {error}");
                continue;
            }
            Err(_) => {
                failure = format!("{target}: no connection within {limit:?}");
                continue;
            }
        };
        // Small requests and small answers: nothing to gain by waiting for more.
        let _ = tcp.set_nodelay(true);
        let wire = Wire { tcp, watch: watch.clone() };
        let stream: Box<dyn Stream> =
            if target.https { Box::new(shake_hands(target, wire, tls, limit).await?) } else { Box::new(wire) };
        watch.arm();
        return Ok(stream);
    }
    Err(failure)
}

async fn shake_hands(
    target: &Target,
    wire: Wire,
    tls: &Tls,
    limit: Duration,
) -> Result<tokio_rustls::client::TlsStream<Wire>, String> {
    let name = ServerName::try_from(target.host.clone()).map_err(|_| format!("{target}: no name for TLS"))?;
    match timeout(limit, tls.connector().connect(name, wire)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(format!("{target}: no TLS: {error}")),
        Err(_) => Err(format!("{target}: no TLS within {limit:?}")),
    }
}

/// The socket, with the watch on what it writes. It lies under TLS, so it sees what really leaves.
struct Wire {
    tcp: TcpStream,
    watch: Watch,
}

impl Wire {
    fn watched(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &result {
            self.watch.wrote(*bytes);
        }
        result
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.tcp).poll_write(cx, buf);
        self.watched(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs);
        self.watched(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
