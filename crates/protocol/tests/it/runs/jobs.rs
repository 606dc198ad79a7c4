//! Jobs: what their agents, their runs and time may do with them (runs.md section 9).

use crate::world::{TTL, World, args, caller, obligation, ok, person, worker};
use protocol::able::Able;
use protocol::approval::Verdict;
use protocol::call::RecoveryClass;
use protocol::code::Code;
use protocol::command::{
    Act, Answer, AwaitSignal, Command, JobAct, JobCommand, Progress, Rejoin, Reported, Submit, Taker,
};
use protocol::event::Kind;
use protocol::id::JobId;
use protocol::job::{End, Job, Report, State};
use protocol::journal::Entry;
use protocol::limits::JOB_RETRIES;
use protocol::obligation::Subject;
use protocol::principal::{Principal, Right, Rights};
use protocol::refusal::Refusal;
use protocol::run::{Status, WaitMode};
use protocol::signal::Awaited;
use protocol::tool::Effect;
use protocol::wait::Wait;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn code(answer: Result<Job, Refusal>) -> Code {
    answer.expect_err("refused").code
}

fn end(job: &Job) -> &'static str {
    job.state.as_str()
}

/// A run that is parked on a job.
fn parked() -> (World, JobId) {
    let mut world = World::running();
    let job = world.delegates(None);
    world.park().expect("parked");
    (world, job)
}

/// The same, and an agent has it.
fn claimed() -> (World, JobId, u32) {
    let (mut world, job) = parked();
    let token = world.claim_job("ana", job).expect("claimed");
    (world, job, token)
}

#[test]
fn an_agent_takes_a_job_and_its_completion_returns_the_run() {
    let (mut world, job) = parked();
    assert_eq!(world.status(), Status::AwaitingDelegate); // R-183
    let row = world.jobs[&job].clone();
    assert_eq!((end(&row), row.agent.is_none(), row.stopped_at), ("queued", true, None)); // R-215
    let token = world.claim_job("ana", job).expect("claimed");
    assert_eq!(end(&world.jobs[&job]), "running"); // R-203
    assert_eq!(world.jobs[&job].due_at(), Some(world.now + MINUTE)); // R-203
    let events = world.events.len();
    let done = world.complete("ana", job, token, "7").expect("completed");
    assert!(matches!(done.state, State::Ended { end: End::Succeeded { .. }, .. })); // R-205
    assert_eq!(done.stopped_at, Some(world.now)); // R-211
    assert!(world.is_at(Status::Queued, 1)); // R-220: the end, its wait and E-9 in one commit
    assert_eq!(world.kinds(events), ["job.succeeded", "job.stopped", "run.queued"]); // R-356
    let result = done_body(&world, job);
    assert_eq!(result, "7"); // R-212
    world.claim(2).expect("claimed");
    world.end(done.call, ok()).expect("the hop reads how it ended"); // R-229
    world.finish().expect("done");
    assert_eq!(world.jobs[&job], done); // R-211
}

fn done_body(world: &World, job: JobId) -> String {
    let State::Ended { end, .. } = world.jobs[&job].state else { panic!("not ended") };
    String::from_utf8(world.bodies[&end.body().expect("a body").digest].clone()).expect("text")
}

#[test]
pub(super) fn one_call_hands_over_one_job() {
    let mut world = World::running();
    let job = world.delegates(None);
    let mut again = world.submit(world.jobs[&job].call, None);
    let progress = |submit| Progress { jobs: vec![submit], ..Progress::default() };
    world.record(progress(again.clone())).expect("the same");
    assert_eq!(world.jobs.keys().collect::<Vec<_>>(), [&job]); // R-213
    again.request.kind = "another".to_owned();
    let events = world.events.len();
    assert_eq!(world.record(progress(again)).expect_err("refused").code, Code::JobRequestMismatch); // R-214
    assert_eq!((world.jobs.len(), world.events.len()), (1, events)); // R-214
    // The hop that comes after a crash finds the job, and asks nobody again.
    world.lapse();
    assert_eq!((world.status(), world.jobs.len()), (Status::AwaitingDelegate, 1)); // R-283
}

#[test]
pub(super) fn a_job_has_one_claimant_and_one_claim_one_answer() {
    let (mut world, job, token) = claimed();
    let before = world.jobs[&job].clone();
    assert_eq!(world.claim_job("ana", job), Ok(token)); // R-217: the same claim again
    assert_eq!(world.jobs[&job], before); // R-217
    assert_eq!(code(world.claim_job("ben", job).map(|_| before.clone())), Code::JobNotOwner); // R-217
    for (who, token) in [("ben", token), ("ana", token + 1), ("ana", 0)] {
        let refused: [Result<Job, Refusal>; 4] = [
            world.heartbeat(who, job, token),
            world.complete(who, job, token, "7"),
            world.fail_job(who, job, token),
            world.ack_cancel(who, job, token),
        ];
        for answer in refused {
            assert_eq!(code(answer), Code::JobNotOwner); // R-219
        }
    }
    assert_eq!(world.jobs[&job], before); // R-219
    assert_eq!(code(world.ack_cancel("ana", job, token)), Code::IllegalTransition); // R-230: nobody asked it to stop
}

#[test]
fn only_those_who_may_see_a_job_learn_of_it() {
    let (mut world, job) = parked();
    let claim = JobAct::Claim { worker: "w".to_owned(), lease: MINUTE, claim_id: "c".to_owned() };
    let powerless = Principal { rights: Rights::from_iter([Right::RunsRead]), ..person("ana") };
    let foreign = Principal { namespace: "elsewhere".to_owned(), ..person("ana") };
    for (who, code) in [(powerless, Code::NotPermitted), (foreign, Code::NotFound)] {
        let command = JobCommand { by: caller(who), job, act: claim.clone(), taker: None };
        assert_eq!(world.give(Command::Job(Box::new(command))).expect_err("refused").code, code); // R-12
    }
    let unknown = world.mint();
    assert_eq!(code(world.act("ana", unknown, claim)), Code::NotFound); // R-193
    for lease in [Duration::ZERO, Duration::from_secs(3_601)] {
        let claim = JobAct::Claim { worker: "w".to_owned(), lease, claim_id: "c".to_owned() };
        assert_eq!(code(world.act("ana", job, claim)), Code::InvalidRequest);
    }
}

#[test]
fn heartbeats_keep_a_job_and_silence_loses_it() {
    let (mut world, job, token) = claimed();
    let events = world.events.len();
    for _ in 0..3 {
        world.pass(MINUTE / 2);
        let progress = Some(protocol::json::canonicalize(br#"{"done":3}"#).expect("JSON"));
        let heard = world.act("ana", job, JobAct::Heartbeat { token, progress: progress.clone() }).expect("heard");
        assert_eq!((heard.due_at(), heard.progress), (Some(world.now + MINUTE), progress)); // R-218
    }
    assert_eq!(world.events.len(), events); // R-218: like a renewal
    let large = protocol::json::canonicalize(format!("\"{}\"", "x".repeat(4_095)).as_bytes()).expect("JSON");
    let told = world.act("ana", job, JobAct::Heartbeat { token, progress: Some(large) });
    assert_eq!(code(told), Code::LimitExceeded); // R-218
    world.pass(MINUTE);
    world.recover();
    assert!(world.is_at(Status::Queued, 1)); // R-290
    let lost = world.jobs[&job].clone();
    assert!(matches!(lost.state, State::Ended { end: End::Lost { .. }, .. })); // R-206
    assert_eq!((lost.stopped_at, lost.may_run()), (None, true)); // R-211 R-232
    assert_eq!(code(world.claim_job("ben", job).map(|_| lost.clone())), Code::JobTerminal); // R-226
    assert_eq!(code(world.heartbeat("ana", job, token)), Code::JobTerminal); // R-222
}

#[test]
fn a_job_that_may_be_done_twice_goes_to_another_agent_three_times() {
    let mut world = World::running();
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let submit = world.submit(call.id, None);
    let request = protocol::job::Request { retries: JOB_RETRIES, ..submit.request.clone() };
    let job = submit.job;
    let (entries, jobs) = (vec![Entry::Call(Box::new(call))], vec![Submit { request, ..submit }]);
    world.record(Progress { entries, jobs, ..Progress::default() }).expect("handed over");
    world.park().expect("parked");
    let mut tokens = Vec::new();
    for round in 0..3 {
        tokens.push(world.claim_job("ana", job).expect("claimed"));
        world.pass(MINUTE);
        let events = world.events.len();
        // Its own agent may be the first who tells that its time is over.
        let told = if round == 1 { world.complete("ana", job, tokens[1], "7") } else { world.recover_job(job) };
        assert_eq!(told.is_err(), round == 1);
        assert_eq!(world.kinds(events), ["job.queued"]); // R-226
        let row = &world.jobs[&job];
        assert_eq!((end(row), row.agent.is_none(), row.may_run()), ("queued", true, false)); // R-226
        assert_eq!(world.status(), Status::AwaitingDelegate); // R-226: nothing of it has ended
        assert_eq!(code(world.complete("ana", job, tokens[round], "7")), Code::JobNotOwner); // R-219
        assert_eq!(code(world.heartbeat("ana", job, tokens[round])), Code::JobNotOwner); // R-219
    }
    let last = world.claim_job("ben", job).expect("claimed");
    assert_eq!([tokens, vec![last]].concat(), [1, 2, 3, 4]); // R-217: larger at every claim
    world.pass(MINUTE);
    world.recover();
    assert_eq!(end(&world.jobs[&job]), "lost"); // R-226: at most three times
    assert!(world.is_at(Status::Queued, 1)); // R-290
}

#[test]
fn a_job_that_is_to_stop_is_given_to_nobody_else() {
    let (mut world, job, token) = claimed();
    world.rows.as_mut().expect("a run").jobs.edit(job).expect("a job").request.retries = JOB_RETRIES;
    world.cancel();
    world.pass(MINUTE);
    world.recover();
    assert_eq!((end(&world.jobs[&job]), world.status()), ("lost", Status::Cancelling)); // R-210 R-270
    world.ack_cancel("ana", job, token).expect("it stopped");
    assert_eq!(world.status(), Status::Cancelled); // R-270
}

/// A call that waits for two jobs and a signal; the jobs, of which an agent has the second, and its token.
fn race() -> (World, [JobId; 2], u32) {
    let mut world = World::running();
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let mut jobs = [world.submit(call.id, None), world.submit(call.id, None)];
    jobs[1].place = 1;
    let ids = [jobs[0].job, jobs[1].job];
    let awaited = Awaited { name: "paid".to_owned(), schema: None };
    let signals = vec![AwaitSignal { wait: world.mint(), call: call.id, awaited: awaited.into() }];
    let entries = vec![Entry::Call(Box::new(call))];
    world.record(Progress { entries, signals, jobs: jobs.into(), ..Progress::default() }).expect("it waits");
    let token = world.claim_job("ana", ids[1]).expect("claimed");
    world.park().expect("parked");
    (world, ids, token)
}

#[test]
fn of_several_jobs_and_a_signal_the_first_end_asks_the_other_agents_to_stop() {
    let (mut world, [idle, taken], token) = race();
    assert_eq!(world.status(), Status::AwaitingDelegate); // R-183
    let events = world.events.len();
    world.send("paid", "a", "1").expect("taken");
    assert!(world.is_at(Status::Queued, 1)); // R-182
    let told = world.kinds(events);
    assert_eq!(told.iter().filter(|kind| **kind == "wait.closed").count(), 2); // R-182 W-134
    assert_eq!([end(&world.jobs[&idle]), end(&world.jobs[&taken])], ["cancelled", "cancelling"]); // R-182 R-230
    assert_eq!(end(&world.heartbeat("ana", taken, token).expect("heard")), "cancelling"); // R-218
    let done = world.complete("ana", taken, token, "7").expect("it finished first");
    assert_eq!(end(&done), "succeeded"); // R-210
    assert!(world.is_at(Status::Queued, 1)); // R-184 W-134: what lost returns no run

    let (mut world, [idle, taken], token) = race();
    world.complete("ana", taken, token, "7").expect("completed");
    assert_eq!(end(&world.jobs[&idle]), "cancelled"); // R-182
    assert!(world.is_at(Status::Queued, 1)); // R-182
    world.claim(2).expect("claimed");
    let call = world.jobs[&taken].call;
    world.end(call, ok()).expect("the hop took it");
    world.finish().expect("nothing is left open");
}

#[test]
pub(super) fn a_run_that_has_nothing_else_left_waits_for_all_jobs_that_were_asked_to_stop() {
    let mut world = World::running();
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let jobs: Vec<Submit> = (0..3).map(|place| Submit { place, ..world.submit(call.id, None) }).collect();
    let (id, ids) = (call.id, [0, 1, 2].map(|n: usize| jobs[n].job));
    world
        .record(Progress { entries: vec![Entry::Call(Box::new(call))], jobs, ..Progress::default() })
        .expect("it waits");
    let tokens = ids.map(|job| world.claim_job("ana", job).expect("claimed"));
    world.complete("ana", ids[0], tokens[0], "7").expect("completed");
    world.end(id, ok()).expect("the hop took it");
    assert_eq!(world.finish().expect_err("refused").code, Code::WaitUnsafe); // R-127
    let rejoin = |world: &mut World, job| Rejoin { job, wait: world.mint(), call: id };
    let foreign = Rejoin { job: world.mint(), ..rejoin(&mut world, ids[1]) };
    let refused = world.record(Progress { rejoins: vec![foreign], ..Progress::default() }).expect_err("refused");
    assert_eq!(refused.code, Code::WaitOwnerMismatch); // R-225
    assert_eq!(world.status(), Status::Running); // R-225
    let rejoins = vec![rejoin(&mut world, ids[1]), rejoin(&mut world, ids[2])];
    world.record(Progress { rejoins, ..Progress::default() }).expect("it waits again");
    let again = Progress { rejoins: vec![rejoin(&mut world, ids[1])], ..Progress::default() };
    assert_eq!(world.record(again).expect_err("refused").code, Code::WaitUnsafe); // R-178
    world.park_in(WaitMode::All).expect("parked");
    world.complete("ana", ids[2], tokens[2], "8").expect("it finished first");
    assert_eq!(world.status(), Status::AwaitingDelegate); // R-127: all of them
    world.ack_cancel("ana", ids[1], tokens[1]).expect("it stopped");
    assert!(world.is_at(Status::Queued, 1)); // R-127
    world.claim(2).expect("claimed");
    world.finish().expect("done");
}

#[test]
fn what_comes_late_is_kept_and_changes_nothing() {
    let (mut world, job, token) = claimed();
    world.pass(MINUTE);
    // Nobody has looked: the completion itself finds that its time is over. A worker that could take the run in the same
    // commit does not: it would never learn of it.
    let events = world.events.len();
    let text = protocol::json::canonicalize(b"7").expect("JSON");
    let act = JobAct::Report { token, reported: Reported::Succeeded { result: args("7"), text } };
    let taker = Some(Taker { worker: worker(1), ttl: TTL, able: Able::Everything });
    let command = JobCommand { by: caller(person("ana")), job, act, taker };
    assert_eq!(world.give(Command::Job(Box::new(command))).expect_err("over").code, Code::JobTerminal); // R-222
    assert_eq!(world.kinds(events), ["job.lost", "run.queued", "report.late", "job.stopped"]); // R-112
    let row = world.jobs[&job].clone();
    assert_eq!(end(&row), "lost"); // R-222
    assert!(matches!(row.late[..], [ref late] if matches!(late.report, Report::Succeeded { .. }) && late.by == "ana")); // R-112
    assert_eq!(row.stopped_at, Some(world.now)); // R-211
    let events = world.events.len();
    assert_eq!(code(world.complete("ana", job, token, "7")), Code::JobTerminal);
    assert_eq!((world.events.len(), &world.jobs[&job]), (events, &row)); // R-3: the same is kept once
    let refused = world.fail_job("ana", job, token).expect_err("over");
    assert_eq!((refused.code, world.jobs[&job].late.len()), (Code::JobTerminal, 2)); // R-112
    let truth = refused.truth.expect("what stands").value();
    assert_eq!(truth.get("state").and_then(|state| state.as_str()), Some("lost")); // R-222
    assert_eq!((world.status(), world.run().seq), (Status::Queued, 1)); // R-112
}

#[test]
pub(super) fn the_first_end_stands() {
    let (mut world, job, token) = claimed();
    world.complete("ana", job, token, "7").expect("completed");
    let (before, events) = (world.jobs[&job].clone(), world.events.len());
    assert_eq!(world.complete("ana", job, token, "7"), Ok(before.clone())); // R-222
    assert_eq!(code(world.complete("ana", job, token, "8")), Code::JobTerminal); // R-222
    assert_eq!(code(world.fail_job("ana", job, token)), Code::JobTerminal); // R-222
    assert_eq!(world.ack_cancel("ana", job, token), Ok(before.clone())); // R-3
    assert_eq!((&world.jobs[&job], world.events.len()), (&before, events)); // R-211
    let (mut world, job, token) = claimed();
    let failed = world.fail_job("ana", job, token).expect("failed");
    assert!(matches!(failed.state, State::Ended { end: End::Failed { .. }, .. })); // R-205
    assert_eq!(done_body(&world, job), r#""it broke""#); // R-212
}

#[test]
pub(super) fn a_result_that_does_not_fit_leaves_the_job_to_its_agent() {
    let (mut world, job, token) = claimed();
    let (before, events) = (world.jobs[&job].clone(), world.events.len());
    assert_eq!(code(world.complete("ana", job, token, "\"seven\"")), Code::ResultInvalid); // R-221
    assert_eq!((&world.jobs[&job], world.events.len()), (&before, events)); // R-221
    world.limits.result_bytes = 1;
    assert_eq!(code(world.complete("ana", job, token, "77")), Code::LimitExceeded); // R-220
    assert_eq!(end(&world.complete("ana", job, token, "7").expect("it fits")), "succeeded"); // R-221
}

#[test]
fn a_deadline_ends_a_job_whoever_has_it() {
    for claimed in [false, true] {
        let mut world = World::running();
        let job = world.delegates(Some(MINUTE / 2));
        world.park().expect("parked");
        let token = claimed.then(|| world.claim_job("ana", job).expect("claimed"));
        world.pass(MINUTE / 2);
        let expire = Command::ExpireJob { run: world.run().id, job };
        assert!(matches!(world.give(expire.clone()), Ok(Answer::Settled { changed: true, .. })));
        let row = &world.jobs[&job];
        assert!(matches!(row.state, State::Ended { end: End::TimedOut { .. }, .. })); // R-204 R-207
        assert_eq!(row.stopped_at.is_some(), !claimed); // R-211
        assert!(world.is_at(Status::Queued, 1)); // R-290
        assert!(matches!(world.give(expire), Ok(Answer::Settled { changed: false, .. }))); // R-3
        if let Some(token) = token {
            let row = world.ack_cancel("ana", job, token).expect("it says that it stopped");
            assert_eq!((end(&row), row.stopped_at), ("timed_out", Some(world.now))); // R-231
        }
    }
}

#[test]
fn an_end_before_the_park_returns_the_run_at_once() {
    let mut world = World::running();
    let job = world.delegates(None);
    let token = world.claim_job("ana", job).expect("claimed");
    world.complete("ana", job, token, "7").expect("completed");
    assert_eq!(world.rows().waits.keys(Wait::is_ended).len(), 1); // R-223
    assert_eq!((world.status(), world.run().seq), (Status::Running, 0)); // R-224: not parked, so nothing returns
    world.park().expect("parked");
    assert!(world.is_at(Status::Queued, 1)); // R-223 R-175
}

#[test]
fn only_the_end_of_a_parked_wait_returns_a_run() {
    let mut world = World::running();
    let jobs = [world.delegates(None), world.delegates(None)];
    world.park_in(WaitMode::All).expect("parked");
    let tokens = jobs.map(|job| world.claim_job("ana", job).expect("claimed"));
    world.complete("ana", jobs[0], tokens[0], "1").expect("completed");
    assert_eq!(world.status(), Status::AwaitingDelegate); // R-181
    world.complete("ana", jobs[1], tokens[1], "2").expect("completed");
    assert!(world.is_at(Status::Queued, 1)); // R-181
    world.complete("ana", jobs[0], tokens[0], "1").expect("again");
    assert!(world.is_at(Status::Queued, 1)); // R-224
}

#[test]
fn a_run_that_parks_on_people_and_jobs_waits_for_people() {
    let mut world = World::running();
    let job = world.delegates(None);
    let ask = world.hot(obligation());
    world.park().expect("parked");
    assert_eq!(world.status(), Status::AwaitingConsent); // R-183
    let token = world.claim_job("ana", job).expect("claimed");
    world.verdict("ben", ask.id, Verdict::Approve).expect("approved");
    assert!(world.is_at(Status::Queued, 1)); // R-180
    world.complete("ana", job, token, "7").expect("completed");
    assert!(world.is_at(Status::Queued, 1)); // R-184: one return for both
}

#[test]
fn a_cancel_waits_for_the_agent_and_names_its_job() {
    let (mut world, job, token) = claimed();
    let events = world.events.len();
    world.cancel();
    assert_eq!(world.status(), Status::Cancelling); // R-263
    assert_eq!(end(&world.jobs[&job]), "cancelling"); // R-208
    assert_eq!(world.kinds(events), ["job.cancelling", "wait.closed", "containment.opened", "run.cancelling"]); // R-262
    let owed: Vec<_> = world.rows().obligations.iter().map(|row| row.subject).collect();
    assert_eq!(owed, [Subject::Job(job)]); // R-263
    let events = world.events.len();
    world.cancel();
    assert_eq!(world.events.len(), events); // R-230: asking again starts no second cancel
    let heard = world.heartbeat("ana", job, token).expect("heard");
    assert_eq!(end(&heard), "cancelling"); // R-218: told to stop
    // It goes silent: the job is lost, and that is no acknowledgement.
    world.pass(MINUTE);
    world.recover();
    assert_eq!((end(&world.jobs[&job]), world.status()), ("lost", Status::Cancelling)); // R-210 R-270
    let row = world.ack_cancel("ana", job, token).expect("at last");
    assert_eq!((end(&row), row.stopped_at), ("lost", Some(world.now))); // R-231
    assert_eq!(world.status(), Status::Cancelled); // R-270
}

#[test]
fn an_agent_that_was_asked_to_stop_may_stop_or_finish_first() {
    type Verb = fn(&mut World, JobId, u32) -> Result<Job, Refusal>;
    let verbs: [(Verb, &str); 3] = [
        (|world, job, token| world.ack_cancel("ana", job, token), "cancelled"), // R-209
        (|world, job, token| world.complete("ana", job, token, "7"), "succeeded"), // R-210
        (|world, job, token| world.fail_job("ana", job, token), "failed"),      // R-210
    ];
    for (verb, state) in verbs {
        let (mut world, job, token) = claimed();
        world.cancel();
        let row = verb(&mut world, job, token).expect("accepted");
        assert_eq!((end(&row), row.stopped_at), (state, Some(world.now))); // R-209 R-210
        assert_eq!(world.status(), Status::Cancelled); // R-270
        assert_eq!(verb(&mut world, job, token), Ok(row)); // R-222
    }
}

#[test]
fn a_job_that_nobody_has_stops_with_its_run() {
    let (mut world, job) = parked();
    world.cancel();
    let row = &world.jobs[&job];
    assert_eq!((end(row), row.stopped_at.is_some()), ("cancelled", true)); // R-204 R-230
    assert_eq!(world.status(), Status::Cancelled); // R-263
    assert_eq!(code(world.claim_job("ana", job).map(|_| unreachable!())), Code::JobTerminal); // R-230
}

#[test]
fn a_run_whose_job_was_lost_goes_on_and_a_later_cancel_waits_for_the_agent() {
    let (mut world, job, token) = claimed();
    world.pass(MINUTE);
    world.recover();
    world.claim(2).expect("claimed");
    world.cancel();
    world.hop(Progress::default(), Act::Acknowledge).expect("the hop stopped");
    assert_eq!(world.status(), Status::Cancelling); // R-263: lost is not stopped
    world.ack_cancel("ana", job, token).expect("it stopped");
    assert_eq!(world.status(), Status::Cancelled); // R-270
}

#[test]
fn a_failing_run_waits_for_its_agents() {
    let (mut world, job, token) = claimed();
    let ask_nobody = world.run().id;
    world.rows.as_mut().expect("a run").run.deadline = Some(world.now + MINUTE / 2);
    world.pass(MINUTE / 2);
    world.recover();
    assert_eq!((world.run().id, world.status()), (ask_nobody, Status::Failing)); // R-253
    world.complete("ana", job, token, "7").expect("it finished first");
    assert_eq!(world.status(), Status::Failed); // R-257
}

#[test]
fn no_run_is_done_while_a_job_of_it_goes_on() {
    let mut world = World::running();
    let job = world.delegates(None);
    assert_eq!(world.finish().expect_err("refused").code, Code::WaitUnsafe); // R-23 R-127
    let token = world.claim_job("ana", job).expect("claimed");
    world.pass(MINUTE);
    world.renew();
    assert_eq!(code(world.heartbeat("ana", job, token)), Code::JobTerminal);
    let call = world.jobs[&job].call;
    world.end(call, ok()).expect("taken");
    world.finish().expect("a lost job has ended for the run");
    // What is known to be left of it is told on the run that has ended.
    world.ack_cancel("ana", job, token).expect("it stopped"); // R-231
    assert_eq!(world.events.last().map(|event| event.kind), Some(Kind::JobStopped)); // R-250
    assert_eq!(world.status(), Status::Done); // R-250
}

#[test]
fn a_lapsed_hop_parks_on_the_job_that_it_waited_for() {
    let mut world = World::running();
    let job = world.delegates(None);
    let token = world.claim_job("ana", job).expect("claimed");
    world.pass(TTL);
    world.recover();
    assert_eq!(world.status(), Status::AwaitingDelegate); // R-283
    world.complete("ana", job, token, "7").expect("completed");
    assert!(world.is_at(Status::Queued, 1)); // R-224
}
