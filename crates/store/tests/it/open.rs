//! Opening: locks, versions, durability, and what a restart finds.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use protocol::code::Code;
use protocol::pause::Shared;
use stasis_store::conformance::World;
use stasis_store::{Ledger, OpenError, StoreConfig};

use crate::home::Home;

#[tokio::test]
async fn a_second_process_is_told_who_has_the_store() {
    let home = Home::new();
    let first = home.open().unwrap();
    let second = home.open().err().unwrap();
    assert_eq!(second.code(), Code::StoreLocked); // I-18
    assert!(second.to_string().contains(&std::process::id().to_string()), "{second}"); // I-18
    drop(first);
    home.open().unwrap();
}

#[test]
fn another_file_is_left_as_it_is() {
    let home = Home::new();
    std::fs::write(home.path(), "not a database, and long enough to be read as the header of one. ".repeat(4)).unwrap();
    let before = std::fs::read(home.path()).unwrap();
    let error = home.open().err().unwrap();
    assert_eq!(error.code(), Code::StoreDamaged); // I-47
    assert!(error.to_string().contains("ledger.db") && !error.hint().is_empty()); // I-47
    assert_eq!(std::fs::read(home.path()).unwrap(), before);
    std::fs::remove_file(home.path()).unwrap();
    home.tamper().execute_batch("CREATE TABLE notes (text)").unwrap();
    assert!(matches!(home.open(), Err(OpenError::Damaged { .. }))); // I-47
}

#[test]
fn a_newer_or_altered_schema_is_refused() {
    let home = Home::new();
    drop(home.open().unwrap());
    let db = home.tamper();
    db.execute("INSERT INTO schema_migrations VALUES (99, 'later', zeroblob(32), 'now')", []).unwrap();
    let error = home.open().err().unwrap();
    assert_eq!(error.code(), Code::StoreTooNew, "{error}");
    assert!(matches!(error, OpenError::TooNew { found: 99, .. }));
    db.execute("DELETE FROM schema_migrations WHERE number = 99", []).unwrap();
    db.execute("UPDATE schema_migrations SET sha256 = zeroblob(32) WHERE number = 1", []).unwrap();
    assert!(matches!(home.open(), Err(OpenError::Foreign { number: 1, .. })));
}

#[tokio::test]
async fn a_durable_store_says_what_it_is() {
    let home = Home::new();
    let ledger = Ledger::open(StoreConfig { durable: true, ..home.config() }).unwrap();
    let check = ledger.check().await.unwrap();
    assert_eq!((check.journal_mode.as_str(), check.page_bytes), ("wal", 8_192));
    assert!(check.faults.is_empty() && ledger.ready());
    let newest = check.sqlite.split('.').map(|part| part.parse().unwrap()).collect::<Vec<u32>>();
    assert!(newest >= vec![3, 51, 3], "{newest:?}");
}

#[tokio::test]
async fn a_restart_finds_runs_and_registry_as_they_were() {
    let home = Home::new();
    let world = home.world().await;
    let (run, asked) = world.parked().await;
    let (workflow, queue) = (Shared::Workflow("refunds".to_owned()), Shared::Queue("default".to_owned()));
    for (scope, on) in [(&workflow, true), (&queue, true), (&workflow, false), (&workflow, true)] {
        world.pass(Duration::from_secs(1));
        world.shade(scope.clone(), on).await;
    }
    world.pause(run.id, true).await;
    let shown = world.shown(run.id).await;
    let registry = world.ledger.registry();
    let at = world.ledger.now();
    drop(world);
    home.clock.fetch_sub(Duration::from_secs(60).as_micros() as i64, Ordering::SeqCst);
    let ledger = home.open().unwrap();
    assert_eq!(ledger.rows(run.id).await.unwrap().unwrap(), shown);
    assert_eq!(ledger.now(), at);
    let again = ledger.registry();
    assert_eq!(again.workflows, registry.workflows);
    assert_eq!(again.tools, registry.tools);
    assert_eq!((&again.policy, again.policy_version), (&registry.policy, registry.policy_version));
    assert_eq!((&again.principals, &again.tokens), (&registry.principals, &registry.tokens));
    assert_eq!(again.pauses, registry.pauses);
    assert_eq!((again.pauses[&workflow].before.len(), again.pauses.len()), (1, 2));
    let world = World::on(ledger, home.clock.clone(), ()).await;
    let decided = world.decide(world.verdict(&asked, protocol::approval::Verdict::Approve, "bo")).await.unwrap();
    assert_eq!(decided.run.seq, run.seq + 1);
}

#[tokio::test]
async fn a_renewal_is_a_time_that_the_clock_never_falls_behind() {
    let home = Home::new();
    let world = home.world().await;
    let run = world.running().await;
    world.pass(Duration::from_secs(20));
    let claims = vec![(run.id, run.fence)];
    let taker = world.taker();
    let renew = protocol::command::Renew { worker: taker.worker, ttl: taker.ttl, claims };
    world.ledger.renew(renew).await.unwrap();
    let at = world.ledger.now();
    drop(world);
    home.clock.fetch_sub(Duration::from_secs(20).as_micros() as i64, Ordering::SeqCst);
    assert_eq!(home.open().unwrap().now(), at); // C-1
}

#[tokio::test]
async fn a_backup_is_a_store_with_the_same_runs() {
    let home = Home::new();
    let world = home.world().await;
    let (run, _) = world.parked().await;
    let copy = Home::new();
    let check = world.ledger.backup(copy.path()).await.unwrap();
    assert!(check.faults.is_empty()); // I-14a
    assert!(world.ledger.backup(copy.path()).await.is_err());
    let later = world.queued().await;
    let ledger = copy.open().unwrap();
    assert_eq!(ledger.rows(run.id).await.unwrap().unwrap(), world.shown(run.id).await); // I-14a
    assert!(ledger.run(later.id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_store_that_somebody_else_writes_to_is_not_ready_and_says_so() {
    let home = Home::new();
    let world = home.world().await;
    let db = home.tamper();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (told, also) = tokio::join!(world.admit(world.admission()), world.admit(world.admission()));
    for told in [told, also] {
        assert!(matches!(told, Err(stasis_store::TransactError::Unavailable { .. })), "{told:?}");
    }
    assert!(!world.ledger.ready());
    db.execute_batch("ROLLBACK").unwrap();
    world.queued().await;
    assert!(world.ledger.ready());
}

#[tokio::test]
async fn the_files_are_for_one_user_alone() {
    let home = Home::new();
    let world = home.world().await;
    world.queued().await;
    for suffix in ["", "-wal"] {
        let mut path = home.path().into_os_string();
        path.push(suffix);
        let rights = std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(rights, 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_log_without_its_ledger_is_not_taken_for_a_new_ledger() {
    let home = Home::new();
    let world = home.world().await;
    world.queued().await;
    let mut log = home.path().into_os_string();
    log.push("-wal");
    let kept = std::fs::read(&log).expect("a log");
    drop(world);
    std::fs::write(&log, &kept).expect("the log is put back");
    for gone in [true, false] {
        let _ = std::fs::remove_file(home.path());
        if !gone {
            std::fs::write(home.path(), "").expect("an empty file");
        }
        let refused = home.open().err().expect("half a ledger");
        assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}"); // I-47
        assert_eq!(std::fs::read(&log).expect("it is still there"), kept);
    }
}

#[test]
fn a_link_in_place_of_the_lock_is_not_followed() {
    let home = Home::new();
    let target = home.path().with_file_name("precious");
    std::fs::write(&target, "kept").expect("a file");
    std::os::unix::fs::symlink(&target, home.path().with_file_name("lock")).expect("a link");
    assert!(matches!(home.open().err(), Some(OpenError::Unavailable { .. })));
    assert_eq!(std::fs::read_to_string(&target).expect("a file"), "kept");
}
