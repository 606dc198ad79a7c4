//! Agents that Stasis calls: jobs that are started at a real server, which answers well, badly, late or not at all.

use crate::desk::{Desk, Setting, eventually, local};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use engine::config::Agent;
use protocol::event::Kind;
use protocol::id::RunId;
use protocol::job::{self, Job};
use protocol::limits::WorkerSettings;
use protocol::run::{Run, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const PROGRAM: &str = r#"
try:
    result = stasis.delegate("translate", {"text": "Guten Tag"}, schema={"type": "string"})
except stasis.JobFailed as error:
    result = {"status": error.status, "error": error.detail["error"]}
"#;

/// What the agent does with one request to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    Takes,
    /// Takes it, and the answer never comes.
    Drops,
    Refuses,
}

#[derive(Default)]
struct Inside {
    mood: Option<Mood>,
    /// Tasks by the id that this agent gives them, in the order in which they came.
    tasks: BTreeMap<String, Value>,
    /// What it says when it is asked.
    says: Option<Value>,
    starts: Vec<(String, Option<String>)>,
    asked: usize,
    cancels: usize,
    /// Whether its own ids are those that it was given.
    keyed: bool,
    /// Whether it answers at all when it is asked.
    dead: bool,
}

#[derive(Clone, Default)]
struct Remote(Arc<Mutex<Inside>>);

impl Remote {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn says(&self, value: Value) {
        self.inside().says = Some(value);
    }

    async fn open(keyed: bool) -> (Remote, String) {
        let remote = Remote::default();
        remote.inside().keyed = keyed;
        let router = Router::new()
            .route("/jobs", post(begin))
            .route("/jobs/{id}", get(ask))
            .route("/jobs/{id}/cancel", post(cancel))
            .with_state(remote.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/jobs", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (remote, url)
    }
}

type Answer = (StatusCode, String);

async fn begin(State(remote): State<Remote>, headers: HeaderMap, body: String) -> Answer {
    let mood = {
        let mut inside = remote.inside();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let key = text("idempotency-key").expect("a key");
        inside.starts.push((key.clone(), text("authorization")));
        let mood = inside.mood.unwrap_or(Mood::Takes);
        if mood != Mood::Refuses {
            let id = if inside.keyed { key } else { format!("remote-{}", inside.tasks.len() + 1) };
            inside.tasks.insert(id, serde_json::from_str(&body).expect("JSON"));
        }
        mood
    };
    match mood {
        Mood::Takes => {
            let last = remote.inside().tasks.keys().next_back().cloned();
            (StatusCode::ACCEPTED, json!({ "id": last }).to_string())
        }
        Mood::Drops => std::future::pending().await,
        Mood::Refuses => (StatusCode::UNPROCESSABLE_ENTITY, "no such language".to_owned()),
    }
}

async fn ask(State(remote): State<Remote>, Path(id): Path<String>) -> Answer {
    let mut inside = remote.inside();
    inside.asked += 1;
    match (inside.dead, inside.tasks.contains_key(&id)) {
        (true, _) => (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
        (false, false) => (StatusCode::NOT_FOUND, String::new()),
        (false, true) => {
            (StatusCode::OK, inside.says.clone().unwrap_or_else(|| json!({"status": "running"})).to_string())
        }
    }
}

async fn cancel(State(remote): State<Remote>, Path(_): Path<String>) -> Answer {
    remote.inside().cancels += 1;
    (StatusCode::ACCEPTED, String::new())
}

fn setting(url: &str, idempotent: bool) -> Setting {
    let often = Duration::from_millis(20);
    let agent = Agent {
        kind: "translate".to_owned(),
        url: url.parse().expect("a url"),
        token: None,
        idempotent,
        timeout: Duration::from_millis(400),
        poll_every: often,
        lease: Duration::from_secs(30),
        start_within: Duration::from_secs(20),
        namespace: "default".to_owned(),
    };
    let worker = WorkerSettings { scan_every: often, recover_every: often, ..Setting::default().worker };
    Setting { agents: vec![agent], worker, ..Setting::default() }
}

async fn the_job(desk: &Desk, run: RunId) -> Option<Job> {
    let rows = desk.engine.ledger().rows(run).await.expect("read").expect("a run");
    rows.jobs.into_iter().next()
}

async fn ended(desk: &Desk, run: RunId) -> (Run, Value) {
    let run = desk.ended(run).await;
    let result = serde_json::from_str(&desk.result(&run).await).expect("JSON");
    (run, result)
}

async fn kinds(desk: &Desk, run: RunId) -> Vec<Kind> {
    let events = desk.engine.ledger().events(run, None, usize::MAX).await.expect("read").expect("a run");
    events.into_iter().map(|event| event.kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_started_asked_about_and_its_end_adopted_once() {
    let (remote, url) = Remote::open(false).await;
    let mut setting = setting(&url, false);
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), "sesame\n").expect("written");
    setting.agents[0].token = Some(engine::tools::Reference::File(secret.path().to_owned()));
    let desk = Desk::with(setting).await;
    let run = desk.begin(PROGRAM, "{}").await;
    eventually("it is parked", async || desk.engine.ledger().run(run).await.unwrap().unwrap().status().is_parked())
        .await;
    eventually("it begins", async || remote.inside().asked > 2).await;
    let job = the_job(&desk, run).await.expect("a job");
    assert_eq!((&job.state, job.may_run()), (&job::State::Running, true)); // R-227 R-203
    assert_eq!(job.agent.as_ref().map(|agent| agent.principal.as_str()), Some("agent:translate"));
    {
        let inside = remote.inside();
        assert_eq!(inside.starts, [(job.id.to_string(), Some("Bearer sesame".to_owned()))]); // R-215
        let task = inside.tasks.values().next().expect("a task");
        assert_eq!((&task["task"], &task["kind"]), (&json!({"text": "Guten Tag"}), &json!("translate"))); // R-216
    }
    remote.says(json!({"status": "running", "progress": {"done": 3}}));
    eventually("progress", async || {
        let told = the_job(&desk, run).await.and_then(|job| job.progress);
        told.is_some_and(|told| told.as_str().contains("\"done\":3"))
    })
    .await;
    remote.says(json!({"status": "succeeded", "result": "Good day"}));
    let (row, result) = ended(&desk, run).await;
    assert_eq!((row.status(), result), (Status::Done, json!("Good day"))); // R-228
    let told = kinds(&desk, run).await;
    assert_eq!(told.iter().filter(|kind| **kind == Kind::JobSucceeded).count(), 1); // R-228
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_at_the_start_fails_the_job_and_one_in_asking_leaves_it_as_it_is() {
    let (remote, url) = Remote::open(false).await;
    remote.inside().mood = Some(Mood::Refuses);
    let desk = Desk::with(setting(&url, false)).await;
    let (_, result) = ended(&desk, desk.begin(PROGRAM, "{}").await).await;
    assert_eq!(result["status"], "failed"); // R-227
    assert_eq!(result["error"]["message"], "the agent refused it with status 422");
    assert_eq!(result["error"]["said"], "no such language");

    remote.inside().mood = None;
    let run = desk.engine.start_run(local(), crate::desk::request("{}")).await.expect("started").run.id;
    eventually("it begins", async || remote.inside().asked > 1).await;
    remote.inside().dead = true;
    let asked = remote.inside().asked;
    eventually("it is asked in vain", async || remote.inside().asked > asked + 5).await;
    assert_eq!(the_job(&desk, run).await.map(|job| job.state), Some(job::State::Running)); // R-228
    remote.inside().dead = false;
    // A result that its schema refuses would be told again for ever: it fails the job.
    remote.says(json!({"status": "succeeded", "result": 5}));
    let (_, result) = ended(&desk, run).await;
    assert_eq!(result["status"], "failed"); // R-221
    assert!(result["error"]["message"].as_str().is_some_and(|why| why.contains("result")), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_answer_never_came_is_asked_about_or_lost() {
    for (idempotent, expected) in [(true, json!("Good day")), (false, json!("lost"))] {
        let (remote, url) = Remote::open(idempotent).await;
        remote.inside().mood = Some(Mood::Drops);
        remote.says(json!({"status": "succeeded", "result": "Good day"}));
        let mut setting = setting(&url, idempotent);
        setting.agents[0].lease = Duration::from_millis(1_500);
        let desk = Desk::with(setting).await;
        let (_, result) = ended(&desk, desk.begin(PROGRAM, "{}").await).await;
        let told = if idempotent { result } else { result["status"].clone() };
        assert_eq!(told, expected, "idempotent: {idempotent}"); // R-227
        assert_eq!(remote.inside().starts.len(), 1); // R-227: it was begun once
        assert_eq!(remote.inside().asked > 0, idempotent);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_before_its_run_parked_is_asked_for_once_more_and_an_error_then_is_none_of_the_run() {
    let (remote, url) = Remote::open(false).await;
    let mut setting = setting(&url, false);
    // Nothing asks by itself.
    setting.agents[0].poll_every = Duration::from_secs(1_000);
    setting.agents[0].lease = Duration::from_secs(2_000);
    let desk = Desk::with(setting).await;
    // The gate of the mail commits the job too; a look in flight keeps the run from its park until the test lets it go.
    let source = r#"
delegated = stasis.delegate.later("translate", "Guten Tag")
result = stasis.parallel(delegated, mail.send.later(to="a"), payments.order.later(order_id="slow"))[0]
"#;
    let run = desk.begin(source, "{}").await;
    desk.payments.reached().await;
    eventually("it begins", async || remote.inside().asked == 1).await;
    remote.says(json!({"status": "succeeded", "result": "Good day"}));
    assert_eq!(the_job(&desk, run).await.map(|job| job.state), Some(job::State::Running));
    desk.payments.release();
    let (row, result) = ended(&desk, run).await;
    assert_eq!((row.status(), result), (Status::Done, json!("Good day"))); // R-176
    assert!(kinds(&desk, run).await.contains(&Kind::Run(Status::AwaitingDelegate))); // R-176: it had parked

    // The same, and the agent does not answer: the run stays parked.
    remote.says(json!({"status": "running"}));
    let before = remote.inside().asked;
    let run = desk.engine.start_run(local(), crate::desk::request("{}")).await.expect("started").run.id;
    desk.payments.reached().await;
    eventually("it begins", async || remote.inside().asked == before + 1).await;
    remote.inside().dead = true;
    desk.payments.release();
    eventually("it is asked after the park", async || remote.inside().asked >= before + 2).await;
    let row = desk.engine.ledger().run(run).await.unwrap().unwrap();
    assert_eq!(row.status(), Status::AwaitingDelegate); // R-176
    assert_eq!(the_job(&desk, run).await.map(|job| job.state), Some(job::State::Running)); // R-228
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_told_to_the_agent_and_holds_until_it_says_that_it_stopped() {
    let (remote, url) = Remote::open(false).await;
    let desk = Desk::with(setting(&url, false)).await;
    let run = desk.begin(PROGRAM, "{}").await;
    eventually("it begins", async || remote.inside().asked > 1).await;
    assert_eq!(desk.cancel(run).await.status(), Status::Cancelling);
    eventually("it is told", async || remote.inside().cancels > 0).await;
    assert_eq!(desk.engine.ledger().run(run).await.unwrap().unwrap().status(), Status::Cancelling); // R-230
    remote.says(json!({"status": "cancelled"}));
    assert_eq!(desk.ended(run).await.status(), Status::Cancelled); // R-209
    assert_eq!(remote.inside().cancels, 1); // R-230: asking again starts no second cancel
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_goes_on_with_what_was_begun() {
    for (idempotent, keyed) in [(false, false), (true, true)] {
        let (remote, url) = Remote::open(keyed).await;
        let desk = Desk::with(setting(&url, idempotent)).await;
        let run = desk.begin(PROGRAM, "{}").await;
        eventually("it begins", async || remote.inside().asked > 1).await;
        desk.stopped(run).await;
        let desk = desk.reopen(setting(&url, idempotent)).await;
        let asked = remote.inside().asked;
        eventually("it is asked again", async || remote.inside().asked > asked + 1).await;
        remote.says(json!({"status": "succeeded", "result": "Good day"}));
        let (_, result) = ended(&desk, run).await;
        assert_eq!((result, remote.inside().starts.len()), (json!("Good day"), 1)); // R-227 R-228
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_be_reached_is_tried_and_then_fails_the_job() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let mut setting = setting(&format!("http://127.0.0.1:{port}/jobs"), false);
    setting.agents[0].start_within = Duration::from_millis(200);
    let desk = Desk::with(setting).await;
    let (_, result) = ended(&desk, desk.begin(PROGRAM, "{}").await).await;
    assert_eq!(result["status"], "failed"); // R-227
    assert!(result["error"]["message"].as_str().is_some_and(|why| why.contains("could not be reached")), "{result}");
}
