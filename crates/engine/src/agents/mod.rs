//! Agents that Stasis calls: jobs of the kinds of `[[agent]]` are claimed here and started at their address.
//!
//! Owns: the relay that takes such jobs, in the same way as an agent outside does, and keeps one task for each. Invariant: a job
//! is claimed in the ledger before anything of it is sent, and what the other side says comes in by the commands of every
//! agent, so that late, double and foreign reports are judged in one place.

mod carry;
mod talk;

use crate::config::Agent;
use crate::inner::Inner;
use crate::jobs::{self, ClaimJobs};
use protocol::approval::Method;
use protocol::command::Caller;
use protocol::id::{JobId, RequestId, RunId};
use protocol::job::Job;
use protocol::policy::Strength;
use protocol::principal::{Kind, Principal, Right, Roles};
use protocol::run::Status;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Hint, JobFilter};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;

/// Jobs of one look.
const PAGE: usize = 64;
/// Hints that come closer together than this are one.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The jobs that have a task here.
#[derive(Clone, Default)]
struct Carried(Arc<Mutex<HashMap<JobId, Place>>>);

struct Place {
    run: RunId,
    bell: Arc<Notify>,
    /// Where its run was when the bell was last rung: a sign of life is told by a hint too, and is nothing to look for.
    rung: Option<(Status, u32)>,
}

/// Takes jobs for every agent of the configuration, until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    let carried = Carried::default();
    let mut hints = inner.ledger.subscribe();
    loop {
        for agent in &inner.agents {
            look(&inner, agent, &carried).await;
        }
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            hint = hints.recv() => {
                match hint {
                    // what ended before its run parked returns it now; and a job that is to stop is told so now.
                    Ok(hint) => carried.poke(&hint),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
                tokio::time::sleep(LOOK_EVERY).await;
                while let Ok(hint) = hints.try_recv() {
                    carried.poke(&hint);
                }
            }
            () = tokio::time::sleep(inner.settings.scan_every) => {}
        }
    }
}

/// Goes on with what this agent has already, and claims what waits for it.
async fn look(inner: &Arc<Inner>, agent: &Agent, carried: &Carried) {
    if !inner.may_claim() {
        return;
    }
    let namespace = Some(agent.namespace.clone());
    let filter = JobFilter { kind: Some(agent.kind.clone()), namespace, open: true, ..JobFilter::default() };
    match inner.ledger.jobs(filter, None, PAGE).await {
        Ok(page) => {
            let ours = |job: &Job| job.agent.as_ref().is_some_and(|at| at.principal == principal_id(agent));
            for of in page.items.into_iter().filter(|of| ours(&of.job)) {
                carry(inner, agent, of.job, carry::Begun::Before, carried);
            }
        }
        Err(error) => return tracing::warn!(%error, agent = agent.kind, "the jobs of an agent could not be read"),
    }
    let claim = ClaimJobs {
        kind: agent.kind.clone(),
        worker: agent.url.as_str().to_owned(),
        lease: Some(agent.lease),
        claim_id: inner.ids().mint::<RequestId>().to_string(),
        limit: PAGE,
    };
    match jobs::claim(inner, caller(inner, agent), claim).await {
        Ok(claimed) => claimed.into_iter().for_each(|job| carry(inner, agent, job, carry::Begun::Now, carried)),
        Err(failure) => tracing::warn!(%failure, agent = agent.kind, "no job could be claimed for an agent"),
    }
}

fn carry(inner: &Arc<Inner>, agent: &Agent, job: Job, begun: carry::Begun, carried: &Carried) {
    let Some(bell) = carried.enter(&job) else { return };
    let (inner, agent, carried) = (inner.clone(), agent.clone(), carried.clone());
    inner.clone().tasks.spawn(async move {
        let id = job.id;
        carry::carry(&inner, &agent, job, begun, &bell).await;
        carried.leave(id);
    });
}

fn principal_id(agent: &Agent) -> String {
    format!("agent:{}", agent.kind)
}

/// Who claims for an agent: a program that may do nothing else.
fn caller(inner: &Inner, agent: &Agent) -> Caller {
    let id = principal_id(agent);
    let principal = Principal {
        name: id.clone(),
        id,
        kind: Kind::Program,
        namespace: agent.namespace.clone(),
        partition: None,
        roles: Roles::from_iter(std::iter::empty::<String>()),
        rights: [Right::JobsClaim].into_iter().collect(),
    };
    Caller { principal, method: Method::Api, strength: Strength::Session, request: inner.ids().mint() }
}

impl Carried {
    /// The bell of a job that nobody carries yet.
    fn enter(&self, job: &Job) -> Option<Arc<Notify>> {
        let mut all = self.all();
        if all.contains_key(&job.id) {
            return None;
        }
        let bell = Arc::new(Notify::new());
        all.insert(job.id, Place { run: job.run, bell: bell.clone(), rung: None });
        Some(bell)
    }

    fn leave(&self, job: JobId) {
        self.all().remove(&job);
    }

    /// Rings for the jobs of a run that has just parked, or has just begun to stop.
    fn poke(&self, hint: &Hint) {
        if !hint.status.is_parked() && !hint.status.is_stopping() {
            return;
        }
        let at = Some((hint.status, hint.seq));
        for place in self.all().values_mut().filter(|place| place.run == hint.run && place.rung != at) {
            place.rung = at;
            place.bell.notify_one();
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<JobId, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
