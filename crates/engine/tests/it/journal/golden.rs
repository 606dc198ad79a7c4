//! Checkpoints as released builds wrote them, kept for ever: every later build goes on from each of them.
//!
//! A kept one is the body of a run that is parked at two gates. What it has of its own run stands in it under names. One that
//! was released is never written again; that of a version to come is, with `UPDATE_EXPECT=1`.

use super::scribe::{Scribe, log};
use crate::desk::{Desk, Setting, local, request};
use protocol::approval::{Kind, Verdict};
use protocol::run::Status;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const PROGRAM: &str = r#"
print("begun")
stasis.parallel(stasis.gate.later("1"), stasis.gate.later("2"))
"#;

/// The kept checkpoint of each version.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/journal/golden")
}

fn of_version(version: &str) -> PathBuf {
    folder().join(version).join("two_gates.json")
}

/// What this body has of its own run, and the names that stand for it.
fn own(body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let mut own = vec![
        (text(&body["run"]), "RUN".to_owned()),
        (text(&body["pattern"]), "PATTERN".to_owned()),
        (text(&body["journal"]["digest"]), "JOURNAL".to_owned()),
    ];
    for (list, name) in [(&body["waits"], "WAIT"), (&body["entries"][0]["state"]["blocked"], "CALL")] {
        let list = list.as_array().expect("a list").iter().enumerate();
        own.extend(list.map(|(at, id)| (text(id), format!("{name}-{at}"))));
    }
    own
}

#[tokio::test(flavor = "multi_thread")]
async fn this_build_writes_what_is_kept_of_its_version() {
    let desk = Desk::open().await;
    let run = desk.run(PROGRAM, "{}").await;
    let body = desk.engine.ledger().checkpoint(run.id).await.expect("read").expect("a checkpoint");
    let body = String::from_utf8(body).expect("JSON");
    let named = own(&serde_json::from_str(&body).expect("JSON"));
    let kept = named.iter().fold(body, |body, (value, name)| body.replace(value, name)) + "\n";
    let path = of_version(env!("CARGO_PKG_VERSION"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &kept).expect("written");
    }
    assert_eq!(fs::read_to_string(&path).expect("kept"), kept); // R-332
}

#[tokio::test(flavor = "multi_thread")]
async fn what_every_version_wrote_is_gone_on_from() {
    let versions: Vec<_> = fs::read_dir(folder()).expect("a folder").map(|entry| entry.expect("read").path()).collect();
    assert!(versions.iter().any(|path| path.ends_with(env!("CARGO_PKG_VERSION"))), "{versions:?}");
    for version in versions {
        let kept = fs::read_to_string(version.join("two_gates.json")).expect("kept");
        let desk = Desk::with(Setting::idle()).await;
        desk.register(PROGRAM).await.expect("registered");
        let run = desk.engine.start_run(local(), request("{}")).await.expect("started").run.id;
        let mut scribe = Scribe::claim(&desk, run).await;
        scribe.start().batch(2);
        for n in [1, 2] {
            let gate = scribe.call(n, "stasis.gate", &json!({"title": n.to_string()}).to_string());
            scribe.ask(gate, Kind::Gate);
        }
        let checkpoint = scribe.checkpoint(|body| {
            let text = own(body).iter().fold(kept, |kept, (value, name)| kept.replace(name, value));
            *body = serde_json::from_str(&text).expect("JSON");
        });
        scribe.park(checkpoint).await;
        let first = desk.pending(run).await.remove(0);
        desk.decide(first.id, Verdict::Approve).await.expect("approved");
        let desk = desk.reopen(Setting::default()).await;
        let parked = desk.stopped(run).await;
        assert_eq!(parked.status(), Status::AwaitingConsent, "{version:?} {:?}", parked.phase); // R-332
        assert!(log(&desk, run).await.is_empty()); // R-332: from the checkpoint, and not from the beginning
        let second = desk.pending(run).await.remove(0);
        desk.decide(second.id, Verdict::Approve).await.expect("approved");
        assert_eq!(desk.ended(run).await.status(), Status::Done); // R-332
    }
}
