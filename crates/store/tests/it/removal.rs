//! What a removal leaves in the file.

use std::time::Duration;

use protocol::command::{Act, Admit, Command, Progress};
use protocol::rows::NewBody;

use crate::home::Home;

#[tokio::test]
async fn nothing_that_was_a_removed_run_s_own_is_left() {
    let home = Home::new();
    let world = home.world().await;
    let admit = Admit {
        session: Some("cart".to_owned()),
        idempotency_key: Some("k".to_owned()),
        taker: Some(world.taker()),
        ..world.admission()
    };
    let (run, _) = world.admit(admit).await.unwrap();
    let (progress, asked) = world.asks(&run);
    let run = world.step(&run, progress, Act::Record).await.unwrap();
    let large = NewBody::new(vec![7; 100_000]);
    let progress = Progress { bodies: vec![large], ..world.denied(asked.call) };
    let ended = world.step(&run, progress, world.finish("{}")).await.unwrap();
    let db = home.tamper();
    let n: i64 = db.query_row("SELECT n FROM run WHERE id = ?1", [ended.id.as_bytes()], |row| row.get(0)).unwrap();
    let owned =
        "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c ON c.name = 'run' WHERE m.type = 'table'";
    let mut statement = db.prepare(owned).unwrap();
    let tables: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(tables.len() > 10, "{tables:?}");
    let left = || -> i64 {
        let count = |table: &String| -> i64 {
            let sql = format!("SELECT count(*) FROM {table} WHERE run = ?1");
            db.query_row(&sql, [n], |row| row.get(0)).unwrap()
        };
        tables.iter().map(count).sum()
    };
    assert!(left() > 5);
    world.running().await;
    let kept = Duration::from_secs(60);
    world.pass(kept);
    let (_, removed) = world.settle(Command::Remove { run: ended.id, retention: kept }).await.unwrap();
    assert!(removed);
    assert_eq!(left(), 0);
    assert_eq!(world.ledger.check().await.unwrap().faults, Vec::<String>::new());
}
