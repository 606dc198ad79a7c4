//! Jobs, and the verbs of the agents that have them (I-28).

use super::Service;
use super::failure::{told, unread};
use super::list::{self, Filling};
use super::problem::{Answer, not_found, problem};
use crate::view;
use api::Json;
use api::job::{ClaimRequest, ClaimedJobs, Job, JobQuery};
use api::page::Page;
use engine::ClaimJobs;
use protocol::code::Code;
use protocol::command::{Caller, JobAct, Reported};
use protocol::id::JobId;
use protocol::json::{Canonical, canonicalize};
use protocol::principal::Right;
use protocol::rows::NewBody;
use protocol::time::parse_duration;

impl Service {
    /// Jobs of the caller's namespace, newest first.
    pub async fn jobs(&self, by: &Caller, query: &JobQuery) -> Answer<Page<Job>> {
        self.reads(by)?;
        let (limit, after) = (list::limit(query.limit)?, list::cursor(query.cursor.as_deref())?);
        let filter = store::JobFilter {
            job: None,
            namespace: Some(by.principal.namespace.clone()),
            run: query.run,
            kind: query.kind.clone(),
            open: query.open.unwrap_or_default(),
        };
        let page = self.engine.ledger().jobs(filter, after, limit).await.map_err(|error| unread(error, by))?;
        let mut filling = Filling::new();
        for of in &page.items {
            filling.keep(Ok(view::job::job(&of.job, view::job::Bodies::default(), None)))?;
        }
        filling.lost(&page.faults);
        Ok(filling.page(page.next))
    }

    /// One job of the caller's namespace.
    pub async fn job(&self, by: &Caller, id: JobId) -> Answer<Job> {
        self.reads(by)?;
        let namespace = Some(by.principal.namespace.clone());
        let filter = store::JobFilter { job: Some(id), namespace, ..store::JobFilter::default() };
        let page = self.engine.ledger().jobs(filter, None, 1).await.map_err(|error| unread(error, by))?;
        let found = page.items.first().ok_or_else(not_found)?;
        Ok(view::job::job(&found.job, view::job::Bodies::default(), None))
    }

    /// Gives an agent jobs of its kind, each with its task and the tools that it may call.
    pub async fn claim_jobs(&self, by: &Caller, request: &ClaimRequest) -> Answer<ClaimedJobs> {
        self.need(by, &[Right::JobsClaim])?;
        let lease = match request.lease.as_deref().map(parse_duration) {
            None => None,
            Some(Ok(lease)) => Some(lease),
            Some(Err(error)) => return Err(problem(Code::InvalidRequest, format!("field `lease`: {error}"))),
        };
        let claim = ClaimJobs {
            kind: request.kind.clone(),
            worker: request.worker.clone(),
            lease,
            claim_id: request.claim_id.clone(),
            limit: request.limit.unwrap_or(1) as usize,
        };
        let claimed = self.engine.claim_jobs(by.clone(), claim).await.map_err(|failure| told(failure, by))?;
        let mut items = Vec::new();
        for row in claimed {
            let task = Some(self.json(by, row.run, row.request.task.digest).await?);
            let plan = self.maybe_json(by, row.run, row.request.plan.map(|plan| plan.digest)).await?;
            items.push(view::job::job(&row, view::job::Bodies { task, plan }, None));
        }
        Ok(ClaimedJobs { items })
    }

    pub async fn heartbeat(&self, by: &Caller, id: JobId, token: u32, progress: Option<&Json>) -> Answer<Job> {
        let progress = progress.map(|progress| canonical("progress", progress)).transpose()?;
        self.act(by, id, JobAct::Heartbeat { token, progress }).await
    }

    pub async fn complete(&self, by: &Caller, id: JobId, token: u32, result: &Json) -> Answer<Job> {
        let text = canonical("result", result)?;
        let reported = Reported::Succeeded { result: NewBody::new(text.as_bytes()), text };
        self.act(by, id, JobAct::Report { token, reported }).await
    }

    pub async fn fail_job(&self, by: &Caller, id: JobId, token: u32, error: &Json) -> Answer<Job> {
        let reported = Reported::Failed { error: NewBody::new(canonical("error", error)?.as_bytes()) };
        self.act(by, id, JobAct::Report { token, reported }).await
    }

    pub async fn ack_cancel(&self, by: &Caller, id: JobId, token: u32) -> Answer<Job> {
        self.act(by, id, JobAct::AckCancel { token }).await
    }

    async fn act(&self, by: &Caller, id: JobId, act: JobAct) -> Answer<Job> {
        self.need(by, &[Right::JobsClaim])?;
        let (_, row, changed) = self.engine.job(by.clone(), id, act).await.map_err(|failure| told(failure, by))?;
        Ok(view::job::job(&row, view::job::Bodies::default(), Some(changed)))
    }
}

fn canonical(field: &str, json: &Json) -> Answer<Canonical> {
    canonicalize(json.as_str().as_bytes()).map_err(|fault| {
        problem(Code::InvalidJson, format!("field `{field}`: {} at byte {}", fault.reason, fault.offset))
    })
}
