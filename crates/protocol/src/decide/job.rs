//! Jobs: handed over by a hop, claimed and ended by an agent outside (runs.md section 9).
//!
//! Invariant: the first end stands, whoever brings it: the agent, a deadline, or a cancel (R-222). When a job is due is
//! judged inside every command on it, so that it does not depend on anybody looking. How a job ended and that its agent
//! stopped are told apart: a run that stops waits for the second (R-211, R-270).

use super::{Cx, Decision, admit::not_permitted, step};
use crate::code::Code;
use crate::command::{Answer, JobAct, JobCommand, Rejoin, Reported, Submit, Taker};
use crate::digest::Digest;
use crate::event::{Facts, Kind};
use crate::id::JobId;
use crate::job::{Agent, End, Job, Late, Report, State};
use crate::limits::{JOB_LEASE_MAX, JOB_LEASE_MIN, LATE_REPORTS, NAME_BYTES, PROGRESS_BYTES};
use crate::obligation::Subject;
use crate::principal::Right;
use crate::refusal::Refusal;
use crate::rows::{Change, NewBody, Rows};
use crate::wait::{self, Owner, Wait};
use serde::Serialize;

/// Hands a job over: its row, its wait and the call that waits commit together (R-215). The same call with the same content is
/// the same job; it is not handed over twice (R-213).
pub(super) fn submit(change: &mut Change, submit: Submit, cx: &Cx<'_>) -> Result<(), Refusal> {
    let Submit { job: id, wait, call, place, request, bodies } = submit;
    if let Some(known) = change.rows.jobs.iter().find(|job| (job.call, job.place) == (call, place)) {
        if known.request.digest() == request.digest() {
            return Ok(());
        }
        let detail = format!("{} was handed over by this call with other content", known.id);
        return Err(Refusal::new(Code::JobRequestMismatch, detail).truth(&known.id.to_string()));
    }
    let size = u64::from(request.task.len);
    if size > cx.limits.job_bytes {
        let detail = format!("job text exceeded: {size} > {}", cx.limits.job_bytes);
        return Err(Refusal::new(Code::LimitExceeded, detail));
    }
    let facts = Facts::new()
        .with("job", id)
        .with("call", call)
        .with("wait", wait)
        .with("kind", &request.kind)
        .with("task_digest", request.task.digest)
        .maybe("plan_digest", request.plan.map(|plan| plan.digest));
    for body in bodies {
        change.rows.run.budget.body_bytes += u64::from(body.body.len);
        change.bodies.push(body);
    }
    let now = change.now;
    let deadline = request.timeout.map(|span| now + span);
    let (run, priority) = (change.run().id, change.run().priority);
    change.rows.waits.add(Wait {
        id: wait,
        run,
        owner: Owner::Job(id),
        call,
        state: wait::State::Live,
        since: now,
        due_at: None,
    });
    change.rows.jobs.add(Job {
        id,
        run,
        wait,
        call,
        place,
        request,
        priority,
        created_at: now,
        deadline,
        state: State::Queued,
        agent: None,
        claims: 0,
        stopped_at: None,
        progress: None,
        late: Vec::new(),
    });
    change.event(Kind::JobQueued, facts.maybe("deadline", deadline));
    Ok(())
}

/// Waits anew for a job whose wait was closed: of a run that has nothing else left to wait for (R-127).
pub(super) fn rejoin(change: &mut Change, rejoin: Rejoin) -> Result<(), Refusal> {
    let Rejoin { job: id, wait, call } = rejoin;
    let run = change.run().id;
    let Some(job) = change.rows.jobs.get(id).filter(|job| job.run == run && job.call == call).cloned() else {
        return Err(Refusal::new(Code::WaitOwnerMismatch, format!("owner does not belong to run {run}")));
    };
    if change.rows.waits.get(job.wait).is_some()
        || change.rows.calls.iter().any(|open| open.id == call && !open.is_ended())
    {
        return Err(Refusal::new(Code::WaitUnsafe, format!("{id} is waited for already")));
    }
    change.rows.waits.add(Wait {
        id: wait,
        run,
        owner: Owner::Job(id),
        call,
        state: wait::State::Live,
        since: change.now,
        due_at: None,
    });
    change.rows.jobs.edit(id).expect("found above").wait = wait;
    change.event(Kind::WaitOpened, Facts::new().with("wait", wait).with("call", call).with("job", id));
    if let State::Ended { end, .. } = job.state {
        step::end_wait(change, wait, outcome(id, end));
    }
    Ok(())
}

/// The digest that a wait has of the end of its job.
fn outcome(id: JobId, end: End) -> Digest {
    end.body().map_or_else(|| Digest::of(format!("{id} {}", end.as_str())), |body| body.digest)
}

/// One verb of an agent.
pub(super) fn job(command: JobCommand, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    let JobCommand { by, job: id, act, taker } = command;
    let found = rows.jobs.get(id).filter(|_| rows.run.namespace == by.principal.namespace);
    let Some(row) = found.cloned() else {
        return Refusal::new(Code::NotFound, format!("there is no job {id}")).into();
    };
    if !by.principal.rights.has(Right::JobsClaim) {
        return not_permitted(&by, Right::JobsClaim).into();
    }
    if let Some(token) = act.token()
        && let Err(refusal) = owns(&row, &by.principal.id, token)
    {
        return refusal.into();
    }
    let mut change = Change::of(rows, cx.now);
    // What comes too late is refused, and a refusal carries no run that its caller could go on with.
    lapse(&mut change, id, cx);
    let row = change.rows.jobs.get(id).expect("found above").clone();
    // One that was given back by that is not its agent's any more.
    let owned = act.token().map_or(Ok(()), |token| owns(&row, &by.principal.id, token));
    let done = owned.and_then(|()| carry_out(&mut change, row, by.principal.id, act, taker, cx));
    answer(change, id, done)
}

fn carry_out(
    change: &mut Change,
    row: Job,
    principal: String,
    act: JobAct,
    taker: Option<Taker>,
    cx: &mut Cx<'_>,
) -> Result<bool, Refusal> {
    match act {
        JobAct::Claim { worker, lease, claim_id } => claim(
            change,
            row,
            Agent { principal, worker, token: 0, claim_id, claimed_at: cx.now, lease, due_at: cx.now + lease },
        ),
        JobAct::Heartbeat { progress, .. } => heartbeat(change, row, progress),
        JobAct::Report { reported, .. } => report(change, row, reported, taker, cx),
        JobAct::AckCancel { .. } => acknowledge(change, row, taker, cx),
    }
}

/// What was done is saved also where the verb itself came too late: the end by time, and the late report (R-222).
fn answer(change: Change, id: JobId, done: Result<bool, Refusal>) -> Decision {
    let (run, job) = (Box::new(change.run().clone()), change.rows.jobs.get(id).cloned());
    let job = Box::new(job.expect("a job is never removed alone"));
    let dirty = change.rows.jobs.dirty().next().is_some();
    let answer = done.map(|changed| Answer::Job { run, job, changed });
    Decision { change: dirty.then(|| Box::new(change)), answer }
}

/// R-219: the agent that claimed it, with the token of that claim.
fn owns(job: &Job, principal: &str, token: u32) -> Result<(), Refusal> {
    match &job.agent {
        Some(agent) if agent.token == token && agent.principal == principal => Ok(()),
        _ => {
            let detail = format!("{} is {} and not claimed with that token", job.id, job.state.as_str());
            Err(Refusal::new(Code::JobNotOwner, detail).truth(&Truth::of(job)))
        }
    }
}

/// What a refused verb is told of the job.
#[derive(Serialize)]
struct Truth {
    state: &'static str,
    ended_at: Option<crate::time::Time>,
    digest: Option<Digest>,
}

impl Truth {
    fn of(job: &Job) -> Truth {
        let (ended_at, body) = match job.state {
            State::Ended { end, at } => (Some(at), end.body()),
            _ => (None, None),
        };
        Truth { state: job.state.as_str(), ended_at, digest: body.map(|body| body.digest) }
    }
}

fn terminal(job: &Job) -> Refusal {
    Refusal::new(Code::JobTerminal, format!("{} has ended: {}", job.id, job.state.as_str())).truth(&Truth::of(job))
}

/// R-203. The same claim again is answered as before (R-217).
fn claim(change: &mut Change, job: Job, agent: Agent) -> Result<bool, Refusal> {
    for (what, text) in [("worker", &agent.worker), ("claim_id", &agent.claim_id)] {
        if text.is_empty() || text.len() > NAME_BYTES {
            let detail = format!("`{what}` has 1 to {NAME_BYTES} bytes, not {}", text.len());
            return Err(Refusal::new(Code::InvalidRequest, detail));
        }
    }
    if agent.lease < JOB_LEASE_MIN || agent.lease > JOB_LEASE_MAX {
        let [least, most] = [JOB_LEASE_MIN, JOB_LEASE_MAX].map(crate::time::format_duration);
        return Err(Refusal::new(Code::InvalidRequest, format!("`lease` is {least} to {most}")));
    }
    let again = |held: &Agent| held.claim_id == agent.claim_id && held.principal == agent.principal;
    match (&job.state, &job.agent) {
        (_, Some(held)) if again(held) => return Ok(false),
        (State::Queued, _) => {}
        (State::Ended { .. }, _) => return Err(terminal(&job)),
        (State::Running | State::Cancelling { .. }, _) => {
            let detail = format!("{} was claimed by another", job.id);
            return Err(Refusal::new(Code::JobNotOwner, detail).truth(&Truth::of(&job)));
        }
    }
    let token = job.claims + 1;
    let agent = Agent { token, ..agent };
    let facts = Facts::new().with("job", job.id).with("by", &agent.principal).with("worker", &agent.worker);
    let row = change.rows.jobs.edit(job.id).expect("the caller has it");
    row.agent = Some(agent);
    row.claims = token;
    row.state = State::Running;
    change.event(Kind::JobRunning, facts.number("token", token));
    Ok(true)
}

/// R-218. Like a renewal it writes no event.
fn heartbeat(change: &mut Change, job: Job, progress: Option<crate::json::Canonical>) -> Result<bool, Refusal> {
    if job.is_ended() {
        return Err(terminal(&job));
    }
    if let Some(progress) = &progress
        && progress.as_bytes().len() > PROGRESS_BYTES
    {
        let detail = format!("progress exceeded: {} > {PROGRESS_BYTES}", progress.as_bytes().len());
        return Err(Refusal::new(Code::LimitExceeded, detail));
    }
    let now = change.now;
    let row = change.rows.jobs.edit(job.id).expect("the caller has it");
    if let Some(agent) = &mut row.agent {
        agent.due_at = now + agent.lease;
    }
    if progress.is_some() {
        row.progress = progress;
    }
    Ok(true)
}

/// R-220 to R-222.
fn report(
    change: &mut Change,
    job: Job,
    reported: Reported,
    taker: Option<Taker>,
    cx: &mut Cx<'_>,
) -> Result<bool, Refusal> {
    let (report, body) = judged(&job, reported, cx)?;
    let State::Ended { end, .. } = job.state else {
        store(change, body);
        // The run may return by this very end, and then its agent is known to have stopped.
        let member = end_job(change, job.id, report.end());
        stopped(change, job.id);
        after_end(change, member, taker, cx);
        return Ok(true);
    };
    match end {
        End::Succeeded { .. } | End::Failed { .. } if end == report.end() => Ok(false),
        End::Succeeded { .. } | End::Failed { .. } => Err(terminal(&job)),
        End::Lost { .. } | End::TimedOut { .. } | End::Cancelled => {
            keep_late(change, &job, report, body);
            stopped(change, job.id);
            step::contain(change, cx);
            Err(terminal(&job))
        }
    }
}

fn judged(job: &Job, reported: Reported, cx: &Cx<'_>) -> Result<(Report, NewBody), Refusal> {
    let (report, body, fault) = match reported {
        Reported::Succeeded { result, text } => {
            let fault = job.request.refuses(&text);
            (Report::Succeeded { result: result.body }, result, fault)
        }
        Reported::Failed { error } => (Report::Failed { error: error.body }, error, None),
    };
    let (size, most) = (u64::from(body.body.len), cx.limits.result_bytes);
    if size > most {
        return Err(Refusal::new(Code::LimitExceeded, format!("result exceeded: {size} > {most}")));
    }
    match fault {
        Some(fault) => Err(Refusal::new(Code::ResultInvalid, fault)),
        None => Ok((report, body)),
    }
}

fn store(change: &mut Change, body: NewBody) {
    change.rows.run.budget.body_bytes += u64::from(body.body.len);
    change.bodies.push(body);
}

/// Keeps what came too late to count (R-112), the same once, and of more than anybody would read nothing.
fn keep_late(change: &mut Change, job: &Job, report: Report, body: NewBody) {
    let known = job.late.iter().any(|late| late.report == report);
    let Some(agent) = job.agent.as_ref().filter(|_| !known && job.late.len() < LATE_REPORTS) else { return };
    store(change, body);
    let (by, at) = (agent.principal.clone(), change.now);
    let row = change.rows.jobs.edit(job.id).expect("the caller has it");
    row.late.push(Late { by: by.clone(), at, report });
    let facts = Facts::new().with("job", job.id).with("by", by).with("outcome", report.end().as_str());
    change.event(Kind::ReportLate, told(facts, report.end()));
}

/// R-209, R-231: the agent has stopped.
fn acknowledge(change: &mut Change, job: Job, taker: Option<Taker>, cx: &mut Cx<'_>) -> Result<bool, Refusal> {
    let member = match job.state {
        State::Queued | State::Running => {
            let detail = format!("{} is {} and was not asked to stop", job.id, job.state.as_str());
            return Err(Refusal::new(Code::IllegalTransition, detail).hint("complete it, or fail it"));
        }
        State::Ended { .. } if job.stopped_at.is_some() => return Ok(false),
        State::Ended { .. } => false,
        // A run that has nothing else left may wait for this (R-127).
        State::Cancelling { .. } => end_job(change, job.id, End::Cancelled),
    };
    stopped(change, job.id);
    after_end(change, member, taker, cx);
    Ok(true)
}

/// Ends a job whose time has come, for every command that sees it (R-204, R-206, R-207). Whether it did.
pub(super) fn lapse(change: &mut Change, id: JobId, cx: &mut Cx<'_>) -> bool {
    let now = change.now;
    let due = |job: &&Job| job.due_at().is_some_and(|due| now >= due);
    let Some(job) = change.rows.jobs.get(id).filter(due).cloned() else { return false };
    if job.is_retried() && !job.deadline_is_next() {
        give_back(change, &job);
        return true;
    }
    // Which of the two came first decides, not when somebody looked.
    let error = |text: &str| NewBody::new(format!("\"{text}\"").into_bytes());
    let (end, error) = if job.deadline_is_next() {
        let error = error("its deadline passed");
        (End::TimedOut { error: error.body }, error)
    } else {
        let error = error("nothing was heard of its agent");
        (End::Lost { error: error.body }, error)
    };
    store(change, error);
    let member = end_job(change, id, end);
    if job.agent.is_none() {
        // R-211: there was none to stop.
        stopped(change, id);
    }
    after_end(change, member, None, cx);
    true
}

/// R-226: nothing is heard of its agent, and it may be done twice. What the agent still says of it is refused.
fn give_back(change: &mut Change, job: &Job) {
    let row = change.rows.jobs.edit(job.id).expect("the caller has it");
    row.state = State::Queued;
    row.agent = None;
    row.progress = None;
    let by = job.agent.as_ref().map(|agent| &agent.principal);
    let facts = Facts::new().with("job", job.id).with("cause", "lost").maybe("by", by);
    change.event(Kind::JobQueued, facts.number("token", job.claims));
}

/// Ends a job of which a person says that it stopped. Its agent did not, and may still do so (R-211, R-231).
pub(super) fn give_up(change: &mut Change, id: JobId) {
    if change.rows.jobs.get(id).is_some_and(|job| !job.is_ended()) {
        let error = NewBody::new(&br#""a person attested that it stopped""#[..]);
        let end = End::Lost { error: error.body };
        store(change, error);
        end_job(change, id, end);
    }
}

/// Asks a job to stop that nobody waits for any more (R-208, R-230). One that no agent has is over at once (R-204).
pub(super) fn ask_to_stop(change: &mut Change, id: JobId, by: &str) {
    let now = change.now;
    let Some(job) = change.rows.jobs.get(id) else { return };
    match job.state {
        State::Queued => {
            end_job(change, id, End::Cancelled);
            stopped(change, id);
        }
        State::Running => {
            let row = change.rows.jobs.edit(id).expect("found above");
            row.state = State::Cancelling { since: now };
            change.event(Kind::JobCancelling, Facts::new().with("job", id).with("by", by));
        }
        State::Cancelling { .. } | State::Ended { .. } => {}
    }
}

/// The end of a job and of its wait; whether that was a member of the set on which the run is parked (R-224).
fn end_job(change: &mut Change, id: JobId, end: End) -> bool {
    let at = change.now;
    let row = change.rows.jobs.edit(id).expect("the caller has it");
    row.state = State::Ended { end, at };
    let wait = row.wait;
    change.event(end.event(), told(Facts::new().with("job", id), end));
    step::end_wait(change, wait, outcome(id, end))
}

/// What an event says of an end.
fn told(facts: Facts, end: End) -> Facts {
    match end {
        End::Succeeded { result } => facts.with("result_digest", result.digest),
        End::Failed { error } | End::Lost { error } | End::TimedOut { error } => {
            facts.with("error_digest", error.digest)
        }
        End::Cancelled => facts,
    }
}

fn after_end(change: &mut Change, member: bool, taker: Option<Taker>, cx: &mut Cx<'_>) {
    if member {
        step::member_ended(change, taker, cx);
    }
    step::contain(change, cx);
}

/// That nothing of a job runs any more, told once (R-211). Whoever waits for that is told (R-270).
fn stopped(change: &mut Change, id: JobId) {
    let now = change.now;
    let Some(row) = change.rows.jobs.get(id).filter(|job| job.stopped_at.is_none()) else { return };
    let nobody = if row.claims == 0 { "system:never-claimed" } else { "system:given-back" };
    let by = row.agent.as_ref().map_or(nobody, |agent| &agent.principal).to_owned();
    change.rows.jobs.edit(id).expect("found above").stopped_at = Some(now);
    change.event(Kind::JobStopped, Facts::new().with("job", id).with("by", &by));
    step::acknowledge(change, Subject::Job(id), &by);
}

/// Ends a job that is due, found by a timer.
pub(super) fn expire(id: JobId, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    let mut change = Change::of(rows, cx.now);
    let changed = lapse(&mut change, id, cx);
    let answer = Answer::Settled { run: Box::new(change.run().clone()), changed, repaired: false };
    if changed { Decision::done(change, answer) } else { Decision::stands(answer) }
}
