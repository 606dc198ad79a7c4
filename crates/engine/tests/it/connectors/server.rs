//! A server made by hand, so that it can misbehave: each connection is answered by the next script.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What a connection does after it has read a whole request.
#[derive(Clone)]
pub(super) enum Script {
    /// Writes these bytes and closes.
    Answer(Vec<u8>),
    /// Writes these bytes, then keeps the connection open and says nothing more.
    Hang(Vec<u8>),
    /// Writes these bytes again and again, one at a time, without end.
    Drip(Vec<u8>, u8),
    /// Closes at once, without having read anything.
    Slam,
}

/// A request as it came over the wire.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) head: String,
    pub(super) body: String,
}

impl Request {
    pub(super) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

pub(super) struct Server {
    pub(super) port: u16,
    requests: mpsc::UnboundedReceiver<Request>,
    connections: mpsc::UnboundedReceiver<()>,
}

impl Server {
    /// Serves each script to one connection, then refuses.
    pub(super) async fn start(scripts: impl IntoIterator<Item = Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (sent, requests) = mpsc::unbounded_channel();
        let (seen, connections) = mpsc::unbounded_channel();
        let scripts: Vec<Script> = scripts.into_iter().collect();
        tokio::spawn(async move {
            for script in scripts {
                let Ok((stream, _)) = listener.accept().await else { return };
                let _ = seen.send(());
                tokio::spawn(play(stream, script, sent.clone()));
            }
        });
        Self { port, requests, connections }
    }

    /// The next request that was read whole.
    pub(super) async fn request(&mut self) -> Request {
        self.requests.recv().await.expect("a request")
    }

    /// How many connections were made so far.
    pub(super) fn contacts(&mut self) -> usize {
        std::iter::from_fn(|| self.connections.try_recv().ok()).count()
    }
}

async fn play(mut stream: TcpStream, script: Script, sent: mpsc::UnboundedSender<Request>) {
    if let Script::Slam = script {
        return;
    }
    let Some(request) = read(&mut stream).await else { return };
    let _ = sent.send(request);
    match script {
        Script::Answer(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            // Until the other side has closed too, so that no reset overtakes the answer.
            let _ = stream.read(&mut [0; 1]).await;
        }
        Script::Hang(bytes) => {
            let _ = stream.write_all(&bytes).await;
            std::future::pending::<()>().await;
        }
        Script::Drip(bytes, drop) => {
            let _ = stream.write_all(&bytes).await;
            let mut pause = tokio::time::interval(std::time::Duration::from_millis(10));
            while stream.write_all(&[drop]).await.is_ok() {
                pause.tick().await;
            }
        }
        Script::Slam => {}
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).ok()?;
    let mut body = bytes.split_off(head_end + 4);
    let request = Request { head, body: String::new() };
    let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request { body: String::from_utf8(body).ok()?, ..request })
}

/// A whole answer.
pub(super) fn answer(status: u16, kind: &str, body: &str) -> Script {
    let text = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    Script::Answer(text.into_bytes())
}

pub(super) fn json(status: u16, body: &str) -> Script {
    answer(status, "application/json; charset=utf-8", body)
}

pub(super) fn redirect(status: u16, location: &str) -> Script {
    Script::Answer(format!("HTTP/1.1 {status} Said\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n").into_bytes())
}
