//! A worker of some other build: it writes its hop by the ledger's own commands, and whatever it likes in them.
//!
//! So a journal, checkpoint or snapshot can be made that is stored whole and under its right digest, and is wrong.

use crate::desk::{Desk, eventually, local};
use protocol::able::Able;
use protocol::call::{Applied, Call, Identity, Outcome, OutcomeStatus, RecoveryClass, State, ToolRef};
use protocol::command::{
    Act, Admit, Answer, Ask, Claim, Command, Concluded, Conclusion, Hop, NewCheckpoint, Progress, Taker,
};
use protocol::digest::Digest;
use protocol::id::{CallId, Ids, RunId, WaitId, WorkerId};
use protocol::journal::{Entropy, Entry, Other};
use protocol::json::{Canonical, canonicalize};
use protocol::policy::Terms;
use protocol::rows::NewBody;
use protocol::run::{Head, PatternRef, Phase, Run, Settings, Snapshot, WaitMode};
use protocol::time::Time;
use protocol::tool::ToolSpec;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The schema of a script's checkpoints.
pub(crate) const SCHEMA: &str = "stasis.script.v1";

pub(crate) struct Scribe<'d> {
    desk: &'d Desk,
    ids: Ids,
    pub(crate) run: Run,
    token: u64,
    journal: Head,
    progress: Progress,
    blocked: Vec<CallId>,
    waits: Vec<WaitId>,
}

impl<'d> Scribe<'d> {
    /// Claims a queued run of an engine that claims nothing itself.
    pub(crate) async fn claim(desk: &'d Desk, run: RunId) -> Scribe<'d> {
        let ledger = desk.engine.ledger();
        let mut ids = Ids::new(ledger.now(), 0, 0x5c01be);
        let worker: WorkerId = ids.mint();
        let seq = ledger.run(run).await.expect("read").expect("a run").seq;
        let taker = Taker { worker, ttl: Duration::from_secs(30), able: Able::Everything };
        let claimed = ledger.transact(Command::Claim(Claim { run, seq, taker })).await.expect("claimed");
        let Answer::Claimed { run } = claimed else { panic!("{claimed:?}") };
        let token = run.claim().expect("claimed").token;
        let progress = Progress { base: run.journal.len, ..Progress::default() };
        let journal = run.journal;
        Scribe { desk, ids, run: *run, token, journal, progress, blocked: Vec::new(), waits: Vec::new() }
    }

    fn enter(&mut self, entry: Entry) {
        self.journal = entry.extend(self.journal);
        self.progress.entries.push(entry);
    }

    /// The entry that a journal begins with.
    pub(crate) fn start(&mut self) -> &mut Self {
        let (pattern, input) = (self.run.pattern.digest, self.run.input.digest);
        self.start_of(pattern, input)
    }

    pub(crate) fn start_of(&mut self, pattern: Digest, input: Digest) -> &mut Self {
        let now = self.desk.engine.ledger().now();
        self.enter(Entry::Other(Other::Start { pattern, input, now, entropy: Entropy([7; 32]) }));
        self
    }

    /// An entry that is no call.
    pub(crate) fn other(&mut self, other: Other) -> &mut Self {
        self.enter(Entry::Other(other));
        self
    }

    pub(crate) fn batch(&mut self, size: u32) -> &mut Self {
        self.enter(Entry::Other(Other::Batch { size }));
        self
    }

    /// A call that was entered.
    pub(crate) fn call(&mut self, n: u32, tool: &str, arguments: &str) -> CallId {
        self.call_with(n, tool, arguments, |_| ())
    }

    pub(crate) fn call_with(&mut self, n: u32, tool: &str, arguments: &str, edit: impl FnOnce(&mut Call)) -> CallId {
        let spec = spec(self.desk, tool);
        let arguments = canonicalize(arguments.as_bytes()).expect("JSON");
        let body = NewBody::new(arguments.as_bytes());
        let mut call = Call {
            id: self.ids.mint(),
            run: self.run.id,
            position: Some(self.journal.len),
            identity: Identity::main(n),
            tool: ToolRef { name: tool.to_owned(), version: spec.version.clone(), digest: spec.digest() },
            effect: spec.effect,
            recovery: RecoveryClass::Retry,
            timeout_ms: 1_000,
            asked: arguments.digest(),
            arguments: body.body,
            edited: false,
            approval: None,
            settle: None,
            state: State::Entered,
            rounds: 0,
            from: None,
            receipt: None,
            at: self.desk.engine.ledger().now(),
        };
        edit(&mut call);
        self.progress.bodies.push(body);
        let id = call.id;
        self.enter(Entry::Call(Box::new(call)));
        id
    }

    /// The call ended well.
    pub(crate) fn ok(&mut self, call: CallId, result: &str) -> &mut Self {
        let result = canonicalize(result.as_bytes()).expect("JSON");
        let body = NewBody::new(result.as_bytes());
        let outcome = Outcome {
            status: OutcomeStatus::Ok,
            code: None,
            applied: Applied::No,
            body: Some(body.body),
            gate: None,
            at: self.desk.engine.ledger().now(),
        };
        self.progress.bodies.push(body);
        self.progress.conclusions.push(Conclusion { call, end: Concluded::Ended(outcome) });
        self
    }

    /// A read with its answer.
    pub(crate) fn read(&mut self, n: u32, tool: &str, arguments: &str, result: &str) -> &mut Self {
        let call = self.call(n, tool, arguments);
        self.ok(call, result)
    }

    /// The call asks a person; the program is blocked in it.
    pub(crate) fn ask(&mut self, call: CallId, kind: protocol::approval::Kind) -> &mut Self {
        let wait = self.ids.mint();
        self.progress.asks.push(Ask {
            id: self.ids.mint(),
            wait,
            call,
            kind,
            obligation: Terms::default().resolve(false).into(),
            policy: self.desk.engine.ledger().registry().policy_version,
            claim: None,
            form: None,
            unrenderable: false,
            operands: Vec::new(),
            member: None,
        });
        self.blocked.push(call);
        self.waits.push(wait);
        self
    }

    /// A sound checkpoint of what was written so far, with its body as `edit` leaves it.
    pub(crate) fn checkpoint(&self, edit: impl FnOnce(&mut Value)) -> NewCheckpoint {
        let n = self.run.checkpoint.as_ref().map_or(0, |header| header.n) + 1;
        let entry = |id: u32, status: &str, waits: &[WaitId]| {
            json!({"kind": "node", "id": id, "seq": self.run.seq, "node": "body", "status": status,
                "state": {"blocked": self.blocked}, "waits": waits})
        };
        let mut body = json!({
            "format": "stasis.checkpoint.v1", "run": self.run.id, "n": n, "pattern": self.run.pattern.digest,
            "schema": SCHEMA, "waits": self.waits, "snapshot": null,
            "entries": [entry(1, "suspended", &[]), entry(2, "created", &self.waits)],
            "journal": {"position": self.journal.len, "digest": self.journal.digest},
        });
        edit(&mut body);
        self.checkpoint_of(canonicalize(body.to_string().as_bytes()).expect("JSON").as_bytes())
    }

    /// A checkpoint with these very bytes as its body.
    pub(crate) fn checkpoint_of(&self, body: &[u8]) -> NewCheckpoint {
        NewCheckpoint { schema: SCHEMA.to_owned(), body: NewBody::new(body), journal: self.journal, snapshot: None }
    }

    /// As [`Scribe::checkpoint`], beside these frozen bytes.
    pub(crate) fn checkpoint_with(&self, snapshot: Snapshot, bytes: &[u8]) -> NewCheckpoint {
        let body = NewBody::new(bytes);
        let snapshot = Snapshot { body: body.body, consumed_by: None, ..snapshot };
        NewCheckpoint { snapshot: Some((snapshot, Some(body))), ..self.checkpoint(|_| ()) }
    }

    pub(crate) async fn write(&mut self, act: Act) {
        let progress = std::mem::take(&mut self.progress);
        let hop = Hop { run: self.run.id, token: self.token, progress, act };
        let stored = self.desk.engine.ledger().transact(Command::Hop(Box::new(hop))).await.expect("stored");
        self.run = stored.run().expect("a run").clone();
        self.progress.base = self.run.journal.len;
    }

    /// The hop ends; the run waits for its next worker.
    pub(crate) async fn hand_back(mut self, checkpoint: Option<NewCheckpoint>) {
        self.write(Act::HandBack { checkpoint }).await;
        assert!(matches!(self.run.phase, Phase::Queued { .. }));
    }

    /// The hop parks on what it asked.
    pub(crate) async fn park(mut self, checkpoint: NewCheckpoint) {
        self.write(Act::Park { checkpoint, mode: WaitMode::Any, taker: None }).await;
        assert!(matches!(self.run.phase, Phase::Parked { .. }));
    }
}

/// Admits a run of the registered program under a plan that ends at `end`; no script can seal such a plan.
pub(crate) async fn admit_until(desk: &Desk, end: Time) -> RunId {
    let ledger = desk.engine.ledger();
    let registry = ledger.registry();
    let workflow = &registry.workflows["program"];
    let pattern = workflow.active().expect("a registered program");
    let admit = Admit {
        by: local(),
        run: Ids::new(ledger.now(), 0, 0xad_317).mint(),
        pattern: PatternRef { key: "program".to_owned(), revision: pattern.revision, digest: pattern.digest },
        kind: pattern.manifest.kind,
        plan: pattern.manifest.plan,
        input: NewBody::new(&b"{}"[..]),
        settings: Settings { not_after: Some(end), separate_requester: false, ..workflow.settings },
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
    };
    let run = admit.run;
    ledger.transact(Command::Admit(Box::new(admit))).await.expect("admitted");
    run
}

fn spec(desk: &Desk, tool: &str) -> Arc<ToolSpec> {
    let registry = desk.engine.ledger().registry();
    let newest = || registry.newest(tool).map(|tool| tool.spec.clone());
    protocol::builtin::spec(tool).or_else(newest).unwrap_or_else(|| panic!("a tool {tool}"))
}

/// The facts of the events of one kind.
pub(crate) async fn events(desk: &Desk, run: RunId, kind: &str) -> Vec<Value> {
    let events = desk.engine.ledger().events(run, None, 10_000).await.expect("read").expect("a run");
    let of_kind = events.iter().filter(|event| event.kind.as_str() == kind);
    of_kind.map(|event| serde_json::from_str(event.facts.canonical().as_str()).expect("JSON")).collect()
}

/// Waits until no guest of this engine is alive and no hop runs.
pub(crate) async fn at_rest(desk: &Desk) {
    eventually("no hop", async || desk.engine.guests().is_empty()).await;
}

/// What the program logged.
pub(crate) async fn log(desk: &Desk, run: RunId) -> Vec<String> {
    let lines = desk.engine.ledger().log(run, None, 10_000).await.expect("read").expect("a run");
    lines.into_iter().map(|line| line.text).collect()
}

pub(crate) fn detail(failure: &protocol::run::Failure) -> Value {
    let detail: &Canonical = failure.detail.as_ref().expect("a detail");
    serde_json::from_str(detail.as_str()).expect("JSON")
}

/// Changes the ledger's file behind its back.
pub(crate) fn tamper(desk: &Desk, statement: &str) {
    let db = rusqlite::Connection::open(desk.ledger_path()).expect("the ledger's file");
    db.busy_timeout(Duration::from_secs(5)).expect("a time-out");
    db.execute_batch(statement).expect("changed");
}
