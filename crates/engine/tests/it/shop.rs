//! Somebody else's system, as bad as a test wants it: it remembers what it was asked, and answers as it was told to.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How the shop answers one request. What it was not told of, it answers with `{"done": true}`.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Says(u16, &'static str),
    /// Answers when [`Shop::release`] is called, and then with `{"done": true}`.
    Holds,
}

/// A request that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) key: String,
    pub(crate) body: String,
}

#[derive(Default)]
struct Inside {
    seen: Mutex<Vec<Seen>>,
    replies: Mutex<BTreeMap<String, VecDeque<Reply>>>,
    /// Rung for each request that is released.
    released: Notify,
}

pub(crate) struct Shop {
    url: String,
    inside: Arc<Inside>,
}

/// The tools of a shop at `{url}`; each posts to the path of its name. What asks is asked of somebody of finance.
const TOOLS: &str = r#"
[[tool]]
name = "shop.look"
version = "1"
effect = "read"
description = "Look"
input = { type = "object" }
http = { method = "POST", url = "{url}/look" }

[[tool]]
name = "shop.peek"
version = "1"
effect = "read"
description = "Look, with leave"
input = { type = "object" }
http = { method = "POST", url = "{url}/peek" }
approval = "always"

[[tool]]
name = "shop.buy"
version = "1"
effect = "write"
description = "Buy, without leave; nobody can tell afterwards whether it happened"
input = { type = "object" }
http = { method = "POST", url = "{url}/buy" }
approval = "never"

[[tool]]
name = "shop.pay"
version = "1"
effect = "write"
recovery = "idempotent"
description = "Pay, with leave"
input = { type = "object" }
http = { method = "POST", url = "{url}/pay" }
approval = { edit = "yes" }

[[tool]]
name = "shop.send"
version = "1"
effect = "write"
recovery = "idempotent"
description = "Send, without leave"
input = { type = "object" }
http = { method = "POST", url = "{url}/send" }
approval = "never"

[[tool]]
name = "shop.find"
version = "1"
effect = "read"
description = "Find out what became of an order"
input = { type = "object", required = ["key", "n"] }
http = { method = "POST", url = "{url}/find" }

[[tool]]
name = "shop.order"
version = "1"
effect = "write"
recovery = "lookup"
lookup = { tool = "shop.find", arguments = { key = { "$key" = true }, n = { "$arguments" = "/n" } } }
description = "Order, without leave; it can be found out whether it happened"
input = { type = "object", required = ["n"] }
output = { type = "object" }
http = { method = "POST", url = "{url}/order" }
approval = "never"
"#;

impl Shop {
    pub(crate) async fn open() -> Shop {
        let inside = Arc::<Inside>::default();
        let router = Router::new().fallback(answer).with_state(inside.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Shop { url, inside }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The configuration of its tools.
    pub(crate) fn tools(&self) -> String {
        TOOLS.replace("{url}", &self.url)
    }

    /// Tells it how to answer the next requests to a path, one after the other.
    pub(crate) fn tell(&self, path: &str, replies: impl IntoIterator<Item = Reply>) {
        lock(&self.inside.replies).entry(path.to_owned()).or_default().extend(replies);
    }

    /// Lets one held request go on, now or when it comes.
    pub(crate) fn release(&self) {
        self.inside.released.notify_one();
    }

    /// The requests to a path so far.
    pub(crate) fn seen(&self, path: &str) -> Vec<Seen> {
        lock(&self.inside.seen).iter().filter(|seen| seen.path == path).cloned().collect()
    }

    /// Waits until `count` requests to a path have come.
    pub(crate) async fn reached(&self, path: &str, count: usize) {
        crate::desk::eventually(path, async || self.seen(path).len() >= count).await;
    }
}

async fn answer(State(inside): State<Arc<Inside>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.expect("a whole body");
    let body = String::from_utf8(body.to_vec()).expect("JSON");
    let reply = lock(&inside.replies).get_mut(&path).and_then(VecDeque::pop_front);
    lock(&inside.seen).push(Seen { path, key, body });
    match reply {
        Some(Reply::Says(status, body)) => json(status, body),
        Some(Reply::Holds) => {
            inside.released.notified().await;
            json(200, r#"{"done":true}"#)
        }
        None => json(200, r#"{"done":true}"#),
    }
}

fn json(status: u16, body: &'static str) -> Response {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, [("content-type", "application/json")], body).into_response()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
