//! What a store loads for a command, and what a decision gives back to save.
//!
//! Owns: the set of rows of one run that a decision may see and change, with which of them changed. Stores load
//! [`Rows`] under lock, call the decision, and save the [`Change`] in the same transaction; they add nothing of their
//! own.

use crate::approval::Approval;
use crate::call::{Call, Receipt};
use crate::digest::Digest;
use crate::event::{Event, Facts, Kind};
use crate::id::{ApprovalId, CallId, JobId, RunId, WaitId};
use crate::job::Job;
use crate::journal;
use crate::json::Canonical;
use crate::obligation::Obligation;
use crate::run::{Body, Run, Status};
use crate::signal::Signal;
use crate::time::Time;
use crate::wait::Wait;
use std::sync::Arc;

/// The live rows of one run, plus those a command names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rows {
    pub run: Run,
    /// Every wait row there is: live, parked, or ended and not yet taken.
    pub waits: Set<Wait>,
    /// Pending ones, open yeses, and the one a command names.
    pub approvals: Set<Approval>,
    /// Those without outcome, and those of the approvals loaded.
    pub calls: Set<Call>,
    /// Open ones.
    pub obligations: Set<Obligation>,
    /// Those that [`keeps`](Rows::keeps) says, and the one a command names.
    pub jobs: Set<Job>,
    /// Kept ones, and those that a command names or asks for.
    pub signals: Set<Signal>,
    /// Payloads of kept signals, where the command makes waits that may take them.
    pub payloads: Vec<(Digest, Canonical)>,
}

impl Rows {
    /// Whether a job may still matter to its run: it has not ended, nobody knows that its agent stopped, or a hop has still to
    /// take note of its end.
    pub fn keeps(&self, job: &Job) -> bool {
        !job.is_ended() || job.stopped_at.is_none() || self.waits.get(job.wait).is_some()
    }
}

/// A row that is known by a key.
pub trait Keyed {
    type Key: Copy + Ord;
    fn key(&self) -> Self::Key;
}

/// Rows of one table, with which of them a decision made or changed: in order of their keys, then the new ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Set<T> {
    rows: Vec<(T, Mark)>,
    /// So many rows at the front stand in order of their keys. New rows keep the order as a rule: ids grow.
    sorted: usize,
}

/// What became of a row since it was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    Loaded,
    Changed,
    New,
    /// To be deleted; it is no longer part of the set.
    Gone,
}

impl<T: Keyed> Set<T> {
    pub fn load(rows: impl IntoIterator<Item = T>) -> Set<T> {
        let mut rows: Vec<(T, Mark)> = rows.into_iter().map(|row| (row, Mark::Loaded)).collect();
        rows.sort_by_key(|(row, _)| row.key());
        Set { sorted: rows.len(), rows }
    }

    /// Where the row of a key stands. A hop may bring thousands of rows in one commit, so this must not look at each.
    fn at(&self, key: T::Key) -> Option<usize> {
        let there = |at: &usize| self.rows[*at].1 != Mark::Gone;
        let front = self.rows[..self.sorted].binary_search_by_key(&key, |(row, _)| row.key()).ok();
        let rest = || (self.sorted..self.rows.len()).find(|at| there(at) && self.rows[*at].0.key() == key);
        front.filter(there).or_else(rest)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().filter(|(_, mark)| *mark != Mark::Gone).map(|(row, _)| row)
    }

    pub fn get(&self, key: T::Key) -> Option<&T> {
        self.at(key).map(|at| &self.rows[at].0)
    }

    /// The row to change; it counts as changed from here on.
    pub fn edit(&mut self, key: T::Key) -> Option<&mut T> {
        let at = self.at(key)?;
        let (row, mark) = &mut self.rows[at];
        if *mark == Mark::Loaded {
            *mark = Mark::Changed;
        }
        Some(row)
    }

    /// Adds a row that no store has yet.
    pub fn add(&mut self, row: T) {
        // two rows of one key are a bug of a caller, never written.
        assert!(self.get(row.key()).is_none(), "a new row has a new key");
        let grows = self.rows.last().is_none_or(|(last, _)| last.key() < row.key());
        self.sorted += usize::from(grows && self.sorted == self.rows.len());
        self.rows.push((row, Mark::New));
    }

    pub fn remove(&mut self, key: T::Key) {
        if let Some(at) = self.at(key) {
            match self.rows[at].1 {
                Mark::New => {
                    self.rows.remove(at);
                    self.sorted -= usize::from(at < self.sorted);
                }
                _ => self.rows[at].1 = Mark::Gone,
            }
        }
    }

    /// Keys of the rows that pass.
    pub fn keys(&self, pass: impl Fn(&T) -> bool) -> Vec<T::Key> {
        self.iter().filter(|row| pass(row)).map(T::key).collect()
    }

    /// For stores, once everything is saved: the rows that pass, as if they were loaded again.
    pub fn settle(&mut self, pass: impl Fn(&T) -> bool) {
        self.rows.retain(|(row, mark)| *mark != Mark::Gone && pass(row));
        self.rows.iter_mut().for_each(|(_, mark)| *mark = Mark::Loaded);
        self.rows.sort_by_key(|(row, _)| row.key());
        self.sorted = self.rows.len();
    }

    /// For stores: every row that is not as it was loaded.
    pub fn dirty(&self) -> impl Iterator<Item = (&T, Mark)> {
        self.rows.iter().filter(|(_, mark)| *mark != Mark::Loaded).map(|(row, mark)| (row, *mark))
    }
}

impl<T: Keyed> Default for Set<T> {
    fn default() -> Set<T> {
        Set { rows: Vec::new(), sorted: 0 }
    }
}

impl Keyed for Wait {
    type Key = WaitId;
    fn key(&self) -> WaitId {
        self.id
    }
}

impl Keyed for Approval {
    type Key = ApprovalId;
    fn key(&self) -> ApprovalId {
        self.id
    }
}

impl Keyed for Call {
    type Key = CallId;
    fn key(&self) -> CallId {
        self.id
    }
}

impl Keyed for Job {
    type Key = JobId;
    fn key(&self) -> JobId {
        self.id
    }
}

impl Keyed for Signal {
    type Key = u32;
    fn key(&self) -> u32 {
        self.n
    }
}

impl Keyed for Obligation {
    type Key = crate::obligation::Subject;
    fn key(&self) -> Self::Key {
        self.subject
    }
}

/// Bytes to be stored under their digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewBody {
    pub body: Body,
    pub bytes: Arc<[u8]>,
}

impl NewBody {
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> NewBody {
        let bytes = bytes.into();
        let len = u32::try_from(bytes.len()).expect("bodies are limited to 1 GiB");
        NewBody { body: Body { digest: Digest::of(&bytes), len }, bytes }
    }
}

/// A line of the program's log; rides with the next commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    pub run: RunId,
    pub n: u32,
    pub at: Time,
    pub text: String,
}

/// Cleanup left over after an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Debt {
    Checkpoint,
    Snapshot,
}

/// What a decision changes, to be saved in one transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    pub rows: Box<Rows>,
    /// Status and fence of the run as loaded; the update names them. `None`: the run is new.
    pub before: Option<(Status, u64)>,
    pub events: Vec<Event>,
    pub journal: Vec<journal::Row>,
    pub receipts: Vec<Receipt>,
    pub log: Vec<LogLine>,
    pub bodies: Vec<NewBody>,
    /// Cleanup to be done after this commit.
    pub debts: Vec<Debt>,
    /// Cleanup that is done in this commit; its row goes, if it was owed.
    pub paid: Vec<Debt>,
    /// An admission's idempotency key and request digest, scoped to namespace and principal.
    pub key: Option<(String, Digest)>,
    /// The run goes with everything that is its own. What stays is its id, status and head digest.
    pub removed: bool,
    /// The run is pinned to another pattern than it was loaded with.
    pub repinned: bool,
    pub now: Time,
}

impl Change {
    /// Starts from loaded rows.
    pub fn of(rows: Box<Rows>, now: Time) -> Change {
        let before = Some((rows.run.status(), rows.run.fence));
        Change { before, ..Change::fresh(rows, now) }
    }

    /// Starts from the rows of a run that no store has yet.
    pub fn fresh(rows: Box<Rows>, now: Time) -> Change {
        Change {
            rows,
            before: None,
            events: Vec::new(),
            journal: Vec::new(),
            receipts: Vec::new(),
            log: Vec::new(),
            bodies: Vec::new(),
            debts: Vec::new(),
            paid: Vec::new(),
            key: None,
            removed: false,
            repinned: false,
            now,
        }
    }

    pub fn run(&self) -> &Run {
        &self.rows.run
    }

    /// Writes the next event of the run's chain.
    pub fn event(&mut self, kind: Kind, facts: Facts) {
        let run = &mut self.rows.run;
        let event = Event::next(run.id, run.events, self.now, kind, facts);
        run.events = event.head();
        self.events.push(event);
    }

    /// Writes the next receipt of the run's chain.
    pub fn receipt(&mut self, call: CallId, facts: &crate::call::ReceiptFacts) -> Digest {
        let row = self.rows.calls.get(call).expect("a receipt is written for a call at hand");
        let receipt = Receipt::write(&self.rows.run, row, facts);
        self.rows.run.receipts = receipt.head();
        let digest = receipt.digest;
        self.receipts.push(receipt);
        digest
    }
}
