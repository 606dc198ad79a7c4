//! What a worker does with its claims: keeps them while it works, and lets go of what it lost (runs.md section 5).

use crate::desk::{Desk, Setting, eventually, local, request};
use crate::shop::{Reply, Shop};
use protocol::approval::Verdict;
use protocol::call::{Identity, Scope};
use protocol::code::Code;
use protocol::delivery::Cause;
use protocol::id::RunId;
use protocol::limits::WorkerSettings;
use protocol::run::{Run, Status};
use std::time::Duration;

/// Claims that lapse in a second.
fn brisk() -> Setting {
    let worker = WorkerSettings {
        claim_ttl: Duration::from_secs(1),
        renew_every: Duration::from_millis(100),
        stop_margin: Duration::from_millis(300),
        ..Setting::default().worker
    };
    Setting { worker, ..Setting::default() }
}

async fn with_shop(setting: Setting) -> (Desk, Shop) {
    let (desk, shop) = (Desk::with(setting).await, Shop::open().await);
    desk.apply(&shop.tools()).await;
    (desk, shop)
}

async fn row(desk: &Desk, run: RunId) -> Run {
    desk.engine.ledger().run(run).await.expect("read").expect("a run")
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_is_not_dead() {
    let (desk, shop) = with_shop(brisk()).await;
    shop.tell("/look", [Reply::Holds]);
    let run = desk.begin("shop.look()\nresult = 1", "{}").await;
    shop.reached("/look", 1).await;
    let first = row(&desk, run).await.claim().expect("a claim").clone();
    // Three lives of its claim, in one step.
    let long_after = first.deadline + Duration::from_secs(2);
    eventually("renewals", async || row(&desk, run).await.claim().is_some_and(|claim| claim.deadline > long_after))
        .await;
    let now = row(&desk, run).await;
    assert_eq!((now.status(), now.seq, now.claim().map(|c| c.token)), (Status::Running, 0, Some(first.token))); // R-108
    shop.release();
    let done = desk.ended(run).await;
    assert_eq!((done.status(), done.seq), (Status::Done, 0)); // R-108
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_past_its_deadline_is_ended_by_its_own_hop() {
    // A guest that never ends by itself, under a claim that is renewed all the while; and one that waits for a person.
    for (source, setting) in
        [("while True: pass", brisk()), ("shop.peek()", Setting { hot: Duration::from_secs(50), ..brisk() })]
    {
        let (desk, _shop) = with_shop(setting).await;
        desk.register(source).await.expect("registered");
        let deadline = desk.engine.ledger().now() + Duration::from_millis(1_500);
        let started = engine::StartRun { deadline: Some(deadline), ..request("{}") };
        let run = desk.engine.start_run(local(), started).await.expect("started").run;
        let run = desk.ended(run.id).await;
        assert!(run.finished_at().expect("ended") >= deadline);
        let failure = run.failure().expect("failed");
        let told = (failure.code, failure.message.as_str());
        assert_eq!(told, (Code::RunDeadlineExceeded, "run deadline exceeded"), "{source}"); // R-379
        assert_eq!((run.status(), run.seq, run.fence), (Status::Failed, 0, 1), "{source}"); // R-379: by its hop
        assert!(desk.pending(run.id).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_claim_drops_what_it_has() {
    let (desk, shop) = with_shop(brisk()).await;
    shop.tell("/look", [Reply::Says(200, r#"{"n": 1}"#), Reply::Says(200, r#"{"n": 2}"#)]);
    // A read that nothing durable rests on, and then a guest that never ends by itself.
    let source = "n = shop.look()['n']\nwhile n == 1: pass\nresult = n";
    let run = desk.begin(source, "{}").await;
    shop.reached("/look", 1).await;
    eventually("a guest at work", async || desk.engine.guests().iter().any(|guest| guest.run == run && guest.resident))
        .await;
    desk.lose(run).await;
    // The next renewal says so; the guest stops, and the run goes on elsewhere from its journal, which has no read.
    let done = desk.ended(run).await;
    assert_eq!((done.status(), desk.result(&done).await.as_str()), (Status::Done, "2")); // R-100 R-106: made again
    assert_eq!((done.seq, done.fence), (1, 3));
    assert_eq!(shop.seen("/look").len(), 2); // R-106 R-314 R-354
    let events = desk.engine.ledger().events(run, None, 100).await.expect("read").expect("a run");
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).filter(|k| !k.starts_with("node.")).collect();
    let told = ["run.queued", "run.running", "claim.lapsed", "run.queued", "run.running", "call.entered", "call.ended"];
    assert_eq!(kinds[..7], told); // R-100: nothing of the lost hop was written, before or after
    assert_eq!(kinds[7..], ["run.done"]);
    let recovered = events[3].facts.value();
    assert_eq!(recovered.get("cause").and_then(|c| c.as_str()), Some(Cause::Recovery.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_hop_that_was_lost_is_dropped() {
    let (desk, shop) = with_shop(brisk()).await;
    shop.tell("/buy", [Reply::Holds]);
    let run = desk.begin("result = shop.buy()", "{}").await;
    shop.reached("/buy", 1).await;
    desk.lose(run).await;
    let parked = row(&desk, run).await;
    assert_eq!(parked.status(), Status::AwaitingConsent);
    let before = desk.engine.ledger().rows(run).await.expect("read").expect("a run");
    eventually("the hop is gone", async || desk.engine.guests().iter().all(|guest| guest.run != run)).await;
    shop.release();
    // The bell of another run rings after that answer was there to be stored.
    let other = desk.run_as_other("result = 1").await;
    assert_eq!(other.status(), Status::Done);
    let after = desk.engine.ledger().rows(run).await.expect("read").expect("a run");
    assert_eq!(after, before); // R-100 R-111: the question stands
    assert_eq!(shop.seen("/buy").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_the_queue_and_priority_of_its_request_or_the_defaults() {
    let desk = Desk::with(Setting::idle()).await;
    desk.register("result = 1").await.expect("registered");
    let plain = desk.engine.start_run(local(), request("{}")).await.expect("started").run;
    assert_eq!((plain.queue.as_str(), plain.priority), ("default", 50)); // R-48
    let asked = engine::StartRun { priority: Some(70), queue: Some("default".to_owned()), ..request("{}") };
    let asked = desk.engine.start_run(local(), asked).await.expect("started").run;
    assert_eq!((asked.queue.as_str(), asked.priority), ("default", 70)); // R-48
    let other = engine::StartRun { queue: Some("fast".to_owned()), ..request("{}") };
    let Err(engine::Failure::Refused(refused)) = desk.engine.start_run(local(), other).await else { panic!("refused") };
    assert_eq!(refused.code, Code::UnknownQueue); // R-43
    assert!(refused.detail.contains("`fast`"), "{}", refused.detail); // R-43
    let (found, _) = desk.engine.ledger().claimable(0, 10).await.expect("read");
    let order: Vec<_> = found.iter().map(|claimable| (claimable.run, claimable.priority)).collect();
    assert_eq!(order, [(asked.id, 70), (plain.id, 50)]); // R-48: higher is sooner
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_a_run_does_not_fail_it() {
    let (desk, shop) = with_shop(brisk()).await;
    let run = desk.begin("shop.peek()\nresult = 1", "{}").await;
    desk.asked(run).await;
    // A reader that leaves, a lost claim, a shutdown, and a server that is away for a moment.
    let reader = tokio::time::timeout(
        Duration::from_millis(1),
        desk.engine.wait(run, engine::Until::Terminal, Duration::from_secs(60)),
    );
    assert!(reader.await.is_err()); // R-259
    desk.lose(run).await;
    let desk = desk.reopen(brisk()).await;
    desk.apply(&shop.tools()).await;
    let question = desk.asked(run).await;
    desk.decide(question.id, protocol::approval::Verdict::Approve).await.expect("approved");
    let done = desk.ended(run).await;
    assert_eq!(done.status(), Status::Done); // R-259
    let events = desk.engine.ledger().events(run, None, 100).await.expect("read").expect("a run");
    assert!(!events.iter().any(|event| ["run.failing", "run.failed"].contains(&event.kind.as_str()))); // R-259
}

#[tokio::test(flavor = "multi_thread")]
async fn each_hop_answers_one_word() {
    let (desk, shop) = with_shop(Setting::default()).await;
    let counted = async |expected: &[(&str, u64)]| {
        let same = async || desk.engine.hops() == expected;
        eventually("each hop is counted", same).await; // R-93
    };
    assert_eq!(desk.run("result = 1", "{}").await.status(), Status::Done);
    assert_eq!(desk.run("result = 1 / 0", "{}").await.status(), Status::Failed);
    counted(&[("done", 1), ("failed", 1)]).await;
    let run = desk.run("result = stasis.ask('go on?').status", "{}").await;
    counted(&[("done", 1), ("failed", 1), ("awaiting_consent", 1)]).await;
    desk.decide(desk.asked(run.id).await.id, Verdict::Approve).await.expect("decided");
    desk.ended(run.id).await;
    counted(&[("done", 2), ("failed", 1), ("awaiting_consent", 1)]).await;
    shop.tell("/look", [Reply::Holds, Reply::Holds]);
    let run = desk.begin("shop.look()\nresult = 1", "{}").await;
    shop.reached("/look", 1).await;
    desk.engine.pause(local(), run, None).await.expect("paused");
    shop.release();
    counted(&[("done", 2), ("failed", 1), ("queued", 1), ("awaiting_consent", 1)]).await;
    desk.engine.resume(local(), run, None).await.expect("resumed");
    desk.ended(run).await;
    let run = desk.begin("shop.look()\nshop.look()\nresult = 1", "{}").await;
    shop.reached("/look", 2).await;
    desk.cancel(run).await;
    shop.release();
    assert_eq!(desk.ended(run).await.status(), Status::Cancelled);
    counted(&[("done", 3), ("failed", 1), ("queued", 1), ("awaiting_consent", 1), ("stopped", 1)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_decides_no_status_deletes_no_checkpoint_and_makes_no_effect_that_is_not_journaled() {
    let (desk, shop) = with_shop(Setting::default()).await;
    shop.tell("/send", [Reply::Holds]);
    let run = desk.run("stasis.gate('go on?')\nshop.send()\nresult = 1", "{}").await;
    desk.decide(desk.asked(run.id).await.id, Verdict::Approve).await.expect("decided");
    shop.reached("/send", 1).await;
    // It goes on from its checkpoint, which stays until the ledger has another one or its end.
    assert!(desk.engine.ledger().checkpoint(run.id).await.expect("read").is_some()); // R-138
    desk.cancel(run.id).await;
    shop.release();
    // The program came to its end, and the run does not.
    let ended = desk.ended(run.id).await;
    assert_eq!(ended.status(), Status::Cancelled); // R-138
    let calls = desk.calls(run.id).await;
    let journaled = |call: &protocol::call::Call| match call.identity {
        Identity { scope: Scope::Main, n } => call.position.is_some() && n <= ended.budget.calls,
        Identity { scope: Scope::Engine, .. } => true,
    };
    assert!(calls.iter().all(journaled), "{calls:?}"); // R-138
    let keys: Vec<String> = calls.iter().filter(|call| call.gate().is_some()).map(|call| call.key()).collect();
    let seen: Vec<String> = shop.seen("/send").into_iter().map(|seen| seen.key).collect();
    assert_eq!(seen, keys[keys.len() - 1..]); // R-138
}
