//! One program, three ways through its waits: hot in one guest, frozen and thawed, replayed from its journal.

use super::scribe::{Scribe, events, log, tamper};
use crate::desk::{Desk, Setting, eventually, local, manual, request};
use crate::shop::{Reply, Shop};
use protocol::approval::Verdict;
use protocol::call::OutcomeStatus;
use protocol::code::Code;
use protocol::digest::Digest;
use protocol::id::ApprovalId;
use protocol::journal::{Entry, Other};
use protocol::run::Status;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

const PROGRAM: &str = r#"
import random, secrets

token = secrets.token_hex(8)
kept = random.Random(secrets.randbits(64))
drawn = kept.random()
total = sum(i * i for i in range(200_000))
seen = []

class Question:
    def __init__(self, n):
        self.n = n
    def __enter__(self):
        self.decision = stasis.ask(f"question {self.n}", details={"n": self.n})
        return self
    def __exit__(self, *exc):
        print("left", self.n, self.decision.status)
        return False

def questions():
    for n in range(3):
        with Question(n) as question:
            yield [n, question.decision.status, question.decision.by]

for told in questions():
    seen.append(told)
try:
    stasis.gate("question 3")
except stasis.Rejected as error:
    seen.append([error.code, error.reason])
try:
    payments.refund(order_id=7, amount=1)
except stasis.Denied as error:
    seen.append(error.code)
for done in stasis.parallel(payments.order.later(order_id="a"), stasis.gate.later("question 5"), errors="return"):
    seen.append(str(type(done).__name__))
stasis.sleep(0.02)
paid = payments.refund(order_id="a", amount=500)
same = kept.getstate() == random.Random.getstate(kept) and len(token) == 16 and 0 <= drawn < 1
print("end", same)
result = [seen, total, paid, same]
"#;

/// What can be told of a run from outside, but for its times.
#[derive(PartialEq, Debug)]
struct Story {
    result: String,
    log: Vec<String>,
    calls: Vec<(String, Digest, Option<OutcomeStatus>, Option<Code>)>,
    /// The journal without what every hop adds.
    entries: Vec<String>,
}

/// Runs it to its end, saying yes and no in turn, and yes to the refund.
async fn story(setting: Setting) -> (Story, u32) {
    let desk = Desk::with(setting).await;
    let run = desk.begin(PROGRAM, "{}").await;
    let mut answered = BTreeSet::<ApprovalId>::new();
    eventually("its end", async || {
        for asked in desk.pending(run).await {
            if answered.insert(asked.id) {
                let no = answered.len().is_multiple_of(2) && answered.len() < 6;
                let verdict = if no { Verdict::Reject } else { Verdict::Approve };
                desk.decide(asked.id, verdict).await.expect("decided");
            }
        }
        desk.engine.ledger().run(run).await.expect("read").expect("a run").status().is_final()
    })
    .await;
    let ended = desk.ended(run).await;
    assert_eq!(ended.status(), Status::Done, "{:?}", ended.phase);
    assert!(events(&desk, run, "checkpoint.snapshot_unused").await.is_empty());
    let calls = desk.calls(run).await;
    let calls = calls.iter().map(|c| {
        let outcome = c.outcome();
        (c.tool.name.clone(), c.asked, outcome.map(|o| o.status), outcome.and_then(|o| o.code))
    });
    let journal = desk.engine.ledger().journal(run).await.expect("read").expect("a run");
    let entries = journal.iter().filter_map(|entry| match entry {
        Entry::Call(call) => Some(format!("{} {} {}", call.identity, call.tool.name, call.asked)),
        Entry::Other(Other::Start { .. }) => Some("start".to_owned()),
        Entry::Other(Other::Batch { size }) => Some(format!("batch {size}")),
        Entry::Other(Other::End { error, .. }) => Some(format!("end {error:?}")),
        Entry::Other(Other::Hop { .. }) => None,
    });
    let told = Story {
        result: desk.result(&ended).await,
        log: log(&desk, run).await,
        calls: calls.collect(),
        entries: entries.collect(),
    };
    (told, ended.seq)
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_thawed_and_replayed_a_program_does_the_same() {
    let (hot, hops) = story(Setting::hot(Duration::from_secs(50))).await;
    assert_eq!(hops, 0);
    assert_eq!(hot.log[..2], ["left 0 approved", "left 1 rejected"]);
    let (thawed, hops) = story(Setting::default()).await;
    assert!(hops >= 6, "{hops} hops");
    let mut setting = Setting::default();
    setting.limits.snapshot_max = 0;
    let (replayed, _) = story(setting).await;
    // W-137 W-170 W-172 W-250
    assert_eq!(hot, thawed);
    assert_eq!(hot, replayed);
    let calls = hot.entries.iter().filter(|entry| entry.starts_with("main/")).count();
    assert_eq!((hot.entries[0].as_str(), calls, hot.entries.len()), ("start", 9, 12)); // W-169
}

/// Two runs of `source` whose starts were journaled with the same 32 bytes, and their results.
async fn from_one_seed(source: &str) -> BTreeSet<String> {
    let mut results = BTreeSet::new();
    for _ in 0..2 {
        let desk = Desk::with(Setting::idle()).await;
        desk.register(source).await.expect("registered");
        let run = desk.engine.start_run(local(), request("{}")).await.expect("started").run.id;
        let mut scribe = Scribe::claim(&desk, run).await;
        scribe.start().read(1, "stasis.now", "{}", "\"2026-11-30T09:30:00Z\"");
        scribe.hand_back(None).await;
        let desk = desk.reopen(Setting::default()).await;
        let run = desk.ended(run).await;
        results.insert(desk.result(&run).await);
    }
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn journaled_randomness_is_drawn_again_and_is_no_secret() {
    let before = from_one_seed("import secrets\nresult = secrets.token_hex(16)\nstasis.now()").await;
    assert_eq!(before.len(), 1, "{before:?}"); // W-155
    // Each hop brings randomness of its own.
    let after = from_one_seed("import secrets\nstasis.now()\nresult = secrets.token_hex(16)").await;
    assert_eq!(after.len(), 2, "{after:?}"); // W-154
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_program_runs_while_its_effect_is_ambiguous_or_once_it_is_given_up() {
    let source = "
try:
    mail.drop()
except BaseException as error:
    print('told', error)
finally:
    print('left')
";
    let desk = Desk::open().await;
    let run = desk.run(source, "{}").await;
    assert_eq!(run.status(), Status::AwaitingConsent);
    assert!(log(&desk, run.id).await.is_empty()); // W-146: it waits, and was told nothing
    let asked = desk.asked(run.id).await;
    desk.decide(asked.id, Verdict::GiveUp).await.expect("given up");
    let run = desk.ended(run.id).await;
    assert_eq!(run.failure().map(|failure| failure.code), Some(Code::EffectAbandoned)); // W-146
    assert!(log(&desk, run.id).await.is_empty()); // W-146 W-148
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_tells_each_of_its_occurrences() {
    let desk = Desk::open().await;
    let run = desk.run("stasis.gate('1')\nstasis.sleep(0.01)\nresult = 1", "{}").await;
    let gate = desk.asked(run.id).await;
    let wait = gate.wait;
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    desk.ended(run.id).await;
    let numbers = async |kind: &str| -> Vec<u64> {
        events(&desk, run.id, kind).await.iter().map(|facts| facts["occurrence"].as_u64().expect("a number")).collect()
    };
    assert_eq!(numbers("node.entered").await, [1, 2, 3]); // R-134: entering again is a new occurrence
    assert_eq!(numbers("node.ended").await, [3]); // R-134
    let waiting = events(&desk, run.id, "node.waiting").await;
    assert_eq!(waiting[0]["waits"], serde_json::json!([wait])); // R-134: the exact waits and their kind
    assert_eq!((&waiting[0]["kinds"][0], &waiting[1]["kinds"][0]), (&"approval".into(), &"timer".into()));
    let failed = desk.run("raise ValueError('no')", "{}").await;
    assert_eq!(events(&desk, failed.id, "node.failed").await[0]["code"], "step_failed"); // R-134
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_ends_once_whatever_happens_to_the_pass_or_the_clock() {
    let (setting, clock) = manual();
    let desk = Desk::with(setting.clone()).await;
    let run = desk.run("stasis.sleep(60)\nstasis.gate('go on?')\nresult = 'woke'", "{}").await;
    assert_eq!(run.status(), Status::AwaitingTimer);
    let id = run.id;
    // The run's row cannot be read when its timer is due: the pass fails, and the timer stays due.
    tamper(&desk, "CREATE TABLE kept AS SELECT n, state FROM run; UPDATE run SET state = x'0102'");
    let desk = desk.reopen(setting.clone()).await;
    clock.fetch_add(60_000_000, Ordering::SeqCst);
    eventually("a pass that fails", async || desk.engine.passes()[1].is_some_and(|pass| pass.errors > 0)).await;
    tamper(&desk, "UPDATE run SET state = (SELECT state FROM kept WHERE kept.n = run.n); DROP TABLE kept");
    let desk = desk.reopen(setting.clone()).await;
    let gate = desk.asked(id).await; // R-242: it ended in the transaction that used it
    assert_eq!(events(&desk, id, "timer.fired").await.len(), 1); // R-242
    // Before its time again, as it seems: what has ended is not waited for again.
    desk.stopped(id).await;
    clock.fetch_sub(3_600_000_000, Ordering::SeqCst);
    let desk = desk.reopen(setting).await;
    let row = desk.engine.ledger().rows(id).await.expect("read").expect("a run");
    assert_eq!(row.run.status(), Status::AwaitingConsent); // R-242
    assert_eq!(row.waits.iter().map(|wait| wait.id).collect::<Vec<_>>(), [gate.wait]); // R-242
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    let done = desk.ended(id).await;
    assert_eq!(desk.result(&done).await, "\"woke\"");
    assert_eq!(events(&desk, id, "timer.fired").await.len(), 1); // R-242
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_told_in_the_order_of_its_list_whoever_answered_first() {
    let mut setting = Setting::default();
    setting.limits.snapshot_max = 0;
    let (desk, shop) = (Desk::with(setting).await, Shop::open().await);
    desk.apply(&shop.tools()).await;
    shop.tell("/send", [Reply::Holds]);
    let source = "
told = []
def tell(call):
    done = stasis.parallel(call, shop.buy.later(n=2), errors='return')
    told.extend(sorted(one) for one in done)
tell(shop.send.later(n=1))
print(told)
stasis.gate('go on?')
result = told
";
    shop.tell("/buy", [Reply::Says(200, r#"{"bought":1}"#)]);
    let run = desk.begin(source, "{}").await;
    shop.reached("/send", 1).await;
    // The second of the list has its answer, stored, while the first still waits for its own.
    let ended = async || desk.calls(run).await.iter().any(|call| call.tool.name == "shop.buy" && call.is_ended());
    eventually("the second answer", ended).await;
    shop.release();
    let gate = desk.asked(run).await;
    let said = log(&desk, run).await;
    assert_eq!(said, ["[['done'], ['bought']]"]); // R-312: in list order
    let receipts = desk.receipts(run).await;
    let order: Vec<_> = receipts.iter().map(|receipt| receipt["tool"].as_str().expect("a name").to_owned()).collect();
    assert_eq!(order, ["shop.buy", "shop.send"], "what ended first is receipted first");
    // A fresh guest is told the same, in the same order, from the journal.
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    let done = desk.ended(run).await;
    assert_eq!(desk.result(&done).await, r#"[["done"],["bought"]]"#); // R-312
    assert_eq!((log(&desk, run).await, shop.seen("/send").len(), shop.seen("/buy").len()), (said, 1, 1)); // R-312
}
