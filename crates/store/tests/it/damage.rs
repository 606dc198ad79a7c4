//! Rows that no decision wrote, and commands that cannot be saved: one run's trouble is nobody else's.

use protocol::able::Able;
use protocol::code::Code;
use protocol::command::{Act, Answer, Cancel, Claim, Command, Progress};
use protocol::run::Status;
use stasis_store::{ApprovalFilter, ReadError, RunFilter, TransactError};

use crate::home::Home;

#[tokio::test]
async fn a_row_that_cannot_be_read_is_reported_and_stops_no_page() {
    let home = Home::new();
    let world = home.world().await;
    let bad = world.queued().await.id;
    let good = world.queued().await.id;
    let db = home.tamper();
    let broken = db.execute("UPDATE run SET state = x'0102' WHERE id = ?1", [bad.as_bytes()]).unwrap();
    assert_eq!(broken, 1);
    let page = world.ledger.runs(RunFilter::default(), None, 10).await.unwrap();
    assert_eq!(page.items.iter().map(|run| run.id).collect::<Vec<_>>(), [good]);
    assert_eq!((page.faults[0].key.clone(), page.faults[0].field), (bad.to_string(), "state"));
    assert!(matches!(world.ledger.run(bad).await, Err(ReadError::Corrupt(_))));
    let claim = |run| Command::Claim(Claim { run, seq: 0, taker: world.taker() });
    let (refused, claimed) = tokio::join!(world.ledger.transact(claim(bad)), world.ledger.transact(claim(good)));
    assert!(matches!(refused, Err(TransactError::Corrupt(corrupt)) if corrupt.key == bad.to_string()));
    assert!(matches!(claimed, Ok(Answer::Claimed { .. })));
    let renew = protocol::command::Renew {
        worker: world.taker().worker,
        ttl: world.taker().ttl,
        claims: vec![(bad, 1), (good, 1)],
    };
    let renewed = world.ledger.renew(renew).await.unwrap();
    assert_eq!(renewed.iter().map(|(run, _)| *run).collect::<Vec<_>>(), [good]);
    let stored: Vec<u8> = db.query_row("SELECT state FROM run WHERE id = ?1", [bad.as_bytes()], |r| r.get(0)).unwrap();
    assert_eq!(stored, [1, 2]);
}

#[tokio::test]
async fn an_approval_of_a_bad_run_stops_no_inbox() {
    let home = Home::new();
    let world = home.world().await;
    let (bad, asked) = world.parked().await;
    let (_, good) = world.parked().await;
    home.tamper().execute("UPDATE approval SET document = x'ff' WHERE id = ?1", [asked.approval.as_bytes()]).unwrap();
    let page = world.ledger.approvals(ApprovalFilter::default(), None, 10).await.unwrap();
    assert_eq!(page.items.iter().map(|item| item.approval.id).collect::<Vec<_>>(), [good.approval]);
    assert_eq!(page.faults.len(), 1);
    assert_eq!(page.faults[0].field, "document");
    let told = world.cancel(bad.id).await;
    assert!(matches!(told, Err(TransactError::Corrupt(_))));
}

#[tokio::test]
async fn bytes_that_are_not_of_their_digest_are_not_given_out() {
    let home = Home::new();
    let world = home.world().await;
    let (run, _) = world.parked().await;
    let db = home.tamper();
    assert_eq!(db.execute("UPDATE checkpoint SET bytes = x'00', len = 1", []).unwrap(), 1);
    db.execute("UPDATE body SET bytes = zeroblob(length(bytes)) WHERE codec = 0", []).unwrap();
    assert!(matches!(world.ledger.checkpoint(run.id).await, Err(ReadError::Corrupt(_))));
    assert!(matches!(world.ledger.body(run.id, run.input.digest).await, Err(ReadError::Corrupt(_))));
    db.execute("DELETE FROM checkpoint", []).unwrap();
    assert!(world.ledger.checkpoint(run.id).await.unwrap().is_none());
}

#[tokio::test]
async fn an_altered_event_is_found_by_its_digest() {
    let home = Home::new();
    let world = home.world().await;
    let run = world.queued().await;
    let db = home.tamper();
    let pack: Vec<u8> = db.query_row("SELECT pack FROM event", [], |row| row.get(0)).unwrap();
    let at = pack.windows(3).position(|bytes| bytes == b"ana").expect("a name stands as it is");
    let mut altered = pack.clone();
    altered[at..at + 3].copy_from_slice(b"eve");
    db.execute("UPDATE event SET pack = ?1", [altered]).unwrap();
    let events = world.ledger.events(run.id, None, 10).await.unwrap().unwrap();
    assert_ne!(events[0].computed(), events[0].digest);
    assert_eq!(events[0].digest, run.events.digest);
}

#[tokio::test]
async fn the_schema_is_the_last_guard_of_a_final_row() {
    let home = Home::new();
    let world = home.world().await;
    let run = world.running().await;
    world.step(&run, Progress::default(), world.finish("{}")).await.unwrap();
    let parked = world.parked().await.1;
    world.decide(world.verdict(&parked, protocol::approval::Verdict::Approve, "bo")).await.unwrap();
    let db = home.tamper();
    let refused = [
        //
        ("UPDATE run SET status = 0, ready_at = 0, retry_at = 0, finished_at = NULL WHERE status = 9", "never changes"),
        //
        ("UPDATE run SET finished_at = NULL WHERE status = 9", "CHECK"),
        ("UPDATE run SET live = 1 WHERE status = 9", "CHECK"),
        //
        ("UPDATE run SET ready_at = NULL, retry_at = NULL WHERE status = 0", "CHECK"),
        //
        ("UPDATE run SET claim_worker = id WHERE status = 0", "CHECK"),
        //
        ("UPDATE run SET status = 3, ready_at = NULL, retry_at = NULL WHERE status = 0", "CHECK"),
        // C-161
        ("UPDATE approval SET status = 2 WHERE status = 1", "not decided again"),
    ];
    let rows = || -> (String, String) {
        let runs = "SELECT group_concat(concat_ws(' ', n, status, live, ready_at, claim_worker, finished_at)) FROM run";
        let approvals = "SELECT group_concat(concat_ws(' ', hex(id), status)) FROM approval";
        [runs, approvals].map(|sql| db.query_row(sql, [], |row| row.get(0)).unwrap()).into()
    };
    let before = rows();
    for (sql, why) in refused {
        let error = db.execute(sql, []).unwrap_err().to_string();
        assert!(error.contains(why), "{sql}: {error}"); // C-161
        assert_eq!(rows(), before, "{sql}"); // C-161
    }
}

#[tokio::test]
async fn a_queued_run_without_its_delivery_is_reported_and_left() {
    let home = Home::new();
    let world = home.world().await;
    let (bad, good) = (world.queued().await.id, world.queued().await.id);
    let db = home.tamper();
    // No command makes such a row, and the schema refuses it; a file that was mended by hand may have it.
    db.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
    db.execute("UPDATE run SET ready_at = NULL, retry_at = NULL WHERE id = ?1", [bad.as_bytes()]).unwrap();
    let row = || -> Vec<rusqlite::types::Value> {
        let mut statement = db.prepare("SELECT * FROM run WHERE id = ?1").unwrap();
        let columns = statement.column_count();
        statement.query_row([bad.as_bytes()], |row| (0..columns).map(|n| row.get(n)).collect()).unwrap()
    };
    let before = row();
    // Nothing that a process remembers hides it.
    drop(world);
    let world = home.world().await;
    let page = world.ledger.runs(RunFilter::default(), None, 10).await.unwrap();
    assert_eq!(page.items.iter().map(|run| run.id).collect::<Vec<_>>(), [good]);
    assert_eq!(page.faults[0].key, bad.to_string());
    let (claimable, faults) = world.ledger.claimable(0, 10).await.unwrap();
    assert_eq!(claimable.iter().map(|found| found.run).collect::<Vec<_>>(), [good]);
    assert_eq!(faults.iter().map(|fault| fault.key.as_str()).collect::<Vec<_>>(), [bad.to_string()]);
    let patience = protocol::limits::WorkerSettings::default().patience();
    let recover =
        protocol::command::Recover { run: bad, reach: stasis_store::Reach::Lapsed, patience, able: Able::Everything };
    let told = world.ledger.transact(Command::Recover(recover)).await;
    assert!(matches!(told, Err(TransactError::Corrupt(corrupt)) if corrupt.key == bad.to_string()));
    assert_eq!(row(), before); // R-85 R-281
}

#[tokio::test]
async fn a_command_that_breaks_a_rule_of_the_schema_takes_no_other_with_it() {
    let home = Home::new();
    let world = home.world().await;
    let (bad, good) = (world.running().await, world.running().await);
    // A row in the way of the next event of one run: its command cannot be saved, whatever else is in the batch.
    let in_the_way = "INSERT INTO event (run, first, at, pack) SELECT n, ?2, 0, x'' FROM run WHERE id = ?1";
    home.tamper().execute(in_the_way, rusqlite::params![bad.id.as_bytes(), bad.events.len]).unwrap();
    let before = world.ledger.run(bad.id).await.unwrap();
    let finish = |run| world.step(run, Progress::default(), world.finish("{}"));
    let (broken, done, admitted) = tokio::join!(finish(&bad), finish(&good), world.queued());
    assert!(matches!(broken, Err(TransactError::Internal { .. })), "{broken:?}");
    assert_eq!(done.unwrap().status(), Status::Done);
    assert_eq!(world.ledger.run(bad.id).await.unwrap(), before);
    assert!(world.ledger.run(admitted.id).await.unwrap().is_some());
    assert!(world.ledger.ready());
}

#[tokio::test]
async fn a_decision_that_panics_is_one_command_s_trouble() {
    let home = Home::new();
    let world = home.world().await;
    let run = world.running().await;
    let good = world.running().await;
    let (progress, asked) = world.asks(&run);
    let run = world.step(&run, progress, Act::Record).await.unwrap();
    // A second question under the id of one that is there, which no door of the engine lets through.
    let (mut poison, _) = world.asks(&run);
    poison.asks[0].id = asked.approval;
    let fine = world.step(&good, Progress::default(), world.finish("{}"));
    let (told, fine) = tokio::join!(world.hop(&run, poison, Act::Record), fine);
    assert!(matches!(told, Err(TransactError::Internal { .. })), "{told:?}");
    assert_eq!(fine.unwrap().status(), Status::Done);
    assert_eq!(world.ledger.run(run.id).await.unwrap().as_ref(), Some(&run));
    assert!(world.ledger.ready() && world.ledger.approval(asked.approval).await.unwrap().is_some());
}

#[tokio::test]
async fn a_full_disk_fails_whole_commands_and_keeps_the_state_before() {
    let home = Home::new();
    let world = home.world().await;
    let run = world.running().await;
    let pages: i64 = home.tamper().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let config = home.config();
    drop(world);
    let limited = stasis_store::StoreConfig { max_pages: Some(pages as u32 + 2), ..config };
    let ledger = stasis_store::Ledger::open(limited).unwrap();
    let world = stasis_store::conformance::World::on(ledger, home.clock.clone(), ()).await;
    let before = world.shown(run.id).await;
    let digests = (0..12_500u32).flat_map(|n| *protocol::digest::Digest::of(n.to_le_bytes()).as_bytes());
    let noise: Vec<u8> = digests.collect();
    let large = Progress { bodies: vec![protocol::rows::NewBody::new(noise)], ..Progress::default() };
    let told = world.hop(&run, large, Act::Record).await;
    assert!(matches!(told, Err(TransactError::Unavailable { .. })), "{told:?}");
    assert_eq!(world.shown(run.id).await, before);
    assert!(!world.ledger.ready() && world.ledger.failure().is_some());
    let (ended, _) = world.cancel(run.id).await.unwrap();
    assert_eq!(ended.status(), Status::Cancelling);
    assert!(world.ledger.ready());
    assert_eq!(world.ledger.check().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn a_refusal_is_not_an_error_of_the_store() {
    let home = Home::new();
    let world = home.world().await;
    let told = world
        .ledger
        .transact(Command::Cancel(Cancel { by: world.admission().by, run: world.admission().run, reason: None }))
        .await;
    let refusal = told.unwrap_err();
    assert_eq!(refusal.refusal().map(|r| r.code), Some(Code::NotFound));
}

#[tokio::test]
async fn a_hash_that_another_key_has_is_not_taken_for_the_key() {
    let home = Home::new();
    let world = home.world().await;
    let admit = || protocol::command::Admit { idempotency_key: Some("key".to_owned()), ..world.admission() };
    let (other, _) = world.admit(admit()).await.unwrap();
    // Now the hash of the key belongs to a run that another key made.
    home.tamper().execute("UPDATE run SET idempotency_key = 'another' WHERE id = ?1", [other.id.as_bytes()]).unwrap();
    let (run, created) = world.admit(admit()).await.unwrap();
    assert!(created && run.id != other.id);
    let (again, created) = world.admit(admit()).await.unwrap();
    assert!(!created && again.id == run.id);
}
