//! A host to knock at, with people of every kind and programs that ask.

use api::approval::ApprovalQuery;
use api::operate::NewToken;
use api::run::{Until, WorkflowKind};
use api::{Approval, Client, Json, RegisterWorkflow, Run, StartRun};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use stasis_server::{Host, HostOptions};
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(50);

/// `cat` hands its arguments back, so the result of a note is the note.
const CONFIG: &str = r#"
[[tool]]
name = "notes.write"
effect = "write"
description = "Write a note"
input = { type = "object", required = ["text"], properties = { text = { type = "string" } } }
command = { argv = ["/bin/cat"] }
approval = { when = "exists(args.text)", roles = ["finance"], edit = "yes", lease = "1h" }

[[tool]]
name = "notes.lose"
effect = "write"
description = "Write a note and fail to say whether it was written"
input = { type = "object" }
command = { argv = ["/bin/false"] }
approval = "never"

[[principal]]
id = "rita"
name = "Rita, who starts runs"
rights = ["runs:read", "runs:start", "runs:cancel", "runs:pause", "signals:send", "workflows:write"]
roles = ["finance"]

[[principal]]
id = "vera"
name = "Vera, who looks"
rights = ["runs:read"]

[[principal]]
id = "maria"
name = "Maria, who decides"
roles = ["finance"]

[[principal]]
id = "otto"
name = "Otto, who is elsewhere"
namespace = "elsewhere"
rights = ["admin"]
roles = ["finance"]

[[principal]]
id = "agent"
kind = "program"
name = "An agent that does jobs"
rights = ["jobs:claim"]

[[principal]]
id = "robot"
kind = "program"
name = "A program with no rights"
"#;

/// Asks for one note and returns it.
pub(crate) const ASKS: &str = "print('asking')\nresult = notes.write(text=inputs['text'])\n";
pub(crate) const ECHO: &str = "result = inputs\n";

pub(crate) struct House {
    pub(crate) host: Host,
    /// The socket's caller, with every right.
    pub(crate) local: Client,
    http: reqwest::Client,
    pub(crate) folder: tempfile::TempDir,
}

/// A client of a host's socket.
pub(crate) fn knock(host: &Host) -> Client {
    provider();
    Client::unix(host.socket(), None).expect("a client")
}

/// TLS has one provider a process.
fn provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

pub(crate) fn options(folder: &Path) -> HostOptions {
    HostOptions {
        config: Some(folder.join("stasis.toml")),
        lasting: true,
        listen: Some(([127, 0, 0, 1], 0).into()),
        hot_window: Some(Duration::ZERO),
        separate_requester: true,
        ..HostOptions::new(folder.join("data"))
    }
}

impl House {
    pub(crate) async fn open() -> House {
        House::with("").await
    }

    /// With more configuration.
    pub(crate) async fn with(more: &str) -> House {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("stasis.toml"), format!("{CONFIG}\n{more}")).expect("written");
        let host = Host::start(options(folder.path())).await.unwrap_or_else(|error| panic!("{:?}", error.problem()));
        House::of(host, folder)
    }

    pub(crate) fn of(host: Host, folder: tempfile::TempDir) -> House {
        let local = knock(&host);
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        House { host, local, http, folder }
    }

    /// Closes it and opens another on the same directory.
    pub(crate) async fn reopen(self) -> House {
        self.reopen_after(async |_| ()).await
    }

    /// The same, with something done to the ledger while no host has it.
    pub(crate) async fn reopen_after(self, between: impl AsyncFnOnce(store::Ledger)) -> House {
        let House { host, folder, .. } = self;
        host.shutdown().await;
        let ledger = folder.path().join("data").join("stasis.db");
        between(store::Ledger::open(store::StoreConfig::new(ledger)).expect("nobody has it")).await;
        let host = Host::start(options(folder.path())).await.unwrap_or_else(|error| panic!("{:?}", error.problem()));
        House::of(host, folder)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.host.address().expect("TCP is served"))
    }

    pub(crate) async fn token(&self, principal: &str) -> String {
        let request = NewToken { principal: principal.into(), rights: Vec::new(), expires_at: None };
        self.local.new_token(&request).await.expect("a token").secret.expect("its secret")
    }

    /// A client of one of the people, over TCP.
    pub(crate) async fn person(&self, principal: &str) -> Client {
        Client::tcp(&self.url(), Some(self.token(principal).await)).expect("a client")
    }

    /// A request over TCP without the client's help.
    pub(crate) fn raw(&self, method: Method, path: &str, token: Option<&str>) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url()));
        match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub(crate) async fn register(&self, key: &str, source: &str) {
        let request = RegisterWorkflow {
            key: key.into(),
            kind: WorkflowKind::Script,
            source: source.into(),
            manifest: None,
            active: None,
        };
        self.local.register(&request).await.unwrap_or_else(|error| panic!("{error:?}"));
    }

    /// Starts a run as `by` and waits for its next stop.
    pub(crate) async fn run_as(&self, by: &Client, key: &str, input: &str) -> Run {
        let request = StartRun::of(key, Some(Json::parse(input).expect("JSON")));
        let run = by.start(&request, None).await.unwrap_or_else(|error| panic!("{error:?}"));
        self.stopped(&run).await
    }

    pub(crate) async fn run(&self, key: &str, input: &str) -> Run {
        self.run_as(&self.local, key, input).await
    }

    pub(crate) async fn stopped(&self, run: &Run) -> Run {
        self.local.wait(run.id, Until::Stopped, PATIENCE).await.expect("answered").expect("it stops in time")
    }

    pub(crate) async fn ended(&self, run: &Run) -> Run {
        self.local.wait(run.id, Until::Terminal, PATIENCE).await.expect("answered").expect("it ends in time")
    }

    /// A run of Rita's that is parked on one question.
    pub(crate) async fn asking(&self) -> (Run, Approval) {
        self.register("asks", ASKS).await;
        let rita = self.person("rita").await;
        let run = self.run_as(&rita, "asks", r#"{"text":"hello"}"#).await;
        let approval = self.pending(&run).await.pop().expect("one question");
        (run, approval)
    }

    pub(crate) async fn pending(&self, run: &Run) -> Vec<Approval> {
        let query = ApprovalQuery { run: Some(run.id), ..ApprovalQuery::default() };
        self.local.approvals(&query).await.expect("answered").items
    }

    /// A number of `/metrics`.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let page =
            self.raw(Method::GET, "/metrics", None).send().await.expect("answered").text().await.expect("a page");
        let line = page.lines().find(|line| line.split([' ', '{']).next() == Some(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{name} in {page}"))
    }
}

/// Status and body of an answer, which is JSON or nothing.
pub(crate) async fn told(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.expect("answered");
    let status = response.status();
    let text = response.text().await.expect("a body");
    let value = serde_json::from_str(&text).unwrap_or(if text.is_empty() { Value::Null } else { Value::String(text) });
    (status, value)
}

/// As [`told`], for an answer that has to be a problem with this status and code.
pub(crate) async fn problem(request: RequestBuilder, status: u16, code: &str) -> Value {
    let response = request.send().await.expect("answered");
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let got = response.status().as_u16();
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    let value: Value = response.json().await.expect("JSON");
    assert_eq!((got, value["code"].as_str()), (status, Some(code)), "{value}");
    assert_eq!(kind, "application/problem+json"); // I-36
    assert_eq!(value["type"], format!("urn:stasis:error:{code}")); // I-46
    assert_eq!(value["status"], status); // I-46
    assert_eq!(value["request_id"], id.as_str()); // I-46
    value
}
