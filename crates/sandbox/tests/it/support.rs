//! A scripted world for guests: the sandbox of this process, a few tools, and what a program did with them.

use std::sync::{Arc, Mutex, OnceLock};

use protocol::time::Time;
use sandbox::{
    Answer, End, Event, Guest, GuestLimits, Outcome, Program, Refusal, Replies, Reply, Sandbox, SandboxConfig, Tool,
    cache,
};
use serde_json::{Value, json};

/// 2026-11-30T09:30:00Z.
pub(crate) const START: i64 = 1_796_031_000_000_000;

/// The sandbox of this process. A missing image is told by the sentence that says how to make one.
pub(crate) fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let cache = cache::default_dir().expect("a cache folder");
        let mut config = SandboxConfig::new(cache);
        config.max_guests = 32;
        Sandbox::open(&config, &mut |progress| eprintln!("{progress:?}")).unwrap_or_else(|error| panic!("{error}"))
    })
}

pub(crate) fn program(source: &str) -> Program {
    let tool = |name: &str| Tool { name: name.into(), description: format!("What {name} does.") };
    Program {
        name: "program.py".into(),
        source: source.into(),
        inputs: r#"{"order": "A-17", "cents": 4200, "rate": 1.0, "big": 12345678901234567890}"#.into(),
        tools: ["demo.get", "demo.echo", "demo.boom", "demo.code", "demo.edited", "mail.send"].map(tool).into(),
        now: Time::from_micros(START),
        entropy: [7; 32],
        next: 1,
    }
}

/// Log lines, shared with the guest that writes them.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    pub(crate) fn limits(&self) -> GuestLimits {
        let lines = Arc::clone(&self.0);
        GuestLimits { log: Box::new(move |line| lines.lock().unwrap().push(line.text)), ..GuestLimits::default() }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Answers requests, one second of the guest's time after the other.
pub(crate) struct World {
    pub(crate) now: i64,
    pub(crate) next: u64,
    /// Given with the next answer, once.
    pub(crate) entropy: Option<[u8; 32]>,
    pub(crate) requests: Vec<Value>,
    /// The requests as they were written.
    pub(crate) sent: Vec<String>,
}

impl Default for World {
    fn default() -> Self {
        Self { now: START, next: 1, entropy: None, requests: Vec::new(), sent: Vec::new() }
    }
}

impl World {
    pub(crate) fn answer(&mut self, request: &[u8]) -> Answer {
        let text = String::from_utf8(request.to_vec()).expect("the guest sends UTF-8");
        let request: Value = serde_json::from_str(&text).expect("the guest sends JSON");
        self.requests.push(request.clone());
        self.sent.push(text);
        self.now += 1_000_000;
        let replies = match &request {
            Value::Array(calls) if calls.is_empty() || calls.len() > 64 => {
                Replies::One(reply(&json!({ "n": self.next }), refused("invalid_request", Value::Null)))
            }
            Value::Array(calls) => {
                self.next += calls.len() as u64;
                Replies::Batch(calls.iter().map(|call| self.reply(call)).collect())
            }
            call => {
                self.next += 1;
                Replies::One(self.reply(call))
            }
        };
        Answer { now: Time::from_micros(self.now), entropy: self.entropy.take(), next: self.next, replies }
    }

    fn reply(&self, call: &Value) -> Reply {
        let mut reply = reply(call, self.outcome(call["tool"].as_str().expect("a tool"), &call["arguments"]));
        if call["tool"] == "demo.edited" {
            reply.edited = Some(json!({"cents": 1}).to_string());
            reply.approval = Some("apr_1".into());
        }
        reply
    }

    fn outcome(&self, tool: &str, arguments: &Value) -> Outcome {
        let decision =
            |status: &str| json!({"status": status, "by": ["ann"], "reason": "because", "at": "2026-11-30T10:00:00Z"});
        match tool {
            "demo.get" => ok(json!(arguments["i"].as_i64().expect("i is an int") * 100)),
            "demo.echo" | "demo.edited" | "mail.send" => ok(arguments.clone()),
            "demo.boom" => error("handler_error", json!({"http": 500})),
            "demo.code" => {
                let code = arguments["code"].as_str().expect("a code");
                if arguments["status"] == "error" {
                    error(code, arguments["detail"].clone())
                } else {
                    refused(code, arguments["detail"].clone())
                }
            }
            "stasis.gate" => match arguments["title"].as_str() {
                Some("no") => refused("approval_rejected", decision("rejected")),
                Some("late") => refused("approval_expired", decision("expired")),
                _ => ok(
                    json!({"status": "approved", "by": ["ann", "bob"], "reason": null, "answer": {"limit": 5}, "at": "2026-11-30T10:00:00Z"}),
                ),
            },
            "stasis.sleep" => ok(Value::Null),
            "stasis.signal" => match arguments["name"].as_str() {
                Some("never") => refused("wait_expired", Value::Null),
                _ => ok(json!({"paid": true})),
            },
            "stasis.delegate" => match arguments["agent"].as_str() {
                Some("lazy") => error("job_ended", json!({"status": "timed_out"})),
                _ => ok(json!("done")),
            },
            "stasis.first" => ok(
                json!({"index": 1, "status": "denied", "error": {"code": "approval_rejected", "message": "no", "detail": decision("rejected"), "applied": null}}),
            ),
            "stasis.now" => ok(json!("2026-11-30T09:30:00.25Z")),
            "stasis.random_bytes" => ok(json!("AAEC")),
            "stasis.sha256" => ok(json!(format!("of {}", arguments["base64"]))),
            _ => refused("tool_not_in_plan", Value::Null),
        }
    }
}

fn reply(call: &Value, outcome: Outcome) -> Reply {
    let n = call["n"].as_u64().expect("a number");
    Reply { n, call: format!("run_1/main/{n}"), approval: None, outcome, edited: None }
}

fn ok(result: Value) -> Outcome {
    Outcome::Ok { result: result.to_string() }
}

fn refused(code: &str, detail: Value) -> Outcome {
    Outcome::Denied(refusal(code, detail, None))
}

fn error(code: &str, detail: Value) -> Outcome {
    Outcome::Error(refusal(code, detail, Some(false)))
}

fn refusal(code: &str, detail: Value, applied: Option<bool>) -> Refusal {
    Refusal { code: code.into(), message: format!("refused: {code}"), detail: Some(detail.to_string()), applied }
}

/// Runs a guest to its end.
pub(crate) async fn finish(guest: &mut Guest, world: &mut World) -> End {
    loop {
        match guest.next().await {
            Event::Call(request) => guest.answer(world.answer(&request)),
            Event::Oversized { length } => panic!("a request of {length} bytes"),
            Event::Ended(end) => return end,
        }
    }
}

/// What a program did.
pub(crate) struct Run {
    pub(crate) end: End,
    pub(crate) requests: Vec<Value>,
    pub(crate) sent: Vec<String>,
    pub(crate) lines: Vec<String>,
}

impl Run {
    /// The result of a program that returned.
    pub(crate) fn result(&self) -> Value {
        match &self.end {
            End::Returned { result } => serde_json::from_str(result).expect("a result is JSON"),
            other => panic!("{other:#?}\nlog: {:#?}", self.lines),
        }
    }

    pub(crate) fn raised(&self) -> &sandbox::Raised {
        match &self.end {
            End::Raised(raised) => raised,
            other => panic!("{other:#?}\nlog: {:#?}", self.lines),
        }
    }
}

pub(crate) async fn run(source: &str) -> Run {
    run_program(&program(source)).await
}

pub(crate) async fn run_program(program: &Program) -> Run {
    let (lines, mut world) = (Lines::default(), World::default());
    let mut guest = sandbox().start(program, lines.limits()).await.expect("a guest");
    let end = finish(&mut guest, &mut world).await;
    Run { end, requests: world.requests, sent: world.sent, lines: lines.take() }
}
