//! Loading the rows a command starts from, and saving what its decision changed.
//!
//! Owns the statements of the write connection. It adds nothing to a decision and leaves nothing out of it: all of a
//! [`Change`] is in the one transaction that is open while it is saved. The rows that were saved last stay at hand
//! (see `recent`); what is stored is the truth.
//!
//! Statements that write say `OR FAIL`. What fails is rolled back with its whole transaction, so SQLite need not keep a
//! copy of every page that a single statement touches in order to undo that statement alone.

use protocol::approval::Approval;
use protocol::call::Call;
use protocol::command::{Admit, Command, KnownKey, Renew, Renewed, Subject};
use protocol::decide::{self, Loaded};
use protocol::digest::Digest;
use protocol::id::{ApprovalId, CallId, JobId, RunId, WaitId};
use protocol::json::Canonical;
use protocol::registry::Registry;
use protocol::rows::{Change, Debt, Rows, Set};
use protocol::run::{Body, Run, Status};
use protocol::time::Time;
use rusqlite::{Connection, Statement};

use super::admission::{Found, Scoped};
use super::body::Place;
use super::fault::Fault;
use super::names::Names;
use super::pack::Packs;
use super::recent::Recent;
use super::run::Stored;
use super::state::Live;
use super::{admission, approval, body, call, event, job, journal, obligation, recent, removed, run, signal, timer};
use crate::error::Corrupt;

pub(super) struct Tables<'c> {
    db: &'c Connection,
    names: Names,
    run: run::Table<'c>,
    timer: timer::Table<'c>,
    approval: approval::Table<'c>,
    call: call::Table<'c>,
    obligation: obligation::Table<'c>,
    job: job::Table<'c>,
    signal: signal::Table<'c>,
    admission: admission::Table<'c>,
    event: event::Table<'c>,
    journal: journal::Table<'c>,
    body: body::Table<'c>,
    recent: recent::Cache,
    version: Statement<'c>,
    /// The version of the file when the last transaction began; commits of this connection do not change it.
    seen: Option<i64>,
}

/// What the store knows of loaded rows beside the rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    kind: HeldKind,
    /// Digest of the request that an admission came with.
    request: Option<Digest>,
}

#[derive(Clone, Copy, Debug)]
enum HeldKind {
    /// No run yet; its key goes under this number.
    New {
        hash: Option<i64>,
    },
    Run {
        n: i64,
        checkpoint: Option<(u32, Body)>,
        snapshot: Option<Body>,
    },
    Nothing,
}

impl Held {
    fn of(n: i64, run: &Run) -> Held {
        let checkpoint = run.checkpoint.as_ref();
        let snapshot = checkpoint.and_then(|c| c.snapshot.as_ref()).map(|s| s.body);
        let kind = HeldKind::Run { n, checkpoint: checkpoint.map(|c| (c.n, c.body)), snapshot };
        Held { kind, request: None }
    }
}

impl<'c> Tables<'c> {
    pub(super) fn prepare(db: &'c Connection) -> rusqlite::Result<Tables<'c>> {
        Ok(Tables {
            db,
            names: Names::default(),
            run: run::Table::prepare(db)?,
            timer: timer::Table::prepare(db)?,
            approval: approval::Table::prepare(db)?,
            call: call::Table::prepare(db)?,
            obligation: obligation::Table::prepare(db)?,
            job: job::Table::prepare(db)?,
            signal: signal::Table::prepare(db)?,
            admission: admission::Table::prepare(db)?,
            event: event::Table::prepare(db)?,
            journal: journal::Table::prepare(db)?,
            body: body::Table::prepare(db)?,
            recent: recent::Cache::default(),
            version: db.prepare("PRAGMA data_version")?,
            seen: None,
        })
    }

    /// Everything that a decision on `command` may see.
    pub(super) fn load(&mut self, command: &Command) -> Result<(Loaded, Held), Fault> {
        let nothing = (Loaded::Missing, Held { kind: HeldKind::Nothing, request: None });
        match command.subject() {
            Subject::New(admit) => self.load_new(admit),
            Subject::Run(id) => match (self.load_run(id, None)?, command) {
                (Some((Loaded::Rows(rows), held)), Command::Remove { .. }) => {
                    let HeldKind::Run { n, .. } = held.kind else { return Ok((Loaded::Rows(rows), held)) };
                    Ok((Loaded::Old { rows, hold: removed::hold(self.db, n)? }, held))
                }
                (Some((loaded, held)), _) => Ok((self.with_payloads(command, loaded, held)?, held)),
                (None, _) => Ok(nothing),
            },
            Subject::Signal(run, id) => match self.load_run(run, None)? {
                Some((loaded, held)) => Ok((self.with_signals(loaded, held, id, None)?, held)),
                None => Ok(nothing),
            },
            Subject::Wait(wait, id) => match self.signal.run_of(wait)? {
                Some(n) => {
                    let (loaded, held) = self.load_owner(n, None)?;
                    Ok((self.with_signals(loaded, held, id, Some(wait))?, held))
                }
                None => Ok(nothing),
            },
            Subject::Approval(id) => {
                if let Some(run) = self.recent.run_of(id) {
                    return Ok(self.load_run(run, Some(id))?.unwrap_or(nothing));
                }
                match self.approval.run_of(id)? {
                    Some(n) => self.load_owner(n, Some(id)),
                    None => Ok(nothing),
                }
            }
            Subject::Job(id) => match self.job.run_of(id)? {
                Some(n) => {
                    let (loaded, held) = self.load_owner(n, None)?;
                    Ok((self.with_job(loaded, n, id)?, held))
                }
                None => Ok(nothing),
            },
            Subject::Call(id) => match call::run_of(self.db, id)? {
                Some(n) => self.load_owner(n, None),
                None => Ok(nothing),
            },
        }
    }

    /// The rows of a run and of the approval that the command names: those at hand, or else those stored.
    fn load_run(&mut self, id: RunId, named: Option<ApprovalId>) -> Result<Option<(Loaded, Held)>, Fault> {
        if let Some(Recent { n, rows }) = self.recent.take(id) {
            #[cfg(debug_assertions)]
            self.compare(&rows, named)?;
            let held = Held::of(n, &rows.run);
            return Ok(Some((Loaded::Rows(rows), held)));
        }
        match self.run.by_id(id, self.db, &self.names)? {
            Some(stored) => self.load_rows(stored, named).map(Some),
            None => Ok(None),
        }
    }

    /// The job that a command names, beside those that its run keeps.
    fn with_job(&mut self, loaded: Loaded, n: i64, id: JobId) -> Result<Loaded, Fault> {
        let Loaded::Rows(mut rows) = loaded else { return Err(Fault::Broken("a job belongs to a run".to_owned())) };
        if rows.jobs.get(id).is_none() {
            let named = self.job.by_id(id, n, rows.run.id)?;
            rows.jobs = Set::load(rows.jobs.iter().cloned().chain(named).collect::<Vec<_>>());
        }
        Ok(Loaded::Rows(rows))
    }

    /// The signals that a command names, beside those that are kept.
    fn with_signals(&mut self, loaded: Loaded, held: Held, id: &str, wait: Option<WaitId>) -> Result<Loaded, Fault> {
        let (Loaded::Rows(mut rows), HeldKind::Run { n, .. }) = (loaded, held.kind) else {
            return Err(Fault::Broken("a signal is sent to a run".to_owned()));
        };
        let named = self.signal.named(n, rows.run.id, id, wait)?;
        let kept = rows.signals.iter().filter(|kept| named.iter().all(|named| named.n != kept.n)).cloned();
        rows.signals = Set::load(kept.chain(named.iter().cloned()).collect::<Vec<_>>());
        Ok(Loaded::Rows(rows))
    }

    /// What kept signals say, where the command makes waits that may take them.
    fn with_payloads(&mut self, command: &Command, mut loaded: Loaded, held: Held) -> Result<Loaded, Fault> {
        let Command::Hop(hop) = command else { return Ok(loaded) };
        if let (Loaded::Rows(rows), HeldKind::Run { n, .. }, false) =
            (&mut loaded, held.kind, hop.progress.signals.is_empty())
        {
            let run = rows.run.id;
            if rows.signals.iter().next().is_some() {
                self.body.flush()?;
            }
            for signal in rows.signals.iter() {
                let digest = signal.payload.digest;
                // One that cannot be read fits no wait that asks for something.
                let text = body::of_run(self.db, n, run, digest)?.and_then(|bytes| Canonical::from_stored(&bytes));
                rows.payloads.extend(text.map(|text| (digest, text)));
            }
        }
        Ok(loaded)
    }

    /// What is at hand is what is stored.
    #[cfg(debug_assertions)]
    fn compare(&mut self, rows: &Rows, named: Option<ApprovalId>) -> Result<(), Fault> {
        let stored = self.run.by_id(rows.run.id, self.db, &self.names)?;
        let stored = stored.map(|stored| self.load_rows(stored, named)).transpose()?;
        match stored {
            Some((Loaded::Rows(stored), _)) if *stored == *rows => Ok(()),
            other => Err(Fault::Broken(format!("{rows:?} is at hand, and stored is {other:?}"))),
        }
    }

    fn load_new(&mut self, admit: &Admit) -> Result<(Loaded, Held), Fault> {
        let namespace = admit.by.principal.namespace.as_str();
        let principal = admit.by.principal.id.as_str();
        let found = match admit.idempotency_key.as_deref() {
            Some(key) => {
                self.run.flush_if_keyed(key)?;
                Some(self.admission.find(Scoped { namespace, principal, key })?)
            }
            None => None,
        };
        let earlier = match found {
            Some(Found::Known { run, request }) => self.earlier(run)?.map(|run| (request, run)),
            Some(Found::Free(_)) | None => match self.run.by_id(admit.run, self.db, &self.names)? {
                // A run without such a digest was not made by a request that could be equal to this one.
                Some(stored) => {
                    let request = self.admission.request_of(stored.n)?.unwrap_or(Digest::ZERO);
                    Some((request, Box::new(stored.run)))
                }
                None => None,
            },
        };
        let known = earlier.map(|(request_digest, run)| (KnownKey { run: run.id, request_digest }, run));
        let session = match &admit.session {
            Some(session) => {
                self.run.flush()?;
                self.admission.holder(namespace, session)?.map(RunId::from_bytes)
            }
            None => None,
        };
        let queued = match admit.max_queued {
            Some(_) => self.run.queued(&admit.queue)?,
            None => 0,
        };
        let removed = match known {
            None => self.admission.was_removed(admit.run)?,
            Some(_) => None,
        };
        let hash = match found {
            Some(Found::Free(hash)) => Some(hash),
            _ => None,
        };
        let held = Held { kind: HeldKind::New { hash }, request: Some(admit.request_digest) };
        Ok((Loaded::New { known, session, queued, removed }, held))
    }

    fn earlier(&mut self, n: i64) -> Result<Option<Box<Run>>, Fault> {
        Ok(self.run.by_n(n, self.db, &self.names)?.map(|stored| Box::new(stored.run)))
    }

    fn load_owner(&mut self, n: i64, named: Option<ApprovalId>) -> Result<(Loaded, Held), Fault> {
        match self.run.by_n(n, self.db, &self.names)? {
            Some(stored) => {
                drop(self.recent.take(stored.run.id));
                self.load_rows(stored, named)
            }
            None => Err(Fault::Broken(format!("a row belongs to run number {n}, which is not there"))),
        }
    }

    fn load_rows(&mut self, stored: Stored, named: Option<ApprovalId>) -> Result<(Loaded, Held), Fault> {
        let Stored { n, live, stopping, kept, run } = stored;
        let Live { waits, approvals: questions, calls: open, jobs: kept_jobs } = live;
        let mut calls = Vec::with_capacity(open.len());
        for id in open {
            calls.push(self.call(id, n, &run)?.ok_or_else(|| lost(&run, &id))?);
        }
        // A call that is still open is told what became of its question, decided or not.
        let asked = calls.iter().flat_map(|c: &Call| [c.approval, c.settle]).flatten();
        let mut approvals: Vec<Approval> = Vec::with_capacity(questions.len());
        for id in questions.iter().copied().chain(asked).chain(named) {
            if !approvals.iter().any(|known| known.id == id) {
                match self.approval.by_id(id, n, &run, self.db, &self.names)? {
                    Some(approval) => approvals.push(approval),
                    None if questions.contains(&id) => return Err(lost(&run, &id)),
                    None => {}
                }
            }
        }
        for id in approvals.iter().map(|a| a.call) {
            if !calls.iter().any(|known| known.id == id) {
                calls.extend(self.call(id, n, &run)?);
            }
        }
        let mut jobs = Vec::with_capacity(kept_jobs.len());
        for id in kept_jobs {
            jobs.push(self.job.by_id(id, n, run.id)?.ok_or_else(|| lost(&run, &id))?);
        }
        let obligations = if stopping { self.obligation.open(n, run.id)? } else { Vec::new() };
        let signals = if kept { self.signal.kept(n, run.id)? } else { Vec::new() };
        let held = Held::of(n, &run);
        let rows = Rows {
            run,
            waits: Set::load(waits),
            approvals: Set::load(approvals),
            calls: Set::load(calls),
            obligations: Set::load(obligations),
            jobs: Set::load(jobs),
            signals: Set::load(signals),
            payloads: Vec::new(),
        };
        Ok((Loaded::Rows(Box::new(rows)), held))
    }

    fn call(&mut self, id: CallId, n: i64, run: &Run) -> Result<Option<Call>, Fault> {
        self.call.by_id(id, n, run.id, self.db, &self.names)
    }

    /// Takes a change whole, or stops at the first thing that does not fit; the caller then rolls back. What is new and
    /// that nothing needs before the commit is written by [`flush`](Tables::flush).
    pub(super) fn save(&mut self, change: Change, held: Held, packs: &Packs) -> Result<(), Fault> {
        if let (true, HeldKind::Run { n, .. }) = (change.removed, held.kind) {
            self.flush()?;
            return removed::remove(self.db, n, change.run(), change.now);
        }
        let n = self.write(&change, held, packs)?;
        self.recent.put(n, change.rows);
        Ok(())
    }

    fn write(&mut self, change: &Change, held: Held, packs: &Packs) -> Result<i64, Fault> {
        let rows = &change.rows;
        let run = &rows.run;
        let n = match (held.kind, change.before) {
            (HeldKind::New { hash }, None) => self.save_new(change, held.request, hash)?,
            (HeldKind::Run { n, .. }, Some(before)) => {
                self.run.update(rows, n, before, self.db, &self.names)?;
                if change.repinned {
                    self.run.repin(run, n, self.db, &self.names)?;
                }
                n
            }
            _ => return Err(Fault::Broken(format!("{} was not loaded as it is saved", run.id))),
        };
        for (wait, mark) in rows.waits.dirty() {
            self.timer.save(wait, mark, n)?;
            self.signal.save_wait(wait, mark, n)?;
        }
        for (job, mark) in rows.jobs.dirty() {
            self.job.save(job, mark, n)?;
        }
        for (signal, mark) in rows.signals.dirty() {
            self.signal.save(signal, mark, n)?;
        }
        let mut receipts = 0;
        for (call, mark) in rows.calls.dirty() {
            let own = change.receipts.iter().filter(|receipt| receipt.call == call.id);
            receipts += own.clone().count();
            self.call.save((call, mark), own, n, self.db, &self.names)?;
        }
        if receipts != change.receipts.len() {
            return Err(Fault::Broken(format!("{} has receipts of calls that did not change", run.id)));
        }
        for (approval, mark) in rows.approvals.dirty() {
            self.approval.save(approval, mark, (n, run), self.db, &self.names)?;
        }
        for (obligation, mark) in rows.obligations.dirty() {
            self.obligation.save(obligation, mark, n)?;
        }
        self.save_appended(change, n)?;
        self.save_bodies(change, held, n, packs)?;
        if let (Some(session), true) = (&run.session, ends(change)) {
            self.admission.free(&run.namespace, session, n)?;
        }
        Ok(n)
    }

    fn save_new(&mut self, change: &Change, request: Option<Digest>, hash: Option<i64>) -> Result<i64, Fault> {
        let run = &change.rows.run;
        let key = change.key.as_ref().map(|(key, _)| key.as_str());
        let n = self.run.insert(&change.rows, (key, request), self.db, &self.names)?;
        if let Some(hash) = hash {
            self.admission.insert(hash, n)?;
        }
        if let Some(session) = &run.session {
            self.admission.take(&run.namespace, session, n)?;
        }
        Ok(n)
    }

    fn save_appended(&mut self, change: &Change, n: i64) -> Result<(), Fault> {
        self.event.append(n, &change.events, &change.receipts)?;
        for row in &change.journal {
            self.journal.entry(n, row);
        }
        for line in &change.log {
            self.journal.line(n, line);
        }
        for debt in &change.debts {
            self.obligation.owe(n, *debt, change.now)?;
        }
        Ok(())
    }

    fn save_bodies(&mut self, change: &Change, held: Held, n: i64, packs: &Packs) -> Result<(), Fault> {
        let checkpoint = change.rows.run.checkpoint.as_ref();
        let (before, frozen) = match held.kind {
            HeldKind::Run { checkpoint, snapshot, .. } => (checkpoint, snapshot),
            _ => (None, None),
        };
        let renewed = checkpoint.filter(|c| before.is_none_or(|(n, body)| (n, body) != (c.n, c.body)));
        let snapshot = renewed.and_then(|c| c.snapshot.as_ref()).map(|s| s.body);
        for new in &change.bodies {
            let place = match new.body {
                body if renewed.is_some_and(|c| c.body == body) => Place::Checkpoint,
                body if snapshot == Some(body) => Place::Snapshot,
                _ => Place::Body,
            };
            let packed = packs.iter().find(|(digest, _)| *digest == new.body.digest).map(|(_, packed)| packed);
            self.body.put(n, place, new, packed)?;
        }
        if frozen.is_some() && renewed.is_some() && snapshot.is_none() {
            self.body.delete(n, Place::Snapshot)?;
        }
        for debt in &change.paid {
            match debt {
                Debt::Checkpoint => self.body.delete(n, Place::Checkpoint)?,
                Debt::Snapshot => self.body.delete(n, Place::Snapshot)?,
            }
            // An end owes nothing yet.
            if !ends(change) {
                self.obligation.pay(n, *debt)?;
            }
        }
        Ok(())
    }

    /// All claims of a worker. A claim whose run is gone, or cannot be read, is stale or left to the next pass.
    pub(super) fn renew(
        &mut self,
        renew: &Renew,
        registry: &Registry,
        now: Time,
    ) -> Result<Vec<(RunId, Renewed)>, Fault> {
        let mut answers = Vec::with_capacity(renew.claims.len());
        for (id, token) in &renew.claims {
            // Its claim changes here, so what is at hand is old.
            drop(self.recent.take(*id));
            let stored = match self.run.by_id(*id, self.db, &self.names) {
                Ok(stored) => stored,
                // One bad row does not cost a worker its other claims.
                Err(Fault::Corrupt(corrupt)) => {
                    tracing::error!(run = %id, %corrupt, "a claim cannot be renewed");
                    continue;
                }
                Err(other) => return Err(other),
            };
            let Some(Stored { n, mut run, .. }) = stored else {
                answers.push((*id, Renewed::StaleClaim));
                continue;
            };
            let renewed = decide::renew(&mut run, *token, renew, registry, now);
            if let (Renewed::Until { .. }, Some(claim)) = (renewed, run.claim()) {
                self.run.renew(n, claim)?;
            }
            answers.push((*id, renewed));
        }
        Ok(answers)
    }

    pub(super) fn db(&self) -> &'c Connection {
        self.db
    }

    /// At the start of a transaction: what somebody else committed is not at hand. Nobody should; an operator may.
    pub(super) fn begin(&mut self) -> Result<(), Fault> {
        let version = self.version.query_row([], |row| row.get(0))?;
        if self.seen.replace(version) != Some(version) {
            self.recent.forget();
            self.run.forget();
        }
        Ok(())
    }

    /// Before a commit: what was only gathered is written.
    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        self.run.flush()?;
        self.call.flush()?;
        self.approval.flush()?;
        self.event.flush()?;
        self.journal.flush()?;
        self.body.flush()
    }

    /// After a rollback: what was written, gathered and numbered in it is not there.
    pub(super) fn forget(&mut self) {
        self.run.forget();
        self.call.forget();
        self.approval.forget();
        self.event.forget();
        self.journal.forget();
        self.body.forget();
        self.names.forget();
        self.recent.forget();
    }
}

/// Whether this change brings the run to its end.
fn ends(change: &Change) -> bool {
    change.run().status().is_final() && change.before.is_none_or(|(status, _): (Status, u64)| !status.is_final())
}

/// A row that the run's own says is there.
fn lost(run: &Run, id: &impl std::fmt::Display) -> Fault {
    let why = format!("{id} is live, and it is not there");
    Fault::Corrupt(Box::new(Corrupt { table: "run", key: run.id.to_string(), field: "state", why }))
}
