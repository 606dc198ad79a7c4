//! A hop's view of its run, and the one way it writes.

use super::checkpoint::{self, NODE};
use super::jobs;
use super::steps::Place;
use super::turn::{HopEntry, Turn};
use crate::failpoint;
use crate::inner::Inner;
use crate::pinned::Pinned;
use crate::reading::{self, Unread};
use crate::resources::Lease;
use crate::worker::{Live, Stop};
use protocol::approval::Approval;
use protocol::call::Call;
use protocol::code::Code;
use protocol::command::{Act, Answer, Command, Conclusion, Hop as Write, Progress};
use protocol::digest::Digest;
use protocol::event::{Facts, Kind};
use protocol::id::{ApprovalId, CallId, Ids};
use protocol::job::Job;
use protocol::journal::{Entropy, Entry, Other};
use protocol::limits::UNWRITTEN_BYTES;
use protocol::rows::NewBody;
use protocol::run::{Body, Charge, Failure, Head, Run};
use protocol::time::Time;
use protocol::wait::Wait;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{Shown, TransactError};

/// Why a hop does not go on.
#[derive(Debug)]
pub(crate) enum Out {
    /// The claim is lost, or an outcome cannot be learned: nothing more is written.
    Lost,
    /// The run is stopping.
    Stopping,
    /// The server shuts down, or a pause lies over the run: the hop finds its place to stop.
    GiveWay,
    /// The run fails.
    Fail(Box<Failure>),
}

/// One hop in the making.
pub(crate) struct Hop {
    pub(crate) inner: Arc<Inner>,
    pub(crate) live: Arc<Live>,
    /// The row as the last answer gave it.
    pub(crate) run: Run,
    pub(crate) token: u64,
    pub(crate) pinned: Arc<Pinned>,
    pub(crate) ids: Ids,
    /// Not stored yet; rides with the next commit.
    pub(crate) pending: Progress,
    /// The journal's head with what is pending.
    pub(crate) journal: Head,
    /// Counted calls with those pending.
    pub(crate) counted: u32,
    /// The journaled start; none if nothing is journaled yet.
    pub(crate) start: Option<HopEntry>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) calls: BTreeMap<CallId, Call>,
    pub(crate) approvals: BTreeMap<ApprovalId, Approval>,
    pub(crate) waits: Vec<Wait>,
    /// Those of open calls.
    pub(crate) jobs: Vec<Job>,
    /// Bodies of this hop that are not stored yet, and those read from the store.
    bodies: HashMap<Digest, Arc<[u8]>>,
    /// The time that the guest was last told (W-171).
    pub(crate) told: Time,
    /// Whether the hop's entropy has still to be given, with its first answer (W-248).
    pub(crate) entropy_due: bool,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    /// The number of the guest's next line. A replay counts from 0, and what is stored already is dropped (W-177).
    pub(crate) log_next: u32,
    /// Guest time that the ledger knows, in microseconds.
    pub(crate) charged_us: u64,
    /// Time in which every open call waited for a person, since the last charge.
    pub(crate) person: Duration,
    /// Calls that the engine made for this run.
    pub(crate) engine_calls: u32,
    /// Where Rust code goes on; none before its first step.
    pub(super) place: Option<Place>,
    /// The node that Rust code is at, and the number of its entry.
    pub(super) entry: Option<(String, u32)>,
    /// The resource that a hold made warm, with its lease, for whichever call asks for it first.
    pub(super) warm: Option<(String, Lease)>,
}

impl Hop {
    /// Writes: everything pending and the act, in one transaction.
    pub(crate) async fn commit(&mut self, act: Act) -> Result<Answer, Out> {
        self.live.awake(self.inner.settings.renew_every).await;
        if self.live.stopped() == Some(Stop::Lost) {
            return Err(Out::Lost);
        }
        let progress = self.take_pending();
        let write = Write { run: self.run.id, token: self.token, progress, act };
        failpoint::hit("hop.before_commit");
        let answer = self.inner.ledger.transact(Command::Hop(Box::new(write))).await;
        failpoint::hit("hop.after_commit");
        match answer {
            Ok(answer) => {
                if let Some(run) = answer.run() {
                    self.run = run.clone();
                }
                Ok(answer)
            }
            Err(TransactError::Refused(refusal)) => Err(match refusal.code {
                Code::StaleClaim | Code::StaleHop => Out::Lost,
                Code::RunStopping => Out::Stopping,
                code => {
                    tracing::warn!(run = %self.run.id, %refusal, "a write of this hop was refused");
                    Out::fail(code, refusal.detail)
                }
            }),
            // The commit's outcome is unknown, or nothing can be committed: the claim lapses, and recovery reads what
            // is stored (R-7, R-113, C-94).
            Err(error) => {
                tracing::warn!(run = %self.run.id, %error, "a write of this hop failed");
                Err(Out::Lost)
            }
        }
    }

    /// Whether the run's own deadline has passed, by the ledger's clock.
    pub(crate) fn is_late(&self) -> bool {
        self.run.deadline.is_some_and(|deadline| self.inner.now() >= deadline)
    }

    fn take_pending(&mut self) -> Progress {
        let mut progress = std::mem::take(&mut self.pending);
        progress.charge.person += std::mem::take(&mut self.person).as_micros() as u64;
        progress.log_base = self.log_next;
        progress.log = std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner));
        self.log_next = self.log_next.saturating_add(progress.log.len() as u32);
        self.pending.base = self.journal.len;
        progress
    }

    /// Guest time up to `active_us` is charged with the next commit (W-166).
    pub(crate) fn charge(&mut self, active_us: u64) {
        let more = active_us.saturating_sub(self.charged_us);
        self.charged_us += more;
        let charge = &mut self.pending.charge;
        *charge = Charge { active: charge.active + more, ..*charge };
    }

    /// Appends a journal entry.
    pub(crate) fn enter(&mut self, entry: Entry) {
        self.journal = entry.extend(self.journal);
        if let Entry::Call(call) = &entry {
            self.counted += 1;
            self.calls.insert(call.id, (**call).clone());
        }
        self.pending.entries.push(entry);
    }

    /// Randomness for the guest from here on, journaled (W-154).
    pub(crate) fn fresh_entropy(&self) -> Entropy {
        let mut bytes = [0; 32];
        crate::inner::fill(&mut bytes);
        Entropy(bytes)
    }

    /// Journals this hop's `hop` entry, with the answer that carries its entropy.
    pub(crate) fn enter_hop(&mut self, now: Time) -> Entropy {
        let entropy = self.fresh_entropy();
        self.enter(Entry::Other(Other::Hop { hop: self.run.seq, now, entropy }));
        self.entropy_due = false;
        entropy
    }

    /// Tells of the node that this hop executes; it rides with the next commit.
    pub(crate) fn tell(&mut self, kind: Kind, facts: Facts) {
        let facts = match &self.entry {
            Some((node, id)) => facts.with("node", node).number("occurrence", *id),
            None => facts.with("node", NODE).number("occurrence", checkpoint::occurrence(self)),
        };
        self.pending.nodes.push((kind, facts));
    }

    /// Keeps a body for the next commit.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Body {
        let new = NewBody::new(bytes);
        let body = new.body;
        if self.bodies.insert(body.digest, new.bytes.clone()).is_none() {
            self.pending.bodies.push(new);
        }
        body
    }

    /// A body of this run, verified by its digest before anything reads it.
    pub(crate) async fn body(&mut self, digest: Digest) -> Result<Arc<[u8]>, Out> {
        if let Some(bytes) = self.bodies.get(&digest) {
            return Ok(bytes.clone());
        }
        match reading::read(|| self.inner.ledger.body(self.run.id, digest)).await {
            Ok(Some(bytes)) => {
                let bytes: Arc<[u8]> = bytes.into();
                self.bodies.insert(digest, bytes.clone());
                Ok(bytes)
            }
            Ok(None) => {
                Err(Out::fail(Code::CheckpointInvalid, format!("checkpoint invalid: body {digest} is missing")))
            }
            Err(Unread::Damaged(why)) => {
                tracing::warn!(run = %self.run.id, why, "a body is not what it must be");
                Err(Out::fail(Code::CheckpointInvalid, format!("checkpoint invalid: body {digest} is damaged")))
            }
            Err(Unread::Unavailable(why)) => {
                tracing::warn!(run = %self.run.id, why, "a body could not be read");
                Err(Out::Lost)
            }
        }
    }

    /// Changes the hop's copy of a call and tells the ledger with the next commit.
    pub(crate) fn conclude(&mut self, conclusion: Conclusion) {
        self.pending.conclusions.push(conclusion);
    }

    pub(crate) fn call(&self, id: CallId) -> &Call {
        self.calls.get(&id).expect("a turn names calls of this hop")
    }

    pub(crate) fn call_mut(&mut self, id: CallId) -> &mut Call {
        self.calls.get_mut(&id).expect("a turn names calls of this hop")
    }

    pub(crate) fn approval_of(&self, call: &Call) -> Option<&Approval> {
        call.approval.and_then(|id| self.approvals.get(&id))
    }

    /// Reads approvals, waits and what others decided about open calls.
    pub(crate) async fn refresh(&mut self) -> Result<(), Out> {
        match reading::read(|| self.inner.ledger.rows(self.run.id)).await {
            Ok(Some(rows)) => {
                self.take_rows(rows);
                Ok(())
            }
            Ok(None) => Err(Out::Lost),
            Err(error) => {
                tracing::warn!(run = %self.run.id, %error, "the run's rows could not be read");
                Err(Out::Lost)
            }
        }
    }

    /// Takes over what the ledger says, except for calls whose end, question or timer has still to be stored: to forget
    /// a question that was made here would be to ask it twice.
    pub(crate) fn take_rows(&mut self, rows: Shown) {
        let pending = &self.pending;
        let unstored = |id: CallId| {
            pending.conclusions.iter().any(|c| c.call == id) || pending.opens().any(|wait| wait.call == id)
        };
        let news: Vec<Call> = rows.calls.into_iter().filter(|call| !unstored(call.id)).collect();
        self.calls.extend(news.into_iter().map(|call| (call.id, call)));
        self.approvals.extend(rows.approvals.into_iter().map(|a| (a.id, a)));
        self.waits = rows.waits;
        self.jobs = jobs::awaited(rows.jobs, |call| self.calls.get(&call).is_some_and(|call| !call.is_ended()));
    }

    /// Bodies kept for the run, with those that wait to be written (W-165).
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.run.budget.body_bytes + self.unwritten()
    }

    fn unwritten(&self) -> u64 {
        self.pending.bodies.iter().map(|new| u64::from(new.body.len)).sum()
    }

    /// Results that wait to be written are bounded (C-100).
    pub(crate) async fn flush_if_large(&mut self) -> Result<(), Out> {
        if self.unwritten() > UNWRITTEN_BYTES {
            self.commit(Act::Record).await?;
        }
        Ok(())
    }

    /// A hop of which nothing has been read yet but its run.
    pub(super) fn new(inner: Arc<Inner>, live: Arc<Live>, run: Run, pinned: Arc<Pinned>) -> Hop {
        Hop {
            ids: inner.ids(),
            inner,
            token: live.token,
            live,
            pinned,
            pending: Progress { base: run.journal.len, ..Progress::default() },
            journal: run.journal,
            counted: run.budget.calls,
            start: None,
            turns: Vec::new(),
            calls: BTreeMap::new(),
            approvals: BTreeMap::new(),
            waits: Vec::new(),
            jobs: Vec::new(),
            bodies: HashMap::new(),
            told: run.created_at,
            entropy_due: run.journal.len > 0,
            log: Arc::default(),
            log_next: run.log_lines,
            charged_us: run.budget.active_us,
            person: Duration::ZERO,
            engine_calls: 0,
            place: None,
            entry: None,
            warm: None,
            run,
        }
    }
}

impl Out {
    /// What a hop that was told to stop leaves for.
    pub(crate) fn of(stop: Stop) -> Out {
        match stop {
            Stop::Lost => Out::Lost,
            Stop::Stopping => Out::Stopping,
            Stop::Late => Out::Fail(Box::new(Failure::deadline())),
            Stop::Paused | Stop::Shutdown => Out::GiveWay,
        }
    }

    pub(crate) fn fail(code: Code, message: impl Into<String>) -> Out {
        Out::Fail(Box::new(Failure { code, message: message.into(), detail: None }))
    }

    /// A failure with facts that help a person, as canonical JSON.
    pub(crate) fn fail_with(code: Code, message: impl Into<String>, detail: &impl serde::Serialize) -> Out {
        let detail = protocol::json::to_canonical(detail).ok();
        Out::Fail(Box::new(Failure { code, message: message.into(), detail }))
    }
}
