//! The one thread that writes: it takes what waits, decides and saves each command, commits once, and answers.
//!
//! Invariants: an answer leaves after its commit is durable. A command that fails alone never takes another with
//! it: its batch is rolled back and each command gets a transaction of its own. After a failed sync nothing is
//! written any more by this process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use protocol::command::{Answer, Command, Renew, Renewed};
use protocol::decide::{self, Cx, Decision};
use protocol::id::{Ids, MessageId, RunId};
use protocol::refusal::Refusal;
use protocol::registry::{self, Registry};
use protocol::rows::{Change, Mark};
use protocol::time::Time;
use protocol::webhook::{self, Message, MessageAct};
use rusqlite::{Connection, ErrorCode, ffi};
use tokio::sync::oneshot;

use super::anchor::{self, LastAnchor};
use super::fault::Fault;
use super::message;
use super::pack::Packs;
use super::registry as registry_rows;
use super::tables::Tables;
use super::{checkpoint, open};
use crate::config::random;
use crate::error::TransactError;
use crate::failpoint;
use crate::hint::Hint;
use crate::shared::{Health, Shared};

/// One command on its way, with the way back.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) packs: Box<Packs>,
    pub(crate) answer: oneshot::Sender<Result<Done, TransactError>>,
}

#[derive(Clone)]
pub(crate) enum Work {
    Run(Box<Command>),
    Registry(Box<registry::Change>),
    Renew(Renew),
    Anchor(Box<LastAnchor>),
    Message(MessageId, MessageAct),
    /// Forgets messages that ended before this time.
    Forget(Time),
}

/// What a job is answered.
pub(crate) enum Done {
    Run(Box<Answer>),
    Registry(Box<registry::Answer>),
    Renewed(Vec<(RunId, Renewed)>),
    Anchored,
    /// The message as it is now, if there is one.
    Message(Option<Box<Message>>),
    Forgotten(u64),
}

/// A job that is done but for the commit.
struct Outcome {
    result: Result<Done, TransactError>,
    hint: Option<Hint>,
    /// The registry as it is once this is committed.
    registry: Option<Arc<Registry>>,
}

/// What became of a transaction.
enum Committed {
    Yes,
    /// Nothing of it is there, proved.
    No(String),
    Unknown(String),
}

/// Serves the queue until it is closed and empty, or the store has failed.
pub(crate) fn serve(mut db: Connection, shared: &Arc<Shared>) {
    loop {
        checkpoint::watch(&mut db, shared);
        if !serve_on(&db, shared) {
            return;
        }
        match open::writer(&shared.config) {
            Ok(fresh) => db = fresh,
            Err(error) => return shared.fail(format!("the store cannot be opened again: {error}")),
        }
    }
}

/// What the loop does after a batch.
enum Next {
    GoOn,
    Reopen,
}

/// Serves on one connection; `true` if it has to be opened again.
fn serve_on(db: &Connection, shared: &Arc<Shared>) -> bool {
    let tables = match Tables::prepare(db) {
        Ok(tables) => tables,
        Err(error) => {
            shared.fail(format!("the store's statements cannot be prepared: {error}"));
            return false;
        }
    };
    let mut writer = Writer { tables, shared, batch_registry: None };
    let mut answered = 0;
    while let Some(batch) = shared.queue.take(answered, PATIENCE) {
        answered = batch.len();
        if batch.is_empty() {
            writer.probe();
            continue;
        }
        let next = writer.serve(batch);
        if shared.health() == Health::Failed {
            return false;
        }
        if let Next::Reopen = next {
            return true;
        }
        checkpoint::relieve(db, shared);
    }
    checkpoint::close(db, shared);
    false
}

/// How often an idle writer tries whether a store that was not ready is so again.
const PATIENCE: Duration = Duration::from_secs(1);

struct Writer<'c, 's> {
    tables: Tables<'c>,
    shared: &'s Arc<Shared>,
    /// The registry as changed inside the open transaction.
    batch_registry: Option<Arc<Registry>>,
}

/// A batch cannot go on as one transaction.
struct Spoiled(Fault);

impl Writer<'_, '_> {
    fn serve(&mut self, mut batch: Vec<Job>) -> Next {
        let alone = batch.len() == 1;
        match self.attempt(&mut batch, alone) {
            Ok(next) => next,
            Err(Spoiled(fault)) if alone => {
                let job = batch.pop().expect("one job is left");
                let _ = job.answer.send(Err(self.spoiled(fault)));
                Next::GoOn
            }
            Err(Spoiled(fault)) => {
                tracing::warn!(%fault, commands = batch.len(), "a batch is served one by one");
                self.one_by_one(batch)
            }
        }
    }

    fn one_by_one(&mut self, batch: Vec<Job>) -> Next {
        let mut next = Next::GoOn;
        for job in batch {
            let mut single = vec![job];
            match self.attempt(&mut single, true) {
                Ok(Next::Reopen) => next = Next::Reopen,
                Ok(Next::GoOn) => {}
                Err(Spoiled(fault)) => {
                    let job = single.pop().expect("one job is left");
                    let _ = job.answer.send(Err(self.spoiled(fault)));
                }
            }
            if self.shared.health() == Health::Failed {
                return Next::GoOn;
            }
        }
        next
    }

    /// Writes a row as it is, if the last transaction could not be committed: without it, a server that says not ready
    /// gets no command that could prove otherwise.
    fn probe(&self) {
        if self.shared.health() == Health::Strained
            && self.execute("UPDATE schema_migrations SET name = name WHERE number = 1").is_ok()
        {
            self.shared.relax();
        }
    }

    /// Serves all of `batch` in one transaction and answers it. If one of it spoils the transaction, the batch is still
    /// whole and nothing is written.
    fn attempt(&mut self, batch: &mut Vec<Job>, last: bool) -> Result<Next, Spoiled> {
        failpoint::hit("before_begin");
        if let Err(error) = self.begin() {
            // It is nobody's command that failed: all of them are told at once, and none waits for a lock again.
            self.shared.strain(error.to_string());
            let nothing = Committed::No(error.to_string());
            self.roll_back();
            return Ok(self.answer(std::mem::take(batch), Vec::new(), nothing, self.shared.now()));
        }
        let now = self.shared.now();
        let mut ids = Ids::new(now, self.shared.config.cell, random());
        let mut outcomes = Vec::with_capacity(batch.len());
        self.batch_registry = None;
        for job in batch.iter_mut() {
            // The job is kept whole for a second try, unless this is it.
            let work = if last { std::mem::replace(&mut job.work, Work::nothing()) } else { job.work.clone() };
            let packs = &job.packs;
            let outcome = catch_unwind(AssertUnwindSafe(|| self.apply(work, packs, now, &mut ids)))
                .unwrap_or_else(|panic| Err(Fault::Broken(panic_text(&*panic))));
            match outcome {
                Ok(outcome) => outcomes.push(outcome),
                Err(fault) => {
                    self.roll_back();
                    return Err(Spoiled(fault));
                }
            }
        }
        if let Err(fault) = self.tables.flush() {
            self.roll_back();
            return Err(Spoiled(fault));
        }
        failpoint::hit("before_commit");
        let committed = self.commit();
        failpoint::hit("after_commit");
        Ok(self.answer(std::mem::take(batch), outcomes, committed, now))
    }

    /// Decides one job and saves it. An error means that something may be half written.
    fn apply(&mut self, work: Work, packs: &Packs, now: Time, ids: &mut Ids) -> Result<Outcome, Fault> {
        match work {
            Work::Run(command) => self.run(*command, packs, now, ids),
            Work::Registry(change) => self.register(*change, now, ids),
            Work::Renew(renew) => {
                let registry = self.registry();
                let renewed = self.tables.renew(&renew, &registry, now)?;
                Ok(Outcome { result: Ok(Done::Renewed(renewed)), hint: None, registry: None })
            }
            Work::Message(id, act) => {
                let message = message::act(self.tables.db(), id, act, now)?;
                Ok(Outcome { result: Ok(Done::Message(message.map(Box::new))), hint: None, registry: None })
            }
            Work::Forget(before) => {
                let gone = message::forget(self.tables.db(), before)?;
                Ok(Outcome { result: Ok(Done::Forgotten(gone)), hint: None, registry: None })
            }
            Work::Anchor(last) => {
                anchor::save(self.tables.db(), &last)?;
                Ok(Outcome { result: Ok(Done::Anchored), hint: None, registry: None })
            }
        }
    }

    fn run(&mut self, command: Command, packs: &Packs, now: Time, ids: &mut Ids) -> Result<Outcome, Fault> {
        let (loaded, held) = match self.tables.load(&command) {
            Ok(loaded) => loaded,
            // Nothing is written yet, so the others of the batch go on.
            Err(Fault::Corrupt(corrupt)) => return Ok(Outcome::of(Err(TransactError::Corrupt(corrupt)))),
            Err(other) => return Err(other),
        };
        let registry = self.registry();
        let mut cx = Cx { now, ids, registry: &registry, limits: &self.shared.config.limits };
        let decided = catch_unwind(AssertUnwindSafe(|| decide::decide(command, loaded, &mut cx)));
        let Decision { change, answer } = match decided {
            Ok(decision) => decision,
            Err(panic) => return Ok(Outcome::of(Err(TransactError::Internal { detail: panic_text(&*panic) }))),
        };
        failpoint::hit("after_decide");
        let hint = match change {
            Some(change) => {
                let hint = hint(&change);
                if !registry.webhooks.is_empty() {
                    message::add(self.tables.db(), &webhook::messages(&change, &registry.webhooks, ids))?;
                }
                self.tables.save(*change, held, packs)?;
                failpoint::hit("after_save");
                Some(hint)
            }
            None => None,
        };
        let result = match answer {
            Ok(answer) => Ok(Done::Run(Box::new(answer))),
            Err(refusal) => Err(refused(refusal)),
        };
        Ok(Outcome { result, hint, registry: None })
    }

    fn register(&mut self, change: registry::Change, now: Time, ids: &mut Ids) -> Result<Outcome, Fault> {
        let before = self.registry();
        let cx = Cx { now, ids, registry: &before, limits: &self.shared.config.limits };
        let decided = catch_unwind(AssertUnwindSafe(|| decide::decide_registry(change, &cx)));
        let decided = match decided {
            Ok(decided) => decided,
            Err(panic) => return Ok(Outcome::of(Err(TransactError::Internal { detail: panic_text(&*panic) }))),
        };
        let changed = match decided {
            Ok(changed) => changed,
            Err(refusal) => return Ok(Outcome::of(Err(refused(refusal)))),
        };
        registry_rows::save(self.tables.db(), &before, &changed, now)?;
        let registry = Arc::new(changed.registry);
        self.batch_registry = Some(Arc::clone(&registry));
        Ok(Outcome { result: Ok(Done::Registry(Box::new(changed.answer))), hint: None, registry: Some(registry) })
    }

    fn registry(&self) -> Arc<Registry> {
        self.batch_registry.clone().unwrap_or_else(|| self.shared.registry())
    }

    fn begin(&mut self) -> Result<(), Fault> {
        self.execute("BEGIN IMMEDIATE")?;
        self.tables.begin()
    }

    fn commit(&mut self) -> Committed {
        let Err(error) = self.execute("COMMIT") else { return Committed::Yes };
        let reason = error.to_string();
        self.roll_back();
        match error.sqlite_error().map(|error| error.extended_code) {
            Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => {
                self.shared.fail(format!("a commit failed to reach the disk: {reason}"));
                Committed::Unknown(reason)
            }
            // The log ends before the mark of a commit, so that no reader of it can find one.
            Some(ffi::SQLITE_FULL) => {
                self.shared.strain(reason.clone());
                Committed::No(reason)
            }
            _ => {
                self.shared.strain(reason.clone());
                Committed::Unknown(reason)
            }
        }
    }

    fn roll_back(&mut self) {
        self.batch_registry = None;
        self.tables.forget();
        if !self.tables.db().is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            self.shared.fail(format!("a transaction cannot be rolled back: {error}"));
        }
    }

    /// What a command is told that could not be written, though nothing else was in its transaction.
    fn spoiled(&self, fault: Fault) -> TransactError {
        match fault {
            Fault::Corrupt(corrupt) => TransactError::Corrupt(corrupt),
            Fault::Broken(detail) => {
                tracing::error!(%detail, "a command broke an invariant and was rolled back");
                TransactError::Internal { detail }
            }
            Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                tracing::error!(%error, "a command broke a rule of the schema and was rolled back");
                TransactError::Internal { detail: error.to_string() }
            }
            Fault::Sql(error) => {
                self.shared.strain(error.to_string());
                TransactError::Unavailable { reason: error.to_string() }
            }
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.tables.db().prepare_cached(sql)?.execute([]).map(drop)
    }

    /// After the commit, and only then: registry, hints, answers.
    fn answer(&mut self, batch: Vec<Job>, outcomes: Vec<Outcome>, committed: Committed, now: Time) -> Next {
        let lost = match committed {
            Committed::Yes => None,
            Committed::No(reason) => Some(TransactError::Unavailable { reason }),
            Committed::Unknown(reason) => Some(TransactError::Unknown { reason }),
        };
        if let Some(lost) = lost {
            let unknown = matches!(lost, TransactError::Unknown { .. });
            for job in batch {
                let _ = job.answer.send(Err(lost.clone()));
            }
            return if unknown { Next::Reopen } else { Next::GoOn };
        }
        self.shared.committed(now);
        // A transaction that wrote nothing proves nothing.
        if outcomes.iter().any(|outcome| outcome.hint.is_some() || outcome.registry.is_some()) {
            self.shared.relax();
        }
        if let Some(registry) = outcomes.iter().rev().find_map(|outcome| outcome.registry.clone()) {
            self.shared.set_registry(registry);
        }
        self.shared.commits.fetch_add(1, Ordering::Relaxed);
        failpoint::hit("before_answer");
        for (job, outcome) in batch.into_iter().zip(outcomes) {
            if let Some(hint) = outcome.hint {
                self.shared.hint(hint);
            }
            let _ = job.answer.send(outcome.result);
        }
        failpoint::hit("after_answer");
        Next::GoOn
    }
}

impl Outcome {
    fn of(result: Result<Done, TransactError>) -> Outcome {
        Outcome { result, hint: None, registry: None }
    }
}

impl Work {
    fn nothing() -> Work {
        Work::Renew(Renew {
            worker: protocol::id::WorkerId::from_bytes([0; 16]),
            ttl: std::time::Duration::ZERO,
            claims: Vec::new(),
        })
    }
}

fn hint(change: &Change) -> Hint {
    let run = change.run();
    let approvals = change.rows.approvals.dirty().filter(|(_, mark)| *mark != Mark::Gone);
    let open = change.rows.waits.dirty().filter(|(wait, mark)| *mark != Mark::Gone && wait.is_open());
    Hint {
        run: run.id,
        status: run.status(),
        seq: run.seq,
        events: run.events.len,
        due_at: open.filter_map(|(wait, _)| wait.due_at).min(),
        approvals: approvals.map(|(approval, _)| approval.id).collect(),
    }
}

fn refused(refusal: Refusal) -> TransactError {
    TransactError::Refused(Box::new(refusal))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a decision panicked: {}", text.unwrap_or("without a text"))
}
