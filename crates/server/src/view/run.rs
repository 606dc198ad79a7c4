//! A run as the wire shows it (I-41).

use api::run::{
    self, Applied, Budget, Budgets, CallOutcome, Effect, Failure, ForkedFrom, HardwareBudget, ObligationKind,
    ObligationState, PauseScope, Tier, WaitKind, WaitingFor,
};
use api::{Json, Run};
use protocol::approval::Approval;
use protocol::call::{Call, OutcomeStatus, State};
use protocol::digest::Digest;
use protocol::id::{ApprovalId, JobId, ReceiptId, RunId};
use protocol::job::Job;
use protocol::limits::Limits;
use protocol::obligation::{self, Obligation, Subject};
use protocol::pause::{self, Scope, Shared};
use protocol::registry::Registry;
use protocol::run::{Charge, Clock, Phase, Status};
use protocol::time::Time;
use protocol::tool::{Effect as Class, ToolSpec};
use protocol::wait::{Owner, Wait};
use std::collections::HashMap;
use std::sync::Arc;

/// What a run is drawn from, beside its row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) waits: Vec<Wait>,
    pub(crate) approvals: Vec<Approval>,
    /// Titles of the gates among the approvals, which stand in their arguments.
    pub(crate) titles: HashMap<ApprovalId, String>,
    pub(crate) calls: Vec<Call>,
    /// The last receipt of a call, by the call's identity text.
    pub(crate) receipts: HashMap<String, ReceiptId>,
    pub(crate) obligations: Vec<Obligation>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) result: Option<Json>,
    /// The failure's detail with its bodies in place of their digests.
    pub(crate) failure_detail: Option<Json>,
    /// Where the waiting guest lives, if anywhere.
    pub(crate) tier: Option<Tier>,
    /// Its place in the line for hardware, in changes that are made before its own.
    pub(crate) place: Option<u64>,
    /// Why it cannot go on by itself.
    pub(crate) blocked: Option<String>,
    pub(crate) pauses: Vec<run::Pause>,
    /// Microseconds since the queue's clock was last charged in which a pause lay over the run.
    pub(crate) paused_us: u64,
}

/// The tools of the run's plan, by name and version.
pub(crate) type Specs<'a> = dyn Fn(&str, &str) -> Option<Arc<ToolSpec>> + Sync + 'a;

/// Draws a run. `now` is the store's clock: the clock that runs is charged up to it.
pub(crate) fn run(row: &protocol::run::Run, parts: &Parts, limits: &Limits, specs: &Specs<'_>, now: Time) -> Run {
    Run {
        id: row.id,
        namespace: row.namespace.clone(),
        workflow: row.pattern.key.clone(),
        revision: row.pattern.revision,
        pattern_digest: row.pattern.digest,
        plan_digest: row.plan,
        kind: row.kind.into(),
        status: row.status(),
        since_at: row.since,
        seq: u64::from(row.seq),
        created_at: row.created_at,
        started_at: row.started_at,
        finished_at: row.finished_at(),
        deadline_at: row.deadline,
        queue: row.queue.clone(),
        priority: row.priority,
        principal: row.requester.subject.clone(),
        session: row.session.clone(),
        labels: row.labels.clone(),
        retry_of: row.retry_of,
        forked_from: row.forked_from.map(|from| ForkedFrom { run: from.run, seq: from.seq.into() }),
        paused: parts.pauses.clone(),
        blocked: parts.blocked.clone(),
        waiting_for: waiting_for(row, parts),
        budgets: budgets(row, limits),
        clocks_ms: clocks(row, parts, now),
        input_digest: row.input.digest,
        result: parts.result.clone(),
        failure: row.failure().map(|row| failure(row, parts)),
        obligations: parts.obligations.iter().map(|row| obligation(row, &parts.jobs)).collect(),
        effects: effects(parts, specs),
        created: None,
        changed: None,
    }
}

/// The pauses over a run.
pub(crate) fn pauses(row: &protocol::run::Run, registry: &Registry) -> Vec<run::Pause> {
    pause::over(row, registry).into_iter().map(|(scope, row)| pause(scope, row)).collect()
}

/// The pause of a workflow or queue itself.
pub(crate) fn shade(scope: &Shared, registry: &Registry) -> Vec<run::Pause> {
    let now = registry.pauses.get(scope).and_then(|shade| shade.now.as_ref());
    now.map(|row| pause(Scope::Shared(scope.clone()), row)).into_iter().collect()
}

fn pause(scope: Scope, row: &pause::Pause) -> run::Pause {
    let (scope, name) = match scope {
        Scope::Run(run) => (PauseScope::Run, run.to_string()),
        Scope::Shared(Shared::Workflow(key)) => (PauseScope::Workflow, key),
        Scope::Shared(Shared::Queue(name)) => (PauseScope::Queue, name),
    };
    run::Pause { scope, name, by: row.by.clone(), reason: row.reason.clone(), since_at: row.since }
}

/// One entry for each open wait, oldest first.
fn waiting_for(row: &protocol::run::Run, parts: &Parts) -> Vec<WaitingFor> {
    let mut open: Vec<&Wait> = parts.waits.iter().filter(|wait| wait.is_open()).collect();
    open.sort_by_key(|wait| (wait.since, wait.id));
    let owners = open.into_iter().map(|wait| WaitingFor {
        kind: wait_kind(&wait.owner),
        id: owner_id(wait),
        name: wait_name(wait, parts),
        since_at: wait.since,
        due_at: due_at(wait, parts),
        tier: parts.tier,
        place: None,
    });
    owners.chain(hardware(row, parts)).collect()
}

/// The hold of a run, which has no owner but the resource.
fn hardware(row: &protocol::run::Run, parts: &Parts) -> Option<WaitingFor> {
    let resource = held(row)?;
    Some(WaitingFor {
        kind: WaitKind::Hardware,
        id: resource.to_owned(),
        name: Some(resource.to_owned()),
        since_at: row.since,
        due_at: None,
        tier: parts.tier,
        place: parts.place,
    })
}

/// What a run in a hold waits for.
pub(crate) fn held(row: &protocol::run::Run) -> Option<&str> {
    let holds = row.status() == Status::AwaitingHardware;
    row.budget.hardware.row.as_ref().filter(|_| holds).map(|row| row.resource.as_str())
}

/// What stays of a run that was removed.
pub(crate) fn removed(row: &store::Removed) -> Option<Json> {
    #[derive(serde::Serialize)]
    struct Left {
        id: RunId,
        status: Status,
        finished_at: Time,
        removed_at: Time,
        events: u32,
        head_digest: Digest,
    }
    let left = Left {
        id: row.run,
        status: row.status,
        finished_at: row.finished_at,
        removed_at: row.removed_at,
        events: row.head.len,
        head_digest: row.head.digest,
    };
    Json::of(&left).ok()
}

pub(crate) const fn wait_kind(owner: &Owner) -> WaitKind {
    match owner {
        Owner::Approval(_) => WaitKind::Approval,
        Owner::Timer(_) => WaitKind::Timer,
        Owner::Signal(_) => WaitKind::Signal,
        Owner::Job(_) => WaitKind::Job,
    }
}

/// Id of the wait's owner; a timer is its own.
pub(crate) fn owner_id(wait: &Wait) -> String {
    match &wait.owner {
        Owner::Approval(approval) => approval.to_string(),
        Owner::Timer(timer) => timer.to_string(),
        // Whoever sends names the wait.
        Owner::Signal(_) => wait.id.to_string(),
        Owner::Job(job) => job.to_string(),
    }
}

/// What is waited for: the tool that asked, the gate's title, the signal's name, or the agent's.
pub(crate) fn wait_name(wait: &Wait, parts: &Parts) -> Option<String> {
    let id = match &wait.owner {
        Owner::Approval(id) => *id,
        Owner::Timer(_) => return None,
        Owner::Signal(awaited) => return Some(awaited.name.clone()),
        Owner::Job(id) => return job(&parts.jobs, *id).map(|job| job.request.kind.clone()),
    };
    let title = parts.titles.get(&id).cloned();
    title.or_else(|| {
        parts.approvals.iter().find(|approval| approval.id == id).map(|approval| approval.binding.tool.clone())
    })
}

fn budgets(row: &protocol::run::Run, limits: &Limits) -> Budgets {
    let made = &row.budget.hardware;
    Budgets {
        calls: Budget { used: u64::from(row.budget.calls), of: u64::from(row.settings.max_calls) },
        active_ms: Budget { used: row.budget.active_us / 1_000, of: row.settings.active_limit_us / 1_000 },
        hardware: HardwareBudget {
            total: made.total,
            of: limits.convergence_calls,
            resource: made.row.as_ref().map(|row| row.resource.clone()),
            in_row: made.row.as_ref().map_or(0, |row| row.calls),
            in_row_of: limits.convergence_in_row,
        },
    }
}

/// The clocks at `now`. Exactly one runs, so together they are the run's age; milliseconds are cut off the
/// running sum, not off each clock, so they still are after rounding.
pub(crate) fn clocks(row: &protocol::run::Run, parts: &Parts, now: Time) -> run::Clocks {
    let mut clocks = row.clocks;
    let passed = u64::try_from(now.since(clocks.since).as_micros()).unwrap_or(u64::MAX);
    match clocks.running {
        Clock::Queued => clocks.charge_queue(now, parts.paused_us),
        _ => clocks.charge(now, live_charge(row, parts, passed)),
    }
    let mut sum = 0;
    let mut ms = |us: u64| {
        let before = sum / 1_000;
        sum += us;
        sum / 1_000 - before
    };
    run::Clocks {
        queued: ms(clocks.queued),
        active: ms(clocks.active),
        calls: ms(clocks.calls),
        hold: ms(clocks.hold),
        person: ms(clocks.person),
        machine: ms(clocks.machine),
        paused: ms(clocks.paused),
        stopping: ms(clocks.stopping),
    }
}

/// How the time since a hop's last report divides, as far as its rows tell: handlers while a call is in flight, people
/// while only approvals are open, else the guest. The hop's own report comes with its next commit.
fn live_charge(row: &protocol::run::Run, parts: &Parts, passed: u64) -> Charge {
    if row.clocks.running != Clock::Hop || !matches!(row.phase, Phase::Active { .. }) {
        return Charge::default();
    }
    if parts.calls.iter().any(Call::in_flight) {
        return Charge::default();
    }
    if parts.waits.iter().any(Wait::is_open) {
        return Charge { active: 0, person: passed };
    }
    Charge { active: passed, person: 0 }
}

fn failure(failure: &protocol::run::Failure, parts: &Parts) -> Failure {
    Failure {
        code: failure.code.as_str().to_owned(),
        message: failure.message.clone(),
        detail: parts.failure_detail.clone(),
    }
}

pub(crate) fn job(jobs: &[Job], id: JobId) -> Option<&Job> {
    jobs.iter().find(|job| job.id == id)
}

/// When an open wait ends by itself; of a job that is its own matter.
pub(crate) fn due_at(wait: &Wait, parts: &Parts) -> Option<Time> {
    match wait.owner {
        Owner::Job(id) => job(&parts.jobs, id).and_then(|job| job.deadline),
        Owner::Approval(_) | Owner::Timer(_) | Owner::Signal(_) => wait.due_at,
    }
}

/// The agent of a job, as people are shown it.
pub(crate) fn agent(jobs: &[Job], id: JobId) -> Option<String> {
    let agent = job(jobs, id)?.agent.as_ref()?;
    Some(format!("{} ({})", agent.principal, agent.worker))
}

pub(crate) fn obligation(row: &Obligation, jobs: &[Job]) -> run::Obligation {
    let (state, by, reason) = match row.state.clone() {
        obligation::State::Open => (ObligationState::Open, None, None),
        obligation::State::Acknowledged { by, .. } => (ObligationState::Acknowledged, Some(by), None),
        obligation::State::Attested { by, reason, .. } => (ObligationState::Attested, Some(by), Some(reason)),
    };
    let (kind, name) = match row.subject {
        Subject::Hop(_) => (ObligationKind::Hop, None),
        Subject::Call(_) => (ObligationKind::Call, None),
        Subject::Job(job) => (ObligationKind::Job, agent(jobs, job)),
    };
    run::Obligation {
        kind,
        of: row.subject.to_string(),
        name,
        state,
        by,
        reason,
        attempts: row.attempts,
        last_error: row.last_error.clone(),
        // Of a job nothing is tried: its agent speaks, or nobody does.
        retry_at: (state == ObligationState::Open && kind != ObligationKind::Job).then_some(row.retry_at),
    }
}

/// The counted `write` calls in the order in which they were made (R-275, C-246).
fn effects(parts: &Parts, specs: &Specs<'_>) -> Vec<Effect> {
    let mut writes: Vec<&Call> =
        parts.calls.iter().filter(|call| call.effect == Class::Write && call.position.is_some()).collect();
    writes.sort_by_key(|call| call.position);
    writes.into_iter().map(|call| effect(call, parts, specs)).collect()
}

fn effect(call: &Call, parts: &Parts, specs: &Specs<'_>) -> Effect {
    let identity = call.whole_id();
    let applied = applied(call);
    let compensate = match applied {
        Some(Applied::Yes | Applied::Unknown) => {
            let spec = specs(&call.tool.name, &call.tool.version);
            let with = spec.and_then(|spec| spec.compensate.as_ref().map(|with| with.tool.clone()));
            Some(with.unwrap_or_else(|| "stands".to_owned())) // C-248
        }
        Some(Applied::No) | None => None,
    };
    Effect {
        call: call.id,
        tool: call.tool.name.clone(),
        outcome: outcome(call),
        applied,
        code: code(call),
        receipt: parts.receipts.get(&identity).map(ToString::to_string),
        compensate,
        identity,
    }
}

/// How a call ended; ambiguity is told as such (C-249).
pub(crate) fn outcome(call: &Call) -> Option<CallOutcome> {
    match &call.state {
        State::Entered | State::Asked | State::Dispatched(_) => None,
        State::Ambiguous(_) => Some(CallOutcome::Ambiguous),
        State::Ended(outcome) => Some(match outcome.status {
            OutcomeStatus::Ok => CallOutcome::Ok,
            OutcomeStatus::Error => CallOutcome::Error,
            OutcomeStatus::Denied => CallOutcome::Denied,
        }),
    }
}

/// Whether it changed the world (C-120).
pub(crate) fn applied(call: &Call) -> Option<Applied> {
    match &call.state {
        State::Entered | State::Asked | State::Dispatched(_) => None,
        State::Ambiguous(_) => Some(Applied::Unknown),
        State::Ended(outcome) => Some(outcome.applied.into()),
    }
}

/// The code of an outcome that is not ok.
pub(crate) fn code(call: &Call) -> Option<String> {
    call.outcome().and_then(|outcome| outcome.code).map(|code| code.as_str().to_owned())
}
