//! The other end of a connection, byte by byte: it answers what the test says, one connection after the other, and keeps
//! what it was asked. A whole server cannot be made to cut a stream at a given byte.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

/// The heads of the requests that came, in order.
pub(crate) type Heads = JoinHandle<io::Result<Vec<String>>>;

/// Answers one connection with each of `answers`, then closes it.
pub(crate) async fn tcp(answers: Vec<String>) -> (String, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heads = tokio::spawn(async move {
        let mut heads = Vec::new();
        for answer in answers {
            heads.push(serve(listener.accept().await?.0, &answer).await?);
        }
        Ok(heads)
    });
    (url, heads)
}

pub(crate) fn unix(listener: UnixListener, answer: String) -> Heads {
    tokio::spawn(async move { Ok(vec![serve(listener.accept().await?.0, &answer).await?]) })
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> io::Result<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        request.extend_from_slice(&buffer[..read]);
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(String::from_utf8_lossy(&request).into_owned())
}

/// An answer whose body ends with the connection.
pub(crate) fn answer(status: &str, content_type: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n{body}")
}
