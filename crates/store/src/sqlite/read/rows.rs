//! One run with everything that belongs to it.

use protocol::approval::Approval;
use protocol::call::Call;
use protocol::digest::Digest;
use protocol::id::{ApprovalId, CallId, RunId};
use protocol::job::Job;
use protocol::obligation::Obligation;
use protocol::rows::Debt;
use protocol::run::Run;
use protocol::wait::Wait;
use rusqlite::params;

use super::super::admission::{self, Found, Scoped};
use super::super::removed::{self, Removed};
use super::super::run::Stored;
use super::super::{approval, call, fault::Fault, job, obligation, run};
use super::Reader;
use super::lists::{ApprovalOf, CallOf};

/// A run as a person is shown it: every row, ended ones too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    pub run: Run,
    pub waits: Vec<Wait>,
    /// Oldest first.
    pub approvals: Vec<Approval>,
    /// By position, then by age.
    pub calls: Vec<Call>,
    pub obligations: Vec<Obligation>,
    /// Oldest first.
    pub jobs: Vec<Job>,
    pub debts: Vec<Debt>,
}

impl Reader<'_> {
    pub(super) fn stored(self, id: RunId) -> Result<Option<Stored>, Fault> {
        let sql = format!("SELECT {} FROM run r WHERE r.id = ?1", run::COLUMNS);
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query([id.as_bytes()])?;
        rows.next()?.map(|row| run::read(row, self.db, self.names)).transpose()
    }

    pub(super) fn stored_n(self, n: i64) -> Result<Option<Stored>, Fault> {
        let sql = format!("SELECT {} FROM run r WHERE r.n = ?1", run::COLUMNS);
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query([n])?;
        rows.next()?.map(|row| run::read(row, self.db, self.names)).transpose()
    }

    pub(crate) fn removed(self, id: RunId) -> Result<Option<Removed>, Fault> {
        removed::read(self.db, id)
    }

    pub(crate) fn run(self, id: RunId) -> Result<Option<Run>, Fault> {
        Ok(self.stored(id)?.map(|stored| stored.run))
    }

    pub(crate) fn admission(self, namespace: &str, principal: &str, key: &str) -> Result<Option<(Digest, Run)>, Fault> {
        match admission::look_up(self.db, Scoped { namespace, principal, key })? {
            Found::Known { run, request } => Ok(self.stored_n(run)?.map(|stored| (request, stored.run))),
            Found::Free(_) => Ok(None),
        }
    }

    /// The number of a run, even of one that cannot be read.
    pub(super) fn n(self, id: RunId) -> Result<Option<i64>, Fault> {
        let mut statement = self.db.prepare_cached("SELECT n FROM run WHERE id = ?1")?;
        let mut rows = statement.query([id.as_bytes()])?;
        Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
    }

    pub(crate) fn shown(self, id: RunId) -> Result<Option<Shown>, Fault> {
        let Some(Stored { n, run, live, .. }) = self.stored(id)? else { return Ok(None) };
        let mut waits = live.waits;
        waits.sort_by_key(|wait| wait.id);
        let sql = format!("SELECT {} FROM approval a WHERE a.run = ?1 ORDER BY a.id", approval::COLUMNS);
        let approvals = self.all(&sql, n, |row| approval::read(row, &run, self.db, self.names))?;
        let calls = self.calls_n(n, id)?;
        let sql = format!("SELECT {} FROM obligation WHERE run = ?1 ORDER BY kind, ref", obligation::COLUMNS);
        let obligations = self.all(&sql, n, |row| obligation::read(row, id))?;
        let sql = format!("SELECT {} FROM job j WHERE j.run = ?1 ORDER BY j.id", job::COLUMNS);
        let jobs = self.all(&sql, n, |row| job::read(row, id))?;
        let debts = self.debts_n(n)?;
        Ok(Some(Shown { run, waits, approvals, calls, obligations, jobs, debts }))
    }

    fn debts_n(self, n: i64) -> Result<Vec<Debt>, Fault> {
        self.all("SELECT kind FROM debt WHERE run = ?1 ORDER BY kind", n, |row| {
            let mut f = super::super::fault::Fields::new(row, "debt");
            f.keyed(n);
            Ok(f.one_of("kind", &obligation::DEBTS)?)
        })
    }

    pub(super) fn calls_n(self, n: i64, run: RunId) -> Result<Vec<Call>, Fault> {
        let sql = format!(
            "SELECT {} FROM call c WHERE c.run = ?1 ORDER BY c.position IS NULL, c.position, c.id",
            call::COLUMNS
        );
        self.all(&sql, n, |row| call::read(row, run, self.db, self.names))
    }

    pub(crate) fn calls(self, id: RunId) -> Result<Option<Vec<Call>>, Fault> {
        match self.n(id)? {
            Some(n) => self.calls_n(n, id).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn call(self, id: CallId) -> Result<Option<CallOf>, Fault> {
        let Some(n) = call::run_of(self.db, id)? else { return Ok(None) };
        let Some(Stored { run, .. }) = self.stored_n(n)? else { return Ok(None) };
        let sql = format!("SELECT {} FROM call c WHERE c.id = ?1", call::COLUMNS);
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(params![id.as_bytes()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(CallOf { call: call::read(row, run.id, self.db, self.names)?, run }))
    }

    pub(crate) fn approval(self, id: ApprovalId) -> Result<Option<ApprovalOf>, Fault> {
        let sql = format!("SELECT {}, a.run FROM approval a WHERE a.id = ?1", approval::COLUMNS);
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(params![id.as_bytes()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let n = row.get("run")?;
        let Some(Stored { run, .. }) = self.stored_n(n)? else { return Ok(None) };
        Ok(Some(ApprovalOf { approval: approval::read(row, &run, self.db, self.names)?, run }))
    }

    /// All rows of one run.
    pub(super) fn all<T>(
        self,
        sql: &str,
        n: i64,
        mut read: impl FnMut(&rusqlite::Row<'_>) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([n])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(read(row)?);
        }
        Ok(all)
    }
}
