//! What holds after each command, whatever it was: the invariants of runs.md section 2, the chains, and the rules of
//! events.

use super::World;
use protocol::approval;
use protocol::call::{Call, OutcomeStatus, State};
use protocol::command::Command;
use protocol::event::{Event, Kind};
use protocol::job::{self, End, Job};
use protocol::limits::KEPT_SIGNALS;
use protocol::pause;
use protocol::rows::{Rows, Set};
use protocol::run::{Budget, Clocks, Head, Phase, Run, Status};
use protocol::signal;
use protocol::tool::Effect;
use protocol::wait;

impl World {
    pub(super) fn check(&self, command: &Command, before: Option<&Rows>) {
        let Some(rows) = &self.rows else { return };
        self.status_and_waits(rows);
        self.ends(&rows.run);
        self.effects();
        self.chains(before.map(|rows| &rows.run), &rows.run);
        self.events_follow_changes(command, before, rows);
        if let Some(before) = before {
            self.a_pause_holds(command, before, rows);
        }
        self.signals_are_taken_once(rows);
        self.jobs_end_once(command, rows);
        if let [.., before, after] = self.seqs[..] {
            assert!(after == before || after == before + 1);
        }
    }

    fn status_and_waits(&self, rows: &Rows) {
        let run = &rows.run;
        let parked = rows.waits.iter().filter(|w| w.state == wait::State::Parked).count();
        match &run.phase {
            Phase::Queued { .. } => assert!(run.claim().is_none()),
            Phase::Active { claim, .. } => assert_eq!(claim.token, run.fence),
            Phase::Parked { .. } => {
                assert!(parked > 0 && run.claim().is_none());
                let journaled = run.kind.is_journaled();
                assert!(run.checkpoint.is_some() || journaled);
                for wait in rows.waits.iter().filter(|w| w.state == wait::State::Parked) {
                    if let wait::Owner::Approval(id) = wait.owner {
                        assert!(self.approvals[&id].is_pending() && self.approvals[&id].run == run.id);
                    }
                    if let wait::Owner::Job(id) = wait.owner {
                        assert!(!self.jobs[&id].is_ended() && self.jobs[&id].run == run.id);
                    }
                }
            }
            Phase::Stopping { .. } => {
                assert!(rows.obligations.iter().any(|o| o.is_open()));
                assert_eq!(rows.waits.iter().count(), 0);
            }
            Phase::Final { .. } => {
                assert_eq!(rows.waits.iter().count(), 0);
                assert!(run.finished_at().is_some() && run.claim().is_none());
                assert!(!rows.obligations.iter().any(|o| o.is_open()));
                let pending = self.approvals.values().filter(|a| a.is_pending());
                assert!(pending.into_iter().all(|a| a.kind() == approval::Kind::Settle));
            }
        }
        if !run.status().is_parked() {
            assert_eq!(parked, 0);
        }
    }

    fn ends(&self, run: &Run) {
        let ended = self.events.iter().position(|e| e.kind.is_terminal());
        assert_eq!(ended.is_some(), run.status().is_final());
        let Some(ended) = ended else { return };
        assert_eq!(self.events[ended].kind, Kind::Run(run.status()));
        for event in &self.events[ended + 1..] {
            let leftover = matches!(
                event.kind,
                Kind::CallSettled
                    | Kind::AttemptRefused
                    | Kind::ReportLate
                    | Kind::ApprovalRead
                    | Kind::CallRead
                    | Kind::JobStopped
            );
            // what is said of a question that is still open is part of settling its call.
            let answer = matches!(
                event.kind,
                Kind::ApprovalApproved | Kind::ApprovalRejected | Kind::ApprovalCancelled | Kind::ApprovalVoted
            );
            assert!(leftover || answer, "{} after the end", event.kind);
        }
    }

    fn effects(&self) {
        for call in self.calls.values().filter(|c| c.effect == Effect::Write) {
            if let Some(outcome) = call.outcome() {
                assert_eq!(outcome.status == OutcomeStatus::Denied, outcome.gate.is_none(), "{call:?}"); // C-88
            }
        }
        match self.status() {
            Status::Done => assert!(self.calls.values().all(Call::is_ended)),
            // Nothing that is unknown is left without its question.
            Status::Failed | Status::Cancelled => {
                let open = self.calls.values().filter(|c| !c.is_ended());
                assert!(open.into_iter().all(|c| c.settle.is_some() || c.effect != Effect::Write));
            }
            _ => {}
        }
    }

    /// a wait takes one signal; no wait is open for a name of which a signal that fits is kept, and an end
    /// keeps none.
    fn signals_are_taken_once(&self, rows: &Rows) {
        let taken = self.signals.values().filter_map(|signal| match signal.state {
            signal::State::Taken(wait) => Some(wait),
            signal::State::Kept | signal::State::SetAside => None,
        });
        let mut once = std::collections::BTreeSet::new();
        assert!(taken.into_iter().all(|wait| once.insert(wait)));
        assert!(self.signals.values().filter(|signal| signal.is_kept()).count() <= KEPT_SIGNALS);
        let kept = |name: &str| {
            let meant = |signal: &signal::Signal| matches!(&signal.to, signal::To::Name(to) if to == name);
            rows.signals.iter().any(|signal| signal.is_kept() && meant(signal))
        };
        for wait in rows.waits.iter().filter(|wait| wait.is_open()) {
            if let wait::Owner::Signal(awaited) = &wait.owner {
                assert!(!kept(&awaited.name), "{wait:?} is open beside a kept signal");
            }
        }
        assert!(!rows.run.status().is_final() || rows.signals.iter().next().is_none());
        // of the waits of one call at most one has ended, and then no other is open. What a call waits for once it is
        // past its gate is another matter.
        let waits = |wait: &&wait::Wait| matches!(self.calls[&wait.call].state, State::Entered | State::Asked);
        for wait in rows.waits.iter().filter(|wait| wait.is_ended()).filter(waits) {
            // A question that is asked anew has its old wait beside it until the hop takes that.
            let asked = |wait: &wait::Wait| matches!(wait.owner, wait::Owner::Approval(_));
            let rivals = rows.waits.iter().filter(|other| other.call == wait.call && other.id != wait.id);
            let rivals = rivals.filter(|other| !(asked(wait) && asked(other)));
            let settles = |other: &wait::Wait| match other.owner {
                wait::Owner::Approval(id) => self.approvals[&id].kind() == approval::Kind::Settle,
                wait::Owner::Timer(_) | wait::Owner::Signal(_) | wait::Owner::Job(_) => false,
            };
            assert!(rivals.into_iter().all(|other| !other.is_open() || settles(other)), "{:?}", rows.waits);
        }
    }

    /// What holds of jobs in any run: how one ended never changes, and a run that stops or has ended left none of them running.
    fn jobs_end_once(&self, command: &Command, rows: &Rows) {
        let last = |id| self.events.iter().rev().find(|event| tells_of(event, id) && event.kind != Kind::JobStopped);
        for job in self.jobs.values() {
            let wait = rows.waits.get(job.wait);
            if let job::State::Ended { end, .. } = job.state {
                assert!(wait.is_none_or(wait::Wait::is_ended), "{job:?}");
                let ends = self.events.iter().filter(|event| tells_of(event, job.id) && is_end(event.kind));
                assert_eq!(ends.map(|event| event.kind).collect::<Vec<_>>(), [end.event()]);
                // one that nobody had is known to have stopped, and so is one whose agent said how it ended.
                let known = job.agent.is_none() || matches!(end, End::Succeeded { .. } | End::Failed { .. });
                assert!(!known || job.stopped_at.is_some(), "{job:?}");
            } else {
                let waited = wait.is_some_and(|wait| wait.is_open());
                // One that is to stop is waited for by nothing but the end of its run.
                let stops = matches!(job.state, job::State::Cancelling { .. });
                let over = rows.calls.iter().all(|call| call.id != job.call || call.is_ended());
                assert!(if stops { !waited || over } else { waited }, "{command:?} {job:?}"); // R-230 R-127
                assert_ne!(rows.run.status(), Status::Done);
                assert!(last(job.id).is_some_and(|event| !is_end(event.kind)));
            }
            if rows.run.status().is_stopping() {
                let row = rows.obligations.get(protocol::obligation::Subject::Job(job.id));
                let owed = row.is_some_and(|o| o.is_open());
                let attested = row.is_some_and(protocol::obligation::Obligation::is_attested);
                assert_eq!(owed || attested, job.may_run() || attested, "{command:?} {job:?}"); // R-263 R-271
            }
            if matches!(rows.run.status(), Status::Failed | Status::Cancelled) {
                let owed = rows.obligations.get(protocol::obligation::Subject::Job(job.id));
                let attested = owed.is_some_and(protocol::obligation::Obligation::is_attested);
                assert!(job.is_ended() && (attested || !job.may_run()), "{command:?} {job:?}"); // R-270 R-271
            }
        }
    }

    /// a pause blocks claim and gate, whoever tries; no final run has one.
    fn a_pause_holds(&self, command: &Command, before: &Rows, after: &Rows) {
        assert!(after.run.pause.is_none() || !after.run.status().is_final(), "{command:?}");
        // One commit may clear nothing and take nothing, so what lies over the run before it lies over it inside.
        if !pause::is_paused(&before.run, &self.registry) {
            return;
        }
        let taken = after.run.fence > before.run.fence && after.run.status().is_active();
        assert!(!taken, "{command:?} gave a paused run to a worker");
        for call in after.calls.iter().filter(|call| matches!(call.state, State::Dispatched(_))) {
            let was = before.calls.get(call.id).map(|call| &call.state);
            assert!(was.is_some_and(|was| !matches!(was, State::Entered | State::Asked)), "{command:?}");
        }
    }

    /// Each chain goes on where it ended before this command; what is older was looked at then.
    fn chains(&self, before: Option<&Run>, run: &Run) {
        let mut head =
            before.map_or(Head { len: 0, digest: Event::origin(run.id, run.pattern.digest) }, |run| run.events);
        for event in &self.events[head.len as usize..] {
            assert_eq!((event.seq, event.prev), (head.len, head.digest));
            assert_eq!(event.computed(), event.digest);
            head = event.head();
        }
        assert_eq!(run.events, head);
        let head = before.map_or(Head::default(), |run| run.journal);
        let journal = self.journal[head.len as usize..].iter().fold(head, |head, entry| entry.extend(head));
        assert_eq!(run.journal, journal);
        for receipt in &self.receipts[before.map_or(0, |run| run.receipts.len as usize)..] {
            assert_eq!(self.receipts[receipt.n as usize], *receipt); // C-127
        }
        // the clocks add up to the age at the last change.
        assert_eq!(run.clocks.total(), run.clocks.since.since(run.created_at).as_micros() as u64);
    }

    /// no event without its change, no change without its event.
    fn events_follow_changes(&self, command: &Command, before: Option<&Rows>, after: &Rows) {
        let Some(before) = before else { return };
        let new = &self.events[before.run.events.len as usize..];
        // A refused attempt, and a reading, is told because nothing changed; a step tells of itself.
        let about = [Kind::AttemptRefused, Kind::ApprovalRead, Kind::CallRead];
        let of_rows = |kind: Kind| !about.contains(&kind) && !kind.as_str().starts_with("node.");
        let told = new.iter().any(|event| of_rows(event.kind));
        let changed = substance(before) != substance(after);
        // A late word on a question or a job that is over changes a row that is no longer among those of its run.
        let late = self.last.as_ref().is_some_and(|change| {
            change.rows.approvals.dirty().next().is_some() || change.rows.jobs.dirty().next().is_some()
        });
        assert!(changed || late || !told, "{command:?} told of no change");
        // Cleaning up changes leftovers alone, and its debt row tells of them.
        let silent = changed && new.is_empty() && !matches!(command, Command::Clean { .. });
        assert!(!silent, "{command:?} changed the run in silence");
        if before.run.status() != after.run.status() {
            let last = new.iter().rev().find(|event| matches!(event.kind, Kind::Run(_)));
            assert_eq!(last.map(|event| event.kind), Some(Kind::Run(after.run.status())));
        }
        for event in new {
            assert!(
                event.facts.canonical().len() <= 8_192,
                "{} says {} bytes",
                event.kind,
                event.facts.canonical().len()
            );
        }
    }
}

fn is_end(kind: Kind) -> bool {
    use Kind::{JobCancelled, JobFailed, JobLost, JobSucceeded, JobTimedOut};
    matches!(kind, JobSucceeded | JobFailed | JobLost | JobTimedOut | JobCancelled)
}

fn tells_of(event: &Event, job: protocol::id::JobId) -> bool {
    let facts = event.facts.canonical().value();
    event.kind.as_str().starts_with("job.") && facts.get("job").and_then(|id| id.as_str()) == Some(&job.to_string())
}

/// A heartbeat is told to nobody, like a renewal.
fn quiet(job: &Job) -> Job {
    let agent = job.agent.clone().map(|agent| job::Agent { due_at: agent.claimed_at, ..agent });
    Job { agent, progress: None, ..job.clone() }
}

/// Rows without what tells of itself: the head of the events, and what is counted on the way.
fn substance(rows: &Rows) -> Rows {
    let mut run = rows.run.clone();
    run.events = Head::default();
    run.clocks = Clocks::start(run.created_at);
    run.budget = Budget::default();
    run.log_lines = 0;
    run.signals = 0;
    run.journal = Head::default();
    Rows {
        run,
        waits: Set::load(rows.waits.iter().cloned()),
        approvals: Set::load(rows.approvals.iter().cloned()),
        calls: Set::load(rows.calls.iter().cloned()),
        obligations: Set::load(rows.obligations.iter().cloned()),
        jobs: Set::load(rows.jobs.iter().map(quiet)),
        signals: Set::load(rows.signals.iter().cloned()),
        payloads: Vec::new(),
    }
}
