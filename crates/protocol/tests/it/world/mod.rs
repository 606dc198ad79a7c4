//! One run in memory: rows that decisions change, with everything a store would have saved. [`story`] has the moves of a
//! run as one line each; [`check`] the invariants that hold after each command.

mod check;
mod home;
mod story;
pub(crate) mod told;

pub(crate) use home::{caller, grant, manifest, person, read_tool, settings, write_tool};
pub(crate) use story::{args, denied, expiring, failure, obligation, ok, result, worker};

use protocol::approval::Approval;
use protocol::call::{Call, Receipt};
use protocol::command::{Answer, Command, KnownKey, Patience, Subject};
use protocol::decide::{Cx, Decision, Hold, Loaded, decide};
use protocol::digest::Digest;
use protocol::event::Event;
use protocol::id::{ApprovalId, CallId, Id, Ids, JobId};
use protocol::job::Job;
use protocol::journal::Entry;
use protocol::json::Canonical;
use protocol::limits::{Limits, WorkerSettings};
use protocol::refusal::Refusal;
use protocol::registry::Registry;
use protocol::rows::{Change, Keyed, Mark, Rows, Set};
use protocol::run::{Run, Status};
use protocol::signal::{self, Signal};
use protocol::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a claim stands without renewal.
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
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) journal: Vec<Entry>,
    /// Bodies that commands brought to be stored.
    pub(crate) bodies: BTreeMap<Digest, Vec<u8>>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    /// Every signal that was ever taken in.
    pub(crate) signals: BTreeMap<u32, Signal>,
    /// The seq after each command.
    pub(crate) seqs: Vec<u32>,
    /// The last change, as a store would have saved it.
    pub(crate) last: Option<Change>,
    ids: Ids,
}

impl World {
    pub(crate) fn new() -> World {
        let now = Time::from_millis(1_000_000);
        World {
            now,
            registry: home::registry(),
            limits: Limits::default(),
            patience: WorkerSettings::default().patience(),
            rows: None,
            approvals: BTreeMap::new(),
            calls: BTreeMap::new(),
            events: Vec::new(),
            receipts: Vec::new(),
            journal: Vec::new(),
            bodies: BTreeMap::new(),
            jobs: BTreeMap::new(),
            signals: BTreeMap::new(),
            seqs: Vec::new(),
            last: None,
            ids: Ids::new(now, 0, 42),
        }
    }

    pub(crate) fn run(&self) -> &Run {
        &self.rows().run
    }

    pub(crate) fn rows(&self) -> &Rows {
        self.rows.as_ref().expect("admitted")
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

    pub(crate) fn ids(&self) -> Ids {
        self.ids.clone()
    }

    pub(crate) fn mint<T: Id>(&mut self) -> T {
        self.ids.mint()
    }

    /// Gives one command to its decision and saves what comes back, as a store does.
    pub(crate) fn give(&mut self, command: Command) -> Result<Answer, Refusal> {
        let loaded = self.load(&command);
        let before = self.rows.clone();
        let (mut ids, mut same) = (self.ids.clone(), self.ids.clone());
        let Decision { change, answer } = self.decide(command.clone(), loaded.clone(), &mut ids);
        let again = self.decide(command.clone(), loaded, &mut same);
        // a decision is a function of rows, command, time and new ids.
        assert_eq!(again.change, change);
        self.ids = ids;
        match change {
            Some(change) => self.save(*change),
            // a refusal changes no row and writes no event.
            None => assert_eq!(self.rows, before),
        }
        self.check(&command, before.as_ref());
        told::note(self, &answer);
        answer
    }

    fn decide(&self, command: Command, loaded: Loaded, ids: &mut Ids) -> Decision {
        decide(command, loaded, &mut Cx { now: self.now, ids, registry: &self.registry, limits: &self.limits })
    }

    fn load(&self, command: &Command) -> Loaded {
        let Some(rows) = &self.rows else {
            return match command {
                Command::Admit(_) => Loaded::New { known: None, session: None, queued: 0, removed: None },
                _ => Loaded::Missing,
            };
        };
        if let Command::Admit(admit) = command {
            let key = KnownKey { run: rows.run.id, request_digest: Digest::of("request") };
            let known = admit.idempotency_key.is_some().then(|| (key, Box::new(rows.run.clone())));
            let session = rows.run.session.as_ref().filter(|_| !rows.run.status().is_final()).map(|_| rows.run.id);
            let queued = u64::from(rows.run.status() == Status::Queued);
            return Loaded::New { known, session, queued, removed: None };
        }
        if let Subject::Call(call) = command.subject()
            && !self.calls.contains_key(&call)
        {
            return Loaded::Missing;
        }
        let mut rows = rows.clone();
        rows.payloads = self.payloads(&rows);
        match command.subject() {
            Subject::Signal(_, id) => rows.signals = self.signals_of(|signal| signal.id == id),
            Subject::Wait(wait, id) => {
                rows.signals = self.signals_of(|signal| signal.id == id || signal.state == signal::State::Taken(wait));
            }
            Subject::Job(job) => match self.jobs.get(&job) {
                None => return Loaded::Missing,
                Some(job) if rows.jobs.get(job.id).is_none() => rows.jobs = with(rows.jobs, job.clone()),
                Some(_) => {}
            },
            Subject::New(_) | Subject::Run(_) | Subject::Approval(_) | Subject::Call(_) => {}
        }
        if let Subject::Approval(approval) = command.subject() {
            match self.approvals.get(&approval) {
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
        let rows = Box::new(rows);
        match command {
            Command::Remove { .. } => Loaded::Old { rows, hold: Hold::default() },
            _ => Loaded::Rows(rows),
        }
    }

    /// Payloads of what is kept, as text.
    fn payloads(&self, rows: &Rows) -> Vec<(Digest, Canonical)> {
        let kept = rows.signals.iter().map(|signal| signal.payload.digest);
        kept.map(|digest| (digest, Canonical::from_stored(&self.bodies[&digest]).expect("JSON"))).collect()
    }

    /// Kept signals and those that pass.
    fn signals_of(&self, pass: impl Fn(&Signal) -> bool) -> Set<Signal> {
        Set::load(self.signals.values().filter(|signal| signal.is_kept() || pass(signal)).cloned())
    }

    fn save(&mut self, change: Change) {
        self.last = Some(change.clone());
        let Change { rows, before, events, journal, receipts, bodies, .. } = change;
        if let Some((status, fence)) = before {
            let was = self.run();
            assert_eq!((was.status(), was.fence), (status, fence));
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
            assert_eq!(position as usize, self.journal.len());
            self.journal.push(entry);
        }
        for (approval, _) in rows.approvals.dirty() {
            self.approvals.insert(approval.id, approval.clone());
        }
        for (job, _) in rows.jobs.dirty() {
            self.jobs.insert(job.id, job.clone());
        }
        for (signal, mark) in rows.signals.dirty() {
            match mark {
                Mark::Gone => drop(self.signals.remove(&signal.n)),
                Mark::Loaded | Mark::Changed | Mark::New => drop(self.signals.insert(signal.n, signal.clone())),
            }
        }
        self.events.extend(events);
        self.receipts.extend(receipts);
        self.bodies.extend(bodies.into_iter().map(|new| (new.body.digest, new.bytes.to_vec())));
        let settled = |id: &ApprovalId| self.calls[&self.approvals[id].call].is_ended();
        let open = |a: &Approval| a.is_pending() || a.is_open_yes() || !settled(&a.id);
        self.seqs.push(rows.run.seq);
        let mut saved = Rows {
            run: rows.run,
            waits: reload(&rows.waits, |_| true),
            approvals: Set::load(self.approvals.values().filter(|a| open(a)).cloned()),
            calls: Set::load(self.calls.values().filter(|c| !c.is_ended()).cloned()),
            obligations: reload(&rows.obligations, |_| true),
            jobs: Set::default(),
            signals: self.signals_of(|_| false),
            payloads: Vec::new(),
        };
        saved.jobs = Set::load(self.jobs.values().filter(|job| saved.keeps(job)).cloned());
        self.rows = Some(saved);
    }
}

fn reload<T: Keyed + Clone>(set: &Set<T>, keep: impl Fn(&T) -> bool) -> Set<T> {
    Set::load(set.iter().filter(|row| keep(row)).cloned())
}

fn with<T: Keyed + Clone>(set: Set<T>, row: T) -> Set<T> {
    Set::load(set.iter().cloned().chain(std::iter::once(row)))
}
