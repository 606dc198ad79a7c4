//! Peers that are slow, idle or too many: none keeps a place for nothing, and others are served (I-39).

use crate::house::{House, PATIENCE, options};
use stasis_server::{Connections, Host, HostOptions};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

async fn house(connections: Connections) -> (House, SocketAddr) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("stasis.toml"), "").expect("written");
    let host = Host::start(HostOptions { connections, ..options(folder.path()) }).await.expect("started");
    let address = host.address().expect("TCP is served");
    (House::of(host, folder), address)
}

/// A peer that has sent this much.
async fn peer(address: SocketAddr, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    // What is closed at once may be closed before this is written.
    let _ = stream.write_all(sent.as_bytes()).await;
    stream
}

/// All that comes until the other side closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut told = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut told)).await.expect("it is closed in time");
    String::from_utf8_lossy(&told).into_owned()
}

async fn is_served(address: SocketAddr) -> bool {
    let mut asking = peer(address, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    rest(&mut asking).await.starts_with("HTTP/1.1 200")
}

async fn is_served_in_the_end(address: SocketAddr) {
    let served = async {
        while !is_served(address).await {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, served).await.expect("a place comes free");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_take_every_place() {
    let (house, address) = house(Connections { of_one: 2, ..Connections::default() }).await;
    let held = [peer(address, "").await, peer(address, "GET /healthz HTTP/1.1\r\nX-Slow: ").await];
    assert!(!is_served(address).await); // I-39: one more is closed without an answer
    drop(held);
    is_served_in_the_end(address).await; // I-39
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_half_a_head_or_nothing_loses_the_place() {
    let (house, address) =
        house(Connections { head_within: Duration::from_millis(300), ..Connections::default() }).await;
    let sent = ["", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"];
    for (sent, answers) in sent.into_iter().zip([0, 0, 1]) {
        let told = rest(&mut peer(address, sent).await).await;
        assert_eq!(told.matches("HTTP/1.1 200").count(), answers, "{told}"); // I-39
    }
    assert!(is_served(address).await);
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_no_answer_loses_the_place() {
    let limits = Connections { taken_within: Duration::from_millis(300), of_one: 1, ..Connections::default() };
    let (house, address) = house(limits).await;
    // More than the buffers of two sockets hold, and not a byte of it is read.
    let greedy = peer(address, &"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(400)).await;
    is_served_in_the_end(address).await; // I-39
    drop(greedy);
    house.host.shutdown().await;
}
