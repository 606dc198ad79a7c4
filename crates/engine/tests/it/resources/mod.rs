//! Resources as real processes: model servers that load, swap, fail, and are left behind.

mod failures;
mod holds;
mod swap;

use crate::desk::{Desk, Setting, local, request};
use engine::config::{Config, Origin, Resource};
use protocol::event::Kind;
use protocol::id::RunId;
use protocol::limits::WorkerSettings;
use protocol::run::Run;
use std::path::PathBuf;
use std::time::Duration;

/// Asks the model that the input names, as often as it says.
pub(crate) const PROGRAM: &str = r#"
replies = []
for text in inputs["texts"]:
    ask = small.ask if inputs["model"] == "small" else large.ask
    replies.append(ask(text=text)["reply"])
result = replies
"#;

/// An engine with two model servers, of which its host holds one.
pub(crate) struct House {
    pub(crate) desk: Desk,
    pub(crate) resources: Vec<Resource>,
    /// A line for each start, readiness and end of a server.
    log: PathBuf,
    pub(crate) ports: [u16; 2],
    _folder: tempfile::TempDir,
}

/// A port that nobody listens at now.
fn port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn configuration(ports: [u16; 2], log: &std::path::Path, more: [&str; 2]) -> String {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gpu-wait/model.py");
    let each = ["small", "large"].into_iter().zip(ports).zip(more).zip([3_000, 8_000]);
    let section = |(((name, port), more), memory): (((&str, u16), &str), u32)| {
        let more = more.split_whitespace().map(|word| format!(", {word:?}")).collect::<String>();
        let log = log.display();
        format!(
            r#"
            [[tool]]
            name = "{name}.ask"
            effect = "read"
            description = "Ask the model"
            input = {{ type = "object", required = ["text"], properties = {{ text = {{ type = "string" }} }} }}
            http = {{ method = "POST", url = "http://127.0.0.1:{port}/ask" }}
            resource = "chat:{name}"

            [[resource]]
            name = "chat:{name}"
            cost = {{ memory_mib = {memory} }}
            start = ["python3", "{model}", "--port", "{port}", "--log", "{log}"{more}]
            ready = "http://127.0.0.1:{port}/health"
            "#
        )
    };
    each.map(section).collect()
}

pub(crate) fn settings() -> WorkerSettings {
    WorkerSettings { resource_memory_mib: Some(8_000), ..Setting::default().worker }
}

impl House {
    pub(crate) async fn open() -> House {
        House::with(["--load 0.3", "--load 0.3"], settings()).await
    }

    /// Servers with these options more.
    pub(crate) async fn with(more: [&str; 2], worker: WorkerSettings) -> House {
        let house = House::of(more, Setting { worker, ..Setting::default() }).await;
        house.desk.register(PROGRAM).await.expect("registered");
        house
    }

    /// One in which no program is registered.
    pub(crate) async fn of(more: [&str; 2], setting: Setting) -> House {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, ports) = (folder.path().join("models.log"), [port(), port()]);
        let text = configuration(ports, &log, more);
        let origin = Origin { file: None, data: folder.path(), environment: Vec::new() };
        let config = Config::read("stasis.toml", &text, folder.path(), &origin).unwrap_or_else(|f| panic!("{f}"));
        let resources = config.resources;
        let desk = Desk::with(Setting { resources: resources.clone(), ..setting }).await;
        desk.apply(&text).await;
        House { desk, resources, log, ports, _folder: folder }
    }

    /// Starts a run that asks a model so many times.
    pub(crate) async fn ask(&self, model: &str, times: usize) -> RunId {
        let texts = vec!["\"hello\""; times].join(",");
        let input = format!(r#"{{"model": "{model}", "texts": [{texts}]}}"#);
        self.desk.engine.start_run(local(), request(&input)).await.expect("started").run.id
    }

    pub(crate) async fn read(&self, run: RunId) -> Run {
        self.desk.engine.ledger().run(run).await.expect("read").expect("a run")
    }

    /// What the servers did, with their names for their ports.
    pub(crate) fn told(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let line = |line: &str| {
            let mut words = line.split(' ');
            let (word, port) = (words.next().expect("a word"), words.next().expect("a port"));
            let name = if port == self.ports[0].to_string() { "small" } else { "large" };
            format!("{word} {name}")
        };
        text.lines().map(line).collect()
    }

    /// The processes of servers, as they told of themselves.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let starts = text.lines().filter(|line| line.starts_with("start "));
        starts.map(|line| line.rsplit(' ').next().expect("a number").parse().expect("a number")).collect()
    }

    pub(crate) fn state(&self, name: &str) -> &'static str {
        let all = self.desk.engine.resources();
        all.iter().find(|view| view.name == name).expect("declared").state.as_str()
    }

    pub(crate) async fn kinds(&self, run: RunId) -> Vec<Kind> {
        let events = self.desk.engine.ledger().events(run, None, 100).await.expect("read").expect("a run");
        events.iter().map(|event| event.kind).collect()
    }

    pub(crate) async fn close(self) {
        self.desk.engine.shutdown().await;
        let alive: Vec<u32> = self.pids().into_iter().filter(|pid| runs(*pid)).collect();
        assert_eq!(alive, [] as [u32; 0], "nothing is left behind");
    }
}

/// Whether a process runs; one that is dead and not reaped does not.
pub(crate) fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// How a run that failed says why.
pub(crate) fn message(run: &Run) -> &str {
    run.failure().map_or("", |failure| failure.message.as_str())
}

/// Time for an interpreter to start on a busy machine, and for a server that never gets ready to be given up.
pub(crate) const LIMIT: Duration = Duration::from_secs(4);
