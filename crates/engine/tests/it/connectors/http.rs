//! HTTP: what is sent, what comes back, and what is known when nothing does.

use super::server::{Script, Server, answer, json};
use super::*;

#[tokio::test]
async fn arguments_fill_path_query_and_body_and_the_result_keeps_its_numbers() {
    let mut server = Server::start([json(200, r#"{"total": 1.50, "id":"o/7"}"#), json(201, "{}")]).await;
    let connectors = connectors();
    let input = json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}});
    let url = format!("http://127.0.0.1:{}/orders/{{id}}", server.port);
    let get = tool("read", json!({"http": {"method": "GET", "url": url}}), json!({"input_schema": input}));
    let outcome = call(&connectors, &get, json!({"id": "o/7", "tag": ["a b", "c"]})).await;
    assert_eq!(result(&outcome), r#"{"id":"o/7","total":1.50}"#); // C-255, C-260
    let request = server.request().await;
    assert_eq!(request.line(), "GET /orders/o%2F7?tag=a%20b&tag=c HTTP/1.1"); // C-251, I-64
    assert_eq!(request.header("host"), Some(format!("127.0.0.1:{}", server.port).as_str()));
    assert_eq!(request.header("content-length"), None);

    let post = http_tool("write", "POST", server.port, "/refunds");
    let outcome = call(&connectors, &post, json!({"b": 2, "a": {"z": 1, "y": []}})).await;
    assert_eq!(result(&outcome), "{}");
    let request = server.request().await;
    assert_eq!(request.body, r#"{"a":{"y":[],"z":1},"b":2}"#); // I-64
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("idempotency-key"), Some("stasis-k1")); // C-254
    assert_eq!(request.header("accept-encoding"), Some("identity"));
}

#[tokio::test]
async fn the_key_travels_under_the_name_the_tool_gives() {
    let mut server = Server::start([json(200, "{}")]).await;
    let http = json!({"http": {"method": "POST", "url": format!("http://127.0.0.1:{}/", server.port), "idempotency_header": "X-Once"}});
    call(&connectors(), &tool("write", http, json!({})), json!({})).await;
    let request = server.request().await;
    assert_eq!((request.header("x-once"), request.header("idempotency-key")), (Some("stasis-k1"), None)); // C-254
}

#[tokio::test]
async fn json_is_parsed_strictly_and_other_bodies_are_wrapped() {
    let table = [
        (json(200, r#"{"b":1,"a":2}"#), Ok(r#"{"a":2,"b":1}"#)),
        (answer(200, "application/problem+json", "[1]"), Ok("[1]")),
        (answer(200, "text/plain", "{}"), Ok(r#"{"text":"{}"}"#)),
        (
            Script::Answer(b"HTTP/1.1 200 Said\r\ncontent-type: image/x\r\n\r\n\xff\xfe".to_vec()),
            Ok(r#"{"base64":"//4="}"#),
        ),
        (
            Script::Answer(
                b"HTTP/1.1 200 Said\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\r\n\x1f\x8b"
                    .to_vec(),
            ),
            Ok(r#"{"base64":"H4s="}"#),
        ),
        (Script::Answer(b"HTTP/1.1 204 Said\r\n\r\n".to_vec()), Ok("null")),
        (json(200, r#"{"a":1,"a":1}"#), Err(Code::InvalidResult)),
        (json(200, "{"), Err(Code::InvalidResult)),
    ];
    let server = Server::start(table.iter().map(|(script, _)| script.clone())).await;
    let connectors = connectors();
    let spec = http_tool("read", "GET", server.port, "/");
    for (n, (_, expected)) in table.iter().enumerate() {
        let outcome = call(&connectors, &spec, json!({})).await;
        match expected {
            Ok(body) => assert_eq!(result(&outcome), *body, "{n}"), // C-260, I-64
            Err(code) => assert_error(&outcome, *code, Applied::No), // C-86
        }
    }
}

#[tokio::test]
async fn each_status_of_a_write_has_its_outcome() {
    let statuses = [200, 204, 300, 301, 302, 303, 304, 307, 308, 400, 404, 408, 409, 429, 500, 502, 503];
    let server = Server::start(statuses.map(|status| json(status, ""))).await;
    let connectors = connectors();
    let spec = http_tool("write", "POST", server.port, "/");
    for status in statuses {
        let outcome = call(&connectors, &spec, json!({})).await;
        match status {
            200 | 204 => assert_eq!(result(&outcome), "null"), // C-255
            307 | 308 => assert_error(&outcome, Code::RedirectRefused, Applied::No), // C-256
            400 | 404 | 409 | 429 => assert_error(&outcome, Code::HandlerError, Applied::No), // C-257
            _ => assert_ambiguous(&outcome),                   // C-258
        }
    }
}

#[tokio::test]
async fn a_tool_may_say_what_its_statuses_mean() {
    let server = Server::start([json(409, r#""there already""#), json(404, ""), json(503, "")]).await;
    let statuses = json!({"409": "ok", "404": "ambiguous", "503": "error"});
    let http =
        json!({"http": {"method": "POST", "url": format!("http://127.0.0.1:{}/", server.port), "statuses": statuses}});
    let (connectors, spec) = (connectors(), tool("write", http, json!({})));
    assert_eq!(result(&call(&connectors, &spec, json!({})).await), r#""there already""#); // I-64
    assert_ambiguous(&call(&connectors, &spec, json!({})).await); // I-64
    assert_error(&call(&connectors, &spec, json!({})).await, Code::HandlerError, Applied::No); // I-64
}

#[tokio::test]
async fn a_read_that_fails_changed_nothing() {
    let server = Server::start([json(500, r#"{"why":"\u001b[31mno"}"#), json(404, "gone"), json(304, "")]).await;
    let (connectors, spec) = (connectors(), http_tool("read", "GET", server.port, "/"));
    for expected in [
        "status 500 Internal Server Error: {\"why\":\"\\u001b[31mno\"}",
        "status 404 Not Found: gone",
        "status 304 Not Modified",
    ] {
        let outcome = call(&connectors, &spec, json!({})).await;
        assert_error(&outcome, Code::HandlerError, Applied::No); // C-120
        assert_eq!(detail(&outcome), expected); // C-90
    }
}

#[tokio::test]
async fn what_never_left_was_not_applied() {
    let connectors = connectors();
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let refused = call(&connectors, &http_tool("write", "POST", port, "/"), json!({})).await;
    assert_error(&refused, Code::ConnectorUnreachable, Applied::No); // C-259, C-122
    let spec = tool("write", json!({"http": {"method": "POST", "url": "http://nowhere.invalid/"}}), json!({}));
    let unresolvable = call(&connectors, &spec, json!({})).await;
    assert_error(&unresolvable, Code::ConnectorUnreachable, Applied::No); // C-259
    let system = Connectors::new(Surroundings::default());
    let unresolvable = call(&system, &spec, json!({})).await;
    assert_error(&unresolvable, Code::ConnectorUnreachable, Applied::No); // C-259
}

#[tokio::test]
async fn a_write_that_was_sent_and_not_answered_whole_is_ambiguous() {
    let whole = "HTTP/1.1 200 Said\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{\"a\":";
    let scripts = [
        Script::Answer(Vec::new()),
        Script::Answer(b"HTTP/1.1 20".to_vec()),
        Script::Answer(b"SSH-2.0-nothing of the kind\r\n\r\n".to_vec()),
        Script::Answer(whole.into()),
        Script::Answer(b"HTTP/1.1 200 Said\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab".to_vec()),
    ];
    for effect in ["write", "read"] {
        let mut server = Server::start(scripts.clone()).await;
        let (connectors, spec) = (connectors(), http_tool(effect, "POST", server.port, "/"));
        for n in 0..scripts.len() {
            let outcome = call(&connectors, &spec, json!({"n": n})).await;
            assert_eq!(server.request().await.body, format!("{{\"n\":{n}}}"));
            match effect {
                "write" => assert_ambiguous(&outcome), // C-258, C-121
                _ => assert_error(&outcome, Code::ConnectorUnreachable, Applied::No),
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_is_silent_or_slow_is_left_at_the_time_limit() {
    let head = b"HTTP/1.1 200 Said\r\ncontent-length: 1000000\r\n\r\n".to_vec();
    let scripts = [
        Script::Hang(Vec::new()),
        Script::Hang(head.clone()),
        Script::Drip(head, b' '),
        Script::Drip(Vec::new(), b'H'),
    ];
    for effect in ["write", "read"] {
        let server = Server::start(scripts.clone()).await;
        let url = format!("http://127.0.0.1:{}/", server.port);
        let spec =
            tool(effect, json!({"http": {"method": "POST", "url": url}}), json!({"limits": {"timeout": "150ms"}}));
        let connectors = connectors();
        for _ in 0..scripts.len() {
            let outcome = call(&connectors, &spec, json!({})).await;
            match effect {
                "write" => assert_ambiguous(&outcome),                          // C-258, C-250
                _ => assert_error(&outcome, Code::HandlerTimeout, Applied::No), // C-84, C-250
            }
        }
    }
}

#[tokio::test]
async fn a_connection_closed_before_a_byte_was_read_is_never_a_clean_no_after_sending() {
    let mut server = Server::start([Script::Slam]).await;
    let spec = http_tool("write", "POST", server.port, "/");
    // Whether the closing is seen before the first byte is written is the network's choice; both ends are honest.
    match call(&connectors(), &spec, json!({})).await {
        Outcome::Ambiguous { .. } => {}
        Outcome::Error { code: Code::ConnectorUnreachable, applied: Applied::No, .. } => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(server.contacts(), 1);
}

#[tokio::test]
async fn a_result_over_the_limit_has_happened_all_the_same() {
    let at_limit = format!("\"{}\"", "x".repeat(98));
    let over = format!("\"{}\"", "x".repeat(99));
    let endless = Script::Drip(
        b"HTTP/1.1 200 Said\r\ncontent-type: text/plain\r\n\r\n".iter().copied().chain([b'y'; 100]).collect(),
        b'y',
    );
    for effect in ["write", "read"] {
        let server = Server::start([json(200, &at_limit), json(200, &over), endless.clone()]).await;
        let url = format!("http://127.0.0.1:{}/", server.port);
        let spec =
            tool(effect, json!({"http": {"method": "POST", "url": url}}), json!({"limits": {"result_bytes": 100}}));
        let connectors = connectors();
        assert_eq!(result(&call(&connectors, &spec, json!({})).await), at_limit);
        for _ in 0..2 {
            let outcome = call(&connectors, &spec, json!({})).await;
            match effect {
                "write" => assert_error(&outcome, Code::InvalidResult, Applied::Yes), // C-123
                _ => assert_error(&outcome, Code::ResultTooLarge, Applied::No),       // C-86, C-250
            }
        }
    }
}

#[tokio::test]
async fn a_cancel_cuts_a_call_and_what_had_left_stays_open() {
    for effect in ["write", "read"] {
        let mut server = Server::start([Script::Hang(Vec::new())]).await;
        let (connectors, spec) = (connectors(), http_tool(effect, "POST", server.port, "/"));
        let (grant, arguments, cancel) = (default_grant(&spec), arguments(json!({})), CancellationToken::new());
        let slot = connectors.slot(&spec).await;
        let dispatch =
            Dispatch { spec: &spec, grant: &grant, arguments: &arguments, key: None, cancel: cancel.clone(), slot };
        let cut = async {
            server.request().await;
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(connectors.dispatch(dispatch), cut);
        match effect {
            "write" => assert_ambiguous(&ended.outcome), // C-22, C-121
            _ => assert_error(&ended.outcome, Code::HandlerError, Applied::No),
        }
    }
}

#[tokio::test]
async fn a_place_is_waited_for_and_given_back() {
    let mut server = Server::start([Script::Hang(Vec::new()), json(200, "{}")]).await;
    let url = format!("http://127.0.0.1:{}/", server.port);
    let spec = tool("read", json!({"http": {"method": "GET", "url": url}}), json!({"limits": {"concurrency": 1}}));
    let connectors = connectors();
    let held = connectors.slot(&spec).await;
    let mut second = Box::pin(call(&connectors, &spec, json!({})));
    // C-250: nobody contacts the server while the place is taken.
    assert!(futures_util::poll!(&mut second).is_pending());
    assert_eq!(server.contacts(), 0); // C-250
    drop(held);
    let first = tokio::select! {
        outcome = &mut second => panic!("{outcome:?}"),
        request = server.request() => request,
    };
    assert_eq!(first.line(), "GET / HTTP/1.1");
    drop(second);
    assert_eq!(result(&call(&connectors, &spec, json!({})).await), "{}"); // C-250: a call that is dropped gives its place back
}

#[tokio::test]
async fn an_address_that_is_not_public_is_contacted_only_by_name() {
    let mut server = Server::start([json(200, "{}"), json(200, "{}"), json(200, "{}")]).await;
    let port = server.port;
    let connectors = connectors_with(
        &[],
        &[("inside.example", "127.0.0.1"), ("localhost", "127.0.0.1"), ("meta.example", "169.254.169.254")],
    );
    let spec = |host: &str| {
        tool("write", json!({"http": {"method": "POST", "url": format!("http://{host}:{port}/")}}), json!({}))
    };
    let grant = |hosts: &[&str]| Grant {
        hosts: hosts.iter().map(|host| Host::parse(host).expect("a host")).collect(),
        secrets: vec![],
    };

    for host in ["inside.example", "meta.example"] {
        let refused = call(&connectors, &spec(host), json!({})).await;
        assert_error(&refused, Code::ConnectorUnreachable, Applied::No); // C-253
    }
    let named = grant(&[&format!("inside.example:{port}"), "10.0.0.0/8"]);
    assert_error(
        &call_with(&connectors, &spec("inside.example"), &named, json!({})).await,
        Code::ConnectorUnreachable,
        Applied::No,
    ); // C-253
    assert_eq!(server.contacts(), 0); // C-253
    for hosts in [
        [format!("inside.example:{port}"), "127.0.0.1".to_owned()],
        [format!("inside.example:{port}"), "127.0.0.0/8".to_owned()],
    ] {
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let outcome = call_with(&connectors, &spec("inside.example"), &grant(&hosts), json!({})).await;
        assert_eq!(result(&outcome), "{}"); // C-253
    }
    assert_eq!(result(&call(&connectors, &spec("localhost"), json!({})).await), "{}"); // C-253
    assert_eq!(server.request().await.header("host"), Some(format!("inside.example:{port}").as_str()));
}

#[tokio::test]
async fn a_place_outside_the_grant_is_never_contacted() {
    let mut server = Server::start([json(200, "{}")]).await;
    let (connectors, spec) = (connectors(), http_tool("write", "POST", server.port, "/"));
    let other = Grant { hosts: vec![Host::parse("127.0.0.1:1").expect("a host")], secrets: vec![] };
    assert!(connectors.ready(&spec, &other).is_err()); // C-251
    assert!(connectors.ready(&spec, &default_grant(&spec)).is_ok());
    assert_error(&call_with(&connectors, &spec, &other, json!({})).await, Code::ConnectorUnreachable, Applied::No);
    assert_eq!(server.contacts(), 0); // C-251
}

#[tokio::test]
async fn arguments_that_make_no_request_are_found_before_the_gate() {
    let (connectors, spec) = (connectors(), http_tool("read", "GET", 1, "/"));
    let bad = arguments(json!({"filter": {"a": 1}}));
    let unfit = connectors.fit(&spec, &default_grant(&spec), &bad).expect_err("an object in the query");
    assert_eq!(unfit.pointer, "/filter"); // I-64
    assert!(connectors.fit(&spec, &default_grant(&spec), &arguments(json!({"filter": "a"}))).is_ok());
    assert_error(&call(&connectors, &spec, json!({"filter": {"a": 1}})).await, Code::InvalidArguments, Applied::No);
}
