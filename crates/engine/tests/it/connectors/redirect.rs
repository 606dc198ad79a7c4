//! Redirects: a write follows none, a read three of its own place.

use super::server::{Server, json, redirect};
use super::*;

#[tokio::test]
async fn a_read_follows_three_redirects_of_its_own_place_and_no_fourth() {
    let mut server =
        Server::start([redirect(302, "/b"), redirect(307, "c"), redirect(308, "//127.0.0.1/d"), json(200, "1")]).await;
    let (connectors, spec) = (connectors(), http_tool("read", "GET", server.port, "/a"));
    let outcome = call(&connectors, &spec, json!({})).await;
    // The last one leaves the port, and is refused without contact.
    assert_error(&outcome, Code::RedirectRefused, Applied::No); // C-252
    assert_eq!(server.contacts(), 3); // C-252

    let mut server =
        Server::start([redirect(301, "/b"), redirect(303, "/c?x=1"), redirect(307, "./d"), json(200, "1")]).await;
    let spec = http_tool("read", "GET", server.port, "/a");
    assert_eq!(result(&call(&connectors, &spec, json!({})).await), "1"); // C-252
    let lines: Vec<String> =
        [server.request().await, server.request().await, server.request().await, server.request().await]
            .iter()
            .map(|request| request.line().to_owned())
            .collect();
    assert_eq!(lines, ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "GET /c?x=1 HTTP/1.1", "GET /d HTTP/1.1"]);

    let mut server = Server::start(std::iter::repeat_n(redirect(302, "/again"), 5)).await;
    let spec = http_tool("read", "GET", server.port, "/");
    assert_error(&call(&connectors, &spec, json!({})).await, Code::RedirectRefused, Applied::No); // C-252
    assert_eq!(server.contacts(), 4); // C-252
}

#[tokio::test]
async fn a_redirect_to_another_place_is_refused_without_contact() {
    let mut other = Server::start([json(200, "1")]).await;
    let elsewhere = [
        format!("http://127.0.0.1:{}/", other.port),
        format!("http://localhost:{}/", other.port),
        format!("https://127.0.0.1:{}/", other.port),
        format!("http://user@127.0.0.1:{}/", other.port),
        "http://[".to_owned(),
    ];
    let server = Server::start(elsewhere.iter().map(|place| redirect(302, place))).await;
    let (connectors, spec) = (connectors(), http_tool("read", "GET", server.port, "/"));
    for _ in &elsewhere {
        assert_error(&call(&connectors, &spec, json!({})).await, Code::RedirectRefused, Applied::No); // C-252
    }
    assert_eq!(other.contacts(), 0); // C-252
}

#[tokio::test]
async fn a_write_follows_no_redirect() {
    let mut server = Server::start([redirect(307, "/b"), redirect(303, "/b")]).await;
    let (connectors, spec) = (connectors(), http_tool("write", "POST", server.port, "/"));
    assert_error(&call(&connectors, &spec, json!({})).await, Code::RedirectRefused, Applied::No); // C-252, C-256
    assert_ambiguous(&call(&connectors, &spec, json!({})).await); // C-258
    assert_eq!(server.contacts(), 2); // C-252
}

#[tokio::test]
async fn a_read_with_a_body_keeps_it_only_where_the_redirect_says_so() {
    let mut server = Server::start([redirect(307, "/b"), redirect(303, "/c"), json(200, "1")]).await;
    let (connectors, spec) = (connectors(), http_tool("read", "POST", server.port, "/a"));
    assert_eq!(result(&call(&connectors, &spec, json!({"q": 1})).await), "1");
    for (line, body) in
        [("POST /a HTTP/1.1", r#"{"q":1}"#), ("POST /b HTTP/1.1", r#"{"q":1}"#), ("GET /c HTTP/1.1", "")]
    {
        let request = server.request().await;
        assert_eq!((request.line(), request.body.as_str()), (line, body));
    }
}
