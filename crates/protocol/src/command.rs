//! The commands of the ledger: the only ways in which truth changes (runs.md section 1).
//!
//! Owns: what each command carries, and what it is answered. [`crate::decide`] decides them. A caller that lost an
//! answer looks at the rows the command names and acts on what it finds.

use crate::able::Able;
use crate::approval::{Method, Verdict};
use crate::call::Outcome;
use crate::decide::Proof;
use crate::digest::Digest;
use crate::fork::Fork;
use crate::id::{ApprovalId, CallId, JobId, RequestId, RunId, WaitId, WorkerId};
use crate::job::{self, Job};
use crate::journal::Entry;
use crate::json::Canonical;
use crate::obligation;
use crate::policy::{Obligation, Strength};
use crate::principal::Principal;
use crate::rows::NewBody;
use crate::run::{Charge, Failure, Forked, Head, Kind, PatternRef, Run, Settings, Snapshot, Status, WaitMode};
use crate::signal::{Awaited, Signal, To};
use crate::time::Time;
use crate::wait::Owner;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A command on one run.
#[derive(Clone, Debug)]
pub enum Command {
    Admit(Box<Admit>),
    Claim(Claim),
    Hop(Box<Hop>),
    Decide(Box<Decide>),
    Extend(Box<Extend>),
    /// A wait whose time has come: an approval's expiry, a timer.
    Expire {
        run: RunId,
        wait: WaitId,
    },
    Cancel(Cancel),
    /// A person vouches that something of a stopping run has stopped.
    Attest(Attest),
    /// Keeps the run from workers.
    Pause(PauseRun),
    Resume(PauseRun),
    Move(Box<MoveRun>),
    Send(Box<SendSignal>),
    /// A verb of an agent.
    Job(Box<JobCommand>),
    /// A job whose time has come: nothing was heard of its agent, or its deadline.
    ExpireJob {
        run: RunId,
        job: JobId,
    },
    Recover(Recover),
    /// What the engine found out about a call that no hop has any more.
    Found(Box<Found>),
    /// The other side is asked to stop a call that no hop has any more.
    AskToStop(Box<StopAlone>),
    Read(Read),
    /// Cleanup of a final run that is done.
    Clean {
        run: RunId,
        debt: crate::rows::Debt,
    },
    /// A final run that may have been kept long enough.
    Remove {
        run: RunId,
        retention: Duration,
    },
}

/// The rows a command starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject<'a> {
    /// A run that is not there yet, unless its key is known.
    New(&'a Admit),
    Run(RunId),
    /// The run of this approval.
    Approval(ApprovalId),
    /// The run of this call.
    Call(CallId),
    /// The run of this job, with the job.
    Job(JobId),
    /// A run, and the signal of this id if it knows it.
    Signal(RunId, &'a str),
    /// The run of this wait for a signal, with what ended it, and the signal of this id.
    Wait(WaitId, &'a str),
}

/// An authenticated principal at a door. Rights are checked inside the command, not only at the door.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    pub principal: Principal,
    pub method: Method,
    pub strength: Strength,
    pub request: RequestId,
}

/// A worker that can take a hop, also in the commit that makes its delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taker {
    pub worker: WorkerId,
    pub ttl: Duration,
    /// What it can run; it is given nothing else.
    pub able: Able,
}

/// E-1, and E-3 with it where `taker` is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admit {
    pub by: Caller,
    pub run: RunId,
    pub pattern: PatternRef,
    pub kind: Kind,
    pub plan: Digest,
    pub input: NewBody,
    pub settings: Settings,
    pub acts_for: Option<String>,
    pub idempotency_key: Option<String>,
    /// That of its [`Request`].
    pub request_digest: Digest,
    pub queue: String,
    pub priority: u8,
    pub session: Option<String>,
    pub deadline: Option<Time>,
    pub labels: BTreeMap<String, String>,
    pub retry_of: Option<RunId>,
    /// What it takes over of another run.
    pub fork: Option<Box<Fork>>,
    /// Most runs that may wait in the queue; none is no bound.
    pub max_queued: Option<u64>,
    pub taker: Option<Taker>,
}

/// What makes two admissions under one key equal: not the labels, which change nothing that runs.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub workflow: &'a str,
    /// As the request named it; none is "the active one", whichever that is.
    pub revision: Option<u32>,
    pub input: Digest,
    pub session: Option<&'a str>,
    pub queue: &'a str,
    pub priority: u8,
    pub deadline: Option<Time>,
    pub forked_from: Option<Forked>,
}

impl Request<'_> {
    pub fn digest(&self) -> Digest {
        #[derive(Serialize)]
        struct Record<'a> {
            schema: &'static str,
            workflow: &'a str,
            revision: Option<u32>,
            input: Digest,
            session: Option<&'a str>,
            queue: &'a str,
            priority: u8,
            deadline: Option<Time>,
            // Left out of what is no fork, whose digests are as they were before there were forks.
            #[serde(skip_serializing_if = "Option::is_none")]
            forked_from: Option<(RunId, u32)>,
        }
        let Request { workflow, revision, input, session, queue, priority, deadline, forked_from } = *self;
        let schema = "stasis.admission.v1";
        let forked_from = forked_from.map(|forked| (forked.run, forked.seq));
        Digest::record(&Record { schema, workflow, revision, input, session, queue, priority, deadline, forked_from })
    }
}

/// What the store found under an idempotency key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownKey {
    pub run: RunId,
    pub request_digest: Digest,
}

/// E-3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub run: RunId,
    pub seq: u32,
    pub taker: Taker,
}

/// A write of a hop. It carries its claim's token; without the token of the claim on the row it changes nothing.
#[derive(Clone, Debug)]
pub struct Hop {
    pub run: RunId,
    pub token: u64,
    pub progress: Progress,
    pub act: Act,
}

/// Journal entries, outcomes and charges that ride with a hop's next durable command (R-334, C-99).
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Journal length these entries follow on; must be the row's.
    pub base: u32,
    pub entries: Vec<Entry>,
    /// Calls the engine makes itself; they are not in the journal and use no guest budget (C-235).
    pub engine_calls: Vec<crate::call::Call>,
    /// Questions to publish, for calls among `entries` or already stored.
    pub asks: Vec<Ask>,
    pub timers: Vec<Timer>,
    /// Waits for signals to open; each may take a kept one at once.
    pub signals: Vec<AwaitSignal>,
    /// Jobs to hand over, for calls among `entries` or already stored.
    pub jobs: Vec<Submit>,
    pub rejoins: Vec<Rejoin>,
    pub conclusions: Vec<Conclusion>,
    /// Waits that ended and that the hop has taken note of; their rows go.
    pub taken: Vec<WaitId>,
    pub charge: Charge,
    pub nodes: Vec<(crate::event::Kind, crate::event::Facts)>,
    /// Number of the first line of `log`; lines the row already counts are dropped (W-177).
    pub log_base: u32,
    pub log: Vec<String>,
    pub bodies: Vec<NewBody>,
}

/// A wait that a hop opens with its next command.
#[derive(Clone, Debug)]
pub struct Opening {
    pub call: CallId,
    pub wait: WaitId,
    pub owner: Owner,
}

impl Progress {
    /// The waits that are to be opened.
    pub fn opens(&self) -> impl Iterator<Item = Opening> + '_ {
        let asks = self.asks.iter().map(|a| Opening { call: a.call, wait: a.wait, owner: Owner::Approval(a.id) });
        let timers = self.timers.iter().map(|t| Opening { call: t.call, wait: t.wait, owner: Owner::Timer(t.wait) });
        let signal = |s: &AwaitSignal| Opening { call: s.call, wait: s.wait, owner: Owner::Signal(s.awaited.clone()) };
        let jobs = self.jobs.iter().map(|j| Opening { call: j.call, wait: j.wait, owner: Owner::Job(j.job) });
        let rejoin = |r: &Rejoin| Opening { call: r.call, wait: r.wait, owner: Owner::Job(r.job) };
        asks.chain(timers).chain(self.signals.iter().map(signal)).chain(jobs).chain(self.rejoins.iter().map(rejoin))
    }
}

/// A question to publish: whether a call, or a gate, may go ahead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    pub id: ApprovalId,
    pub wait: WaitId,
    pub call: CallId,
    pub kind: crate::approval::Kind,
    pub obligation: Arc<Obligation>,
    pub policy: Digest,
    pub claim: Option<crate::run::Body>,
    pub form: Option<crate::run::Body>,
    pub unrenderable: bool,
    pub operands: Vec<(String, Digest)>,
    pub member: Option<Member>,
}

/// A gate among the things that one call waits for (W-124). It is asked with arguments of its own, and the call has no
/// question that would be about the call itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub tool: crate::call::ToolRef,
    pub arguments: crate::run::Body,
}

/// A timer to open, for a call among the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer {
    pub wait: WaitId,
    pub call: CallId,
    pub due: Due,
}

/// A wait for a signal, for a call among the entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AwaitSignal {
    pub wait: WaitId,
    pub call: CallId,
    pub awaited: Arc<Awaited>,
}

/// A job to hand over, for a call among the entries. `bodies` are those that its request names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submit {
    pub job: JobId,
    pub wait: WaitId,
    pub call: CallId,
    /// Among the things that the call waits for.
    pub place: u32,
    pub request: job::Request,
    pub bodies: Vec<NewBody>,
}

/// A job that is waited for anew: its wait was closed, and the run may not end before the job has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejoin {
    pub job: JobId,
    pub wait: WaitId,
    /// That handed it over, and has ended.
    pub call: CallId,
}

/// When a timer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Counted from the store's clock at the commit.
    In(Duration),
    At(Time),
}

/// What became of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conclusion {
    pub call: CallId,
    pub end: Concluded,
}

/// The ends a hop can report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Concluded {
    /// Ok, error or denied; `at` and `gate` of the outcome of a call without durable gate are the worker's.
    Ended(Outcome),
    /// Dispatched, and the outcome cannot be learned (C-121). `ask`: no key or lookup is left to try, so a person is
    /// asked (C-237); who that is, the decision says. `seen` is the body with what the attempt saw, where one was made.
    Ambiguous { ask: bool, seen: Option<Digest> },
    /// One more attempt with the same engine key, or another lookup, recorded before it starts (C-233).
    Attempt,
}

/// What the hop does beside recording its progress.
#[derive(Clone, Debug)]
pub enum Act {
    /// Nothing more: publishes questions and stores outcomes.
    Record,
    /// The dispatch gate of a call (C-103). `arguments` are the very bytes the handler will get.
    Dispatch {
        call: CallId,
        arguments: Canonical,
        /// Content hashes of the operands, read just now (C-109).
        operands: Vec<(String, Digest)>,
        /// The grant the plan gives this tool (C-110).
        grant: Digest,
    },
    /// E-7 on every open wait, with a checkpoint; E-9 and E-3 follow where the set is satisfied already.
    Park { checkpoint: NewCheckpoint, mode: WaitMode, taker: Option<Taker> },
    /// E-5: the hop waits for a resource; this call of its manager is counted now.
    Hold { resource: String, checkpoint: NewCheckpoint },
    /// E-6: the resource is warm.
    Warm,
    /// E-8.
    HandBack { checkpoint: Option<NewCheckpoint> },
    /// E-12.
    Finish { result: NewBody },
    /// E-13 or E-14.
    Fail(Failure),
    /// The other side is asked to stop a call in flight of a stopping run (C-22).
    AskToStop(Box<AskToStop>),
    /// The hop of a stopping run has stopped.
    Acknowledge,
}

/// One call of a cancel tool: asked for once for each call in flight.
#[derive(Clone, Debug)]
pub struct AskToStop {
    /// The call that is to stop.
    pub call: CallId,
    /// The engine's own call that asks.
    pub by: crate::call::Call,
    pub gate: StopGate,
}

/// The same where the hop of the call is gone.
#[derive(Clone, Debug)]
pub struct StopAlone {
    pub run: RunId,
    pub asked: AskToStop,
    pub bodies: Vec<NewBody>,
}

/// What the broker says of a cancel tool's call.
#[derive(Clone, Debug)]
pub enum StopGate {
    /// It may go: the very bytes that its handler will get, and the grant that the plan gives its tool (C-110).
    Pass { arguments: Canonical, grant: Digest },
    /// It may not. That is recorded, and nothing is sent.
    Denied(Outcome),
}

/// A checkpoint to be saved in the transaction of its park or hold.
#[derive(Clone, Debug)]
pub struct NewCheckpoint {
    pub schema: String,
    pub body: NewBody,
    /// The journal's head that the body names.
    pub journal: Head,
    /// A frozen guest with its bytes; without bytes, the snapshot of the checkpoint before, which this hop never thawed.
    pub snapshot: Option<(Snapshot, Option<NewBody>)>,
}

/// A verdict brought by a door.
#[derive(Clone, Debug)]
pub struct Decide {
    pub by: Caller,
    pub approval: ApprovalId,
    pub verdict: Verdict,
    /// Digest of the arguments that were shown (C-171).
    pub arguments_digest: Option<Digest>,
    pub edit: Option<Edit>,
    pub answer: Option<Answered>,
    pub reason: Option<NewBody>,
    pub unrenderable: bool,
    pub taker: Option<Taker>,
}

/// More time for a question (C-192).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extend {
    pub by: Caller,
    pub approval: ApprovalId,
    /// Its new expiry.
    pub until: Time,
    /// Kept as a body; the event names its digest (I-38).
    pub reason: Option<NewBody>,
}

/// Complete new arguments, already judged by the tool's schema. The judgement is a function of the bytes and of the
/// immutable tool spec, so it holds inside the transaction as it did outside.
#[derive(Clone, Debug)]
pub struct Edit {
    pub arguments: Canonical,
    /// The tool digest whose schema was used; the decision compares it with the binding's.
    pub judged_by: Digest,
    /// The schema's refusal, if any, with a sentence.
    pub fault: Option<(crate::code::Code, String)>,
    /// Content hashes of the operands the new arguments name (C-142).
    pub operands: Vec<(String, Digest)>,
}

/// A gate's form answer, or the result that `happened` gives, judged by its schema.
#[derive(Clone, Debug)]
pub struct Answered {
    pub body: NewBody,
    pub fault: Option<String>,
}

/// E-16, and E-17 with it where nothing is left to stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cancel {
    pub by: Caller,
    pub run: RunId,
    /// Kept as a body; the event names its digest (I-38).
    pub reason: Option<NewBody>,
}

/// What has stopped, by whose word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attest {
    pub by: Caller,
    pub run: RunId,
    pub subject: obligation::Subject,
    /// Shown with the obligation for ever; the event names its digest.
    pub reason: String,
}

/// A signal to a name of a run, or to one wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendSignal {
    pub by: Caller,
    pub to: Target,
    /// The idempotency key.
    pub id: String,
    pub payload: NewBody,
    /// The payload as JSON; its bytes are those of `payload`.
    pub text: Canonical,
    pub taker: Option<Taker>,
}

/// Where a signal goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    Name { run: RunId, name: String },
    Wait(WaitId),
}

impl Target {
    /// As the signal's row names it.
    pub fn told(&self) -> To {
        match self {
            Target::Name { name, .. } => To::Name(name.clone()),
            Target::Wait(wait) => To::Wait(*wait),
        }
    }
}

/// What an agent does with a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobCommand {
    pub by: Caller,
    pub job: JobId,
    pub act: JobAct,
    pub taker: Option<Taker>,
}

/// The verbs of an agent; all but the claim carry the token that the claim gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobAct {
    Claim {
        worker: String,
        lease: Duration,
        claim_id: String,
    },
    Heartbeat {
        token: u32,
        progress: Option<Canonical>,
    },
    Report {
        token: u32,
        reported: Reported,
    },
    /// It has stopped, as it was asked to.
    AckCancel {
        token: u32,
    },
}

/// What came of a job, with the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reported {
    /// `text` is the result as JSON; its bytes are those of `result`.
    Succeeded {
        result: NewBody,
        text: Canonical,
    },
    Failed {
        error: NewBody,
    },
}

impl JobAct {
    pub const fn token(&self) -> Option<u32> {
        match self {
            JobAct::Claim { .. } => None,
            JobAct::Heartbeat { token, .. } | JobAct::Report { token, .. } | JobAct::AckCancel { token } => {
                Some(*token)
            }
        }
    }
}

/// Sets or clears the pause of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PauseRun {
    pub by: Caller,
    pub run: RunId,
    /// Shown with the pause; the event names its digest (I-38).
    pub reason: Option<String>,
}

/// Pins a run to another revision, as it was proved to go on there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveRun {
    pub by: Caller,
    pub run: RunId,
    pub to: PatternRef,
    /// The plan of that revision, with what it says of calls and time.
    pub plan: Digest,
    pub max_calls: u32,
    pub not_after: Option<Time>,
    pub resume: bool,
    pub proof: Proof,
    /// The event names its digest (I-38).
    pub reason: Option<String>,
}

/// Opens the bodies of a call or an approval to an auditor (C-282).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    pub by: Caller,
    pub opened: Opened,
    /// Kept as a body; the event names its digest (I-38).
    pub reason: Option<NewBody>,
}

/// Whose bodies are read; it belongs to the run of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    Approval(ApprovalId),
    Call(CallId),
}

/// One run of the recovery pass (section 14), under the settings of the pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recover {
    pub run: RunId,
    pub reach: Reach,
    pub patience: Patience,
    /// What the live workers can run; a queued run that none of them can is refused in the end.
    pub able: Able,
}

/// What recovery bears before it gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Proved continuations in a row without a durable fact; the next recovery ends the run.
    pub continuations: u32,
    /// How long past its tool's limit a call may run before it is ambiguous.
    pub beyond_tool_limit: Duration,
    /// How long a queued run waits for a worker that can run it.
    pub pin_grace: Duration,
}

/// What became of a write in flight of a stopping run whose hop is gone, as far as its lookup could tell.
#[derive(Clone, Debug)]
pub struct Found {
    pub run: RunId,
    pub call: CallId,
    /// The engine's own call that asked, and how that ended; none where nothing could be asked.
    pub by: Option<(crate::call::Call, Outcome)>,
    /// None: nobody could tell, and a person is asked.
    pub outcome: Option<Outcome>,
    pub patience: Patience,
    pub bodies: Vec<NewBody>,
}

/// Which claims recovery may take over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Those whose deadline passed by the store's clock.
    Lapsed,
    /// Also those of every other worker: this process holds the only lock on the store.
    Others(WorkerId),
}

/// One renewal for all claims of a worker; it writes no event.
#[derive(Clone, Debug)]
pub struct Renew {
    pub worker: WorkerId,
    pub ttl: Duration,
    pub claims: Vec<(RunId, u64)>,
}

/// What a worker learns about one of its claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renewed {
    Until {
        deadline: Time,
        stopping: bool,
        /// A pause lies over the run: its hop gives way.
        paused: bool,
        /// The run's own deadline has passed: its hop ends it.
        late: bool,
    },
    StaleClaim,
}

/// What a command did.
#[derive(Clone, Debug)]
pub enum Answer {
    Admitted {
        run: Box<Run>,
        created: bool,
    },
    /// The hop is this worker's; the run row carries the token.
    Claimed {
        run: Box<Run>,
    },
    /// A hop's write is stored; `status` is the run's now.
    Stored {
        run: Box<Run>,
    },
    /// The dispatch gate was passed; the handler may start, as this attempt.
    Dispatched {
        attempt: u8,
    },
    /// The gate let nothing through: the approval or call says so for ever, or asks anew. With `run_paused` nothing is
    /// said, and the call waits (C-105).
    NotDispatched {
        code: crate::code::Code,
        detail: String,
    },
    Decided(Box<Decided>),
    /// A signal was taken in, or had been before.
    Sent {
        run: Box<Run>,
        signal: Box<Signal>,
        changed: bool,
    },
    /// A job as it is now; `changed` is false for a repeat of what stands.
    Job {
        run: Box<Run>,
        job: Box<Job>,
        changed: bool,
    },
    /// An expiry, cancel, attestation, pause, recovery, reading, cleanup or removal; `changed` is false if there was nothing to do.
    Settled {
        run: Box<Run>,
        changed: bool,
        repaired: bool,
    },
}

/// The answer to a decision.
#[derive(Clone, Debug)]
pub struct Decided {
    pub approval: crate::approval::Approval,
    pub run: Run,
    /// False for a repeat of a decision that stands already.
    pub changed: bool,
}

impl Command {
    pub fn subject(&self) -> Subject<'_> {
        match self {
            Command::Admit(admit) => Subject::New(admit),
            Command::Claim(claim) => Subject::Run(claim.run),
            Command::Hop(hop) => Subject::Run(hop.run),
            Command::Decide(decide) => Subject::Approval(decide.approval),
            Command::Extend(extend) => Subject::Approval(extend.approval),
            Command::Expire { run, .. } => Subject::Run(*run),
            Command::Cancel(cancel) => Subject::Run(cancel.run),
            Command::Attest(attest) => Subject::Run(attest.run),
            Command::Pause(pause) | Command::Resume(pause) => Subject::Run(pause.run),
            Command::Move(command) => Subject::Run(command.run),
            Command::Send(send) => match &send.to {
                Target::Name { run, .. } => Subject::Signal(*run, &send.id),
                Target::Wait(wait) => Subject::Wait(*wait, &send.id),
            },
            Command::Job(command) => Subject::Job(command.job),
            Command::ExpireJob { job, .. } => Subject::Job(*job),
            Command::Recover(recover) => Subject::Run(recover.run),
            Command::Found(found) => Subject::Run(found.run),
            Command::AskToStop(alone) => Subject::Run(alone.run),
            Command::Read(read) => match read.opened {
                Opened::Approval(id) => Subject::Approval(id),
                Opened::Call(id) => Subject::Call(id),
            },
            Command::Clean { run, .. } | Command::Remove { run, .. } => Subject::Run(*run),
        }
    }
}

impl Answer {
    /// The run's row after the command, where the command answers with one.
    pub fn run(&self) -> Option<&Run> {
        match self {
            Answer::Admitted { run, .. }
            | Answer::Claimed { run }
            | Answer::Stored { run }
            | Answer::Sent { run, .. }
            | Answer::Job { run, .. }
            | Answer::Settled { run, .. } => Some(run),
            Answer::Decided(decided) => Some(&decided.run),
            Answer::Dispatched { .. } | Answer::NotDispatched { .. } => None,
        }
    }

    pub fn status(&self) -> Option<Status> {
        self.run().map(Run::status)
    }
}
