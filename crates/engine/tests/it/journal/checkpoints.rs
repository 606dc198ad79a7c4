//! Checkpoints as hops write them, and what comes of one that is lost, damaged, or not the run's.

use super::scribe::{SCHEMA, Scribe, admit_until, at_rest, log, tamper};
use crate::desk::{Desk, Setting, eventually, local, manual, request};
use engine::Migrator;
use protocol::approval::{Kind, Verdict};
use protocol::code::Code;
use protocol::command::NewCheckpoint;
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::run::{Run, Status};
use serde_json::{Value, json};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

const PROGRAM: &str = r#"
print("begun")
stasis.parallel(stasis.gate.later("1"), stasis.gate.later("2"))
payments.refund(order_id="a", amount=1)
"#;

/// A run of [`PROGRAM`] that a scribe parked at both gates with this checkpoint; one of them is approved. It has not
/// returned yet.
async fn answered(checkpoint: impl FnOnce(&Scribe<'_>) -> NewCheckpoint) -> (Desk, RunId) {
    let desk = Desk::with(Setting::idle()).await;
    desk.register(PROGRAM).await.expect("registered");
    let run = desk.engine.start_run(local(), request("{}")).await.expect("started").run.id;
    answer_one(&desk, run, checkpoint).await;
    (desk, run)
}

async fn answer_one(desk: &Desk, run: RunId, checkpoint: impl FnOnce(&Scribe<'_>) -> NewCheckpoint) {
    let mut scribe = Scribe::claim(desk, run).await;
    scribe.start().batch(2);
    for n in [1, 2] {
        let gate = scribe.call(n, "stasis.gate", &json!({"title": n.to_string()}).to_string());
        scribe.ask(gate, Kind::Gate);
    }
    let checkpoint = checkpoint(&scribe);
    scribe.park(checkpoint).await;
    let first = desk.pending(run).await.remove(0);
    desk.decide(first.id, Verdict::Approve).await.expect("approved");
}

/// How the run ended that met its stored state in a new engine.
async fn returns(desk: Desk, run: RunId) -> (Desk, Run) {
    let desk = desk.reopen(Setting::default()).await;
    let run = desk.stopped(run).await;
    (desk, run)
}

async fn fails(desk: Desk, run: RunId) -> (Code, String) {
    let before = desk.engine.ledger().run(run).await.expect("read").expect("a run");
    let (desk, run) = returns(desk, run).await;
    assert_eq!(run.status(), Status::Failed, "{:?}", run.phase);
    // R-328: its waits are closed, and neither guest nor call was begun.
    assert!(desk.pending(run.id).await.is_empty());
    assert!(log(&desk, run.id).await.is_empty());
    assert_eq!((run.journal.len, run.budget.calls), (before.journal.len, before.budget.calls));
    assert!(desk.payments.applied().is_empty());
    let seq = run.seq;
    // R-328: no pass tries it again; R-325: it is never started over.
    let (_, again) = returns(desk, run.id).await;
    assert_eq!((again.status(), again.seq), (Status::Failed, seq));
    let failure = again.failure().expect("failed");
    (failure.code, failure.message.clone())
}

fn invalid(why: &str) -> (Code, String) {
    (Code::CheckpointInvalid, format!("checkpoint invalid: {why}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_checkpoint_is_gone_on_from() {
    let (desk, run) = answered(|scribe| scribe.checkpoint(|_| ())).await;
    let (desk, run) = returns(desk, run).await;
    assert_eq!(run.status(), Status::AwaitingConsent, "{:?}", run.phase); // W-132
    assert!(log(&desk, run.id).await.is_empty()); // W-132: no guest was made
    let second = desk.pending(run.id).await.remove(0);
    desk.decide(second.id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(run.status(), Status::Done);
    assert_eq!(log(&desk, run.id).await, ["begun"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_not_the_runs_own_and_sound_is_invalid() {
    type Edit = fn(&mut Value);
    let table: [(Edit, &str); 16] = [
        (|b| b["format"] = json!("stasis.checkpoint.v9"), "unknown format stasis.checkpoint.v9"),
        (|b| b["run"] = json!("run_01m8p996d1e00admyxjq8zz85h"), "it belongs to another run, number or pattern"),
        (|b| b["n"] = json!(7), "it belongs to another run, number or pattern"),
        (|b| b["pattern"] = json!(Digest::of("other")), "it belongs to another run, number or pattern"),
        (
            |b| b["schema"] = json!("stasis.script.v9"),
            "its schema is stasis.script.v9, its header says stasis.script.v1",
        ),
        (|b| b["entries"] = json!([]), "no resumable entry"),
        (|b| b["entries"][1]["status"] = json!("success"), "no resumable entry"), // R-122: only from `created`
        (|b| b["entries"][1]["status"] = json!("running"), "no resumable entry"), // R-122
        (|b| b["entries"][1]["status"] = json!("error"), "no resumable entry"),   // R-122
        (|b| b["entries"][1]["status"] = json!("suspended"), "no resumable entry"), // R-122
        (|b| b["entries"][0]["status"] = json!("created"), "more than one resumable entry"),
        (|b| b["waits"] = json!([]), "its waits differ from its entry's"),
        (
            |b| {
                b["waits"] = json!(["wait_01m8p996d1e00admyxjq8zz85h", "wait_01m8p996d1e00admyxjq8zz85j"]);
                b["entries"][1]["waits"] = b["waits"].clone();
            },
            "2 of its waits are not the run's",
        ),
        (
            |b| b["entries"][1]["state"]["blocked"] = json!(["call_01m8p996d1e00admyxjq8zz85h"]),
            "call_01m8p996d1e00admyxjq8zz85h is no call of this run",
        ),
        (|b| b["journal"]["position"] = json!(2), "journal"),
        (|b| b["journal"]["digest"] = json!(Digest::of("other")), "journal"),
    ];
    for (edit, why) in table {
        let (desk, run) = answered(|scribe| scribe.checkpoint(edit)).await;
        assert_eq!(fails(desk, run).await, invalid(why)); // R-326 R-327 R-335
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_cannot_be_read_as_one_says_why() {
    let (desk, run) = answered(|scribe| scribe.checkpoint_of(b"")).await;
    assert_eq!(fails(desk, run).await, invalid("no resumable entry")); // R-327
    type Edit = fn(&mut Value);
    let table: [(Edit, &str); 4] = [
        (|b| b["entries"][1]["kind"] = json!("frame"), "line 1"),
        (|b| b["entries"][1]["status"] = json!("frozen"), "line 1"),
        (|b| b["entries"][1]["state"] = json!({"heap": "..."}), "state of entry 2: unknown field `heap`"),
        (|b| *b = json!([]), "line 1"),
    ];
    for (edit, said) in table {
        let (desk, run) = answered(|scribe| scribe.checkpoint(edit)).await;
        let (code, message) = fails(desk, run).await;
        assert_eq!(code, Code::CheckpointInvalid); // R-326
        assert!(message.starts_with("checkpoint invalid: ") && message.contains(said), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_missing_is_lost_and_one_that_is_damaged_is_not() {
    let sound = || answered(|scribe| scribe.checkpoint(|_| ()));
    let (desk, run) = sound().await;
    tamper(&desk, "DELETE FROM checkpoint");
    assert_eq!(fails(desk, run).await, (Code::StasisLost, "stasis lost".to_owned())); // R-325
    for damage in ["bytes = zeroblob(length(bytes))", "len = len - 1, bytes = substr(bytes, 1, length(bytes) - 1)"] {
        let (desk, run) = sound().await;
        tamper(&desk, &format!("UPDATE checkpoint SET codec = 0, {damage}"));
        let (code, message) = fails(desk, run).await;
        assert_eq!(code, Code::CheckpointInvalid); // R-326: digest and length
        assert!(message.starts_with("checkpoint invalid: checkpoint "), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pin_is_looked_at_first_and_the_checkpoint_before_its_journal() {
    let pin = || (Code::PinnedPatternUnavailable, "pinned Pattern unavailable: program@1".to_owned());
    let (desk, run) = answered(|scribe| scribe.checkpoint(|_| ())).await;
    tamper(&desk, "DELETE FROM checkpoint");
    let source = Digest::of(PROGRAM).hex();
    tamper(&desk, &format!("DELETE FROM blob WHERE digest = X'{source}'"));
    assert_eq!(fails(desk, run).await, pin()); // R-323 R-324
    // R-323 R-330: a schema that no migrator leads from is of the pin.
    let of_later =
        |scribe: &Scribe<'_>| NewCheckpoint { schema: "stasis.script.v2".to_owned(), ..scribe.checkpoint(|_| ()) };
    let (desk, run) = answered(of_later).await;
    assert_eq!(fails(desk, run).await, pin()); // R-323 R-324
    let (desk, run) = answered(|scribe| scribe.checkpoint(|_| ())).await;
    tamper(&desk, "DELETE FROM checkpoint");
    tamper(&desk, "DELETE FROM journal");
    assert_eq!(fails(desk, run).await, (Code::StasisLost, "stasis lost".to_owned())); // R-325
}

/// Of a build that called the blocked calls by another name.
const OLD: &str = "stasis.script.v0";

fn old(scribe: &Scribe<'_>) -> NewCheckpoint {
    let body = scribe.checkpoint(|body| {
        body["schema"] = json!(OLD);
        for entry in body["entries"].as_array_mut().expect("entries") {
            entry["state"] = json!({"calls": entry["state"]["blocked"]});
        }
    });
    NewCheckpoint { schema: OLD.to_owned(), ..body }
}

fn with_migrator(migrate: fn(Value) -> Result<Value, String>) -> Setting {
    let migrator = Migrator { from: OLD.to_owned(), to: SCHEMA.to_owned(), migrate };
    Setting { migrators: [migrator].into_iter().collect(), ..Setting::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_of_another_schema_is_gone_on_from_through_its_migrator() {
    let renamed = with_migrator(|mut state| Ok(json!({"blocked": state["calls"].take()})));
    let kinds = async |desk: &Desk, run| -> Vec<String> {
        let events = desk.engine.ledger().events(run, None, 1_000).await.expect("read").expect("a run");
        events.iter().map(|event| event.kind.to_string()).collect()
    };
    let (desk, run) = answered(old).await;
    assert_eq!(desk.engine.ledger().run(run).await.expect("read").expect("a run").checkpoint.expect("one").schema, OLD);
    let desk = desk.reopen(renamed).await;
    let parked = desk.stopped(run).await;
    assert_eq!(parked.status(), Status::AwaitingConsent, "{:?}", parked.phase); // W-7 R-330
    let next = parked.checkpoint.expect("a checkpoint");
    assert_eq!((next.n, next.schema.as_str()), (2, SCHEMA)); // R-331: the next ordinary one is of the new schema
    let migrated = kinds(&desk, run).await;
    let second = desk.pending(run).await.remove(0);
    desk.decide(second.id, Verdict::Approve).await.expect("approved");
    assert_eq!(desk.ended(run).await.status(), Status::Done); // W-7
    // R-331: the ledger was told nothing but what it is told of a checkpoint that needs no migrator.
    let (desk, run) = answered(|scribe| scribe.checkpoint(|_| ())).await;
    let (desk, run) = returns(desk, run).await;
    assert_eq!(kinds(&desk, run.id).await, migrated); // R-331
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migrator_that_refuses_or_misses_the_schema_leaves_an_invalid_checkpoint() {
    type Migrate = fn(Value) -> Result<Value, String>;
    let refuses: Migrate = |_| Err("its calls were never named".to_owned());
    let misses: Migrate = Ok;
    for (migrate, why) in [(refuses, "its calls were never named"), (misses, "state of entry 1: unknown field `calls`")]
    {
        let (desk, run) = answered(old).await;
        let desk = desk.reopen(with_migrator(migrate)).await;
        let failure = desk.stopped(run).await.failure().expect("failed").clone();
        assert_eq!(failure.code, Code::CheckpointInvalid); // W-7
        assert!(failure.message.starts_with(&format!("checkpoint invalid: {why}")), "{failure:?}"); // R-330 W-7
        assert!(log(&desk, run).await.is_empty()); // R-328
    }
    // W-7: without a migrator it is the pin that is not here.
    let (desk, run) = answered(old).await;
    let pin = (Code::PinnedPatternUnavailable, "pinned Pattern unavailable: program@1".to_owned());
    assert_eq!(fails(desk, run).await, pin); // W-7 R-330
}

#[tokio::test(flavor = "multi_thread")]
async fn authority_is_looked_at_after_the_checkpoint_and_before_any_wait() {
    let ends = async |checkpoint: fn(&Scribe<'_>) -> NewCheckpoint, lost: bool| {
        let (setting, clock) = manual();
        let desk = Desk::with(Setting { carry: false, ..setting.clone() }).await;
        desk.register(PROGRAM).await.expect("registered");
        let run = admit_until(&desk, desk.engine.ledger().now() + Duration::from_secs(60)).await;
        answer_one(&desk, run, checkpoint).await;
        if lost {
            tamper(&desk, "DELETE FROM checkpoint");
        }
        clock.fetch_add(60_000_000, Ordering::SeqCst);
        let desk = desk.reopen(setting).await;
        let failure = desk.stopped(run).await.failure().expect("failed").clone();
        assert!(log(&desk, run).await.is_empty()); // R-109: no guest was made
        (failure.code, failure.message)
    };
    let sound: fn(&Scribe<'_>) -> NewCheckpoint = |scribe| scribe.checkpoint(|_| ());
    let expired = (Code::AuthorityUnavailable, "authority unavailable: expired".to_owned());
    assert_eq!(ends(sound, false).await, expired); // R-109 R-336
    assert_eq!(ends(sound, true).await, (Code::StasisLost, "stasis lost".to_owned())); // R-109
    let empty = |scribe: &Scribe<'_>| scribe.checkpoint(|body| body["entries"] = json!([]));
    assert_eq!(ends(empty, false).await, invalid("no resumable entry")); // R-109
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_gives_no_answer_is_not_an_absent_checkpoint() {
    let (desk, run) = answered(|scribe| scribe.checkpoint(|_| ())).await;
    let mut setting = Setting::default();
    let worker = &mut setting.worker;
    worker.claim_ttl = Duration::from_secs(3);
    worker.renew_every = Duration::from_millis(500);
    worker.stop_margin = Duration::from_millis(500);
    worker.recover_every = Duration::from_millis(200);
    let path = desk.ledger_path();
    let mut page = None;
    let desk = desk.reopen_after(setting, || page = Some(Page::of(&path, "checkpoint").blank())).await;
    let row = async || desk.engine.ledger().run(run).await.expect("read").expect("a run");
    eventually("a hop that claims it", async || row().await.fence == 2).await;
    at_rest(&desk).await;
    assert_eq!(row().await.status(), Status::Running); // R-322: the claim is left to lapse
    page.expect("blanked above").restore();
    eventually("its return", async || row().await.status().is_parked()).await;
    assert_eq!(desk.pending(run).await.len(), 1); // R-322
}

/// The first page of a table.
struct Page {
    file: std::fs::File,
    at: u64,
    bytes: Vec<u8>,
}

impl Page {
    fn of(path: &Path, table: &str) -> Page {
        let db = rusqlite::Connection::open(path).expect("the ledger's file");
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a number") as u64;
        let size = number("PRAGMA page_size");
        let root = number(&format!("SELECT rootpage FROM sqlite_schema WHERE name = '{table}'"));
        drop(db);
        let file = std::fs::File::options().read(true).write(true).open(path).expect("the ledger's file");
        let (at, mut bytes) = ((root - 1) * size, vec![0; size as usize]);
        file.read_exact_at(&mut bytes, at).expect("a page");
        Page { file, at, bytes }
    }

    /// No read of the table is answered from here on.
    fn blank(self) -> Page {
        self.file.write_all_at(&vec![0; self.bytes.len()], self.at).expect("written");
        self
    }

    fn restore(self) {
        self.file.write_all_at(&self.bytes, self.at).expect("written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_park_marks_the_interrupted_entry_and_appends_the_one_to_resume() {
    let desk = Desk::open().await;
    let run = desk.run("stasis.gate('1')\nstasis.gate('2')\nresult = 1", "{}").await;
    let body = body(&desk, run.id).await;
    let header = run.checkpoint.as_ref().expect("a checkpoint");
    assert_eq!((&body["n"], header.n), (&json!(1), 1));
    assert_eq!(body["journal"], json!({"position": header.journal.len, "digest": header.journal.digest}));
    let calls = desk.calls(run.id).await;
    let waits = &desk.engine.ledger().rows(run.id).await.expect("read").expect("a run").waits;
    let state = json!({"blocked": [calls[0].id]});
    let entry = |id: u32, status: &str, waits: Value| json!({"kind": "node", "id": id, "seq": 0, "node": "body", "state": state, "status": status, "waits": waits});
    // R-123 R-124: one node `body`; the interrupted entry is suspended, a fresh one names the exact waits.
    // R-120: and these are all the fields of an entry.
    assert_eq!(body["entries"], json!([entry(1, "suspended", json!([])), entry(2, "created", json!([waits[0].id]))]));
    let first = desk.pending(run.id).await.remove(0);
    desk.decide(first.id, Verdict::Approve).await.expect("approved");
    eventually("the second gate", async || !desk.pending(run.id).await.is_empty()).await;
    let run = desk.stopped(run.id).await;
    let second = self::body(&desk, run.id).await;
    // R-126: finished entries go at each save, and the ids go on.
    assert_eq!(second["entries"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&second["n"], &second["entries"][1]["id"], &second["entries"][1]["seq"]),
        (&json!(2), &json!(3), &json!(1))
    );
    // R-124: the new occurrence waits for its own call alone.
    assert_eq!(second["entries"][1]["state"]["blocked"], json!([desk.calls(run.id).await[1].id]));
}

async fn body(desk: &Desk, run: RunId) -> Value {
    let bytes = desk.engine.ledger().checkpoint(run).await.expect("read").expect("a checkpoint");
    serde_json::from_slice(&bytes).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_over_its_limit_refuses_the_park_whole() {
    let mut setting = Setting::default();
    setting.limits.checkpoint_bytes = 200;
    let desk = Desk::with(setting).await;
    let run = desk.run("stasis.gate('1')", "{}").await;
    let failure = run.failure().expect("failed");
    assert_eq!(failure.code, Code::LimitExceeded); // R-321
    assert!(failure.message.starts_with("checkpoint exceeded: ") && failure.message.ends_with(" > 200"), "{failure:?}");
    assert!(run.checkpoint.is_none() && desk.pending(run.id).await.is_empty()); // R-321 R-133
    assert_eq!(super::scribe::events(&desk, run.id, "approval.requested").await.len(), 0); // R-133
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_may_not_park_ends_when_it_would() {
    let source = "# /// script\n# [tool.stasis]\n# resume = false\n# ///\nprint('asks')\nstasis.gate('1')\nresult = 1";
    let desk = Desk::open().await;
    let run = desk.run(source, "{}").await;
    let failure = run.failure().expect("failed");
    assert_eq!((failure.code, failure.message.as_str()), (Code::ResumeDisabled, "resume disabled")); // R-137
    assert!(desk.pending(run.id).await.is_empty());
    // It may wait hot.
    let desk = Desk::with(Setting::hot(Duration::from_secs(50))).await;
    let run = desk.begin(source, "{}").await;
    let gate = desk.asked(run).await;
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run).await;
    assert_eq!((run.status(), run.seq), (Status::Done, 0)); // R-137
}
