//! Lists in pages: runs, approvals, effects, jobs.

use protocol::approval::{self as question, Approval};
use protocol::call::Call;
use protocol::id::{ApprovalId, CallId, JobId, RunId};
use protocol::job::Job;
use protocol::run::{Run, Status};
use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};

use super::super::fault::{Fault, number};
use super::super::{approval, call, job, run};
use super::{Reader, sort};
use crate::page::{ApprovalFilter, ApprovalOrder, ApprovalStatus, Cursor, JobFilter, Page, RunFilter, WaitingFor};

/// An approval with the run it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApprovalOf {
    pub approval: Approval,
    pub run: Run,
}

/// A call with the run it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallOf {
    pub call: Call,
    pub run: Run,
}

/// A job with the run it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobOf {
    pub job: Job,
    pub run: Run,
}

/// A condition with its values, joined by AND.
#[derive(Default)]
struct Where {
    terms: Vec<String>,
    values: Vec<Value>,
}

impl Where {
    fn term(&mut self, term: impl Into<String>) {
        self.terms.push(term.into());
    }

    /// Adds a term in which `?` stands for one value.
    fn with(&mut self, term: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.terms.push(term.replacen('?', &format!("?{}", self.values.len()), 1));
    }

    /// Goes on with the last term, in which `?` stands for one more value.
    fn and(&mut self, rest: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        let rest = rest.replacen('?', &format!("?{}", self.values.len()), 1);
        self.terms.last_mut().expect("a term was begun").push_str(&rest);
    }

    fn sql(&self) -> String {
        if self.terms.is_empty() { String::new() } else { format!("WHERE {}", self.terms.join(" AND ")) }
    }
}

impl Reader<'_> {
    /// Newest first. Each status has its own ordered index, so that a page costs what it shows and not what is kept.
    pub(crate) fn runs(self, filter: &RunFilter, after: Option<Cursor>, limit: usize) -> Result<Page<Run>, Fault> {
        let mut found = Vec::new();
        if filter.statuses.is_empty() {
            self.runs_of(filter, None, after, limit, &mut found)?;
        }
        for status in &filter.statuses {
            self.runs_of(filter, Some(*status), after, limit, &mut found)?;
        }
        found.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
        found.dedup_by_key(|(n, _)| *n);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(n, _)| Cursor(*n, 0));
        let mut page = Page { next, ..Page::default() };
        for (_, run) in found {
            sort(&mut page, run)?;
        }
        Ok(page)
    }

    fn runs_of(
        self,
        filter: &RunFilter,
        status: Option<Status>,
        after: Option<Cursor>,
        limit: usize,
        found: &mut Vec<(i64, Result<Run, Fault>)>,
    ) -> Result<(), Fault> {
        let (sql, values) = runs_sql(filter, status, after, limit);
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            let run = run::read(row, self.db, self.names).map(|stored| stored.run);
            found.push((row.get(0)?, run));
        }
        Ok(())
    }

    pub(crate) fn approvals(
        self,
        filter: &ApprovalFilter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page<ApprovalOf>, Fault> {
        let (sql, values) = approvals_sql(filter, after, limit);
        self.page(&sql, values, limit, |row, run| {
            let approval = approval::read(row, &run, self.db, self.names)?;
            Ok(ApprovalOf { approval, run })
        })
    }

    /// Counted writes past their dispatch gate, newest first; or only those whose outcome is not known.
    pub(crate) fn effects(
        self,
        ambiguous: bool,
        run: Option<RunId>,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page<CallOf>, Fault> {
        let mut terms = Where::default();
        terms.term(if ambiguous { "c.state = 3" } else { "c.effect = 2 AND c.gated = 1" });
        if let Some(run) = run {
            terms.with("c.run = (SELECT n FROM run WHERE id = ?)", run.as_bytes().to_vec());
        }
        if let Some(cursor) = after {
            terms.with("c.id < ?", cursor.id::<CallId>().as_bytes().to_vec());
        }
        let columns = call::COLUMNS;
        let sql = format!("SELECT {columns}, c.run FROM call c {} ORDER BY c.id DESC LIMIT {}", terms.sql(), limit + 1);
        self.page(&sql, terms.values, limit, |row, run| {
            let call = call::read(row, run.id, self.db, self.names)?;
            Ok(CallOf { call, run })
        })
    }

    /// Newest first.
    pub(crate) fn jobs(self, filter: &JobFilter, after: Option<Cursor>, limit: usize) -> Result<Page<JobOf>, Fault> {
        let mut terms = Where::default();
        if let Some(job) = filter.job {
            terms.with("j.id = ?", job.as_bytes().to_vec());
        }
        if let Some(run) = filter.run {
            terms.with("j.run = (SELECT n FROM run WHERE id = ?)", run.as_bytes().to_vec());
        }
        if let Some(namespace) = &filter.namespace {
            let of = "(SELECT p.namespace FROM run r JOIN pin p ON p.n = r.pin WHERE r.n = j.run) = ?";
            terms.with(of, namespace.clone());
        }
        if let Some(kind) = &filter.kind {
            terms.with("j.kind = ?", kind.clone());
        }
        if filter.open {
            terms.term("j.state < 3");
        }
        if let Some(cursor) = after {
            terms.with("j.id < ?", cursor.id::<JobId>().as_bytes().to_vec());
        }
        let (columns, sql) = (job::COLUMNS, terms.sql());
        let sql = format!("SELECT {columns}, j.run FROM job j {sql} ORDER BY j.id DESC LIMIT {}", limit + 1);
        self.page(&sql, terms.values, limit, |row, run| Ok(JobOf { job: job::read(row, run.id)?, run }))
    }

    /// What was claimed under a key, whoever claimed it, oldest first.
    pub(crate) fn claimed(self, claim_id: &str) -> Result<Page<JobOf>, Fault> {
        let sql = format!("SELECT {}, j.run FROM job j WHERE j.claim_id = ?1 ORDER BY j.id", job::COLUMNS);
        let key = vec![Value::from(claim_id.to_owned())];
        self.page(&sql, key, usize::MAX, |row, run| Ok(JobOf { job: job::read(row, run.id)?, run }))
    }

    /// A page of rows that are named by an id in their first column and belong to the run in `run`.
    fn page<T>(
        self,
        sql: &str,
        values: Vec<Value>,
        limit: usize,
        read: impl Fn(&Row<'_>, Run) -> Result<T, Fault>,
    ) -> Result<Page<T>, Fault> {
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut page = Page::default();
        let mut last = None;
        while let Some(row) = rows.next()? {
            if page.items.len() + page.faults.len() == limit {
                page.next = last;
                break;
            }
            last = Some(Cursor::of(row.get(0)?));
            let n: i64 = row.get("run")?;
            let item = match self.stored_n(n) {
                Ok(Some(stored)) => read(row, stored.run),
                Ok(None) => Err(Fault::Corrupt(Box::new(crate::error::Corrupt {
                    table: "run",
                    key: n.to_string(),
                    field: "n",
                    why: "a row belongs to it, and it is not there".to_owned(),
                }))),
                Err(fault) => Err(fault),
            };
            sort(&mut page, item)?;
        }
        Ok(page)
    }
}

/// One more than a page, so that its end is known.
pub(super) fn runs_sql(
    filter: &RunFilter,
    status: Option<Status>,
    after: Option<Cursor>,
    limit: usize,
) -> (String, Vec<Value>) {
    let mut terms = Where::default();
    if let Some(status) = status {
        terms.term(format!("r.status = {}", number(&status, &Status::ALL)));
        if status != Status::Done {
            // What the partial index is about, in its own words: SQLite draws no conclusions from the term before.
            terms.term("r.status <> 9");
        }
    }
    if let Some(Cursor(n, _)) = after {
        terms.with("r.n < ?", n);
    }
    if let Some(namespace) = &filter.namespace {
        terms.with("r.pin IN (SELECT n FROM pin WHERE namespace = ?)", namespace.clone());
    }
    if let Some(workflow) = &filter.workflow {
        terms.with("r.pin IN (SELECT n FROM pin WHERE workflow = ?)", workflow.clone());
    }
    for (key, value) in &filter.labels {
        terms.with("EXISTS (SELECT 1 FROM json_each(r.labels) j WHERE j.key = ?", key.clone());
        terms.and(" AND j.value = ?)", value.clone());
    }
    if let Some(waiting) = filter.waiting_for {
        let open = match waiting {
            WaitingFor::Approval => run::live::APPROVAL,
            WaitingFor::Timer => run::live::TIMER,
            WaitingFor::Signal => run::live::SIGNAL,
            WaitingFor::Job => run::live::JOB,
        };
        terms.with("r.live & ? <> 0", i64::from(open));
    }
    if let Some(from) = filter.created_from {
        terms.with("r.created_at >= ?", from.as_micros());
    }
    if let Some(to) = filter.created_to {
        terms.with("r.created_at < ?", to.as_micros());
    }
    let sql = format!("SELECT {} FROM run r {} ORDER BY r.n DESC LIMIT {}", run::COLUMNS, terms.sql(), limit + 1);
    (sql, terms.values)
}

pub(super) fn approvals_sql(filter: &ApprovalFilter, after: Option<Cursor>, limit: usize) -> (String, Vec<Value>) {
    let mut terms = Where::default();
    match filter.status.unwrap_or(ApprovalStatus::Pending) {
        ApprovalStatus::Pending => terms.term("a.status = 0"),
        ApprovalStatus::Approved => terms.term("a.status = 1"),
        ApprovalStatus::Rejected => terms.term("a.status = 2"),
        ApprovalStatus::Expired => terms.term("a.status = 3"),
        ApprovalStatus::Cancelled => terms.term("a.status = 4"),
        ApprovalStatus::Any => {}
    }
    if let Some(run) = filter.run {
        terms.with("a.run = (SELECT n FROM run WHERE id = ?)", run.as_bytes().to_vec());
    }
    if let Some(namespace) = &filter.namespace {
        let of = "(SELECT p.namespace FROM run r JOIN pin p ON p.n = r.pin WHERE r.n = a.run) = ?";
        terms.with(of, namespace.clone());
    }
    if !filter.kinds.is_empty() {
        let known = [question::Kind::Call, question::Kind::Gate, question::Kind::Settle];
        let kinds: Vec<String> = filter.kinds.iter().map(|kind| number(kind, &known).to_string()).collect();
        terms.term(format!("a.kind IN ({})", kinds.join(", ")));
    }
    let after = after.map(|cursor| cursor.id::<ApprovalId>().as_bytes().to_vec());
    let order = match filter.order {
        ApprovalOrder::Newest => {
            after.into_iter().for_each(|id| terms.with("a.id < ?", id));
            "a.id DESC"
        }
        ApprovalOrder::Oldest => {
            after.into_iter().for_each(|id| terms.with("a.id > ?", id));
            "a.id"
        }
        // What never expires has no place of its own in time: it comes after everything that does.
        ApprovalOrder::Expiring => {
            let last = "(SELECT coalesce(expires_at, 9223372036854775807), id FROM approval WHERE id = ?)";
            let beyond = format!("(coalesce(a.expires_at, 9223372036854775807), a.id) > {last}");
            // SQLite does not seek to a pair that a query gives: without its first member alone it reads the index from the start.
            let from = "coalesce(a.expires_at, 9223372036854775807) >= \
                        (SELECT coalesce(expires_at, 9223372036854775807) FROM approval WHERE id = ?)";
            if let Some(id) = after {
                terms.with(from, id.clone());
                terms.with(&beyond, id);
            }
            "coalesce(a.expires_at, 9223372036854775807), a.id"
        }
    };
    let (columns, terms_sql) = (approval::COLUMNS, terms.sql());
    let sql = format!("SELECT {columns}, a.run FROM approval a {terms_sql} ORDER BY {order} LIMIT {}", limit + 1);
    (sql, terms.values)
}
