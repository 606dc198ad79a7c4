//! Pauses over HTTP, and what is told of them (I-20, I-24, I-31).

use crate::house::{ECHO, House, problem, told};
use api::run::{ActionRequest, Pause, PauseScope};
use api::{DecisionRequest, Json, StartRun, Verdict};
use protocol::run::Status;
use reqwest::Method;
use serde_json::json;

fn why(reason: &str) -> ActionRequest {
    ActionRequest { reason: Some(reason.to_owned()) }
}

fn scopes(paused: &[Pause]) -> Vec<PauseScope> {
    paused.iter().map(|pause| pause.scope).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_a_run_is_told_once_with_what_goes_on_all_the_same() {
    let house = House::open().await;
    let (run, approval) = house.asking().await;
    let rita = house.person("rita").await;
    let paused = rita.pause(run.id, &why("the bank is closed")).await.unwrap();
    assert_eq!((paused.changed, paused.status), (Some(true), Status::AwaitingConsent)); // no status of its own
    let told_of = paused.paused[0].clone();
    assert_eq!((told_of.scope, &told_of.name), (PauseScope::Run, &run.id.to_string()));
    assert_eq!((told_of.by.as_str(), told_of.reason.as_deref()), ("rita", Some("the bank is closed")));
    let goes_on: Vec<_> = paused.waiting_for.iter().map(|wait| (wait.id.clone(), wait.due_at)).collect();
    assert_eq!(goes_on, [(approval.id.to_string(), approval.expires_at)]);
    let again = rita.pause(run.id, &why("me too")).await.unwrap();
    assert_eq!((again.changed, &again.paused), (Some(false), &paused.paused));
    let yes =
        DecisionRequest { arguments_digest: Some(approval.arguments_digest), ..DecisionRequest::of(Verdict::Approve) };
    house.local.decide(approval.id, &yes).await.unwrap();
    let queued = house.stopped(&run).await;
    assert_eq!((queued.status, scopes(&queued.paused)), (Status::Queued, vec![PauseScope::Run]));
    let explained = house.local.explain(run.id).await.unwrap();
    assert!(explained.why.contains("rita paused it"), "{}", explained.why);
    assert!(explained.moves.contains(&format!("stasis run resume {}", run.id)), "{:?}", explained.moves);
    assert_eq!((scopes(&explained.paused), explained.next), (vec![PauseScope::Run], None));
    let resumed = rita.resume(run.id, &ActionRequest::default()).await.unwrap();
    assert_eq!((resumed.changed, resumed.paused.len()), (Some(true), 0));
    let done = house.ended(&run).await;
    assert_eq!(done.status, Status::Done);
    for verb in ["pause", "resume"] {
        let request = house.raw(Method::POST, &format!("/v1/runs/{}/{verb}", run.id), Some(&house.token("rita").await));
        problem(request.json(&json!({})), 409, "run_terminal").await;
    }
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_workflow_and_queue_admit_and_say_what_is_paused() {
    let house = House::open().await;
    house.register("echo", ECHO).await;
    let rita = house.person("rita").await;
    let workflow = rita.pause_workflow("echo", &why("wrong account")).await.unwrap();
    assert_eq!((workflow.changed, workflow.paused[0].reason.as_deref()), (Some(true), Some("wrong account"))); // I-20
    assert_eq!(rita.pause_workflow("echo", &why("again")).await.unwrap().changed, Some(false));
    let queue = rita.pause_queue("default", &why("maintenance")).await.unwrap();
    assert_eq!((queue.changed, scopes(&queue.paused)), (Some(true), vec![PauseScope::Queue])); // I-31
    let run = rita.start(&StartRun::of("echo", Some(Json::parse("1").unwrap())), None).await.unwrap();
    assert_eq!(run.status, Status::Queued);
    assert_eq!(scopes(&run.paused), [PauseScope::Workflow, PauseScope::Queue]);
    let queues = house.local.queues().await.unwrap().items;
    assert_eq!((queues[0].name.as_str(), queues[0].queued, queues[0].paused.len()), ("default", 1, 1)); // I-31
    assert_eq!(rita.resume_queue("default", &ActionRequest::default()).await.unwrap().changed, Some(true));
    let left = house.local.run(run.id).await.unwrap();
    assert_eq!((left.status, scopes(&left.paused)), (Status::Queued, vec![PauseScope::Workflow]));
    let resumed = rita.resume_workflow("echo", &ActionRequest::default()).await.unwrap();
    assert_eq!((resumed.changed, resumed.paused.len()), (Some(true), 0)); // I-20
    let done = house.ended(&run).await;
    assert_eq!(done.status, Status::Done);
    let token = house.token("rita").await;
    for path in ["/v1/workflows/nobody/pause", "/v1/queues/nobody/pause"] {
        problem(house.raw(Method::POST, path, Some(&token)), 404, "not_found").await;
    }
    let (status, _) = told(house.raw(Method::POST, "/v1/queues/default/pause", Some(&house.token("vera").await))).await;
    assert_eq!(status, 403);
    house.host.shutdown().await;
}
