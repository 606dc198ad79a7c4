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
