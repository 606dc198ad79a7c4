//! What is parked costs nothing: each scan reads an index that has only what is due.

use stasis_store::scans;

use crate::home::Home;

#[tokio::test]
async fn every_scan_reads_an_index_over_live_rows() {
    let home = Home::new();
    let world = home.world().await;
    for _ in 0..1_000 {
        world.parked().await;
    }
    let wanted = [
        ("claimable", "USING INDEX run_ready"),
        ("ready pins", "USING INDEX run_ready_pin (pin>?)"),
        ("claimable of a pin", "USING INDEX run_ready_pin (pin=?)"),
        ("queued", "USING INDEX run_status"),
        ("lapsed", "USING INDEX run_status"),
        ("timers", "SEARCH t USING PRIMARY KEY"),
        ("expiries", "USING INDEX approval_expiry"),
        ("next timer", "SEARCH t"),
        ("next expiry", "USING INDEX approval_expiry"),
        ("jobs", "USING INDEX job_due"),
        ("next job", "INDEX job_due"),
        ("queued jobs", "USING INDEX job_queued"),
        ("deadlines", "USING INDEX run_deadline"),
        ("stopping", "INDEX obligation_open"),
        ("old", "USING INTEGER PRIMARY KEY"),
        ("pending", "USING INDEX approval_pending"),
        ("expiring", "USING INDEX approval_expiry"),
        ("running", "USING INDEX run_status"),
    ];
    let db = home.tamper();
    for (name, sql) in scans() {
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        let mut statement = db.prepare(&explain).unwrap();
        let count = statement.parameter_count();
        let values = rusqlite::params_from_iter(std::iter::repeat_n(1i64, count));
        let plan: Vec<String> =
            statement.query_map(values, |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap();
        let plan = plan.join("; ");
        let (_, index) = wanted.iter().find(|(known, _)| *known == name).unwrap();
        assert!(plan.contains(index), "{name}: {plan}"); // R-38
        assert!(!plan.contains("SCAN r;") && !plan.ends_with("SCAN r"), "{name}: {plan}"); // R-39
    }
    let due = world.ledger.due(world.ledger.now(), stasis_store::Reach::Lapsed, 0, 10).await.unwrap();
    assert!(due.is_empty()); // R-39
    assert!(world.ledger.claimable(0, 10).await.unwrap().0.is_empty()); // R-39
}

/// Copies of the parked runs that are there, with their questions, until there are so many: what scans and a start look at is
/// the same as if each had been parked by commands, which would take minutes here.
fn multiply(db: &rusqlite::Connection, runs: i64) {
    let count =
        |table: &str| -> i64 { db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap() };
    let columns = |table: &str| -> String {
        let mut info = db.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).unwrap();
        let names: Vec<String> = info.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        names.join(",")
    };
    db.execute_batch("BEGIN").unwrap();
    let stride = count("run") + 1_000;
    let times = runs / count("run");
    for table in ["run", "approval"] {
        let all = columns(table);
        let copied: Vec<String> = all
            .split(',')
            .map(|name| match (table, name) {
                (_, "id") => "randomblob(16)".to_owned(),
                ("run", "n") => format!("n + k * {stride}"),
                ("approval", "run") => format!("run + k * {stride}"),
                _ => name.to_owned(),
            })
            .collect();
        let copy = format!(
            "WITH RECURSIVE copies(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM copies WHERE k < {}) \
             INSERT INTO {table} ({all}) SELECT {} FROM {table}, copies",
            times - 1,
            copied.join(",")
        );
        db.execute(&copy, []).unwrap();
    }
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(count("run"), runs);
    assert_eq!(count("approval"), runs);
}

/// What SQLite did for each scan when nothing is due: steps of its machine, which no clock disturbs.
fn steps(db: &rusqlite::Connection) -> Vec<(&'static str, i32)> {
    let scan = |(name, sql): (&'static str, String)| {
        let mut statement = db.prepare(&sql).unwrap();
        let count = statement.parameter_count();
        let mut rows = statement.query(rusqlite::params_from_iter(std::iter::repeat_n(1i64, count))).unwrap();
        while rows.next().unwrap().is_some() {}
        drop(rows);
        (name, statement.get_status(rusqlite::StatementStatus::VmStep))
    };
    scans().into_iter().map(scan).collect()
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the figures are part of what this shows")]
async fn a_scan_and_a_start_cost_what_is_due_with_a_thousand_parked_and_with_a_hundred_thousand() {
    const SCANS: u32 = 20;
    let home = Home::new();
    let world = home.world().await;
    for _ in 0..10 {
        futures_util::future::join_all((0..100).map(|_| world.parked())).await;
    }
    drop(world);
    let mut seen = Vec::new();
    for runs in [1_000, 100_000] {
        let db = home.tamper();
        if runs > 1_000 {
            multiply(&db, runs);
        }
        #[allow(clippy::disallowed_methods, reason = "how long it takes is measured")]
        let now = std::time::Instant::now;
        let before = now();
        let ledger = home.open().unwrap();
        let open = before.elapsed();
        let before = now();
        for _ in 0..SCANS {
            let due = ledger.due(ledger.now(), stasis_store::Reach::Lapsed, 0, 100).await.unwrap();
            assert!(due.is_empty() && ledger.claimable(0, 100).await.unwrap().0.is_empty()); // R-39
        }
        let scan = before.elapsed() / SCANS;
        // What waits stays where it is: a start delivers nothing.
        let queued: i64 = db.query_row("SELECT count(*) FROM run WHERE status = 0", [], |row| row.get(0)).unwrap();
        assert_eq!(queued, 0); // R-39
        println!("{runs:>7} parked: open {open:?}, a scan {scan:?}");
        seen.push(steps(&db));
    }
    for ((name, few), (_, many)) in seen[0].iter().zip(&seen[1]) {
        println!("{name:<20} {few:>6} steps with 1,000 parked, {many:>6} with 100,000");
        assert!(*many <= few + 20, "{name}: {few} steps with 1,000 parked, {many} with 100,000"); // R-38 R-39
    }
}
