//! A run: its row, its statuses and its clocks.
//!
//! Owns: the shape of the canonical truth about one execution. It never changes itself; the decisions in
//! [`crate::decide`] take a row and give back another. Invariant: what is known only in one status lives in that
//! status's variant of [`Phase`], so a parked run with a claim, or a final one without an end, cannot be written.

mod clocks;
mod hardware;
mod status;

pub use clocks::{Charge, Clock, Clocks};
pub use hardware::{Exhausted, Hardware, InRow};
pub use status::{Class, EDGES, Edge, Row as EdgeRow, Status, edge, legal};

use crate::code::Code;
use crate::delivery::Delivery;
use crate::digest::Digest;
use crate::id::{RunId, WorkerId};
use crate::pause::Pause;
use crate::time::Time;
use std::collections::BTreeMap;

/// The row of a run (runs.md section 2). Bodies (input, result, checkpoint) are named by digest and stored apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    pub id: RunId,
    pub namespace: String,
    pub pattern: PatternRef,
    /// Digests of the patterns that it was pinned to before it was moved, the oldest first.
    pub moved_from: Vec<Digest>,
    pub kind: Kind,
    /// Digest of the sealed plan (C-44).
    pub plan: Digest,
    pub phase: Phase,
    /// The hop the run is at; grows by exactly one at each return.
    pub seq: u32,
    /// The largest fencing token given out.
    pub fence: u64,
    /// Header of the current checkpoint.
    pub checkpoint: Option<Checkpoint>,
    pub journal: Head,
    pub queue: String,
    /// 0 to 100, higher is sooner.
    pub priority: u8,
    /// Who started the run; every later hop acts for this principal.
    pub requester: Requester,
    pub session: Option<String>,
    pub input: Body,
    pub budget: Budget,
    /// Next event number and the digest of the last event.
    pub events: Head,
    /// Digest of the run's last receipt (C-127).
    pub receipts: Head,
    /// Signals that were ever taken in: the number of the next one.
    pub signals: u32,
    /// Lines of the program's log that are stored (W-177).
    pub log_lines: u32,
    pub clocks: Clocks,
    /// When the present status began.
    pub since: Time,
    pub deadline: Option<Time>,
    pub labels: BTreeMap<String, String>,
    pub retry_of: Option<RunId>,
    /// The run that it took its first outcomes from.
    pub forked_from: Option<Forked>,
    /// The pause of this run alone; never of a final one.
    pub pause: Option<Pause>,
    pub created_at: Time,
    /// Time of the first claim; never changes afterwards.
    pub started_at: Option<Time>,
    /// Proved continuations in a row without a durable fact in between.
    pub continuations: u8,
    /// Settings of the workflow, copied at admission.
    pub settings: Settings,
}

/// The authenticated principal that started a run, and the person it acts for (C-139).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Requester {
    pub subject: String,
    pub acts_for: Option<String>,
}

/// Where a fork took over from: another run, as it stood at one of its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forked {
    pub run: RunId,
    pub seq: u32,
}

/// The pinned revision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PatternRef {
    pub key: String,
    pub revision: u32,
    pub digest: Digest,
}

/// The four kinds of workflow (W-1). All but `Rust` are journaled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Script,
    Graph,
    Agent,
    Rust,
}

impl Kind {
    /// Whether runs of this kind continue from their journal.
    pub fn is_journaled(self) -> bool {
        self != Kind::Rust
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Script => "script",
            Kind::Graph => "graph",
            Kind::Agent => "agent",
            Kind::Rust => "rust",
        }
    }

    pub fn parse(text: &str) -> Option<Kind> {
        [Kind::Script, Kind::Graph, Kind::Agent, Kind::Rust].into_iter().find(|k| k.as_str() == text)
    }
}

/// A body that is stored apart: its digest and length in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Body {
    pub digest: Digest,
    pub len: u32,
}

/// A chain: how many links there are, and the digest of the last one ([`Digest::ZERO`] before the first).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    pub len: u32,
    pub digest: Digest,
}

/// Where a run is, with what is known only there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// One delivery waits for a worker.
    Queued {
        delivery: Delivery,
    },
    /// A worker owns the hop. `hardware`: it waits for the resource that its budget names last, and holds no lease.
    Active {
        hardware: bool,
        claim: Claim,
    },
    /// No worker, no delivery; `parked` waits bring it back.
    Parked {
        on: Parked,
        mode: WaitMode,
    },
    /// An end is elected; obligations are open. `hop` is the claim until it is acknowledged.
    Stopping {
        end: Stop,
        hop: Option<Claim>,
    },
    Final {
        end: End,
        at: Time,
    },
}

/// Which parked status; the strongest kind of the wait set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parked {
    Consent,
    Delegate,
    Signal,
    Timer,
}

/// When a wait set returns its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    #[default]
    Any,
    All,
    First,
}

/// What a stopping run will end as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    Cancel { by: String },
    Fail(Failure),
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    Done { result: Body },
    Failed(Failure),
    Cancelled { by: String },
}

/// Why a run failed. `message` is the exact text of runs.md section 19, or the step's own text cut at 4 KiB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
    /// Canonical JSON with what helps a person (line, traceback digest, both numbers of a limit).
    pub detail: Option<crate::json::Canonical>,
}

/// A worker's ownership of a hop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub worker: WorkerId,
    pub token: u64,
    pub deadline: Time,
    /// When the claim was taken or last renewed; a lapsed hop is charged up to here.
    pub renewed_at: Time,
}

/// Header of the current checkpoint; the body is stored by digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    pub n: u32,
    /// The hop and the token that wrote it.
    pub seq: u32,
    pub token: u64,
    /// Id of the schema of the state in it.
    pub schema: String,
    pub journal: Head,
    pub body: Body,
    pub snapshot: Option<Snapshot>,
}

/// A frozen guest kept beside a checkpoint (W-244). Consumed by the claim of the hop that may thaw it (W-247).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The hop that froze the guest; the snapshot's own header names it too (W-244).
    pub hop: u32,
    pub engine: String,
    pub image: Digest,
    pub body: Body,
    /// The token of the claim that may thaw it; none until a claim is taken.
    pub consumed_by: Option<u64>,
}

/// What a run has used, carried over all its hops (C-65, W-166, R-147).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Budget {
    /// Counted calls.
    pub calls: u32,
    /// Guest time in microseconds.
    pub active_us: u64,
    /// Bytes of bodies kept for the run (W-165).
    pub body_bytes: u64,
    /// Calls of the manager of resources; no other copy decides.
    pub hardware: Hardware,
}

/// Settings of the workflow that a run copies at admission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Guest time, microseconds (W-161).
    pub active_limit_us: u64,
    /// Guest memory, bytes (W-160).
    pub memory_bytes: u64,
    /// Largest number of counted calls (C-63).
    pub max_calls: u32,
    /// When the plan ends; equality is expired (C-41, W-76).
    pub not_after: Option<Time>,
    /// `false`: the run may wait hot only.
    pub resume: bool,
    /// Whether a person may decide what they asked for themselves unless a rule says otherwise (C-55).
    pub separate_requester: bool,
}

impl Failure {
    /// the exact text; a newer revision is never used instead (W-6).
    pub fn unavailable(pattern: &PatternRef, why: &str) -> Failure {
        #[derive(serde::Serialize)]
        struct Detail<'a> {
            why: &'a str,
        }
        Failure {
            code: Code::PinnedPatternUnavailable,
            message: format!("pinned Pattern unavailable: {}@{}", pattern.key, pattern.revision),
            detail: crate::json::to_canonical(&Detail { why }).ok(),
        }
    }

    /// That of a run whose own deadline has passed.
    pub fn deadline() -> Failure {
        let message = "run deadline exceeded".to_owned();
        Failure { code: Code::RunDeadlineExceeded, message, detail: None }
    }
}

impl Run {
    /// Digest of the pattern that it was admitted with: its first event and the start of its journal are bound to it.
    pub fn admitted_with(&self) -> Digest {
        self.moved_from.first().copied().unwrap_or(self.pattern.digest)
    }

    /// Whether it is pinned to this pattern, or was before it was moved.
    pub fn was_pinned_to(&self, pattern: Digest) -> bool {
        self.pattern.digest == pattern || self.moved_from.contains(&pattern)
    }

    pub fn status(&self) -> Status {
        self.phase.status()
    }

    /// The claim on the row, if there is one: active, or stopping with the hop not yet acknowledged.
    pub fn claim(&self) -> Option<&Claim> {
        match &self.phase {
            Phase::Active { claim, .. } => Some(claim),
            Phase::Stopping { hop, .. } => hop.as_ref(),
            _ => None,
        }
    }

    pub fn delivery(&self) -> Option<&Delivery> {
        match &self.phase {
            Phase::Queued { delivery } => Some(delivery),
            _ => None,
        }
    }

    pub fn failure(&self) -> Option<&Failure> {
        match &self.phase {
            Phase::Stopping { end: Stop::Fail(f), .. } | Phase::Final { end: End::Failed(f), .. } => Some(f),
            _ => None,
        }
    }

    pub fn result(&self) -> Option<Body> {
        match &self.phase {
            Phase::Final { end: End::Done { result }, .. } => Some(*result),
            _ => None,
        }
    }

    pub fn finished_at(&self) -> Option<Time> {
        match self.phase {
            Phase::Final { at, .. } => Some(at),
            _ => None,
        }
    }
}

impl Phase {
    pub fn status(&self) -> Status {
        match self {
            Phase::Queued { .. } => Status::Queued,
            Phase::Active { hardware: false, .. } => Status::Running,
            Phase::Active { hardware: true, .. } => Status::AwaitingHardware,
            Phase::Parked { on, .. } => on.status(),
            Phase::Stopping { end: Stop::Cancel { .. }, .. } => Status::Cancelling,
            Phase::Stopping { end: Stop::Fail(_), .. } => Status::Failing,
            Phase::Final { end, .. } => match end {
                End::Done { .. } => Status::Done,
                End::Failed(_) => Status::Failed,
                End::Cancelled { .. } => Status::Cancelled,
            },
        }
    }
}

impl Parked {
    pub fn status(self) -> Status {
        match self {
            Parked::Consent => Status::AwaitingConsent,
            Parked::Delegate => Status::AwaitingDelegate,
            Parked::Signal => Status::AwaitingSignal,
            Parked::Timer => Status::AwaitingTimer,
        }
    }
}
