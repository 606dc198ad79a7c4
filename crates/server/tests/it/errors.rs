//! Everything that is wrong with a request is a problem, whatever was wrong (I-36, I-37, I-39, I-46).

use crate::house::{House, problem};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_request_has_its_code() {
    let house = House::open().await;
    let token = house.token("rita").await;
    let post = |path: &str| house.raw(Method::POST, path, Some(&token));
    problem(post("/v1/nowhere"), 404, "not_found").await; // I-36
    let wrong = house.raw(Method::DELETE, "/v1/runs", Some(&token)).send().await.unwrap();
    let allowed = wrong.headers()["allow"].to_str().unwrap();
    assert!(["GET", "HEAD", "POST"].iter().all(|verb| allowed.contains(verb)), "{allowed}"); // I-47
    problem(house.raw(Method::DELETE, "/v1/runs", Some(&token)), 405, "method_not_allowed").await; // I-47
    problem(post("/v1/runs").body("{}"), 415, "unsupported_media_type").await; // I-47
    problem(post("/v1/runs").header("content-type", "text/plain").body("{}"), 415, "unsupported_media_type").await; // I-47
    let json =
        |body: &'static str| post("/v1/runs").header("content-type", "application/json; charset=utf-8").body(body);
    problem(json("{"), 400, "invalid_json").await; // I-36
    let twice = problem(json(r#"{"workflow":"a","workflow":"b"}"#), 400, "invalid_json").await; // C-28
    assert!(twice["detail"].as_str().unwrap().contains("byte"), "{twice}");
    problem(json("[]"), 400, "invalid_request").await;
    problem(json(r#"{"workflow":"a","priority":256}"#), 400, "invalid_request").await;
    let unknown = problem(json(r#"{"workflow":"a","inputs":{}}"#), 400, "unknown_field").await; // I-37
    assert_eq!(unknown["hint"], "did you mean `input`?"); // I-37
    problem(json(r#"{"workflow":"a","held":true}"#), 400, "invalid_request").await;
    problem(json(r#"{"workflow":"nothing"}"#), 422, "unknown_workflow").await;
    let deep = format!(r#"{{"workflow":"a","input":{}{}}}"#, "[".repeat(80), "]".repeat(80));
    problem(post("/v1/runs").header("content-type", "application/json").body(deep), 400, "invalid_json").await; // C-31
    // Deep enough for the envelope, too deep for an input: the verdict is that of every other way in (C-37).
    let deeper = format!(r#"{{"workflow":"echo","input":{}{}}}"#, "[".repeat(65), "]".repeat(65));
    problem(post("/v1/runs").header("content-type", "application/json").body(deeper), 400, "invalid_json").await; // C-31
    let long = format!(r#"{{"workflow":"echo","input":"{}"}}"#, "x".repeat(1 << 20));
    problem(post("/v1/runs").header("content-type", "application/json").body(long), 413, "limit_exceeded").await; // R-44
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let house = House::open().await;
    let token = house.token("rita").await;
    let large = "x".repeat((64 << 10) + 1);
    let body = json!({"revision": 1, "reason": large});
    let sized = house.raw(Method::POST, "/v1/workflows/echo/activate", Some(&token)).json(&body);
    problem(sized, 413, "request_too_large").await; // I-39
    // The head promises a gigabyte and sends nothing: an answer can only come from the head.
    let address = house.host.address().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 64];
    let read = tokio::time::timeout(crate::house::PATIENCE, stream.read(&mut answer)).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&answer[..read]).starts_with("HTTP/1.1 413"), "{answer:?}"); // I-39
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_good_token_tcp_tells_nothing() {
    let house = House::open().await;
    let mut tokens = vec![None, Some("x".to_owned()), Some("stasis_x".to_owned())];
    let revoked = house.token("vera").await;
    let listed = house.local.tokens(&Default::default()).await.unwrap().items;
    let id = listed[0].id;
    house.local.revoke_token(id, &Default::default()).await.unwrap();
    tokens.push(Some(revoked));
    for token in tokens {
        let answer = house.raw(Method::GET, "/v1/runs", token.as_deref()).send().await.unwrap();
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
        problem(house.raw(Method::GET, "/v1/runs", token.as_deref()), 401, "unauthenticated").await; // I-65
    }
    let basic = house.raw(Method::GET, "/v1/runs", None).header("authorization", "Basic eDp5");
    problem(basic, 401, "unauthenticated").await;
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_cannot_be_framed_and_tell_no_referrer() {
    let house = House::open().await;
    for path in ["/v1/runs", "/healthz", "/console/sign-in", "/v1/nowhere"] {
        let answer = house.raw(Method::GET, path, None).send().await.unwrap();
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert!(header("content-security-policy").contains("frame-ancestors 'none'"), "{path}"); // C-221
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}"); // C-221
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}"); // I-52
    }
    house.host.shutdown().await;
}
