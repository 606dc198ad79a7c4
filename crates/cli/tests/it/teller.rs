//! Somebody else's server that answers when a test lets it: a request is seen, and held until it is released.

use crate::home::Home;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
    /// Requests that are let through; all, once it is large.
    passes: Mutex<u64>,
    passed: Condvar,
}

pub(crate) struct Teller {
    port: u16,
    inside: Arc<Inside>,
}

/// `desk.pay` and `desk.look` ask; `desk.tell` does not.
const TOOLS: &str = r#"
[[tool]]
name = "desk.pay"
effect = "write"
recovery = "idempotent"
description = "Pay"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:{port}/pay" }

[[tool]]
name = "desk.look"
effect = "read"
description = "Look, with leave"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:{port}/look" }
approval = "always"

[[tool]]
name = "desk.tell"
effect = "write"
description = "Tell somebody"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:{port}/tell" }
approval = "never"
"#;

impl Teller {
    /// Starts it, holding everything, and puts its tools into the folder's configuration.
    pub(crate) fn start(home: &Home) -> Teller {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let inside = Arc::<Inside>::default();
        let shared = inside.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let inside = shared.clone();
                std::thread::spawn(move || inside.serve(stream));
            }
        });
        home.write("stasis.toml", &TOOLS.replace("{port}", &port.to_string()));
        Teller { port, inside }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn seen(&self, path: &str) -> Vec<Seen> {
        lock(&self.inside.seen).iter().filter(|seen| seen.path == path).cloned().collect()
    }

    /// Waits until `count` requests to a path have come.
    pub(crate) fn reached(&self, path: &str, count: usize) {
        crate::servers::until(path, || self.seen(path).len() >= count);
    }

    /// Lets so many requests through, those that wait and those that come.
    pub(crate) fn release(&self, count: u64) {
        let mut passes = lock(&self.inside.passes);
        *passes = passes.saturating_add(count);
        self.inside.passed.notify_all();
    }

    pub(crate) fn release_all(&self) {
        self.release(u64::MAX);
    }
}

impl Inside {
    /// One request of a connection; a caller that has gone is not answered.
    fn serve(&self, stream: TcpStream) {
        let Some(seen) = read(&stream) else { return };
        lock(&self.seen).push(seen);
        let mut passes = lock(&self.passes);
        while *passes == 0 {
            passes = self.passed.wait(passes).unwrap_or_else(PoisonError::into_inner);
        }
        *passes = if *passes > u64::from(u32::MAX) { *passes } else { *passes - 1 };
        drop(passes);
        let body = r#"{"done":true}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = (&stream).write_all(answer.as_bytes());
    }
}

fn read(stream: &TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut key) = (0, String::new());
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "idempotency-key" => key = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { path, key, body: String::from_utf8(body).ok()? })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
