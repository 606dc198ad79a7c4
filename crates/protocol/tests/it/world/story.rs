//! What stories say most often, as one line each.

use super::{TTL, World, caller, grant, manifest, person, read_tool, settings, told, write_tool};
use protocol::able::Able;
use protocol::approval::{Approval, Kind, Verdict};
use protocol::call::{Applied, Call, Identity, Outcome, OutcomeStatus, RecoveryClass, State, ToolRef};
use protocol::code::Code;
use protocol::command::{
    Act, Admit, Answer, Ask, Attest, AwaitSignal, Cancel, Claim, Command, Concluded, Conclusion, Decide, Due, Edit,
    Hop, JobAct, JobCommand, MoveRun, NewCheckpoint, PauseRun, Progress, Reach, Recover, Reported, SendSignal, Submit,
    Taker, Target, Timer,
};
use protocol::decide::{Cx, Proof, decide_registry};
use protocol::digest::Digest;
use protocol::id::{ApprovalId, CallId, JobId, RunId, WaitId, WorkerId};
use protocol::job::{self, Job};
use protocol::journal::{Entropy, Entry, Other};
use protocol::json::canonicalize;
use protocol::obligation::Subject;
use protocol::pause::Shared;
use protocol::policy::{self, Obligation, OnExpiry, Terms};
use protocol::refusal::Refusal;
use protocol::registry;
use protocol::rows::NewBody;
use protocol::run::{Failure, Kind as RunKind, PatternRef, Run, Status, WaitMode};
use protocol::signal::Awaited;
use protocol::time::Time;
use protocol::tool::Effect;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What every call here is asked with.
const ARGUMENTS: &str = r#"{"amount":5}"#;

pub(crate) fn worker(n: u64) -> WorkerId {
    WorkerId::mint(Time::from_millis(1), 0, n)
}

pub(crate) fn obligation() -> Obligation {
    Obligation { edit: policy::Edit::Yes, ..Terms::default().resolve(true) }
}

pub(crate) fn expiring(rule: Obligation, on_expiry: OnExpiry) -> Obligation {
    Obligation { on_expiry, lease: Duration::from_secs(60), ..rule }
}

pub(crate) fn args(text: &str) -> NewBody {
    NewBody::new(text.as_bytes())
}

/// What every program here ends in.
pub(crate) fn result() -> NewBody {
    args("\"the result\"")
}

pub(crate) fn failure() -> Failure {
    Failure { code: Code::StepFailed, message: "ValueError: no".to_owned(), detail: None }
}

/// A handler that did what it was asked.
pub(crate) fn ok() -> Outcome {
    let body = Some(args("{}").body);
    Outcome { status: OutcomeStatus::Ok, code: None, applied: Applied::Yes, body, gate: None, at: Time::from_micros(0) }
}

/// A call that never started.
pub(crate) fn denied(code: Code) -> Outcome {
    let code = Some(code);
    Outcome { status: OutcomeStatus::Denied, code, applied: Applied::No, body: None, ..ok() }
}

/// Admission, claims, ends.
impl World {
    pub(crate) fn admit(&mut self) -> Run {
        let command = self.admission(None);
        match self.give(command).expect("admitted") {
            Answer::Admitted { run, created: true } => *run,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn admission(&mut self, key: Option<&str>) -> Command {
        self.admission_with(|admit| admit.idempotency_key = key.map(str::to_owned))
    }

    pub(crate) fn admission_with(&mut self, change: impl FnOnce(&mut Admit)) -> Command {
        let manifest = manifest();
        let mut admit = Admit {
            by: caller(person("req")),
            run: self.mint::<RunId>(),
            pattern: PatternRef { key: "refund".to_owned(), revision: 1, digest: manifest.digest() },
            kind: RunKind::Script,
            plan: manifest.plan,
            input: args("{}"),
            settings: settings(),
            acts_for: None,
            idempotency_key: None,
            request_digest: Digest::of("request"),
            queue: "default".to_owned(),
            priority: 50,
            session: None,
            deadline: None,
            labels: BTreeMap::new(),
            retry_of: None,
            fork: None,
            max_queued: None,
            taker: None,
        };
        change(&mut admit);
        Command::Admit(Box::new(admit))
    }

    /// A world with a run that worker 1 has.
    pub(crate) fn running() -> World {
        World::running_with(|_| ())
    }

    pub(crate) fn running_with(change: impl FnOnce(&mut Admit)) -> World {
        let mut world = World::new();
        let admission = world.admission_with(change);
        world.give(admission).expect("admitted");
        world.claim(1).expect("claimed");
        world
    }

    pub(crate) fn claim(&mut self, n: u64) -> Result<Answer, Refusal> {
        self.claim_seq(n, self.run().seq)
    }

    pub(crate) fn claim_seq(&mut self, n: u64, seq: u32) -> Result<Answer, Refusal> {
        let run = self.run().id;
        self.give(Command::Claim(Claim {
            run,
            seq,
            taker: Taker { worker: worker(n), ttl: TTL, able: Able::Everything },
        }))
    }

    pub(crate) fn hop(&mut self, progress: Progress, act: Act) -> Result<Answer, Refusal> {
        let token = self.token();
        self.hop_as(token, progress, act)
    }

    pub(crate) fn hop_as(&mut self, token: u64, mut progress: Progress, act: Act) -> Result<Answer, Refusal> {
        progress.base = self.run().journal.len;
        if let Some(start) = self.start_entry(&progress) {
            progress.entries.insert(0, start);
        }
        let run = self.run().id;
        self.give(Command::Hop(Box::new(Hop { run, token, progress, act })))
    }

    /// The entry that opens a journal, if these are its first.
    fn start_entry(&self, progress: &Progress) -> Option<Entry> {
        let run = self.run();
        let first = run.journal.len == 0 && !progress.entries.is_empty();
        let (pattern, input, entropy) = (run.pattern.digest, run.input.digest, Entropy([7; 32]));
        first.then_some(Entry::Other(Other::Start { pattern, input, now: self.now, entropy }))
    }

    pub(crate) fn record(&mut self, progress: Progress) -> Result<Answer, Refusal> {
        self.hop(progress, Act::Record)
    }

    pub(crate) fn finish(&mut self) -> Result<Answer, Refusal> {
        self.hop(Progress::default(), Act::Finish { result: result() })
    }

    pub(crate) fn fail(&mut self) -> Result<Answer, Refusal> {
        self.hop(Progress::default(), Act::Fail(failure()))
    }

    pub(crate) fn hand_back(&mut self) -> Result<Answer, Refusal> {
        self.hop(Progress::default(), Act::HandBack { checkpoint: None })
    }

    pub(crate) fn cancel(&mut self) -> Answer {
        let cancel = Cancel { by: caller(person("ana")), run: self.run().id, reason: None };
        self.give(Command::Cancel(cancel)).expect("a cancel is answered")
    }

    pub(crate) fn attest(&mut self, subject: Subject) -> Result<Answer, Refusal> {
        self.give(Command::Attest(self.attestation(subject)))
    }

    pub(crate) fn attestation(&self, subject: Subject) -> Attest {
        let reason = "its machine is switched off".to_owned();
        Attest { by: caller(person("ana")), run: self.run().id, subject, reason }
    }

    pub(crate) fn pause(&mut self) -> Result<Answer, Refusal> {
        self.give(Command::Pause(self.pausing()))
    }

    pub(crate) fn resume(&mut self) -> Result<Answer, Refusal> {
        self.give(Command::Resume(self.pausing()))
    }

    pub(crate) fn pausing(&self) -> PauseRun {
        PauseRun { by: caller(person("ana")), run: self.run().id, reason: Some("the bank is closed".to_owned()) }
    }

    /// A move to another revision, proved of the run as it is now.
    pub(crate) fn moving(&self, revision: u32) -> MoveRun {
        let pattern = &self.registry.workflows["refund"].patterns[&revision];
        MoveRun {
            by: caller(person("ana")),
            run: self.run().id,
            to: PatternRef { key: "refund".to_owned(), revision, digest: pattern.digest },
            plan: pattern.manifest.plan,
            max_calls: 7,
            not_after: None,
            resume: true,
            proof: Proof::of(self.run()),
            reason: Some("a fix".to_owned()),
        }
    }

    pub(crate) fn move_to(&mut self, revision: u32) -> Result<Answer, Refusal> {
        self.give(Command::Move(Box::new(self.moving(revision))))
    }

    /// Pauses a workflow or queue, or clears that; whether it changed anything.
    pub(crate) fn shade(&mut self, scope: Shared, on: bool) -> Result<bool, Refusal> {
        let by = caller(person("ben"));
        let change = match on {
            true => registry::Change::Pause { by, scope, reason: None },
            false => registry::Change::Resume { by, scope },
        };
        match self.change_registry(change)? {
            registry::Answer::Changed(changed) => Ok(changed),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn change_registry(&mut self, change: registry::Change) -> Result<registry::Answer, Refusal> {
        let mut ids = self.ids();
        let cx = Cx { now: self.now, ids: &mut ids, registry: &self.registry, limits: &self.limits };
        let changed = decide_registry(change, &cx).inspect_err(told::refused)?;
        self.registry = changed.registry;
        Ok(changed.answer)
    }

    /// A signal to a name, under an id, with a JSON payload.
    pub(crate) fn send(&mut self, name: &str, id: &str, payload: &str) -> Result<Answer, Refusal> {
        let to = Target::Name { run: self.run().id, name: name.to_owned() };
        self.give(Command::Send(Box::new(self.signal(to, id, payload))))
    }

    pub(crate) fn send_to(&mut self, wait: WaitId, id: &str, payload: &str) -> Result<Answer, Refusal> {
        self.give(Command::Send(Box::new(self.signal(Target::Wait(wait), id, payload))))
    }

    pub(crate) fn signal(&self, to: Target, id: &str, payload: &str) -> SendSignal {
        let text = canonicalize(payload.as_bytes()).expect("JSON");
        let by = caller(person("ana"));
        SendSignal { by, to, id: id.to_owned(), payload: args(text.as_str()), text, taker: None }
    }

    /// A call that waits for a signal, in the hop that made it; with a limit, if there is one.
    pub(crate) fn awaits(&mut self, name: &str, schema: Option<&str>, limit: Option<Duration>) -> (CallId, WaitId) {
        let call = self.call(Effect::Read, RecoveryClass::Retry);
        let (id, wait) = (call.id, self.mint::<WaitId>());
        let schema = schema.map(|schema| canonicalize(schema.as_bytes()).expect("JSON"));
        let awaited = Arc::new(Awaited { name: name.to_owned(), schema });
        let timers = limit.map(|limit| Timer { wait: self.mint(), call: id, due: Due::In(limit) });
        let progress = Progress {
            entries: vec![Entry::Call(Box::new(call))],
            signals: vec![AwaitSignal { wait, call: id, awaited }],
            timers: timers.into_iter().collect(),
            ..Progress::default()
        };
        self.record(progress).expect("it waits");
        (id, wait)
    }

    /// A call that hands a job over, in the hop that made it.
    pub(crate) fn delegates(&mut self, timeout: Option<Duration>) -> JobId {
        let call = self.call(Effect::Read, RecoveryClass::Retry);
        let submit = self.submit(call.id, timeout);
        let id = submit.job;
        let (entries, jobs) = (vec![Entry::Call(Box::new(call))], vec![submit]);
        self.record(Progress { entries, jobs, ..Progress::default() }).expect("handed over");
        id
    }

    pub(crate) fn submit(&mut self, call: CallId, timeout: Option<Duration>) -> Submit {
        let task = args(r#""look at it""#);
        let schema = Some(canonicalize(br#"{"type":"number"}"#).expect("JSON"));
        let request =
            job::Request { kind: "reviewer".to_owned(), task: task.body, plan: None, schema, timeout, retries: 0 };
        Submit { job: self.mint(), wait: self.mint(), call, place: 0, request, bodies: vec![task] }
    }

    /// What a timer finds of a job.
    pub(crate) fn recover_job(&mut self, job: JobId) -> Result<Job, Refusal> {
        let run = self.run().id;
        self.give(Command::ExpireJob { run, job })?;
        Ok(self.jobs[&job].clone())
    }

    pub(crate) fn act(&mut self, who: &str, job: JobId, act: JobAct) -> Result<Job, Refusal> {
        let command = JobCommand { by: caller(person(who)), job, act, taker: None };
        match self.give(Command::Job(Box::new(command)))? {
            Answer::Job { job, .. } => Ok(*job),
            other => panic!("{other:?}"),
        }
    }

    /// The token of a claim; the agent has to be heard of within a minute.
    pub(crate) fn claim_job(&mut self, who: &str, job: JobId) -> Result<u32, Refusal> {
        let act =
            JobAct::Claim { worker: "w-1".to_owned(), lease: Duration::from_secs(60), claim_id: format!("by {who}") };
        Ok(self.act(who, job, act)?.agent.expect("claimed").token)
    }

    pub(crate) fn heartbeat(&mut self, who: &str, job: JobId, token: u32) -> Result<Job, Refusal> {
        self.act(who, job, JobAct::Heartbeat { token, progress: None })
    }

    pub(crate) fn complete(&mut self, who: &str, job: JobId, token: u32, result: &str) -> Result<Job, Refusal> {
        let text = canonicalize(result.as_bytes()).expect("JSON");
        let reported = Reported::Succeeded { result: args(text.as_str()), text };
        self.act(who, job, JobAct::Report { token, reported })
    }

    pub(crate) fn fail_job(&mut self, who: &str, job: JobId, token: u32) -> Result<Job, Refusal> {
        let reported = Reported::Failed { error: args(r#""it broke""#) };
        self.act(who, job, JobAct::Report { token, reported })
    }

    pub(crate) fn ack_cancel(&mut self, who: &str, job: JobId, token: u32) -> Result<Job, Refusal> {
        self.act(who, job, JobAct::AckCancel { token })
    }

    pub(crate) fn recover(&mut self) -> Answer {
        self.recover_as(Reach::Lapsed)
    }

    pub(crate) fn recover_as(&mut self, reach: Reach) -> Answer {
        let command =
            Command::Recover(Recover { run: self.run().id, reach, patience: self.patience, able: Able::Everything });
        self.give(command).expect("recovery answers")
    }

    /// The worker is gone: its claim lapses, and the pass finds it.
    pub(crate) fn lapse(&mut self) -> Answer {
        self.pass(TTL);
        self.recover()
    }

    /// Long waits in a story are not about claims.
    pub(crate) fn renew(&mut self) {
        let now = self.now;
        let rows = self.rows.as_mut().expect("admitted");
        if let protocol::run::Phase::Active { claim, .. } = &mut rows.run.phase {
            claim.deadline = now + TTL;
        }
    }

    /// Kinds of the events from number `from` on.
    pub(crate) fn kinds(&self, from: usize) -> Vec<&'static str> {
        self.events[from..].iter().map(|event| event.kind.as_str()).collect()
    }
}

/// Calls, their gates and their ends.
impl World {
    /// A new call of a tool, as the hop would journal it.
    pub(crate) fn call(&mut self, effect: Effect, recovery: RecoveryClass) -> Call {
        let spec = if effect == Effect::Write { write_tool() } else { read_tool() };
        let body = args(ARGUMENTS);
        let made = self.calls.values().filter(|c| c.position.is_some()).count() as u32;
        Call {
            id: self.mint(),
            run: self.run().id,
            position: None,
            identity: Identity::main(made + 1),
            tool: ToolRef { name: spec.name.clone(), version: spec.version.clone(), digest: spec.digest() },
            effect,
            recovery,
            timeout_ms: 30_000,
            asked: body.body.digest,
            arguments: body.body,
            edited: false,
            approval: None,
            settle: None,
            state: State::Entered,
            rounds: 0,
            from: None,
            receipt: None,
            at: self.now,
        }
    }

    /// Enters a call and stores that.
    pub(crate) fn enter(&mut self, effect: Effect, recovery: RecoveryClass) -> CallId {
        let call = self.call(effect, recovery);
        let id = call.id;
        self.record(Progress { entries: vec![Entry::Call(Box::new(call))], ..Progress::default() }).expect("entered");
        id
    }

    /// A write of this class that passed its gate and has no outcome.
    pub(crate) fn in_flight(&mut self, recovery: RecoveryClass) -> CallId {
        self.allow_writes();
        let id = self.enter(Effect::Write, recovery);
        assert!(matches!(self.dispatch(id), Ok(Answer::Dispatched { attempt: 1 })));
        id
    }

    /// A policy that allows every write.
    pub(crate) fn allow_writes(&mut self) {
        let mut policy = (*self.registry.policy).clone();
        policy.default.write = policy::Outcome::Allow;
        self.registry.policy = std::sync::Arc::new(policy);
    }

    pub(crate) fn dispatch(&mut self, call: CallId) -> Result<Answer, Refusal> {
        self.dispatch_bytes(call, ARGUMENTS)
    }

    pub(crate) fn dispatch_bytes(&mut self, call: CallId, arguments: &str) -> Result<Answer, Refusal> {
        let arguments = canonicalize(arguments.as_bytes()).expect("JSON");
        self.hop(Progress::default(), Act::Dispatch { call, arguments, operands: Vec::new(), grant: grant() })
    }

    pub(crate) fn concluded(&mut self, call: CallId, end: Concluded) -> Result<Answer, Refusal> {
        self.record(Progress { conclusions: vec![Conclusion { call, end }], ..Progress::default() })
    }

    pub(crate) fn end(&mut self, call: CallId, outcome: Outcome) -> Result<Answer, Refusal> {
        self.concluded(call, Concluded::Ended(outcome))
    }
}

/// Questions, parks and verdicts.
impl World {
    pub(crate) fn ask(&mut self, call: &Call, obligation: Obligation) -> Ask {
        Ask {
            id: self.mint(),
            wait: self.mint::<WaitId>(),
            call: call.id,
            kind: Kind::Call,
            obligation: obligation.into(),
            policy: self.registry.policy_version,
            claim: None,
            form: None,
            unrenderable: false,
            operands: Vec::new(),
            member: None,
        }
    }

    /// A write and its question, not stored yet.
    pub(crate) fn question(&mut self, rule: Obligation) -> (Progress, Ask) {
        let call = self.call(Effect::Write, RecoveryClass::Manual);
        let ask = self.ask(&call, rule);
        let entries = vec![Entry::Call(Box::new(call))];
        let (asks, bodies) = (vec![ask.clone()], vec![args(ARGUMENTS)]);
        (Progress { entries, asks, bodies, ..Progress::default() }, ask)
    }

    /// A write that is asked for while the hop goes on waiting in place.
    pub(crate) fn hot(&mut self, rule: Obligation) -> Ask {
        let (progress, ask) = self.question(rule);
        self.record(progress).expect("asked");
        ask
    }

    /// Parks on every wait that is open.
    pub(crate) fn park(&mut self) -> Result<Answer, Refusal> {
        self.park_in(WaitMode::Any)
    }

    pub(crate) fn park_in(&mut self, mode: WaitMode) -> Result<Answer, Refusal> {
        let checkpoint = self.checkpoint(&Progress::default());
        self.hop(Progress::default(), Act::Park { checkpoint, mode, taker: None })
    }

    /// As many questions, in a run that is parked on them.
    pub(crate) fn batch(count: usize, mode: WaitMode) -> (World, Vec<Ask>) {
        let mut world = World::running();
        let asks = (0..count).map(|_| world.hot(obligation())).collect();
        world.park_in(mode).expect("parked");
        (world, asks)
    }

    /// Parked on the approval of one write, in the commit that asks; admitted and claimed before, if need be.
    pub(crate) fn parked(&mut self, rule: Obligation) -> Ask {
        if self.rows.is_none() {
            self.admit();
            self.claim(1).expect("claimed");
        }
        let (progress, ask) = self.question(rule);
        let checkpoint = self.checkpoint(&progress);
        self.hop(progress, Act::Park { checkpoint, mode: WaitMode::Any, taker: None }).expect("parked");
        ask
    }

    pub(crate) fn checkpoint(&self, progress: &Progress) -> NewCheckpoint {
        let start = self.start_entry(progress);
        let entries = start.iter().chain(&progress.entries);
        let journal = entries.fold(self.run().journal, |head, entry| entry.extend(head));
        let body = NewBody::new(format!("checkpoint {}", journal.len).into_bytes());
        NewCheckpoint { schema: "stasis.script.v1".to_owned(), body, journal, snapshot: None }
    }

    pub(crate) fn verdict(&mut self, who: &str, approval: ApprovalId, verdict: Verdict) -> Result<Answer, Refusal> {
        let decide = self.decision(who, approval, verdict);
        self.give(Command::Decide(Box::new(decide)))
    }

    pub(crate) fn decision(&self, who: &str, approval: ApprovalId, verdict: Verdict) -> Decide {
        Decide {
            by: caller(person(who)),
            approval,
            verdict,
            arguments_digest: self.approvals.get(&approval).map(|a| a.arguments.digest),
            edit: None,
            answer: None,
            reason: Some(args("because")),
            unrenderable: false,
            taker: None,
        }
    }

    /// An approve of other arguments.
    pub(crate) fn edited(&self, who: &str, approval: ApprovalId, arguments: &str) -> Decide {
        let edit = Edit {
            arguments: canonicalize(arguments.as_bytes()).expect("JSON"),
            judged_by: self.approvals[&approval].binding.tool_digest,
            fault: None,
            operands: Vec::new(),
        };
        Decide { edit: Some(edit), ..self.decision(who, approval, Verdict::Approve) }
    }

    /// An asked write, approved, in the hop that carries it to its gate.
    pub(crate) fn approved(rule: Obligation) -> (World, CallId, ApprovalId) {
        let mut world = World::new();
        let ask = world.parked(rule);
        world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
        world.claim(2).expect("claimed");
        (world, ask.call, ask.id)
    }

    pub(crate) fn approval(&self, id: ApprovalId) -> &Approval {
        &self.approvals[&id]
    }

    /// Whether the run is where a status and a hop say.
    pub(crate) fn is_at(&self, status: Status, seq: u32) -> bool {
        (self.status(), self.run().seq) == (status, seq)
    }
}
