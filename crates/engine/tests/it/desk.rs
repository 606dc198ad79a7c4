//! An engine on a temporary ledger, with a real guest image and a real payments server on loopback.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use engine::audit::AuditConfig;
use engine::tools::{Connectors, Surroundings};
use engine::workflow::Workflows;
use engine::{
    DecideRequest, Engine, EngineConfig, Failure, Image, Migrators, RegisterScript, StartError, StartRun, Until,
};
use protocol::able::Able;
use protocol::approval::{Approval, Method, Verdict};
use protocol::call::Call;
use protocol::command::{Caller, Command, Decided, Reach, Recover};
use protocol::id::{ApprovalId, RequestId, RunId, WorkerId};
use protocol::json::{Canonical, canonicalize};
use protocol::limits::{Limits, WorkerSettings};
use protocol::policy::Strength;
use protocol::principal::Principal;
use protocol::run::Run;
use protocol::time::Time;
use sandbox::{Sandbox, SandboxConfig};
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use store::{Checkpoints, Clock, Ledger, StoreConfig};
use tokio::sync::Semaphore;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    let cache = sandbox::cache::default_dir().expect("a cache folder");
    Sandbox::open(&SandboxConfig::new(cache), &mut |_| ()).expect("a guest image; build one with `cargo xtask guest`")
});

/// The image that tests run on, and its file.
pub(crate) fn image() -> &'static sandbox::ImageInfo {
    SANDBOX.image()
}

pub(crate) fn image_path() -> std::path::PathBuf {
    let guests = sandbox::cache::guests_dir(SANDBOX.cache()).expect("a private folder");
    guests.join(sandbox::cache::image_name(image().digest))
}

pub(crate) struct Desk {
    pub(crate) engine: Engine,
    pub(crate) payments: Payments,
    folder: Arc<tempfile::TempDir>,
}

/// How an engine of a test differs.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) hot: Duration,
    pub(crate) carry: bool,
    pub(crate) worker: WorkerSettings,
    pub(crate) resources: Vec<engine::config::Resource>,
    pub(crate) agents: Vec<engine::config::Agent>,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
    pub(crate) image: Image,
    pub(crate) migrators: Migrators,
    pub(crate) workflows: Workflows,
    /// Whether anybody hears of commits.
    pub(crate) hints: bool,
    pub(crate) private_webhooks: bool,
    /// Whether anchors are made.
    pub(crate) anchors: bool,
}

impl Default for Setting {
    fn default() -> Setting {
        // Nobody waits here for another build.
        let (shutdown_grace, pin_grace) = (Duration::from_secs(10), Duration::ZERO);
        let worker = WorkerSettings { shutdown_grace, pin_grace, ..WorkerSettings::default() };
        Setting {
            hot: Duration::ZERO,
            carry: true,
            worker,
            resources: Vec::new(),
            agents: Vec::new(),
            limits: Limits::default(),
            clock: Clock::System,
            image: Image::Found(SANDBOX.clone()),
            migrators: Migrators::default(),
            workflows: Workflows::default(),
            hints: true,
            private_webhooks: true,
            anchors: false,
        }
    }
}

impl Setting {
    /// Claims nothing and dispatches nothing: what is decided stays as the decision left it.
    pub(crate) fn idle() -> Setting {
        Setting { carry: false, ..Setting::default() }
    }

    pub(crate) fn hot(hot: Duration) -> Setting {
        Setting { hot, ..Setting::default() }
    }
}

const LEDGER: &str = "stasis.db";

impl Desk {
    pub(crate) fn ledger_path(&self) -> std::path::PathBuf {
        self.folder.path().join(LEDGER)
    }

    pub(crate) async fn open() -> Desk {
        Desk::with(Setting::default()).await
    }

    pub(crate) async fn with(setting: Setting) -> Desk {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        let payments = Payments::start().await;
        let engine = start(&folder, setting).await;
        let desk = Desk { engine, payments, folder };
        desk.configure().await;
        desk
    }

    /// Shuts the engine down and opens another on the same ledger.
    pub(crate) async fn reopen(self, setting: Setting) -> Desk {
        self.reopen_after(setting, || ()).await
    }

    /// As [`Desk::reopen`], with something done while nobody has the ledger.
    pub(crate) async fn reopen_after(self, setting: Setting, between: impl FnOnce()) -> Desk {
        self.engine.shutdown().await;
        let Desk { engine, payments, folder } = self;
        drop(engine);
        between();
        let engine = start(&folder, setting).await;
        Desk { engine, payments, folder }
    }

    /// Shuts the engine down; why another one with this setting does not start on its ledger.
    pub(crate) async fn refused_with(self, setting: Setting) -> StartError {
        self.engine.shutdown().await;
        let Desk { engine, payments: _payments, folder } = self;
        drop(engine);
        try_start(&folder, setting).await.err().expect("refused")
    }

    async fn configure(&self) {
        let url = &self.payments.url;
        self.apply(&format!(
            r#"
            [[tool]]
            name = "payments.order"
            effect = "read"
            description = "Look an order up"
            input = {{ type = "object", required = ["order_id"], properties = {{ order_id = {{ type = "string" }} }} }}
            http = {{ method = "GET", url = "{url}/orders/{{order_id}}" }}

            [[tool]]
            name = "payments.refund"
            description = "Refund an order"
            effect = "write"
            recovery = "idempotent"
            input = {{ type = "object", required = ["order_id", "amount"], properties = {{ order_id = {{ type = "string" }}, amount = {{ type = "number" }} }} }}
            http = {{ method = "POST", url = "{url}/refunds" }}
            approval = {{ when = "args.amount > 100", lease = "24h", edit = "yes" }}

            [[tool]]
            name = "mail.send"
            effect = "write"
            description = "Send a mail"
            input = {{ type = "object", required = ["to"], properties = {{ to = {{ type = "string" }} }} }}
            http = {{ method = "POST", url = "{url}/mails" }}
            approval = "never"

            [[tool]]
            name = "mail.drop"
            effect = "write"
            description = "A server that takes it and never answers"
            input = {{ type = "object" }}
            http = {{ method = "POST", url = "{url}/drop" }}
            approval = "never"
            limits = {{ timeout = "300ms" }}
            "#
        ))
        .await;
    }

    /// Puts a configuration in force, and nothing of the one before it.
    pub(crate) async fn apply(&self, text: &str) {
        let origin = engine::config::Origin { file: None, data: self.folder.path(), environment: Vec::new() };
        let config = engine::config::Config::read("stasis.toml", text, self.folder.path(), &origin)
            .unwrap_or_else(|faults| panic!("{faults}"));
        self.engine.apply(local(), &config).await.expect("applied");
    }

    pub(crate) async fn register(&self, source: &str) -> Result<engine::Registered, Failure> {
        let request = RegisterScript {
            source: source.to_owned(),
            file_name: "program.py".to_owned(),
            ..RegisterScript::default()
        };
        self.engine.register(local(), request).await
    }

    /// Cancels a run, and gives it as it then is.
    pub(crate) async fn cancel(&self, run: RunId) -> Run {
        self.engine.cancel(local(), run, Some("enough")).await.expect("cancelled").0
    }

    /// Another process, as it seems, finds the claim of this run lapsed.
    pub(crate) async fn lose(&self, run: RunId) {
        let stranger = WorkerId::mint(Time::from_millis(1), 0, 1);
        let patience = self.engine.settings().patience();
        let recover = Recover { run, reach: Reach::Others(stranger), patience, able: Able::Everything };
        self.engine.ledger().transact(Command::Recover(recover)).await.expect("taken over");
    }

    /// Runs another program, beside the one that is there, to its end.
    pub(crate) async fn run_as_other(&self, source: &str) -> Run {
        let script =
            RegisterScript { source: source.to_owned(), file_name: "other.py".to_owned(), ..RegisterScript::default() };
        self.engine.register(local(), script).await.expect("registered");
        let other = StartRun { workflow: "other".to_owned(), ..request("{}") };
        let started = self.engine.start_run(local(), other).await.expect("started");
        self.ended(started.run.id).await
    }

    /// Registers and starts a program, and waits for its next stop.
    pub(crate) async fn run(&self, source: &str, input: &str) -> Run {
        self.register(source).await.expect("registered");
        let started = self.engine.start_run(local(), request(input)).await.expect("started");
        self.stopped(started.run.id).await
    }

    pub(crate) async fn stopped(&self, run: RunId) -> Run {
        let stopped = self.engine.wait(run, Until::Stopped, PATIENCE).await.expect("read");
        stopped.expect("it stops in time")
    }

    pub(crate) async fn ended(&self, run: RunId) -> Run {
        let ended = self.engine.wait(run, Until::Terminal, PATIENCE).await.expect("read");
        ended.expect("it ends in time")
    }

    pub(crate) async fn pending(&self, run: RunId) -> Vec<Approval> {
        self.engine.ledger().pending(run).await.expect("read")
    }

    pub(crate) async fn decide(&self, approval: ApprovalId, verdict: Verdict) -> Result<Decided, Failure> {
        self.decide_with(approval, verdict, None).await
    }

    pub(crate) async fn decide_with(
        &self,
        approval: ApprovalId,
        verdict: Verdict,
        edit: Option<&str>,
    ) -> Result<Decided, Failure> {
        let edit = edit.map(|text| text.as_bytes().to_vec());
        self.decide_as(local(), DecideRequest { edit, ..self.verdict(approval, verdict).await }).await
    }

    /// A verdict on what the approval shows now.
    pub(crate) async fn verdict(&self, approval: ApprovalId, verdict: Verdict) -> DecideRequest {
        let found = self.approval(approval).await;
        DecideRequest {
            approval,
            verdict,
            arguments_digest: Some(found.arguments.digest),
            edit: None,
            answer: None,
            reason: Some("because".to_owned()),
            unrenderable: false,
        }
    }

    pub(crate) async fn decide_as(&self, by: Caller, request: DecideRequest) -> Result<Decided, Failure> {
        self.engine.decide(by, request).await
    }

    pub(crate) async fn approval(&self, id: ApprovalId) -> Approval {
        self.engine.ledger().approval(id).await.expect("read").expect("an approval").approval
    }

    pub(crate) async fn calls(&self, run: RunId) -> Vec<Call> {
        self.engine.ledger().calls(run).await.expect("read").expect("a run")
    }

    /// The run's receipts, each as the JSON object it is.
    pub(crate) async fn receipts(&self, run: RunId) -> Vec<serde_json::Value> {
        let receipts = self.engine.ledger().receipts(run).await.expect("read").expect("a run");
        receipts.iter().map(|r| serde_json::from_str(r.record.canonical().as_str()).expect("JSON")).collect()
    }

    /// The one pending question of a run, once it is there.
    pub(crate) async fn asked(&self, run: RunId) -> Approval {
        let mut found = None;
        eventually("a question", async || {
            found = self.pending(run).await.pop();
            found.is_some()
        })
        .await;
        found.expect("just found")
    }

    /// Where anchors go.
    pub(crate) fn export(&self) -> std::path::PathBuf {
        self.folder.path().join(EXPORT)
    }

    /// Registers and starts a program, and does not wait for it.
    pub(crate) async fn begin(&self, source: &str, input: &str) -> RunId {
        self.register(source).await.expect("registered");
        self.engine.start_run(local(), request(input)).await.expect("started").run.id
    }

    /// The result of a run that is done, as JSON text.
    pub(crate) async fn result(&self, run: &Run) -> String {
        let body = run.result().unwrap_or_else(|| panic!("not done: {:?}", run.phase));
        let bytes = self.engine.ledger().body(run.id, body.digest).await.expect("read").expect("stored");
        String::from_utf8(bytes).expect("JSON")
    }
}

/// The export in a desk's folder.
const EXPORT: &str = "anchors/export.ndjson";

/// An engine on a clock that a test moves, and looks at often.
pub(crate) fn manual() -> (Setting, Arc<AtomicI64>) {
    let clock = Arc::new(AtomicI64::new(1_800_000_000_000_000));
    let often = Duration::from_millis(20);
    let worker = WorkerSettings { scan_every: often, recover_every: often, ..Setting::default().worker };
    (Setting { clock: Clock::Manual(clock.clone()), worker, ..Setting::default() }, clock)
}

/// Looks until it is so.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looking = async {
        let mut tick = tokio::time::interval(Duration::from_millis(3));
        while !holds().await {
            tick.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn start(folder: &tempfile::TempDir, setting: Setting) -> Engine {
    try_start(folder, setting).await.expect("an engine")
}

async fn try_start(folder: &tempfile::TempDir, setting: Setting) -> Result<Engine, StartError> {
    let store = StoreConfig {
        clock: setting.clock,
        limits: setting.limits.clone(),
        checkpoints: Checkpoints::Held,
        hints: setting.hints,
        ..StoreConfig::new(folder.path().join(LEDGER))
    };
    let ledger = Ledger::open(store).expect("a ledger");
    let audit = AuditConfig { export: folder.path().join(EXPORT), key: folder.path().join("key") };
    let config = EngineConfig {
        audit: setting.anchors.then_some(audit),
        ledger,
        image: setting.image,
        connectors: Connectors::new(Surroundings::default()),
        resources: setting.resources,
        agents: setting.agents,
        owner: folder.path().join(LEDGER).display().to_string(),
        limits: setting.limits,
        worker: setting.worker,
        migrators: setting.migrators,
        workflows: setting.workflows,
        hot_window: setting.hot,
        carry: setting.carry,
        capacity: 8,
        private_webhooks: setting.private_webhooks,
        separate_requester: false,
    };
    Engine::start(config).await
}

pub(crate) fn local() -> Caller {
    Caller {
        principal: Principal::local(),
        method: Method::Cli,
        strength: Strength::Session,
        request: RequestId::mint(Time::from_millis(1), 0, 1),
    }
}

pub(crate) fn request(input: &str) -> StartRun {
    let input: Canonical = canonicalize(input.as_bytes()).expect("JSON");
    StartRun {
        run: None,
        workflow: "program".to_owned(),
        revision: None,
        input,
        idempotency_key: None,
        priority: None,
        queue: None,
        session: None,
        deadline: None,
        labels: Default::default(),
        retry_of: None,
    }
}

/// A payments server that remembers every effect it applied.
pub(crate) struct Payments {
    pub(crate) url: String,
    pub(crate) effects: Arc<Mutex<Vec<Effect>>>,
    slow: Arc<Slow>,
}

/// Orders whose id begins with `slow` are answered when the test says so.
struct Slow {
    asked: Semaphore,
    answers: Semaphore,
}

/// One applied effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) path: &'static str,
    pub(crate) key: String,
    pub(crate) body: String,
}

type Effects = Arc<Mutex<Vec<Effect>>>;

impl Payments {
    async fn start() -> Payments {
        let effects = Effects::default();
        let slow = Arc::new(Slow { asked: Semaphore::new(0), answers: Semaphore::new(0) });
        let held = slow.clone();
        let router = Router::new()
            .route("/orders/{id}", get(move |id| order(id, held)))
            .route("/refunds", post(|s: State<Effects>, h: HeaderMap, b: String| apply("/refunds", s, h, b)))
            .route("/mails", post(|s: State<Effects>, h: HeaderMap, b: String| apply("/mails", s, h, b)))
            .route("/drop", post(dropped))
            .with_state(effects.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Payments { url, effects, slow }
    }

    /// A slow order is being asked for.
    pub(crate) async fn reached(&self) {
        self.slow.asked.acquire().await.expect("never closed").forget();
    }

    /// Answers it.
    pub(crate) fn release(&self) {
        self.slow.answers.add_permits(1);
    }

    pub(crate) fn applied(&self) -> Vec<Effect> {
        self.effects.lock().expect("no test panics in it").clone()
    }
}

type Json = ([(&'static str, &'static str); 1], String);

fn json(text: String) -> Json {
    ([("content-type", "application/json")], text)
}

async fn order(Path(id): Path<String>, slow: Arc<Slow>) -> Json {
    if id.starts_with("slow") {
        slow.asked.add_permits(1);
        slow.answers.acquire().await.expect("never closed").forget();
    }
    json(format!(r#"{{"id":"{id}","amount":250.5}}"#))
}

async fn apply(path: &'static str, State(effects): State<Effects>, headers: HeaderMap, body: String) -> Json {
    let key = headers.get("idempotency-key").and_then(|k| k.to_str().ok()).unwrap_or_default().to_owned();
    let mut effects = effects.lock().expect("no test panics in it");
    if !effects.iter().any(|effect| effect.key == key) {
        effects.push(Effect { path, key, body });
    }
    json(r#"{"applied":true}"#.to_owned())
}

/// Applies the effect and lets the caller wait for ever.
async fn dropped(State(effects): State<Effects>, headers: HeaderMap, body: String) -> String {
    apply("/drop", State(effects), headers, body).await;
    std::future::pending().await
}
