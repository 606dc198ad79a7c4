//! A job as the wire shows it (I-28).

use api::Json;
use api::job::{self, JobAgent, JobState, LateReport};
use protocol::job::{Agent, End, Job, State};

/// What only the agent that claims a job is shown.
#[derive(Default)]
pub(crate) struct Bodies {
    pub(crate) task: Option<Json>,
    pub(crate) plan: Option<Json>,
}

pub(crate) fn job(row: &Job, bodies: Bodies, changed: Option<bool>) -> job::Job {
    let (ended_at, end) = match row.state {
        State::Ended { end, at } => (Some(at), Some(end)),
        State::Queued | State::Running | State::Cancelling { .. } => (None, None),
    };
    let (result_digest, error_digest) = match end {
        Some(End::Succeeded { result }) => (Some(result.digest), None),
        Some(end) => (None, end.body().map(|body| body.digest)),
        None => (None, None),
    };
    let late = row.late.iter().filter_map(|late| {
        let end = late.report.end();
        let digest = end.body()?.digest;
        Some(LateReport { by: late.by.clone(), at: late.at, outcome: of_end(end), digest })
    });
    job::Job {
        id: row.id,
        run: row.run,
        call: row.call,
        kind: row.request.kind.clone(),
        state: state(row),
        priority: row.priority,
        agent: row.agent.as_ref().map(agent),
        // Whatever ended it, an agent that goes on works for nobody.
        stop: row.may_run() && !matches!(row.state, State::Running),
        may_still_run: row.may_run(),
        created_at: row.created_at,
        deadline_at: row.deadline,
        ended_at,
        stopped_at: row.stopped_at,
        progress: row.progress.as_ref().map(super::json),
        task_digest: row.request.task.digest,
        result_digest,
        error_digest,
        late: late.collect(),
        task: bodies.task,
        plan: bodies.plan,
        schema: row.request.schema.as_ref().map(super::json),
        changed,
    }
}

fn agent(row: &Agent) -> JobAgent {
    JobAgent {
        principal: row.principal.clone(),
        worker: row.worker.clone(),
        token: row.token,
        claimed_at: row.claimed_at,
        lease_ms: row.lease.as_millis() as u64,
        due_at: row.due_at,
    }
}

fn state(row: &Job) -> JobState {
    match row.state {
        State::Queued => JobState::Queued,
        State::Running => JobState::Running,
        State::Cancelling { .. } => JobState::Cancelling,
        State::Ended { end, .. } => of_end(end),
    }
}

const fn of_end(end: End) -> JobState {
    match end {
        End::Succeeded { .. } => JobState::Succeeded,
        End::Failed { .. } => JobState::Failed,
        End::Lost { .. } => JobState::Lost,
        End::TimedOut { .. } => JobState::TimedOut,
        End::Cancelled => JobState::Cancelled,
    }
}
