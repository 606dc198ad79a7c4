//! Runs that cannot go on by themselves, as operators see them.

use crate::house::House;
use api::operate::CheckVerdict;
use protocol::run::Status;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_effect_is_unknown_is_named_until_somebody_says() {
    let house = House::open().await;
    house.register("lossy", "result = notes.lose()\n").await;
    let run = house.run("lossy", "{}").await;
    let run = house.stopped(&run).await;
    assert_eq!(run.status, Status::AwaitingConsent);
    let report = house.local.doctor().await.unwrap();
    let check = report.checks.iter().find(|check| check.name == "stuck runs").unwrap();
    assert_eq!(check.verdict, CheckVerdict::Warning, "{check:?}"); // I-11
    let told = format!("{} is ambiguous since 2", run.id);
    assert!(check.found.contains(&told) && check.found.contains("notes.lose"), "{}", check.found);
    assert_eq!(check.hint.as_deref(), Some("stasis effect list --ambiguous"));
    house.host.shutdown().await;
}
