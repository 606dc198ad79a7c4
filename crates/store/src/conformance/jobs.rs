//! Jobs: claimed once, in order, and ended once, whatever became of their runs.

use std::time::Duration;

use protocol::code::Code;
use protocol::command::{Answer, Attest, Command, JobAct, JobCommand, Progress, Reported, Submit};
use protocol::id::JobId;
use protocol::job::{self, Job, Report};
use protocol::journal::{Entropy, Entry, Other};
use protocol::obligation::{State, Subject};
use protocol::rows::NewBody;
use protocol::run::{Run, Status};

use super::removal::KEPT;
use super::world::{World, canonical, refused};
use crate::error::TransactError;
use crate::{JobFilter, Reach};

const MINUTE: Duration = Duration::from_secs(60);

/// The kind whose jobs may be done twice.
const AGAIN: &str = "repeater";

impl World {
    /// A hop's progress that hands a job over.
    fn delegating(&self, run: &Run, kind: &str, timeout: Option<Duration>) -> (Progress, JobId) {
        let (arguments, task) = (NewBody::new(&b"{}"[..]), NewBody::new(&b"\"the task\""[..]));
        let call = self.call(run, run.budget.calls + 1, &arguments);
        let request = job::Request {
            kind: kind.to_owned(),
            task: task.body,
            plan: None,
            schema: Some(canonical(r#"{"type":"number"}"#)),
            timeout,
            retries: if kind == AGAIN { 1 } else { 0 },
        };
        let submit = Submit { job: self.id(), wait: self.id(), call: call.id, place: 3, request, bodies: vec![task] };
        let mut entries = vec![Entry::Call(Box::new(call))];
        if run.journal.len == 0 {
            let (pattern, input, entropy) = (run.pattern.digest, run.input.digest, Entropy([3; 32]));
            entries.insert(0, Entry::Other(Other::Start { pattern, input, now: self.ledger.now(), entropy }));
        }
        let (job, base) = (submit.job, run.journal.len);
        (Progress { base, entries, bodies: vec![arguments], jobs: vec![submit], ..Progress::default() }, job)
    }

    /// A run that is parked on a job.
    async fn delegated(&self, kind: &str, priority: u8, timeout: Option<Duration>) -> (Run, JobId) {
        let admit = protocol::command::Admit { priority, taker: Some(self.taker()), ..self.admission() };
        let (run, _) = self.admit(admit).await.unwrap();
        let (progress, job) = self.delegating(&run, kind, timeout);
        let act = self.park(&run, &progress, "checkpoint 1");
        (self.step(&run, progress, act).await.unwrap(), job)
    }

    async fn act(&self, job: JobId, act: JobAct) -> Result<Job, TransactError> {
        let command = JobCommand { by: self.by("ana"), job, act, taker: None };
        match self.ledger.transact(Command::Job(Box::new(command))).await? {
            Answer::Job { job, .. } => Ok(*job),
            other => panic!("{other:?}"),
        }
    }

    async fn take(&self, job: JobId, claim_id: &str) -> Result<Job, TransactError> {
        self.act(job, JobAct::Claim { worker: "w".to_owned(), lease: MINUTE, claim_id: claim_id.to_owned() }).await
    }

    async fn complete(&self, job: JobId, result: &str) -> Result<Job, TransactError> {
        let text = canonical(result);
        let reported = Reported::Succeeded { result: NewBody::new(text.as_bytes()), text };
        self.act(job, JobAct::Report { token: 1, reported }).await
    }

    async fn stored(&self, run: &Run) -> Job {
        self.shown(run.id).await.jobs.pop().expect("it has one")
    }
}

pub async fn a_job_returns_the_run_that_waits_for_it(world: World) {
    let (run, job) = world.delegated("reviewer", 50, Some(MINUTE * 60)).await;
    assert_eq!(run.status(), Status::AwaitingDelegate); // R-183
    let claimed = world.take(job, "c-1").await.unwrap();
    assert_eq!(world.stored(&run).await, claimed);
    let progress = Some(canonical(r#"{"done":1}"#));
    let heard = world.act(job, JobAct::Heartbeat { token: 1, progress }).await.unwrap();
    assert_eq!(world.stored(&run).await, heard); // R-218
    assert_eq!(refused(world.complete(job, "\"no number\"").await), Code::ResultInvalid); // R-221
    let ended = world.complete(job, "7").await.unwrap();
    let shown = world.shown(run.id).await;
    assert_eq!((shown.run.status(), shown.run.seq, &shown.jobs[..]), (Status::Queued, 1, &[ended.clone()][..])); // R-220
    let job::State::Ended { end, .. } = ended.state else { panic!("{ended:?}") };
    let result = world.ledger.body(run.id, end.body().unwrap().digest).await.unwrap().unwrap();
    assert_eq!(result, b"7"); // R-212
    assert_eq!(world.complete(job, "7").await.unwrap(), ended); // R-222
    assert_eq!(refused(world.complete(job, "8").await), Code::JobTerminal); // R-222
    assert_eq!(refused(world.take(world.id(), "c-1").await), Code::NotFound);
}

pub async fn jobs_are_given_out_in_order_and_each_once(world: World) {
    let (_, second) = world.delegated("reviewer", 50, None).await;
    let (_, third) = world.delegated("reviewer", 50, None).await;
    let (_, first) = world.delegated("reviewer", 90, None).await;
    let (_, other) = world.delegated("writer", 99, None).await;
    let queued = || world.ledger.queued_jobs("reviewer", "default", 10);
    assert_eq!(queued().await.unwrap(), [first, second, third]); // R-217: higher priority, then older
    assert!(world.ledger.queued_jobs("reviewer", "elsewhere", 10).await.unwrap().is_empty());
    let taken = world.take(first, "c-1").await.unwrap();
    assert_eq!(queued().await.unwrap(), [second, third]); // R-217
    assert_eq!(refused(world.take(first, "c-2").await), Code::JobNotOwner); // R-217: no two claims get one job
    assert_eq!(world.take(first, "c-1").await.unwrap(), taken); // R-217: the same claim, the same token
    let claimed = world.ledger.claimed_jobs("c-1").await.unwrap().items;
    assert_eq!(claimed.iter().map(|of| &of.job).collect::<Vec<_>>(), [&taken]); // R-217
    let listed = |filter: JobFilter| async { world.ledger.jobs(filter, None, 10).await.unwrap().items };
    let ids: Vec<_> = listed(JobFilter::default()).await.iter().map(|of| of.job.id).collect();
    assert_eq!(ids, [other, first, third, second]);
    let filter = JobFilter { kind: Some("writer".to_owned()), open: true, ..JobFilter::default() };
    assert_eq!(listed(filter).await.len(), 1);
    let run = world.ledger.jobs(JobFilter { run: Some(taken.run), ..JobFilter::default() }, None, 10).await.unwrap();
    assert_eq!(run.items.len(), 1); // R-232
}

pub async fn what_is_due_of_jobs_is_found_and_ends_them(world: World) {
    let (run, job) = world.delegated("reviewer", 50, Some(MINUTE * 2)).await;
    world.take(job, "c-1").await.unwrap();
    let due = async || world.ledger.due(world.ledger.now(), Reach::Lapsed, 0, 10).await.unwrap().jobs;
    assert!(due().await.is_empty());
    assert_eq!(world.ledger.next_due().await.unwrap(), world.stored(&run).await.due_at());
    world.pass(MINUTE);
    assert_eq!(due().await, [(job, run.id)]); // R-206
    world.settle(Command::ExpireJob { run: run.id, job }).await.unwrap();
    assert!(due().await.is_empty());
    let lost = world.stored(&run).await;
    assert!(matches!(lost.state, job::State::Ended { end: job::End::Lost { .. }, .. })); // R-206
    assert_eq!(refused(world.complete(job, "7").await), Code::JobTerminal);
    let late = world.stored(&run).await;
    assert!(matches!(late.late[0].report, Report::Succeeded { .. }) && late.stopped_at.is_some()); // R-112
    assert_eq!((late.state, world.shown(run.id).await.run.seq), (lost.state, 1)); // R-222
}

pub async fn a_job_that_may_be_done_twice_is_given_out_again(world: World) {
    let (run, job) = world.delegated(AGAIN, 50, None).await;
    let first = world.take(job, "c-1").await.unwrap();
    world.pass(MINUTE);
    world.settle(Command::ExpireJob { run: run.id, job }).await.unwrap();
    let again = world.stored(&run).await;
    assert!(again.state == job::State::Queued && again.agent.is_none(), "{again:?}"); // R-226
    let waiting = world.ledger.queued_jobs(AGAIN, &run.namespace, 10).await.unwrap();
    assert_eq!(waiting, [job]); // R-226
    let second = world.take(job, "c-2").await.unwrap();
    assert!(second.claims > first.claims); // R-217
    world.pass(MINUTE);
    world.settle(Command::ExpireJob { run: run.id, job }).await.unwrap();
    let lost = world.stored(&run).await;
    assert!(matches!(lost.state, job::State::Ended { end: job::End::Lost { .. }, .. })); // R-226: so often and no more
}

pub async fn a_run_is_kept_while_an_agent_may_still_work_for_it(world: World) {
    let (run, job) = world.delegated("reviewer", 50, None).await;
    world.take(job, "c-1").await.unwrap();
    world.pass(MINUTE);
    world.settle(Command::ExpireJob { run: run.id, job }).await.unwrap();
    let run = world.claim(run.id, 1, world.taker()).await.unwrap();
    let call = world.stored(&run).await.call;
    let run = world.step(&run, world.denied(call), world.finish("{}")).await.unwrap();
    assert_eq!(run.status(), Status::Done);
    world.pass(KEPT);
    let newer = world.running().await;
    assert_ne!(newer.id, run.id);
    assert!(!world.remove(run.id).await); // R-251: nobody knows that its agent stopped
    world.act(job, JobAct::AckCancel { token: 1 }).await.unwrap(); // R-231
    assert!(world.stored(&run).await.stopped_at.is_some()); // R-211
    // The newest event is never removed: its number would be given out again.
    world.running().await;
    assert!(world.remove(run.id).await); // R-251
    assert_eq!(refused(world.act(job, JobAct::AckCancel { token: 1 }).await), Code::NotFound); // R-251
}

pub async fn a_stopping_run_keeps_what_its_agents_owe(world: World) {
    let (run, job) = world.delegated("reviewer", 50, None).await;
    world.take(job, "c-1").await.unwrap();
    let (run, _) = world.cancel(run.id).await.unwrap();
    assert_eq!(run.status(), Status::Cancelling); // R-263
    let shown = world.shown(run.id).await;
    assert_eq!(shown.obligations[0].subject, protocol::obligation::Subject::Job(job)); // R-263
    let due = world.ledger.due(world.ledger.now(), Reach::Lapsed, 0, 10).await.unwrap();
    assert!(due.stopping.is_empty()); // R-316: there is nothing to try until the agent speaks
    world.act(job, JobAct::AckCancel { token: 1 }).await.unwrap();
    assert_eq!(world.shown(run.id).await.run.status(), Status::Cancelled); // R-270
}

pub async fn a_word_for_what_stopped_stays_with_its_run(world: World) {
    let (run, job) = world.delegated("reviewer", 50, None).await;
    world.take(job, "c-1").await.unwrap();
    world.cancel(run.id).await.unwrap();
    let reason = "its machine is switched off".to_owned();
    let attest = Attest { by: world.by("ana"), run: run.id, subject: Subject::Job(job), reason: reason.clone() };
    let (ended, changed) = world.settle(Command::Attest(attest.clone())).await.unwrap();
    assert!(changed && ended.status() == Status::Cancelled); // R-271
    let at = world.ledger.now();
    world.act(job, JobAct::AckCancel { token: 1 }).await.unwrap();
    let (_, again) = world.settle(Command::Attest(attest)).await.unwrap();
    assert!(!again);
    let shown = world.shown(run.id).await;
    let word = State::Attested { by: "ana".to_owned(), at, reason };
    assert_eq!(shown.obligations.iter().map(|row| &row.state).collect::<Vec<_>>(), [&word]); // R-271
}
