//! Programs that hand jobs over, from Python to an agent and back.

use crate::desk::{Desk, Setting, eventually, local, manual};
use engine::{ClaimJobs, Failure};
use protocol::code::Code;
use protocol::command::{JobAct, Reported};
use protocol::id::{JobId, RunId};
use protocol::job::{End, Job, State};
use protocol::json::canonicalize;
use protocol::rows::NewBody;
use protocol::run::Status;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) async fn claim(desk: &Desk, kind: &str, claim_id: &str, limit: usize) -> Vec<Job> {
    let (kind, claim_id) = (kind.to_owned(), claim_id.to_owned());
    let request = ClaimJobs { kind, worker: "robot".to_owned(), lease: None, claim_id, limit };
    desk.engine.claim_jobs(local(), request).await.expect("claimed")
}

pub(crate) async fn report(desk: &Desk, job: &Job, reported: Reported) -> Result<Job, Failure> {
    let token = job.agent.as_ref().expect("claimed").token;
    desk.engine.job(local(), job.id, JobAct::Report { token, reported }).await.map(|(_, job, _)| job)
}

pub(crate) fn success(text: &str) -> Reported {
    let text = canonicalize(text.as_bytes()).expect("JSON");
    Reported::Succeeded { result: NewBody::new(text.as_bytes()), text }
}

pub(crate) fn failure(text: &str) -> Reported {
    Reported::Failed { error: NewBody::new(canonicalize(text.as_bytes()).expect("JSON").as_bytes()) }
}

async fn jobs(desk: &Desk, run: RunId) -> Vec<Job> {
    desk.engine.ledger().rows(run).await.expect("read").expect("a run").jobs
}

async fn told(desk: &Desk, run: RunId, job: &Job) -> String {
    String::from_utf8(desk.engine.ledger().body(run, job.request.task.digest).await.expect("read").expect("there"))
        .expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_parks_on_a_job_and_goes_on_with_its_result() {
    let desk = Desk::open().await;
    let source = "review = stasis.delegate('reviewer', {'look': 'at it'})\nresult = review['verdict']";
    let run = desk.run(source, "{}").await;
    assert_eq!(run.status(), Status::AwaitingDelegate); // R-183
    assert!(desk.engine.guests().iter().all(|guest| !guest.resident)); // R-174
    let desk = desk.reopen(Setting::default()).await;
    assert!(claim(&desk, "another", "c-0", 10).await.is_empty()); // R-203
    let claimed = claim(&desk, "reviewer", "c-1", 10).await;
    assert_eq!((claimed.len(), told(&desk, run.id, &claimed[0]).await.as_str()), (1, r#"{"look":"at it"}"#)); // R-216
    assert_eq!(claim(&desk, "reviewer", "c-1", 10).await, claimed); // R-217
    assert!(claim(&desk, "reviewer", "c-2", 10).await.is_empty()); // R-217
    report(&desk, &claimed[0], success(r#"{"verdict": "fine"}"#)).await.expect("completed");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#""fine""#); // W-123
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_does_not_succeed_raises_and_unhandled_fails_the_run() {
    let desk = Desk::open().await;
    let source = "
try:
    stasis.delegate('reviewer', 1)
except stasis.JobFailed as error:
    first = [error.code, error.status, error.detail['error'], error.message]
stasis.delegate('reviewer', first)
";
    let run = desk.run(source, "{}").await;
    let first = claim(&desk, "reviewer", "c-1", 1).await.remove(0);
    report(&desk, &first, failure(r#""no access""#)).await.expect("failed");
    eventually("the second job", async || jobs(&desk, run.id).await.len() == 2).await;
    let second = claim(&desk, "reviewer", "c-2", 1).await.remove(0);
    let wanted = format!(r#"["job_ended","failed","no access","job {} ended failed"]"#, first.id);
    assert_eq!(told(&desk, run.id, &second).await, wanted); // W-144
    report(&desk, &second, failure("null")).await.expect("failed");
    let run = desk.ended(run.id).await;
    let failure = run.failure().expect("it failed");
    let text = format!("job {} ended failed", second.id);
    assert_eq!((failure.code, failure.message.as_str()), (Code::JobEnded, text.as_str())); // R-229 W-150
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_waits_for_all_its_jobs_and_a_hot_one_in_place() {
    let desk = Desk::with(Setting::hot(Duration::from_secs(60))).await;
    let source = "
waits = [stasis.delegate.later('reviewer', n) for n in range(3)]
result = stasis.parallel(*waits)
";
    let run = desk.begin(source, "{}").await;
    eventually("three jobs", async || jobs(&desk, run).await.len() == 3).await;
    let claimed = claim(&desk, "reviewer", "c-1", 10).await;
    for job in claimed.iter().rev() {
        let task = told(&desk, run, job).await;
        report(&desk, job, success(&format!("1{task}"))).await.expect("completed");
    }
    let run = desk.ended(run).await;
    assert_eq!((desk.result(&run).await.as_str(), run.seq), ("[10,11,12]", 0)); // W-118 W-137
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_gets_an_attenuated_plan_or_does_not_exist() {
    let desk = Desk::open().await;
    let source = "
codes = []
for rules in [{'tools': ['payments.nothing']}, {'tools': ['payments.order'], 'max_calls': 10_000}]:
    try:
        stasis.delegate('reviewer', 1, **rules)
    except stasis.Denied as refused:
        codes.append(refused.code)
stasis.delegate('reviewer', codes, tools=['payments.order'], max_calls=2)
";
    let run = desk.run(source, "{}").await;
    let handed = jobs(&desk, run.id).await;
    assert_eq!(handed.len(), 1); // W-136: nothing was handed over for those that were refused
    assert_eq!(told(&desk, run.id, &handed[0]).await, r#"["tool_widened","calls_widened"]"#); // C-46
    let plan = handed[0].request.plan.expect("a plan");
    let plan = desk.engine.ledger().body(run.id, plan.digest).await.expect("read").expect("there");
    let plan: protocol::plan::Plan = serde_json::from_slice(&plan).expect("a plan");
    assert_eq!((plan.max_calls, plan.tools.len(), plan.tools[0].name.as_str()), (2, 1, "payments.order")); // W-136
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_agent_goes_silent_is_lost_and_one_past_its_time_times_out() {
    let (setting, clock) = manual();
    let desk = Desk::with(setting).await;
    let source = "
ends = []
for limit in [None, '30s']:
    try:
        stasis.delegate('reviewer', 1, timeout=limit)
    except stasis.JobFailed as error:
        ends.append(error.status)
result = ends
";
    let run = desk.run(source, "{}").await;
    let job = claim(&desk, "reviewer", "c-1", 1).await.remove(0);
    clock.fetch_add(Duration::from_secs(60).as_micros() as i64, Ordering::SeqCst); // R-206: the default heartbeat
    eventually("the second job", async || jobs(&desk, run.id).await.len() == 2).await;
    clock.fetch_add(Duration::from_secs(30).as_micros() as i64, Ordering::SeqCst);
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"["lost","timed_out"]"#); // R-206 R-204
    let late = report(&desk, &job, success("1")).await.expect_err("too late");
    assert!(matches!(late, Failure::Refused(refusal) if refusal.code == Code::JobTerminal)); // R-222
    assert_eq!(jobs(&desk, run.id).await[0].late.len(), 1); // R-112
    assert_eq!(desk.ended(run.id).await.status(), Status::Done); // R-112
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_waits_for_the_agent_over_a_restart() {
    let desk = Desk::open().await;
    let run = desk.run("stasis.delegate('reviewer', 1)", "{}").await;
    let job = claim(&desk, "reviewer", "c-1", 1).await.remove(0);
    desk.engine.cancel(local(), run.id, None).await.expect("cancelled");
    let desk = desk.reopen(Setting::default()).await;
    let stopping = desk.engine.ledger().run(run.id).await.expect("read").expect("a run");
    assert_eq!(stopping.status(), Status::Cancelling); // R-263
    let token = job.agent.as_ref().expect("claimed").token;
    let heard = desk.engine.job(local(), job.id, JobAct::Heartbeat { token, progress: None }).await.expect("heard").1;
    assert!(matches!(heard.state, State::Cancelling { .. })); // R-218
    let (stopped, job, _) = desk.engine.job(local(), job.id, JobAct::AckCancel { token }).await.expect("acknowledged");
    assert_eq!(stopped.status(), Status::Cancelled); // R-270
    assert!(matches!(job.state, State::Ended { end: End::Cancelled, .. })); // R-209
}

#[tokio::test(flavor = "multi_thread")]
async fn many_claims_at_once_share_no_job() {
    let desk = Desk::open().await;
    let source = "stasis.parallel(*[stasis.delegate.later('reviewer', n) for n in range(12)])";
    desk.run(source, "{}").await;
    let claims = (0..8).map(|n| {
        // Half of them say the same again.
        let name = format!("c-{}", n % 4);
        let desk = &desk;
        async move { (name.clone(), claim(desk, "reviewer", &name, 3).await) }
    });
    let claimed = futures_util::future::join_all(claims).await;
    let mut by_claim: std::collections::BTreeMap<String, Vec<JobId>> = std::collections::BTreeMap::new();
    for (name, jobs) in claimed {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        assert_eq!(ids.len(), 3);
        let known = by_claim.entry(name).or_insert_with(|| ids.clone());
        assert_eq!(*known, ids); // R-217: the same claim, the same jobs
    }
    let all: std::collections::BTreeSet<_> = by_claim.into_values().flatten().collect();
    assert_eq!(all.len(), 12); // R-217: no two claims get one job
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_agents_the_faster_one_wins_and_the_run_ends_when_the_other_has_stopped() {
    let desk = Desk::open().await;
    let source = "
jobs = [stasis.delegate.later('reviewer', 'the same') for n in range(2)]
result = list(stasis.first(stasis.gate.later('or you?'), *jobs))
";
    let run = desk.run(source, "{}").await;
    assert_eq!(run.status(), Status::AwaitingConsent); // R-183
    let [slow, fast] = <[Job; 2]>::try_from(claim(&desk, "reviewer", "c-1", 10).await).expect("two jobs");
    report(&desk, &fast, success("7")).await.expect("completed");
    eventually("a run that waits for the other", async || {
        let run = desk.engine.ledger().run(run.id).await.expect("read").expect("a run");
        run.status() == Status::AwaitingDelegate
    })
    .await; // R-127
    assert!(desk.pending(run.id).await.is_empty()); // R-182
    let token = slow.agent.as_ref().expect("claimed").token;
    let beat = JobAct::Heartbeat { token, progress: None };
    let heard = desk.engine.job(local(), slow.id, beat).await.expect("heard").1;
    assert!(matches!(heard.state, State::Cancelling { .. })); // R-182 R-218
    let desk = desk.reopen(Setting::default()).await;
    desk.engine.job(local(), slow.id, JobAct::AckCancel { token }).await.expect("acknowledged");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, format!("[{},7]", fast.place)); // W-124 W-134
    assert_eq!(fast.place, 2); // W-124: gates and jobs are counted alike
    let ends = jobs(&desk, run.id).await.into_iter().map(|job| job.state.as_str()).collect::<Vec<_>>();
    assert_eq!((ends, run.seq), (vec!["cancelled", "succeeded"], 2)); // R-127
}

#[tokio::test(flavor = "multi_thread")]
async fn first_of_jobs_tells_how_one_failed_and_hands_nothing_over_where_a_member_is_refused() {
    let desk = Desk::open().await;
    let source = "
told = []
for more in [stasis.delegate.later('reviewer', 1, tools=['payments.nothing']), stasis.signal.later('paid')]:
    try:
        stasis.first(stasis.delegate.later('reviewer', 0), stasis.gate.later('money'), stasis.sleep.later('1h'), more)
    except stasis.ToolError as error:
        told.append([type(error).__name__, error.code, getattr(error, 'status', None)])
result = told
";
    let run = desk.run(source, "{}").await;
    let handed = jobs(&desk, run.id).await;
    assert_eq!((handed.len(), desk.pending(run.id).await.len()), (1, 1)); // W-136
    let job = claim(&desk, "reviewer", "c-1", 10).await.remove(0);
    report(&desk, &job, failure("null")).await.expect("failed");
    let run = desk.ended(run.id).await;
    let told = r#"[["Denied","tool_widened",null],["JobFailed","job_ended","failed"]]"#;
    assert_eq!(desk.result(&run).await, told); // W-144 R-229
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_has_to_fit_the_schema_that_the_program_gave() {
    let desk = Desk::open().await;
    let source = "
try:
    stasis.delegate('reviewer', 1, schema={'type': 7})
except stasis.Denied as refused:
    code = refused.code
result = [code, stasis.delegate('reviewer', 1, schema={'type': 'integer'})]
";
    let run = desk.run(source, "{}").await;
    let job = claim(&desk, "reviewer", "c-1", 10).await.remove(0);
    let refused = report(&desk, &job, success(r#""seven""#)).await.expect_err("it does not fit");
    assert!(matches!(refused, Failure::Refused(refusal) if refusal.code == Code::ResultInvalid)); // R-221
    report(&desk, &job, success("7")).await.expect("completed");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"["invalid_arguments",7]"#); // R-221
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_may_be_done_twice_is_taken_over_from_an_agent_that_went_silent() {
    let (setting, clock) = manual();
    let desk = Desk::with(setting).await;
    let run = desk.run("result = stasis.delegate('reviewer', 1, retry='safe')", "{}").await;
    let first = claim(&desk, "reviewer", "c-1", 1).await.remove(0);
    clock.fetch_add(Duration::from_secs(60).as_micros() as i64, Ordering::SeqCst);
    eventually("a job that is queued again", async || jobs(&desk, run.id).await[0].agent.is_none()).await; // R-226
    // The answer to the old claim is no job of its agent any more: it is a claim like any other.
    let second = claim(&desk, "reviewer", "c-1", 1).await.remove(0);
    let tokens = [&first, &second].map(|job| job.agent.as_ref().expect("claimed").token);
    assert_eq!((first.id == second.id, tokens), (true, [1, 2])); // R-217
    let late = report(&desk, &first, success("1")).await.expect_err("it is not its job any more");
    assert!(matches!(late, Failure::Refused(refusal) if refusal.code == Code::JobNotOwner)); // R-219
    report(&desk, &second, success("2")).await.expect("completed");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "2"); // R-226
}
