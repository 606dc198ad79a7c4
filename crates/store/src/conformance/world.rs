//! A ledger with a workflow, a tool and a worker, and the moves of a run as one line each.

use protocol::able::Able;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::approval::{Kind as Question, Method, Verdict};
use protocol::call::{Applied, Call, Identity, Outcome, OutcomeStatus, RecoveryClass, State, ToolRef};
use protocol::command::*;
use protocol::digest::Digest;
use protocol::id::{ApprovalId, CallId, Id, Ids, RequestId, RunId, WaitId, WorkerId};
use protocol::journal::{Entropy, Entry, Other};
use protocol::json::{self, Canonical};
use protocol::limits::WorkerSettings;
use protocol::policy::{Obligation, Policy, Strength, Terms};
use protocol::principal::Principal;
use protocol::registry::{self, Apply, NewTool, Register};
use protocol::rows::NewBody;
use protocol::run::{Failure, Kind, PatternRef, Run, Settings, WaitMode};
use protocol::time::Time;
use protocol::tool::{Effect, ToolSpec};
use protocol::workflow::Manifest;

use crate::error::TransactError;
use crate::ledger::Ledger;
use crate::sqlite::Shown;

/// Where stories take place.
pub struct World {
    pub ledger: Ledger,
    clock: Arc<AtomicI64>,
    ids: Mutex<Ids>,
    pub(super) pattern: PatternRef,
    pub(super) tool: ToolRef,
    pub(super) worker: WorkerId,
    pub(super) ttl: Duration,
    _home: Box<dyn Any + Send + Sync>,
}

/// When every story begins.
pub const START: Time = Time::from_micros(1_796_031_000_000_000);

type Told<T> = Result<T, TransactError>;

impl World {
    /// A world on an open, empty ledger whose clock is `clock`. `home` is kept as long as the world.
    pub async fn on(ledger: Ledger, clock: Arc<AtomicI64>, home: impl Any + Send + Sync) -> World {
        let mut ids = Ids::new(START, 0, crate::config::random());
        let worker = ids.mint();
        let mut world = World {
            ledger,
            clock,
            ids: Mutex::new(ids),
            pattern: PatternRef { key: "refunds".to_owned(), revision: 0, digest: Digest::ZERO },
            tool: ToolRef { name: String::new(), version: String::new(), digest: Digest::ZERO },
            worker,
            ttl: Duration::from_secs(30),
            _home: Box::new(home),
        };
        world.register().await;
        world
    }

    async fn register(&mut self) {
        let spec = ToolSpec::parse(&canonical(
            r#"{"name": "pay.refund", "version": "1", "description": "Pays money back.", "effect": "write",
                "input_schema": {"type": "object"}, "command": {"argv": ["/usr/bin/refund"]}}"#,
        ))
        .expect("the tool is valid");
        self.tool = ToolRef { name: spec.name.clone(), version: spec.version.clone(), digest: spec.digest() };
        let tools = vec![NewTool { spec: Arc::new(spec), grant: canonical(r#"{"hosts": [], "secrets": []}"#) }];
        let policy = Arc::new(Policy::default());
        let principals = vec![self.person("ana"), self.person("bo")];
        let apply = Apply { by: self.local(), tools, policy, principals };
        self.ledger.transact_registry(registry::Change::Apply(Box::new(apply))).await.expect("a configuration applies");
        let registered = self.register_workflow("refunds", "1").await;
        let registry::Answer::Registered { pattern, .. } = registered else { panic!("{registered:?}") };
        self.pattern = PatternRef { key: "refunds".to_owned(), revision: pattern.revision, digest: pattern.digest };
    }

    pub(super) async fn register_workflow(&self, key: &str, source: &str) -> registry::Answer {
        let source = NewBody::new(source.as_bytes());
        let manifest = Manifest {
            schema: Manifest::SCHEMA.to_owned(),
            key: key.to_owned(),
            kind: Kind::Script,
            source: source.body.digest,
            input_schema: canonical(r#"{"type": "object"}"#),
            output_schema: canonical("{}"),
            plan: plan(),
            engine: None,
            image: None,
            checkpoint_schema: "stasis.script.v1".to_owned(),
            roots: Vec::new(),
            resume: true,
        };
        let register = Register {
            by: self.local(),
            id: self.id(),
            manifest,
            revision: None,
            title: Some("Refunds".to_owned()),
            settings: settings(),
            activate: true,
            blobs: vec![(source.body.digest, source.bytes)],
        };
        let change = registry::Change::Register(Box::new(register));
        self.ledger.transact_registry(change).await.expect("a workflow registers")
    }

    pub(super) fn id<T: Id>(&self) -> T {
        self.ids.lock().expect("no story panics while it mints").mint()
    }

    /// Moves the clock on.
    pub fn pass(&self, span: Duration) {
        self.clock.fetch_add(span.as_micros() as i64, Ordering::SeqCst);
    }

    /// Sets the clock, also back.
    pub(super) fn set_clock(&self, to: Time) {
        self.clock.store(to.as_micros(), Ordering::SeqCst);
    }

    pub(super) fn person(&self, name: &str) -> Principal {
        Principal { id: name.to_owned(), name: name.to_owned(), ..Principal::local() }
    }

    pub(super) fn by(&self, name: &str) -> Caller {
        Caller {
            principal: self.person(name),
            method: Method::Api,
            strength: Strength::StepUp,
            request: self.id::<RequestId>(),
        }
    }

    /// Somebody of another namespace.
    pub(super) fn foreign(&self, name: &str) -> Caller {
        let principal = Principal { namespace: "other".to_owned(), ..self.person(name) };
        Caller { principal, ..self.by(name) }
    }

    pub(super) fn local(&self) -> Caller {
        Caller { principal: Principal::local(), ..self.by("local") }
    }

    pub fn taker(&self) -> Taker {
        Taker { worker: self.worker, ttl: self.ttl, able: Able::Everything }
    }

    /// An admission that no other one equals.
    pub fn admission(&self) -> Admit {
        Admit {
            by: self.by("ana"),
            run: self.id(),
            pattern: self.pattern.clone(),
            kind: Kind::Script,
            plan: plan(),
            input: NewBody::new(&b"{\"order\":\"A-1\"}"[..]),
            settings: settings(),
            acts_for: None,
            idempotency_key: None,
            request_digest: Digest::of("a request"),
            queue: "default".to_owned(),
            priority: 50,
            session: None,
            deadline: None,
            labels: BTreeMap::new(),
            retry_of: None,
            fork: None,
            max_queued: None,
            taker: None,
        }
    }

    pub async fn admit(&self, admit: Admit) -> Told<(Run, bool)> {
        match self.ledger.transact(Command::Admit(Box::new(admit))).await? {
            Answer::Admitted { run, created } => Ok((*run, created)),
            other => panic!("{other:?}"),
        }
    }

    /// A run that this worker has.
    pub async fn running(&self) -> Run {
        let admit = Admit { taker: Some(self.taker()), ..self.admission() };
        self.admit(admit).await.expect("an admission is accepted").0
    }

    pub async fn queued(&self) -> Run {
        self.admit(self.admission()).await.expect("an admission is accepted").0
    }

    pub async fn claim(&self, run: RunId, seq: u32, taker: Taker) -> Told<Run> {
        match self.ledger.transact(Command::Claim(Claim { run, seq, taker })).await? {
            Answer::Claimed { run } => Ok(*run),
            other => panic!("{other:?}"),
        }
    }

    pub async fn hop(&self, run: &Run, progress: Progress, act: Act) -> Told<Answer> {
        let hop = Hop { run: run.id, token: run.fence, progress, act };
        self.ledger.transact(Command::Hop(Box::new(hop))).await
    }

    /// The same, answered with the run.
    pub async fn step(&self, run: &Run, progress: Progress, act: Act) -> Told<Run> {
        match self.hop(run, progress, act).await? {
            Answer::Stored { run } => Ok(*run),
            other => panic!("{other:?}"),
        }
    }

    /// A call of the tool with these arguments, at the run's next place in the journal.
    pub fn call(&self, run: &Run, n: u32, arguments: &NewBody) -> Call {
        Call {
            id: self.id(),
            run: run.id,
            position: None,
            identity: Identity::main(n),
            tool: self.tool.clone(),
            effect: Effect::Write,
            recovery: RecoveryClass::Manual,
            timeout_ms: 30_000,
            asked: arguments.body.digest,
            arguments: arguments.body,
            edited: false,
            approval: None,
            settle: None,
            state: State::Entered,
            rounds: 0,
            from: None,
            receipt: None,
            at: self.ledger.now(),
        }
    }

    /// A hop's progress that enters one call and asks for it: start entry, call, arguments, question.
    pub fn asks(&self, run: &Run) -> (Progress, Asked) {
        let n = run.budget.calls + 1;
        let arguments = NewBody::new(format!("{{\"amount\":{n}}}").into_bytes());
        let call = self.call(run, n, &arguments);
        let ask = self.ask(call.id, Question::Call, obligation());
        let asked = Asked { call: call.id, approval: ask.id, wait: ask.wait, arguments: arguments.clone() };
        let mut entries = Vec::new();
        if run.journal.len == 0 {
            entries.push(Entry::Other(Other::Start {
                pattern: run.pattern.digest,
                input: run.input.digest,
                now: self.ledger.now(),
                entropy: Entropy([3; 32]),
            }));
        }
        entries.push(Entry::Call(Box::new(call)));
        let progress = Progress {
            base: run.journal.len,
            entries,
            asks: vec![ask],
            bodies: vec![arguments],
            log_base: run.log_lines,
            log: vec![format!("asking {n}")],
            ..Progress::default()
        };
        (progress, asked)
    }

    pub(super) fn ask(&self, call: CallId, kind: Question, obligation: Obligation) -> Ask {
        Ask {
            id: self.id(),
            wait: self.id(),
            call,
            kind,
            obligation: obligation.into(),
            policy: self.ledger.registry().policy_version,
            claim: None,
            form: None,
            unrenderable: false,
            operands: Vec::new(),
            member: None,
        }
    }

    /// A park with this checkpoint, naming the journal as it is after `progress`.
    pub fn park(&self, run: &Run, progress: &Progress, text: &str) -> Act {
        let journal = progress.entries.iter().fold(run.journal, |head, entry| entry.extend(head));
        let checkpoint = NewCheckpoint {
            schema: "stasis.script.v1".to_owned(),
            body: NewBody::new(text.as_bytes()),
            journal,
            snapshot: None,
        };
        Act::Park { checkpoint, mode: WaitMode::Any, taker: None }
    }

    /// A run that is parked on one approval.
    pub async fn parked(&self) -> (Run, Asked) {
        let run = self.running().await;
        let (progress, asked) = self.asks(&run);
        let act = self.park(&run, &progress, "checkpoint 1");
        (self.step(&run, progress, act).await.expect("a park is accepted"), asked)
    }

    pub fn verdict(&self, asked: &Asked, verdict: Verdict, by: &str) -> Decide {
        Decide {
            by: self.by(by),
            approval: asked.approval,
            verdict,
            arguments_digest: Some(asked.arguments.body.digest),
            edit: None,
            answer: None,
            reason: (verdict != Verdict::Approve).then(|| NewBody::new(&b"no"[..])),
            unrenderable: false,
            taker: None,
        }
    }

    pub async fn decide(&self, decide: Decide) -> Told<Decided> {
        match self.ledger.transact(Command::Decide(Box::new(decide))).await? {
            Answer::Decided(decided) => Ok(*decided),
            other => panic!("{other:?}"),
        }
    }

    pub async fn dispatch(&self, run: &Run, asked: &Asked) -> Told<Answer> {
        let arguments = json::canonicalize(&asked.arguments.bytes).expect("arguments are JSON");
        let act = Act::Dispatch { call: asked.call, arguments, operands: Vec::new(), grant: Digest::of("grant") };
        self.hop(run, Progress::default(), act).await
    }

    pub fn outcome(&self, call: CallId, status: OutcomeStatus, body: Option<&NewBody>) -> Conclusion {
        let applied = if status == OutcomeStatus::Ok { Applied::Yes } else { Applied::No };
        let code = (status == OutcomeStatus::Denied).then_some(protocol::code::Code::ApprovalRejected);
        let body = body.map(|new| new.body);
        let outcome = Outcome { status, code, applied, body, gate: None, at: self.ledger.now() };
        Conclusion { call, end: Concluded::Ended(outcome) }
    }

    /// Progress that only concludes a call as denied, with its answer for the guest.
    pub fn denied(&self, call: CallId) -> Progress {
        let told = NewBody::new(&b"{\"message\":\"rejected\"}"[..]);
        let conclusions = vec![self.outcome(call, OutcomeStatus::Denied, Some(&told))];
        Progress { conclusions, bodies: vec![told], ..Progress::default() }
    }

    pub fn finish(&self, text: &str) -> Act {
        Act::Finish { result: NewBody::new(text.as_bytes()) }
    }

    pub fn failure(&self) -> Failure {
        Failure {
            code: protocol::code::Code::StepFailed,
            message: "no stock".to_owned(),
            detail: Some(canonical(r#"{"line":3}"#)),
        }
    }

    pub async fn settle(&self, command: Command) -> Told<(Run, bool)> {
        match self.ledger.transact(command).await? {
            Answer::Settled { run, changed, .. } => Ok((*run, changed)),
            other => panic!("{other:?}"),
        }
    }

    pub async fn recover(&self, run: RunId, reach: Reach) -> (Run, bool) {
        let patience = WorkerSettings::default().patience();
        self.settle(Command::Recover(Recover { run, reach, patience, able: Able::Everything }))
            .await
            .expect("recovery is accepted")
    }

    pub async fn cancel(&self, run: RunId) -> Told<(Run, bool)> {
        self.settle(Command::Cancel(Cancel { by: self.by("ana"), run, reason: None })).await
    }

    pub async fn shown(&self, run: RunId) -> Shown {
        self.ledger.rows(run).await.expect("the run can be read").expect("the run is there")
    }
}

/// A question that was published.
#[derive(Clone, Debug)]
pub struct Asked {
    pub call: CallId,
    pub approval: ApprovalId,
    pub wait: WaitId,
    pub arguments: NewBody,
}

pub(super) fn canonical(text: &str) -> Canonical {
    json::canonicalize(text.as_bytes()).expect("the text is JSON")
}

pub(super) fn plan() -> Digest {
    Digest::of("a plan")
}

/// A question that one person answers within a day.
pub(super) fn obligation() -> Obligation {
    Obligation {
        edit: protocol::policy::Edit::Yes,
        lease: Duration::from_secs(86_400),
        ..Terms::default().resolve(false)
    }
}

pub(super) fn settings() -> Settings {
    Settings {
        active_limit_us: 60_000_000,
        memory_bytes: 64 << 20,
        max_calls: 1_000,
        not_after: None,
        resume: true,
        separate_requester: false,
    }
}

/// The code of a refusal; anything else fails the story.
pub(super) fn refused<T: std::fmt::Debug>(told: Told<T>) -> protocol::code::Code {
    match told {
        Err(TransactError::Refused(refusal)) => refusal.code,
        other => panic!("expected a refusal, found {other:?}"),
    }
}
