//! Runs that cannot go on by themselves, as operators see them.

use crate::house::{House, told};
use api::operate::CheckVerdict;
use protocol::run::Status;
use reqwest::Method;

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
    let named = format!("{} is ambiguous since 2", run.id);
    assert!(check.found.contains(&named) && check.found.contains("notes.lose"), "{}", check.found);
    assert_eq!(check.hint.as_deref(), Some("stasis effect list --ambiguous"));
    // An admin of another namespace learns nothing of it.
    let (_, elsewhere) = told(house.raw(Method::GET, "/v1/doctor", Some(&house.token("otto").await))).await;
    assert!(elsewhere["ok"] == true && !elsewhere.to_string().contains(&run.id.to_string()), "{elsewhere}");
    house.host.shutdown().await;
}
