//! Passes over ledgers with bad rows in them.

use super::*;
use crate::testing::Bench;
use futures_util::future::join_all;
use protocol::delivery::Cause as Delivered;
use protocol::id::RunId;
use protocol::limits::WorkerSettings;
use protocol::run::Status;

/// Pages of two rows.
fn small() -> WorkerSettings {
    WorkerSettings { page_size: 2, ..WorkerSettings::default() }
}

/// Makes a run's row unreadable, and gives what stood there.
fn spoil(bench: &Bench, run: RunId) -> Vec<u8> {
    let db = bench.tamper();
    let state = db.query_row("SELECT state FROM run WHERE id = ?1", [run.as_bytes()], |row| row.get(0)).expect("a row");
    db.execute("UPDATE run SET state = x'0102' WHERE id = ?1", [run.as_bytes()]).expect("spoiled");
    state
}

async fn status(bench: &Bench, run: RunId) -> Status {
    bench.world.ledger.run(run).await.expect("read").expect("there").status()
}

#[tokio::test]
async fn bad_rows_stop_neither_their_page_nor_what_is_behind_it() {
    let bench = Bench::with(small()).await;
    let mut runs = Vec::new();
    for _ in 0..7 {
        runs.push(bench.world.running().await.id);
        bench.world.pass(Duration::from_millis(1));
    }
    // Five that lapsed first, and so more than two pages in front of the good ones.
    let (bad, good) = runs.split_at(5);
    let whole: Vec<Vec<u8>> = bad.iter().map(|run| spoil(&bench, *run)).collect();
    bench.world.pass(Duration::from_secs(60));
    let since = bench.world.ledger.now();
    let mut sweeps = Sweeps::default();
    let mut all = Vec::new();
    // One round: as many pages as there are.
    for _ in 0..4 {
        all.push(sweeps.recover(&bench.inner, Reach::Lapsed).await);
    }
    assert!(all.iter().any(|pass| !pass.is_clean())); // degraded
    assert_eq!(all.iter().map(|pass| pass.errors).sum::<u32>(), 5); // each counted, once a round
    assert_eq!(
        all.iter().map(|pass| (pass.changed, pass.repaired)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
        (2, 2)
    );
    for run in good {
        assert_eq!(status(&bench, *run).await, Status::Queued); // R-87 R-317
    }
    // They are left as they are, and told of with why and since when.
    // The others wait for the guest image, which a bench has not.
    let mut stuck = stuck(&bench.inner).await.expect("read");
    stuck.retain(|stuck| stuck.cause == Cause::Corrupt);
    let named: Vec<&str> = stuck.iter().map(|stuck| stuck.run.as_str()).collect();
    assert_eq!(named, bad.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert!(stuck.iter().all(|stuck| stuck.since == since));
    assert!(bad.iter().all(|run| bench.inner.health.of(*run).is_some())); // none of them looks healthy
    // Mended by hand, each is the next pass's.
    let db = bench.tamper();
    for (run, state) in bad.iter().zip(whole) {
        db.execute("UPDATE run SET state = ?1 WHERE id = ?2", rusqlite::params![state, run.as_bytes()])
            .expect("mended");
    }
    let pass = Sweeps::recover_all(&bench.inner, Reach::Lapsed).await;
    assert_eq!((pass.changed, pass.errors), (5, 0));
    assert!(pass.is_clean() && bench.inner.health.list().is_empty()); // R-88 R-318
}

#[tokio::test]
async fn waits_that_are_due_together_end_in_batches_and_each_once() {
    let bench = Bench::with(small()).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(bench.world.parked().await.0.id);
    }
    bench.world.pass(Duration::from_secs(86_400));
    let mut sweeps = Sweeps::default();
    let mut batches = Vec::new();
    for _ in 0..4 {
        let commits = bench.world.ledger.commits();
        let next = expire(&bench.inner, &mut sweeps).await;
        let changed = bench.inner.health.passes()[1].expect("made").changed;
        batches.push((changed, next.hurry));
        // Rows of one page are committed together, as far as the writer takes them together.
        assert!(bench.world.ledger.commits() - commits <= u64::from(changed));
    }
    // A full page is followed by the scan, not by the next page at once.
    assert_eq!(batches, [(2, false), (2, false), (1, true), (0, true)]);
    for run in runs {
        let run = bench.world.ledger.run(run).await.expect("read").expect("there");
        assert_eq!((run.status(), run.seq), (Status::Queued, 1)); // one delivery each, with no worker at all
        assert_eq!(run.delivery().map(|delivery| delivery.cause), Some(Delivered::Return));
        let events = bench.world.ledger.events(run.id, None, 100).await.expect("read").expect("there");
        assert_eq!(events.iter().filter(|event| event.kind.as_str() == "approval.expired").count(), 1);
    }
}

/// So many runs asleep for three weeks, all due in one second.
const ASLEEP: usize = 3_000;
const WEEKS: Duration = Duration::from_secs(21 * 86_400);

#[tokio::test]
async fn thousands_sleep_for_weeks_at_no_cost_and_wake_in_batches_each_once() {
    let bench = Bench::with(WorkerSettings::default()).await;
    let page = bench.inner.settings.page_size;
    let mut asleep = Vec::new();
    for _ in 0..ASLEEP / 500 {
        asleep.extend(join_all((0..500).map(|_| bench.world.asleep(WEEKS))).await);
    }
    let ledger = &bench.world.ledger;
    let due = ledger.next_due().await.expect("read").expect("they wake");
    let (mut sweeps, commits) = (Sweeps::default(), ledger.commits());
    for _ in 0..20 {
        bench.world.pass(Duration::from_secs(86_400));
        let next = expire(&bench.inner, &mut sweeps).await;
        assert_eq!(sweeps.recover(&bench.inner, Reach::Lapsed).await, Pass::default());
        assert_eq!((bench.inner.health.passes()[1], next.at), (Some(Pass::default()), Some(due))); // never before
    }
    assert!(ledger.claimable(0, 1).await.expect("read").0.is_empty()); // no delivery while they sleep
    assert_eq!(ledger.commits(), commits); // nothing was decided for them
    bench.world.pass(Duration::from_secs(86_400));
    let mut woken = 0;
    while woken < ASLEEP as u32 {
        expire(&bench.inner, &mut sweeps).await;
        let pass = bench.inner.health.passes()[1].expect("made");
        assert!(pass.is_clean() && (1..=page).contains(&pass.changed), "{pass:?}");
        woken += pass.changed;
    }
    expire(&bench.inner, &mut sweeps).await;
    assert_eq!(bench.inner.health.passes()[1], Some(Pass::default()));
    assert_eq!(ledger.next_due().await.expect("read"), None);
    for before in asleep {
        let run = ledger.run(before.id).await.expect("read").expect("there");
        assert_eq!((run.status(), run.seq), (Status::Queued, 1)); // one delivery each, with no worker at all
        assert_eq!(run.events.len, before.events.len + 2); // its timer, and that it is queued
        assert_eq!((run.fence, run.budget), (before.fence, before.budget));
    }
}

#[tokio::test]
async fn what_a_stopping_run_waits_for_is_no_error_and_no_hurry() {
    let bench = Bench::with(small()).await;
    let (run, _) = bench.world.dispatched().await;
    bench.world.cancel(run.id).await.expect("cancelled");
    let mut sweeps = Sweeps::default();
    let pass = sweeps.recover(&bench.inner, Reach::Lapsed).await;
    assert_eq!(pass, Pass { blocked: 1, ..Pass::default() });
    assert!(pass.is_clean());
    bench.world.pass(Duration::from_secs(91));
    let pass = sweeps.recover(&bench.inner, Reach::Lapsed).await;
    assert_eq!(pass.errors, 0);
    assert_eq!(status(&bench, run.id).await, Status::Cancelled);
    // Nobody knows whether its effect happened: it stays on the list until somebody says.
    let stuck = stuck(&bench.inner).await.expect("read");
    let [one] = &stuck[..] else { panic!("{stuck:?}") };
    assert_eq!((one.run.as_str(), one.cause), (run.id.to_string().as_str(), Cause::Ambiguous));
    assert!(one.since <= bench.world.ledger.now());
}

#[tokio::test]
async fn old_runs_go_page_by_page_and_at_the_age_that_is_set() {
    let retention = Duration::from_secs(3_600);
    let bench = Bench::with(WorkerSettings { retention, ..small() }).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(bench.world.parked().await.0.id);
    }
    // The second one never ends, and the last one keeps the numbers of the ledger.
    for run in [0, 2, 3, 4] {
        bench.world.cancel(runs[run]).await.expect("cancelled");
    }
    let mut sweeps = Sweeps::default();
    assert_eq!(sweeps.remove(&bench.inner).await, Pass::default()); // they are young
    bench.world.pass(retention);
    let mut removed = Vec::new();
    for _ in 0..4 {
        let commits = bench.world.ledger.commits();
        let pass = sweeps.remove(&bench.inner).await;
        assert!(pass.is_clean() && bench.world.ledger.commits() - commits <= 2);
        removed.push((pass.changed, pass.blocked));
    }
    // Two runs a look at most; then round again, and what stayed is met again.
    assert_eq!(removed, [(1, 0), (2, 0), (0, 1), (0, 1)]); // R-251 R-39
    for (n, run) in runs.iter().enumerate() {
        let (stays, kept) = (n == 1 || n == 4, bench.world.ledger.removed(*run).await.expect("read"));
        assert_eq!(bench.world.ledger.run(*run).await.expect("read").is_some(), stays);
        assert_eq!(kept.map(|kept| kept.status), (!stays).then_some(Status::Cancelled));
    }
}

#[tokio::test]
async fn start_does_not_wait_for_recovery() {
    let bench = Bench::with(small()).await;
    for _ in 0..5 {
        bench.world.running().await;
    }
    let bad = bench.world.running().await.id;
    spoil(&bench, bad);
    let config = crate::EngineConfig {
        agents: Vec::new(),
        audit: None,
        private_webhooks: true,
        ledger: bench.world.ledger.clone(),
        image: crate::Image::Missing { why: "not needed".to_owned() },
        connectors: crate::tools::Connectors::new(crate::tools::Surroundings::default()),
        resources: Vec::new(),
        owner: String::new(),
        limits: protocol::limits::Limits::default(),
        worker: small(),
        migrators: crate::Migrators::default(),
        workflows: crate::workflow::Workflows::default(),
        hot_window: Duration::ZERO,
        carry: false,
        capacity: 1,
        separate_requester: false,
    };
    let engine = crate::Engine::start(config).await.expect("started");
    // On one thread nothing of it ran yet: it takes commands all the same, and says that it recovers.
    assert!(engine.recovering() && engine.ledger().ready());
    assert_eq!(bench.world.queued().await.status(), Status::Queued);
    engine.recovered().await;
    assert!(!engine.recovering()); // a bad row does not stop it
    let pass = engine.passes()[0].expect("made");
    assert_eq!((pass.repaired, pass.errors), (5, 1)); // R-276 R-88
    assert!(engine.blocked(bad).is_some());
    engine.shutdown().await;
}
