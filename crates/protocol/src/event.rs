//! One line of a run's timeline (runs.md section 17).
//!
//! Owns: the kinds, the record and the hash chain. Every decision writes its events with its change, in one
//! transaction; there is no other log of record. Facts hold ids, digests, states, numbers and short texts,
//! never arguments, results, reasons or secrets.

use crate::digest::Digest;
use crate::id::RunId;
use crate::json::{self, Form, Packed};
use crate::run::{Head, Status};
use crate::time::Time;
use std::fmt;
use std::ops::Range;

/// An event as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub run: RunId,
    /// From 0, without gaps.
    pub seq: u32,
    pub kind: Kind,
    pub at: Time,
    pub facts: Packed,
    /// Digest of the run's event before it; event 0 is bound to run id and pattern digest instead.
    pub prev: Digest,
    pub digest: Digest,
}

/// The kinds of R-356 that this version writes. That a claim was taken and a checkpoint saved is told by the `run.*` event of
/// the same commit, that a wait ended by what ended it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    Run(Status),
    NodeEntered,
    NodeWaiting,
    NodeEnded,
    NodeFailed,
    CallEntered,
    CallDispatched,
    CallEnded,
    CallAmbiguous,
    CallSettled,
    /// An auditor read its bodies (C-282).
    CallRead,
    ApprovalRequested,
    ApprovalVoted,
    ApprovalEdited,
    ApprovalExtended,
    ApprovalApproved,
    ApprovalRejected,
    ApprovalExpired,
    ApprovalCancelled,
    /// An auditor read its bodies (C-282).
    ApprovalRead,
    PauseSet,
    PauseCleared,
    /// It is pinned to another revision.
    RunMoved,
    WaitOpened,
    WaitClosed,
    TimerFired,
    SignalReceived,
    /// A wait took one that was kept.
    SignalTaken,
    SignalSetAside,
    JobQueued,
    JobRunning,
    JobCancelling,
    JobSucceeded,
    JobFailed,
    JobLost,
    JobTimedOut,
    JobCancelled,
    /// Nothing of it runs any more.
    JobStopped,
    ClaimLapsed,
    ContainmentOpened,
    ContainmentAcknowledged,
    /// A person vouched for it.
    ContainmentAttested,
    AttemptRefused,
    ReportLate,
    SnapshotUnused,
}

impl Kind {
    const OTHERS: [(Kind, &'static str); 44] = [
        (Kind::NodeEntered, "node.entered"),
        (Kind::NodeWaiting, "node.waiting"),
        (Kind::NodeEnded, "node.ended"),
        (Kind::NodeFailed, "node.failed"),
        (Kind::CallEntered, "call.entered"),
        (Kind::CallDispatched, "call.dispatched"),
        (Kind::CallEnded, "call.ended"),
        (Kind::CallAmbiguous, "call.ambiguous"),
        (Kind::CallSettled, "call.settled"),
        (Kind::CallRead, "call.read"),
        (Kind::ApprovalRequested, "approval.requested"),
        (Kind::ApprovalVoted, "approval.voted"),
        (Kind::ApprovalEdited, "approval.edited"),
        (Kind::ApprovalExtended, "approval.extended"),
        (Kind::ApprovalApproved, "approval.approved"),
        (Kind::ApprovalRejected, "approval.rejected"),
        (Kind::ApprovalExpired, "approval.expired"),
        (Kind::ApprovalCancelled, "approval.cancelled"),
        (Kind::ApprovalRead, "approval.read"),
        (Kind::PauseSet, "pause.set"),
        (Kind::PauseCleared, "pause.cleared"),
        (Kind::RunMoved, "run.moved"),
        (Kind::WaitOpened, "wait.opened"),
        (Kind::WaitClosed, "wait.closed"),
        (Kind::TimerFired, "timer.fired"),
        (Kind::SignalReceived, "signal.received"),
        (Kind::SignalTaken, "signal.taken"),
        (Kind::SignalSetAside, "signal.set_aside"),
        (Kind::JobQueued, "job.queued"),
        (Kind::JobRunning, "job.running"),
        (Kind::JobCancelling, "job.cancelling"),
        (Kind::JobSucceeded, "job.succeeded"),
        (Kind::JobFailed, "job.failed"),
        (Kind::JobLost, "job.lost"),
        (Kind::JobTimedOut, "job.timed_out"),
        (Kind::JobCancelled, "job.cancelled"),
        (Kind::JobStopped, "job.stopped"),
        (Kind::ClaimLapsed, "claim.lapsed"),
        (Kind::ContainmentOpened, "containment.opened"),
        (Kind::ContainmentAcknowledged, "containment.acknowledged"),
        (Kind::ContainmentAttested, "containment.attested"),
        (Kind::AttemptRefused, "attempt.refused"),
        (Kind::ReportLate, "report.late"),
        (Kind::SnapshotUnused, "checkpoint.snapshot_unused"),
    ];

    /// The wire text: `run.<status>`, `call.ended` and so on.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Run(status) => match status {
                Status::Queued => "run.queued",
                Status::Running => "run.running",
                Status::AwaitingHardware => "run.awaiting_hardware",
                Status::AwaitingConsent => "run.awaiting_consent",
                Status::AwaitingDelegate => "run.awaiting_delegate",
                Status::AwaitingSignal => "run.awaiting_signal",
                Status::AwaitingTimer => "run.awaiting_timer",
                Status::Cancelling => "run.cancelling",
                Status::Failing => "run.failing",
                Status::Done => "run.done",
                Status::Failed => "run.failed",
                Status::Cancelled => "run.cancelled",
            },
            other => {
                let named = Kind::OTHERS.iter().find(|(kind, _)| *kind == other);
                named.expect("every kind but run.* is in the table").1
            }
        }
    }

    pub fn parse(text: &str) -> Option<Kind> {
        if let Some(status) = text.strip_prefix("run.").and_then(Status::parse) {
            return Some(Kind::Run(status));
        }
        Kind::OTHERS.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind)
    }

    /// `run.done`, `run.failed`, `run.cancelled`.
    pub fn is_terminal(self) -> bool {
        matches!(self, Kind::Run(status) if status.is_final())
    }
}

impl json::Text for Kind {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_str().as_bytes());
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an event says; at most 8 KiB. Each member is written when it is added; their order is that of canonical JSON.
#[derive(Clone, Default, Debug)]
pub struct Facts {
    values: Vec<u8>,
    /// Keys, and where in `values` their values stand.
    members: Vec<(&'static str, Range<usize>)>,
}

impl Facts {
    pub fn new() -> Facts {
        Facts { values: Vec::with_capacity(256), members: Vec::with_capacity(10) }
    }

    /// Adds a text: an id, digest, state or short text.
    pub fn with(self, key: &'static str, value: impl json::Text) -> Facts {
        self.member(key, |out| value.pack(out))
    }

    pub fn number(self, key: &'static str, value: impl Into<u64>) -> Facts {
        self.member(key, |out| json::write_number(out, value.into()))
    }

    pub fn flag(self, key: &'static str, value: bool) -> Facts {
        self.member(key, |out| out.extend_from_slice(if value { b"true" } else { b"false" }))
    }

    pub fn list(self, key: &'static str, values: impl IntoIterator<Item = impl json::Text>) -> Facts {
        self.member(key, |out| json::write_texts::<Packed>(out, values))
    }

    /// Adds a text, or `null`.
    pub fn maybe(self, key: &'static str, value: Option<impl json::Text>) -> Facts {
        self.member(key, |out| match value {
            Some(value) => value.pack(out),
            None => out.extend_from_slice(b"null"),
        })
    }

    fn member(mut self, key: &'static str, write: impl FnOnce(&mut Vec<u8>)) -> Facts {
        debug_assert!(self.members.iter().all(|(other, _)| *other != key), "`{key}` is said once");
        let start = self.values.len();
        write(&mut self.values);
        self.members.push((key, start..self.values.len()));
        self
    }

    /// The facts as an object.
    fn packed(mut self) -> Packed {
        self.members.sort_unstable_by_key(|(key, _)| *key);
        let mut out = Vec::with_capacity(self.values.len() + 8 * self.members.len() + 2);
        out.push(b'{');
        for (at, (key, value)) in self.members.into_iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            Packed::key(&mut out, key);
            out.extend_from_slice(&self.values[value]);
        }
        out.push(b'}');
        Packed::take(out)
    }
}

impl Event {
    pub const SCHEMA: &'static str = "stasis.event.v1";

    /// The next event of a chain.
    pub fn next(run: RunId, head: Head, at: Time, kind: Kind, facts: Facts) -> Event {
        let facts = facts.packed();
        let mut event = Event { run, seq: head.len, kind, at, facts, prev: head.digest, digest: Digest::ZERO };
        event.digest = event.computed();
        event
    }

    /// `prev` of event 0: bound to run id and pattern digest.
    pub fn origin(run: RunId, pattern: Digest) -> Digest {
        let mut record = json::Record::new();
        record.text("pattern", pattern).text("run", run).text("schema", "stasis.event-origin.v1").digest()
    }

    /// The digest this event must have; verification compares it with the stored one (C-278).
    pub fn computed(&self) -> Digest {
        let mut record = json::Record::new();
        record.text("at", self.at).unpacked("facts", &self.facts).text("kind", self.kind);
        record.text("prev", self.prev).text("run", self.run).text("schema", Event::SCHEMA).number("seq", self.seq);
        record.digest()
    }

    pub fn head(&self) -> Head {
        Head { len: self.seq + 1, digest: self.digest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_from_its_text() {
        let statuses = Status::ALL.into_iter().map(Kind::Run);
        for kind in statuses.chain(Kind::OTHERS.into_iter().map(|(kind, _)| kind)) {
            assert_eq!(Kind::parse(kind.as_str()), Some(kind));
            assert_eq!(kind.is_terminal(), ["run.done", "run.failed", "run.cancelled"].contains(&kind.as_str()));
        }
    }

    #[test]
    fn the_digest_is_that_of_the_record_whatever_the_order_of_the_facts() {
        let run = RunId::mint(Time::from_millis(7), 0, 7);
        let (head, at) = (Head { len: 3, digest: Digest::of("before") }, Time::from_micros(1_000_001));
        let facts = Facts::new().with("tool", "a \"b\"").maybe("by", None::<&str>).list("also", ["x", "y"]);
        let event = Event::next(run, head, at, Kind::CallEnded, facts.number("hop", 2u32).flag("late", true));
        let facts = serde_json::json!({"also": ["x", "y"], "by": null, "hop": 2, "late": true, "tool": "a \"b\""});
        assert_eq!(event.facts.canonical(), json::to_canonical(&facts).unwrap());
        let record = serde_json::json!({
            "schema": "stasis.event.v1", "run": run, "seq": 3, "kind": "call.ended", "at": at, "facts": facts,
            "prev": head.digest,
        });
        assert_eq!(event.digest, Digest::record(&record));
    }

    #[test]
    fn each_event_names_the_one_before_it() {
        let run = RunId::mint(Time::from_millis(7), 0, 7);
        let pattern = Digest::of("pattern");
        let start = Head { len: 0, digest: Event::origin(run, pattern) };
        let at = Time::from_millis(8);
        let first = Event::next(run, start, at, Kind::Run(Status::Queued), Facts::new().with("cause", "admission"));
        let second = Event::next(run, first.head(), at, Kind::ClaimLapsed, Facts::new());
        assert_eq!((first.seq, second.seq), (0, 1));
        assert_eq!(first.prev, Event::origin(run, pattern));
        assert_ne!(Event::origin(run, pattern), Event::origin(run, Digest::of("other")));
        assert_eq!(second.prev, first.digest); // C-275
        let mut altered = first.clone();
        altered.at = Time::from_millis(9);
        assert_ne!(altered.computed(), first.digest);
    }
}
