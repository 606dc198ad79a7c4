//! One run in memory: rows that decisions change, with everything a store would have saved, and the invariants of
//! runs.md section 2 checked after each command.

use protocol::approval::{self, Approval, Method, Verdict};
use protocol::call::{Call, Identity, RecoveryClass, State, ToolRef};
use protocol::command::{
    Act, Admit, Answer, Ask, Caller, Cancel, Claim, Command, Decide, Hop, KnownKey, NewCheckpoint, Patience, Progress,
    Reach, Recover, Taker,
};
use protocol::decide::{Cx, Decision, Loaded, decide};
use protocol::digest::Digest;
use protocol::event::Event;
use protocol::id::{ApprovalId, CallId, Ids, RequestId, RunId, WaitId, WorkerId};
use protocol::journal::{Entropy, Entry, Other};
use protocol::limits::{Limits, WorkerSettings};
use protocol::policy::{Edit, Obligation, OnExpiry, Strength, Terms};
use protocol::principal::{Kind, Principal, Rights, Roles};
use protocol::refusal::Refusal;
use protocol::registry::Registry;
use protocol::rows::{Change, Keyed, Mark, NewBody, Rows, Set};
use protocol::run::{Kind as RunKind, PatternRef, Phase, Run, Settings, Status, WaitMode};
use protocol::time::Time;
use protocol::tool::Effect;
use protocol::wait;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A run, its rows and its surroundings.
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) registry: Registry,
    pub(crate) limits: Limits,
    pub(crate) patience: Patience,
    pub(crate) rows: Option<Rows>,
    /// Every approval and call there ever was.
    pub(crate) approvals: BTreeMap<ApprovalId, Approval>,
    pub(crate) calls: BTreeMap<CallId, Call>,
    pub(crate) events: Vec<Event>,
    pub(crate) receipts: Vec<protocol::call::Receipt>,
    pub(crate) journal: Vec<Entry>,
    pub(crate) seqs: Vec<u32>,
    ids: Ids,
}

pub(crate) fn person(id: &str) -> Principal {
    Principal {
        id: id.to_owned(),
        name: id.to_owned(),
        kind: Kind::Person,
        namespace: "default".to_owned(),
        partition: None,
        roles: Roles::from_iter(["approver"]),
        rights: Rights::all(),
    }
}

pub(crate) fn caller(principal: Principal) -> Caller {
    Caller {
        principal,
        method: Method::Api,
        strength: Strength::Session,
        request: RequestId::mint(Time::from_millis(1), 0, 1),
    }
}

pub(crate) fn worker(n: u64) -> WorkerId {
    WorkerId::mint(Time::from_millis(1), 0, n)
}

pub(crate) fn obligation() -> Obligation {
    Obligation { edit: Edit::Yes, ..Terms::default().resolve(true) }
}

pub(crate) fn args(text: &str) -> NewBody {
    NewBody::new(text.as_bytes())
}

impl World {
    pub(crate) fn new() -> World {
        let mut registry = Registry::default();
        for id in ["ana", "ben", "cleo"] {
            registry.principals.insert(id.to_owned(), person(id));
        }
        let manifest = crate::runs::manifest();
        let digest = manifest.digest();
        let settings = settings();
        let pattern = protocol::workflow::Pattern {
            id: protocol::id::PatternId::mint(Time::from_millis(1), 0, 1),
            revision: 1,
            digest,
            manifest,
            title: None,
            registered_at: Time::from_millis(1),
        };
        registry.workflows.insert(
            "refund".to_owned(),
            protocol::workflow::Workflow {
                key: "refund".to_owned(),
                active: Some(1),
                patterns: BTreeMap::from([(1, pattern)]),
                settings,
            },
        );
        for spec in [crate::runs::write_tool(), crate::runs::read_tool()] {
            let grant = Digest::of("{}");
            let tool = protocol::registry::Tool {
                digest: spec.digest(),
                blob: spec.canonical().digest(),
                grant,
                registered_at: Time::from_millis(1),
                withdrawn_at: None,
                spec: std::sync::Arc::new(spec),
            };
            registry.tools.entry(tool.spec.name.clone()).or_default().insert(tool.spec.version.clone(), tool);
        }
        World {
            now: Time::from_millis(1_000_000),
            registry,
            limits: Limits::default(),
            patience: WorkerSettings::default().patience(),
            rows: None,
            approvals: BTreeMap::new(),
            calls: BTreeMap::new(),
            events: Vec::new(),
            receipts: Vec::new(),
            journal: Vec::new(),
            seqs: Vec::new(),
            ids: Ids::new(Time::from_millis(1_000_000), 0, 42),
        }
    }

    pub(crate) fn run(&self) -> &Run {
        &self.rows.as_ref().expect("admitted").run
    }

    pub(crate) fn status(&self) -> Status {
        self.run().status()
    }

    pub(crate) fn token(&self) -> u64 {
        self.run().claim().map_or(0, |claim| claim.token)
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    pub(crate) fn mint<T: protocol::id::Id>(&mut self) -> T {
        self.ids.mint()
    }

    /// Gives one command to its decision and saves what comes back, as a store does.
    pub(crate) fn give(&mut self, command: Command) -> Result<Answer, Refusal> {
        let loaded = self.load(&command);
        let before = self.rows.clone();
        let registry = self.registry.clone();
        let mut ids = self.ids.clone();
        let mut cx = Cx { now: self.now, ids: &mut ids, registry: &registry, limits: &self.limits };
        let Decision { change, answer } = decide(command, loaded, &mut cx);
        self.ids = ids;
        match change {
            Some(change) => self.save(*change),
            // R-2: a refusal changes no row and writes no event.
            None => assert_eq!(self.rows, before),
        }
        self.check();
        answer
    }

    fn load(&self, command: &Command) -> Loaded {
        let Some(rows) = &self.rows else {
            return match command {
                Command::Admit(_) => Loaded::New { known: None, session: None },
                _ => Loaded::Missing,
            };
        };
        if let Command::Admit(admit) = command {
            let key = KnownKey { run: rows.run.id, request_digest: Digest::of("request") };
            let known = admit.idempotency_key.is_some().then(|| (key, Box::new(rows.run.clone())));
            let session = rows.run.session.as_ref().filter(|_| !rows.run.status().is_final()).map(|_| rows.run.id);
            return Loaded::New { known, session };
        }
        let mut rows = rows.clone();
        if let Command::Decide(decide) = command {
            match self.approvals.get(&decide.approval) {
                None => return Loaded::Missing,
                Some(approval) => {
                    if rows.approvals.get(approval.id).is_none() {
                        rows.approvals = with(rows.approvals, approval.clone());
                    }
                    if rows.calls.get(approval.call).is_none() {
                        rows.calls = with(rows.calls, self.calls[&approval.call].clone());
                    }
                }
            }
        }
        Loaded::Rows(Box::new(rows))
    }

    fn save(&mut self, change: Change) {
        let Change { rows, before, events, journal, receipts, .. } = change;
        if let Some((status, fence)) = before {
            let was = self.rows.as_ref().expect("loaded");
            assert_eq!((was.run.status(), was.run.fence), (status, fence));
        }
        let mut others = journal.into_iter().map(|row| (row.position, Entry::Other(row.entry))).collect::<Vec<_>>();
        for (call, mark) in rows.calls.dirty() {
            if let (Some(position), Mark::New) = (call.position, mark) {
                others.push((position, Entry::Call(Box::new(call.clone()))));
            }
            self.calls.insert(call.id, call.clone());
        }
        others.sort_by_key(|(position, _)| *position);
        for (position, entry) in others {
            assert_eq!(position as usize, self.journal.len()); // R-334
            self.journal.push(entry);
        }
        for (approval, _) in rows.approvals.dirty() {
            self.approvals.insert(approval.id, approval.clone());
        }
        self.events.extend(events);
        self.receipts.extend(receipts);
        let settled = |id: &ApprovalId| self.calls[&self.approvals[id].call].is_ended();
        let open = |a: &Approval| a.is_pending() || a.is_open_yes() || !settled(&a.id);
        self.seqs.push(rows.run.seq);
        self.rows = Some(Rows {
            run: rows.run,
            waits: reload(&rows.waits, |_| true),
            approvals: Set::load(self.approvals.values().filter(|a| open(a)).cloned()),
            calls: Set::load(self.calls.values().filter(|c| !c.is_ended()).cloned()),
            obligations: reload(&rows.obligations, |_| true),
        });
    }

    /// The invariants of runs.md section 2.
    fn check(&self) {
        let Some(rows) = &self.rows else { return };
        let run = &rows.run;
        let parked = rows.waits.iter().filter(|w| w.state == wait::State::Parked).count();
        match &run.phase {
            Phase::Queued { .. } => assert!(run.claim().is_none()), // R-25
            Phase::Active { claim, .. } => assert_eq!(claim.token, run.fence), // R-26
            Phase::Parked { .. } => {
                assert!(parked > 0 && run.claim().is_none()); // R-27
                let journaled = run.kind.is_journaled();
                assert!(run.checkpoint.is_some() || journaled); // R-28
                for wait in rows.waits.iter().filter(|w| w.state == wait::State::Parked) {
                    if let wait::Owner::Approval(id) = wait.owner {
                        assert!(self.approvals[&id].is_pending() && self.approvals[&id].run == run.id); // R-27
                    }
                }
            }
            Phase::Stopping { .. } => {
                assert!(rows.obligations.iter().any(|o| o.is_open()));
                assert_eq!(parked, 0);
            }
            Phase::Final { .. } => {
                assert_eq!(rows.waits.iter().count(), 0); // R-29
                assert!(run.finished_at().is_some() && run.claim().is_none()); // R-29
                assert!(!rows.obligations.iter().any(|o| o.is_open())); // R-29
                let pending = self.approvals.values().filter(|a| a.is_pending());
                assert!(pending.into_iter().all(|a| a.kind() == approval::Kind::Settle)); // R-29
            }
        }
        let terminal: Vec<_> = self.events.iter().filter(|e| e.kind.is_terminal()).collect();
        assert_eq!(terminal.len(), usize::from(run.status().is_final())); // R-248
        if let Some(event) = terminal.first() {
            assert_eq!(event.kind, protocol::event::Kind::Run(run.status())); // R-29
        }
        self.chains(run);
        for pair in self.seqs.windows(2) {
            assert!(pair[1] == pair[0] || pair[1] == pair[0] + 1); // R-30
        }
        for call in self.calls.values().filter(|c| c.effect == Effect::Write) {
            if let Some(outcome) = call.outcome() {
                let denied = outcome.status == protocol::call::OutcomeStatus::Denied;
                assert_eq!(denied, outcome.gate.is_none(), "{call:?}"); // C-88
            }
        }
        if run.status() == Status::Done {
            assert!(self.calls.values().all(Call::is_ended)); // R-23
        }
    }

    fn chains(&self, run: &Run) {
        let mut prev = Event::origin(run.id, run.pattern.digest);
        for (n, event) in self.events.iter().enumerate() {
            assert_eq!((event.seq as usize, event.prev), (n, prev)); // R-355
            assert_eq!(event.computed(), event.digest); // R-359
            prev = event.digest;
        }
        assert_eq!(run.events.digest, prev);
        assert!(protocol::journal::verify(&self.journal, run.journal)); // R-335
        for (n, receipt) in self.receipts.iter().enumerate() {
            assert_eq!(receipt.n as usize, n); // C-127
        }
        // R-373: the clocks add up to the age at the last change.
        assert_eq!(run.clocks.total(), run.clocks.since.since(run.created_at).as_micros() as u64);
    }

    // What tests say most often.

    pub(crate) fn admit(&mut self) -> Run {
        let command = self.admission(None);
        match self.give(command).expect("admitted") {
            Answer::Admitted { run, created: true } => *run,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn admission(&mut self, key: Option<&str>) -> Command {
        let manifest = crate::runs::manifest();
        Command::Admit(Box::new(Admit {
            by: caller(person("req")),
            run: self.mint::<RunId>(),
            pattern: PatternRef { key: "refund".to_owned(), revision: 1, digest: manifest.digest() },
            kind: RunKind::Script,
            plan: manifest.plan,
            input: args("{}"),
            settings: settings(),
            acts_for: None,
            idempotency_key: key.map(str::to_owned),
            request_digest: Digest::of("request"),
            queue: "default".to_owned(),
            priority: 50,
            session: None,
            deadline: None,
            labels: BTreeMap::new(),
            retry_of: None,
            taker: None,
        }))
    }

    pub(crate) fn claim(&mut self, n: u64) -> Result<Answer, Refusal> {
        let (run, seq) = (self.run().id, self.run().seq);
        self.give(Command::Claim(Claim { run, seq, taker: Taker { worker: worker(n), ttl: TTL } }))
    }

    pub(crate) fn hop(&mut self, progress: Progress, act: Act) -> Result<Answer, Refusal> {
        let token = self.token();
        self.hop_as(token, progress, act)
    }

    pub(crate) fn hop_as(&mut self, token: u64, mut progress: Progress, act: Act) -> Result<Answer, Refusal> {
        let run = self.run();
        progress.base = run.journal.len;
        if run.journal.len == 0 && !progress.entries.is_empty() {
            let entropy = Entropy([7; 32]);
            let (pattern, input) = (run.pattern.digest, run.input.digest);
            progress.entries.insert(0, Entry::Other(Other::Start { pattern, input, now: self.now, entropy }));
        }
        let run = run.id;
        self.give(Command::Hop(Box::new(Hop { run, token, progress, act })))
    }

    /// A new call of a tool, as the hop would journal it.
    pub(crate) fn call(&mut self, effect: Effect, recovery: RecoveryClass) -> Call {
        let spec = if effect == Effect::Write { crate::runs::write_tool() } else { crate::runs::read_tool() };
        let body = args(r#"{"amount":5}"#);
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
            receipt: None,
            at: self.now,
        }
    }

    pub(crate) fn ask(&mut self, call: &Call, obligation: Obligation) -> Ask {
        Ask {
            id: self.mint(),
            wait: self.mint::<WaitId>(),
            call: call.id,
            kind: approval::Kind::Call,
            obligation,
            policy: self.registry.policy_version,
            claim: None,
            form: None,
            unrenderable: false,
            operands: Vec::new(),
        }
    }

    pub(crate) fn checkpoint(&self, progress: &Progress) -> NewCheckpoint {
        let run = self.run();
        let mut journal = run.journal;
        if run.journal.len == 0 && !progress.entries.is_empty() {
            let entropy = Entropy([7; 32]);
            let (pattern, input) = (run.pattern.digest, run.input.digest);
            journal = Entry::Other(Other::Start { pattern, input, now: self.now, entropy }).extend(journal);
        }
        journal = progress.entries.iter().fold(journal, |head, entry| entry.extend(head));
        NewCheckpoint {
            schema: "stasis.script.v1".to_owned(),
            body: NewBody::new(format!("checkpoint {}", journal.len).into_bytes()),
            journal,
            snapshot: None,
        }
    }

    /// Admitted, claimed, and parked on the approval of one write.
    pub(crate) fn parked(&mut self, rule: Obligation) -> Ask {
        if self.rows.is_none() {
            self.admit();
            self.claim(1).expect("claimed");
        }
        let call = self.call(Effect::Write, RecoveryClass::Manual);
        let ask = self.ask(&call, rule);
        let progress =
            Progress { entries: vec![Entry::Call(Box::new(call))], asks: vec![ask.clone()], ..Progress::default() };
        let checkpoint = self.checkpoint(&progress);
        let act = Act::Park { checkpoint, mode: WaitMode::Any, taker: None };
        self.hop(progress, act).expect("parked");
        ask
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

    pub(crate) fn cancel(&mut self) -> Answer {
        let cancel = Cancel { by: caller(person("ana")), run: self.run().id };
        self.give(Command::Cancel(cancel)).expect("a cancel is answered")
    }

    pub(crate) fn recover(&mut self) -> Answer {
        self.recover_as(Reach::Lapsed)
    }

    pub(crate) fn recover_as(&mut self, reach: Reach) -> Answer {
        let command = Command::Recover(Recover { run: self.run().id, reach, patience: self.patience });
        self.give(command).expect("recovery answers")
    }

    pub(crate) fn dispatch(&mut self, call: CallId) -> Result<Answer, Refusal> {
        let bytes = protocol::json::canonicalize(br#"{"amount":5}"#).expect("JSON");
        let act = Act::Dispatch { call, arguments: bytes, operands: Vec::new(), grant: Digest::of("{}") };
        self.hop(Progress::default(), act)
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        active_limit_us: 60_000_000,
        memory_bytes: 512 << 20,
        max_calls: 100,
        not_after: None,
        resume: true,
        separate_requester: true,
    }
}

fn reload<T: Keyed + Clone>(set: &Set<T>, keep: impl Fn(&T) -> bool) -> Set<T> {
    Set::load(set.iter().filter(|row| keep(row)).cloned())
}

fn with<T: Keyed + Clone>(set: Set<T>, row: T) -> Set<T> {
    Set::load(set.iter().cloned().chain(std::iter::once(row)))
}

pub(crate) fn expiring(rule: Obligation, on_expiry: OnExpiry) -> Obligation {
    Obligation { on_expiry, lease: Duration::from_secs(60), ..rule }
}
