//! Frozen guests beside checkpoints: when there is one, what it is good for, and what comes of one that does not fit.

use super::scribe::{Scribe, at_rest, events, log, tamper};
use crate::desk::{Desk, Setting, eventually};
use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::command::NewCheckpoint;
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::run::{Run, Snapshot, Status};
use serde_json::{Value, json};

/// Computes for longer than a thaw takes before it asks.
const BUSY: &str = r#"
order = payments.order(order_id="a")
total = sum(i * i for i in range(200_000))
print("before")
decision = stasis.gate("go on?")
print("after")
result = [order["id"], total]
"#;
const RESULT: &str = r#"["a",2666646666700000]"#;

async fn frozen() -> (Desk, Run) {
    let desk = Desk::open().await;
    let run = desk.run(BUSY, "{}").await;
    assert!(snapshot(&run).is_some(), "{:?}", run.checkpoint); // W-241
    (desk, run)
}

fn snapshot(run: &Run) -> Option<&Snapshot> {
    run.checkpoint.as_ref().and_then(|header| header.snapshot.as_ref())
}

/// Approves what is asked and waits for the end.
async fn approved(desk: &Desk, run: RunId) -> Run {
    let asked = desk.asked(run).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    desk.ended(run).await
}

/// Takes away what the first call answered: a replay cannot do without it.
async fn forget_the_order(desk: &Desk, run: RunId) {
    let answer = desk.calls(run).await[0].outcome().and_then(|outcome| outcome.body).expect("an order");
    let key = i64::from_le_bytes(*answer.digest.as_bytes().first_chunk().expect("32 bytes"));
    tamper(desk, &format!("DELETE FROM body WHERE key = {key}"));
}

/// What a file's table has of frozen guests.
fn rows(desk: &Desk) -> i64 {
    let db = rusqlite::Connection::open(desk.ledger_path()).expect("the ledger's file");
    db.query_row("SELECT count(*) FROM snapshot", [], |row| row.get(0)).expect("a count")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_is_frozen_where_replay_would_cost_more_than_a_thaw() {
    let desk = Desk::open().await;
    for rounds in [0, 0, 1_000, 10_000, 1_000_000] {
        let source = format!("n = sum(range({rounds}))\nstasis.gate('go on?')\nresult = n >= 0");
        let run = desk.run(&source, "{}").await;
        assert!(run.checkpoint.is_some());
        // W-241: what the guest has computed, a replay computes again.
        assert_eq!(snapshot(&run).is_some(), run.budget.active_us >= 10_000, "{:?}", run.budget);
        assert_eq!(desk.result(&approved(&desk, run.id).await).await, "true"); // W-241: either way is enough
    }

    let mut setting = Setting::default();
    setting.limits.snapshot_max = 1_000;
    let desk = Desk::with(setting).await;
    let busy = desk.run(BUSY, "{}").await;
    assert!(busy.checkpoint.is_some() && snapshot(&busy).is_none()); // W-251 R-321: left out, not cut
    assert_eq!(desk.result(&approved(&desk, busy.id).await).await, RESULT); // W-251: replay serves
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_guest_comes_back_without_its_journal() {
    let (desk, run) = frozen().await;
    forget_the_order(&desk, run.id).await;
    let desk = desk.reopen(Setting::default()).await;
    let done = approved(&desk, run.id).await;
    assert_eq!(desk.result(&done).await, RESULT); // R-333
    assert_eq!(log(&desk, run.id).await, ["before", "after"]);
    assert!(events(&desk, run.id, "checkpoint.snapshot_unused").await.is_empty());

    // Without it the journal is needed, and is not whole.
    let (desk, run) = frozen().await;
    forget_the_order(&desk, run.id).await;
    tamper(&desk, "DELETE FROM snapshot");
    let desk = desk.reopen(Setting::default()).await;
    let failed = approved(&desk, run.id).await;
    let failure = failed.failure().expect("failed");
    assert_eq!(failure.code, Code::CheckpointInvalid);
    assert!(failure.message.starts_with("checkpoint invalid: body sha256:"), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_damaged_or_gone_is_reported_and_replaced_by_replay() {
    let table = [
        ("DELETE FROM snapshot", "it is not stored"),
        ("UPDATE snapshot SET codec = 0, len = 9, bytes = zeroblob(9)", "snapshot "),
        ("UPDATE snapshot SET bytes = substr(bytes, 1, length(bytes) / 2)", "snapshot "),
    ];
    for (damage, why) in table {
        let (desk, run) = frozen().await;
        tamper(&desk, damage);
        let desk = desk.reopen(Setting::default()).await;
        comes_back_by_replay(&desk, run.id, why).await; // W-246 R-333
    }
}

/// By the same answers the program comes to the same end, and the timeline says why it took the long way.
async fn comes_back_by_replay(desk: &Desk, run: RunId, why: &str) {
    let done = approved(desk, run).await;
    assert_eq!(done.status(), Status::Done, "{why}: {:?}", done.phase);
    assert_eq!(desk.result(&done).await, RESULT);
    assert_eq!(log(desk, run).await, ["before", "after"]); // W-177
    let unused = events(desk, run, "checkpoint.snapshot_unused").await;
    assert_eq!(unused.len(), 1, "{unused:?}");
    assert!(unused[0]["why"].as_str().is_some_and(|text| text.starts_with(why)), "{unused:?}");
}

/// A checkpoint beside a snapshot that a scribe may swap.
async fn swapped(swap: impl FnOnce(&Scribe<'_>, Snapshot, Vec<u8>) -> NewCheckpoint) -> (Desk, RunId) {
    let (desk, run) = frozen().await;
    let kept = snapshot(&run).expect("frozen").clone();
    let bytes = desk.engine.ledger().snapshot(run.id).await.expect("read").expect("frozen");
    at_rest(&desk).await;
    let desk = desk.reopen(Setting::idle()).await;
    let asked = desk.asked(run.id).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    let scribe = Scribe::claim(&desk, run.id).await;
    let body = desk.engine.ledger().checkpoint(run.id).await.expect("read").expect("a checkpoint");
    let mut body: Value = serde_json::from_slice(&body).expect("JSON");
    body["n"] = json!(2);
    let sound = scribe.checkpoint(|edited| *edited = body);
    let swapped = swap(&scribe, kept, bytes);
    scribe.hand_back(Some(NewCheckpoint { snapshot: swapped.snapshot, ..sound })).await;
    (desk, run.id)
}

async fn ends_by_replay(desk: Desk, run: RunId, why: &str) {
    let desk = desk.reopen(Setting::default()).await;
    let done = desk.ended(run).await;
    assert_eq!(done.status(), Status::Done, "{why}: {:?}", done.phase);
    assert_eq!(desk.result(&done).await, RESULT);
    let unused = events(&desk, run, "checkpoint.snapshot_unused").await;
    assert_eq!(unused, [json!({"why": why})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_another_engine_image_run_or_hop_is_not_used() {
    let (desk, run) = swapped(|s, kept, bytes| s.checkpoint_with(kept, &bytes)).await;
    let desk = desk.reopen(Setting::default()).await;
    assert_eq!(desk.result(&desk.ended(run).await).await, RESULT);
    assert!(events(&desk, run, "checkpoint.snapshot_unused").await.is_empty()); // the control: its own is used

    let of_engine = |s: &Scribe<'_>, kept, bytes: Vec<u8>| {
        s.checkpoint_with(Snapshot { engine: "python/1".to_owned(), ..kept }, &bytes)
    };
    let (desk, run) = swapped(of_engine).await;
    ends_by_replay(desk, run, "it is of another guest engine").await; // W-245

    let of_image = |s: &Scribe<'_>, kept, bytes: Vec<u8>| {
        s.checkpoint_with(Snapshot { image: Digest::of("older"), ..kept }, &bytes)
    };
    let (desk, run) = swapped(of_image).await;
    ends_by_replay(desk, run, "it is of another guest image").await; // W-245

    // The same, told by the snapshot's own header alone.
    let (other, stranger) = frozen().await;
    let foreign = other.engine.ledger().snapshot(stranger.id).await.expect("read").expect("frozen");
    let (desk, run) = swapped(|s, kept, _| s.checkpoint_with(kept, &foreign)).await;
    ends_by_replay(desk, run, "the snapshot is of another run").await; // W-245 R-333

    let (desk, run) = swapped(|s, kept, bytes| s.checkpoint_with(Snapshot { hop: 7, ..kept }, &bytes)).await;
    ends_by_replay(desk, run, "the snapshot is of another hop").await; // W-245

    let cut = |s: &Scribe<'_>, kept, bytes: Vec<u8>| s.checkpoint_with(kept, &bytes[..bytes.len() / 2]);
    let (desk, run) = swapped(cut).await;
    let desk = desk.reopen(Setting::default()).await;
    assert_eq!(desk.result(&desk.ended(run).await).await, RESULT);
    let unused = events(&desk, run, "checkpoint.snapshot_unused").await;
    assert!(unused[0]["why"].as_str().is_some_and(|why| why.starts_with("the snapshot is damaged: ")), "{unused:?}"); // W-246
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_good_for_one_claim() {
    let (desk, run) = frozen().await;
    let desk = desk.reopen(Setting::idle()).await;
    let asked = desk.asked(run.id).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    // This claim takes it, and is never heard of again.
    let scribe = Scribe::claim(&desk, run.id).await;
    assert_eq!(snapshot(&scribe.run).and_then(|kept| kept.consumed_by), Some(scribe.run.fence)); // W-247
    drop(scribe);
    ends_by_replay(desk, run.id, "snapshot_consumed").await; // W-247 W-259 R-333
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hop_that_makes_no_guest_hands_its_snapshot_on() {
    let source = r#"
order = payments.order(order_id="a")
total = sum(i * i for i in range(200_000))
stasis.parallel(stasis.gate.later("1"), stasis.gate.later("2"))
result = [order["id"], total]
"#;
    let desk = Desk::open().await;
    let run = desk.run(source, "{}").await;
    let first = snapshot(&run).expect("frozen").clone();
    let gates = desk.pending(run.id).await;
    desk.decide(gates[0].id, Verdict::Approve).await.expect("approved");
    let parked = async || {
        let run = desk.engine.ledger().run(run.id).await.expect("read").expect("a run");
        run.seq == 1 && run.status() == Status::AwaitingConsent
    };
    eventually("its second park", parked).await;
    let again = desk.engine.ledger().run(run.id).await.expect("read").expect("a run");
    let second = snapshot(&again).expect("handed on");
    // W-247 W-132
    assert_eq!((second.body, second.hop, second.consumed_by), (first.body, 0, None));
    forget_the_order(&desk, run.id).await;
    desk.decide(gates[1].id, Verdict::Approve).await.expect("approved");
    let done = desk.ended(run.id).await;
    assert_eq!(desk.result(&done).await, RESULT); // W-247: it was thawed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_goes_with_the_hop_that_used_it_and_with_the_run() {
    let source = "n = sum(i * i for i in range(200_000))\nstasis.gate('1')\nstasis.gate('2')\nresult = n";
    let desk = Desk::open().await;
    let run = desk.run(source, "{}").await;
    let first = snapshot(&run).expect("frozen").body;
    assert_eq!(rows(&desk), 1);
    let gate = desk.asked(run.id).await;
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    let gate = desk.asked(run.id).await;
    let second = desk.stopped(run.id).await;
    let second = snapshot(&second).expect("frozen").body;
    assert!(first != second && rows(&desk) == 1); // W-252
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    desk.ended(run.id).await;
    eventually("no snapshot", async || rows(&desk) == 0).await; // W-252
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_run_is_one_however_its_guest_came_back() {
    let source = "
for n in range(700): print('x' * 999)
stasis.gate('go on?')
for n in range(700): print('y' * 999)
";
    for snapshots in [1 << 30, 0] {
        let mut setting = Setting::default();
        setting.limits.snapshot_max = snapshots;
        let desk = Desk::with(setting).await;
        let run = desk.run(source, "{}").await;
        assert_eq!(snapshot(&run).is_some(), snapshots > 0);
        approved(&desk, run.id).await;
        let lines = log(&desk, run.id).await;
        let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
        assert!((1 << 20..(1 << 20) + 1_200).contains(&bytes), "{bytes}"); // W-163
        let cut = lines.iter().filter(|line| line.starts_with("[the log of this run ends here")).count();
        assert_eq!(cut, 1); // W-163
        assert_eq!(lines.iter().filter(|line| line.starts_with('x')).count(), 700); // W-177
    }
}
