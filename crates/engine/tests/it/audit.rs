//! When anchors are made, what they tell of removed runs, and an export that cannot be written (C-276, C-277, R-361).

use crate::desk::{Desk, Setting, eventually, manual};
use engine::audit::Runs;
use protocol::audit::BreakKind;
use protocol::id::RunId;
use std::sync::atomic::Ordering;
use std::time::Duration;

const ENDS: &str = "result = inputs\n";

fn often() -> Setting {
    let mut setting = Setting { anchors: true, ..Setting::default() };
    setting.worker.anchor_every = Duration::from_millis(40);
    setting
}

fn lines(desk: &Desk) -> Vec<String> {
    std::fs::read_to_string(desk.export()).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Anchored with its last event.
async fn is_anchored(desk: &Desk, run: RunId) -> bool {
    let head = desk.engine.ledger().run(run).await.expect("read").expect("a run").events;
    lines(desk).iter().any(|line| line.contains(&head.digest.to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_is_anchored_in_time_and_nothing_else() {
    let desk = Desk::with(often()).await;
    let one = desk.run(ENDS, "1").await.id;
    eventually("the end is anchored", async || is_anchored(&desk, one).await).await; // C-276
    let before = lines(&desk).len();
    // Several times as long as it takes: nothing changed, so nothing is said.
    let _ = tokio::time::timeout(Duration::from_millis(250), std::future::pending::<()>()).await;
    assert_eq!(lines(&desk).len(), before); // C-276
    let other = desk.run(ENDS, "2").await.id;
    eventually("the other too", async || is_anchored(&desk, other).await).await;
    assert!(!lines(&desk).last().expect("a line").contains(&one.to_string())); // C-276: runs changed since then

    // The ledger stands by them page by page.
    let first = desk.engine.verify_export(Runs::All, 1).await.expect("read").expect("an export");
    assert_eq!((first.runs, first.broken, first.next), (1, None, Some(one.min(other))));
    let rest = desk.engine.verify_export(Runs::After(one.min(other)), 1).await.expect("read").expect("an export");
    assert_eq!((rest.runs, rest.broken, rest.next), (1, None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_cannot_be_written_is_told_and_caught_up_with() {
    let desk = Desk::with(Setting::idle()).await;
    // A file stands where the folder of the export has to be.
    let folder = desk.export().parent().expect("a folder").to_owned();
    std::fs::write(&folder, "").expect("written");
    let desk = desk.reopen(often()).await;
    let run = desk.run(ENDS, "1").await.id;
    let trouble = async || desk.engine.audit_state().await.and_then(|state| state.trouble);
    eventually("it is told", async || trouble().await.is_some()).await;
    assert!(trouble().await.expect("told").contains("export.ndjson"));
    // Runs go on without it.
    desk.run(ENDS, "2").await;
    std::fs::remove_file(&folder).expect("removed");
    eventually("it is caught up with", async || is_anchored(&desk, run).await && trouble().await.is_none()).await;
    let found = desk.engine.verify_export(Runs::All, 10).await.expect("read").expect("an export");
    assert_eq!((found.runs, found.broken), (2, None)); // none was left out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_run_is_told_of_and_one_that_was_taken_away_is_missed() {
    let (mut setting, clock) = manual();
    setting.anchors = true;
    setting.worker.anchor_every = Duration::from_millis(40);
    setting.worker.retention = Duration::from_secs(3_600);
    let desk = Desk::with(setting.clone()).await;
    let old = desk.run(ENDS, "1").await.id;
    eventually("its end is anchored", async || is_anchored(&desk, old).await).await;
    clock.fetch_add(3_601 * 1_000_000, Ordering::SeqCst);
    // The newest run stays, so that its number is not given out again.
    let newest = desk.run(ENDS, "2").await.id;
    eventually("the old one is removed", async || desk.engine.ledger().run(old).await.expect("read").is_none()).await;
    let told = format!("\"removed\":[\"{old}\"]");
    eventually("and said to be", async || lines(&desk).iter().any(|line| line.contains(&told))).await;
    eventually("the newest is anchored", async || is_anchored(&desk, newest).await).await;
    let found = desk.engine.verify_export(Runs::All, 10).await.expect("read").expect("an export");
    assert_eq!((found.runs, found.broken), (2, None));

    // Somebody takes a run away and writes that it was removed, before the last anchor was made.
    let third = desk.run(ENDS, "3").await.id;
    eventually("the third is anchored", async || is_anchored(&desk, third).await).await;
    clock.fetch_add(1_000_000, Ordering::SeqCst);
    let fourth = desk.run(ENDS, "4").await.id;
    eventually("a later anchor is made", async || is_anchored(&desk, fourth).await).await;
    let path = desk.ledger_path();
    let taken = third;
    let desk = desk
        .reopen_after(Setting { carry: false, ..setting }, move || {
            let db = rusqlite::Connection::open(path).expect("a ledger");
            let id = taken.as_bytes();
            db.execute(
                "INSERT INTO removed (id, namespace, status, finished_at, events, head, removed_at)
                 SELECT id, namespace, status, finished_at, events, head, removed_at FROM
                 (SELECT ?1 AS id, namespace, status, finished_at, events, head, removed_at FROM removed LIMIT 1)",
                [id],
            )
            .expect("forged");
            db.execute("DELETE FROM event WHERE run = (SELECT n FROM run WHERE id = ?1)", [id]).expect("taken");
            db.execute("DELETE FROM run WHERE id = ?1", [id]).expect("taken");
        })
        .await;
    let found = desk.engine.verify_export(Runs::One(third), 10).await.expect("read").expect("an export");
    let broken = found.broken.expect("it is missed");
    assert_eq!((broken.kind, broken.field), (BreakKind::Missing, "run")); // C-279
    assert!(broken.found.contains("no anchor tells"), "{broken}");
}
