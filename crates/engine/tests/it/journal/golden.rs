//! Checkpoints and journals as released builds wrote them, kept for ever: every later build goes on from each of them.
//!
//! A kept one is the body of a run that is parked at two gates. What it has of its own run stands in it under names. One that
//! was released is never written again; that of a version to come is, with `UPDATE_EXPECT=1`.

use super::scribe::{Scribe, log};
use crate::desk::{Desk, Setting, local, request};
use protocol::approval::{Kind, Verdict};
use protocol::id::RunId;
use protocol::journal::{Entropy, Entry, Other};
use protocol::run::Status;
use serde::{Deserialize, Serialize};
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

/// Draws, looks, asks and looks again.
const TOLD: &str = r#"
import random, secrets, time, uuid

token = secrets.token_hex(8)
first = payments.order(order_id=token)
drawn = random.random()
both = stasis.parallel(payments.order.later(order_id="b"), payments.order.later(order_id="c"))
said = stasis.ask("go on?").status
again = [secrets.token_hex(4), str(uuid.uuid4()), time.time(), random.randint(1, 1_000_000)]
last = payments.order(order_id=again[0])
result = {"token": token, "drawn": drawn, "both": both, "said": said, "again": again, "last": last["id"] == again[0]}
"#;

/// A journal of [`TOLD`] with all that its program was told, and what the program came to.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The image that its pattern was pinned to.
    image: String,
    entries: Vec<KeptEntry>,
    result: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptEntry {
    Start { now: String, entropy: String },
    Batch(u32),
    Hop { hop: u32, now: String, entropy: String },
    Call { n: u32, tool: String, arguments: Value, result: Value },
}

fn entropy(hex: &str) -> Entropy {
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex");
    Entropy(std::array::from_fn(byte))
}

/// The journal of a run that is done, but for its end.
async fn journaled(desk: &Desk, run: RunId) -> Vec<KeptEntry> {
    let mut kept = Vec::new();
    for entry in desk.engine.ledger().journal(run).await.expect("read").expect("a run") {
        kept.push(match entry {
            Entry::Other(Other::Start { now, entropy, .. }) => {
                KeptEntry::Start { now: now.to_string(), entropy: entropy.to_string() }
            }
            Entry::Other(Other::Batch { size }) => KeptEntry::Batch(size),
            Entry::Other(Other::Hop { hop, now, entropy }) => {
                KeptEntry::Hop { hop, now: now.to_string(), entropy: entropy.to_string() }
            }
            Entry::Other(Other::End { .. }) => continue,
            Entry::Call(call) => {
                let result = call.outcome().and_then(|outcome| outcome.body).expect("a result");
                let json = async |digest| {
                    let bytes = desk.engine.ledger().body(run, digest).await.expect("read").expect("stored");
                    serde_json::from_slice(&bytes).expect("JSON")
                };
                let (arguments, result) = (json(call.arguments.digest).await, json(result.digest).await);
                KeptEntry::Call { n: call.identity.n, tool: call.tool.name.clone(), arguments, result }
            }
        });
    }
    kept
}

fn journal_of(version: &Path) -> PathBuf {
    version.join("journal.json")
}

/// Writes what is kept of this version, where nothing is kept yet: times and randomness are others at each run.
#[tokio::test(flavor = "multi_thread")]
async fn this_build_has_a_journal_that_is_kept_of_its_version() {
    let path = journal_of(&folder().join(env!("CARGO_PKG_VERSION")));
    if path.exists() || std::env::var_os("UPDATE_EXPECT").is_none() {
        assert!(path.exists(), "UPDATE_EXPECT=1 writes {}", path.display());
        return;
    }
    let desk = Desk::open().await;
    let run = desk.run(TOLD, "{}").await;
    desk.decide(desk.asked(run.id).await.id, Verdict::Approve).await.expect("decided");
    let done = desk.ended(run.id).await;
    let result = serde_json::from_str(&desk.result(&done).await).expect("JSON");
    let image = crate::desk::image().digest.to_string();
    let kept = Kept { image, entries: journaled(&desk, run.id).await, result };
    fs::write(&path, serde_json::to_string_pretty(&kept).expect("JSON") + "\n").expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_every_version_journaled_is_replayed_to_the_same_end() {
    for version in fs::read_dir(folder()).expect("a folder").map(|entry| entry.expect("read").path()) {
        let kept: Kept = serde_json::from_slice(&fs::read(journal_of(&version)).expect("kept")).expect("JSON");
        // A journal is replayed on the image that wrote it; one that is not here any more has to be built first.
        assert_eq!(kept.image, crate::desk::image().digest.to_string(), "{version:?}");
        let desk = Desk::with(Setting::idle()).await;
        desk.register(TOLD).await.expect("registered");
        let run = desk.engine.start_run(local(), request("{}")).await.expect("started").run;
        let mut scribe = Scribe::claim(&desk, run.id).await;
        let mut calls = 0;
        for entry in kept.entries {
            match entry {
                KeptEntry::Start { now, entropy: hex } => {
                    let (pattern, input) = (run.pattern.digest, run.input.digest);
                    let now = now.parse().expect("a time");
                    scribe.other(Other::Start { pattern, input, now, entropy: entropy(&hex) });
                }
                KeptEntry::Batch(size) => _ = scribe.batch(size),
                KeptEntry::Hop { hop, now, entropy: hex } => {
                    let now = now.parse().expect("a time");
                    scribe.other(Other::Hop { hop, now, entropy: entropy(&hex) });
                }
                KeptEntry::Call { n, tool, arguments, result } => {
                    calls += 1;
                    scribe.read(n, &tool, &arguments.to_string(), &result.to_string());
                }
            }
        }
        scribe.hand_back(None).await;
        let desk = desk.reopen(Setting::default()).await;
        let done = desk.ended(run.id).await;
        let result: Value = serde_json::from_str(&desk.result(&done).await).expect("JSON");
        assert_eq!(result, kept.result, "{version:?}"); // W-180
        assert_eq!(desk.calls(run.id).await.len(), calls); // W-180: nothing was asked that is not journaled
    }
}
