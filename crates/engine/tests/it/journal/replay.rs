//! Journals that a program meets again, and journals that it does not.

use super::scribe::{Scribe, detail, log, tamper};
use crate::desk::{Desk, PATIENCE, Setting, local, request};
use engine::Until;
use protocol::approval::{Kind, Verdict};
use protocol::code::Code;
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::run::{Failure, Run, Status};
use serde_json::{Value, json};

/// Looks twice and then spends.
const PROGRAM: &str = r#"
print("begun")
first = payments.order(order_id="a")
second = payments.order(order_id="b")
print("looked")
payments.refund(order_id="a", amount=1)
result = [first, second]
"#;

const A: &str = r#"{"order_id":"a"}"#;
const B: &str = r#"{"order_id":"b"}"#;
const FOUND: &str = r#"{"from":"the journal"}"#;

/// An engine that carries nothing, with a queued run of `source`.
async fn queued(source: &str) -> (Desk, RunId) {
    let desk = Desk::with(Setting::idle()).await;
    desk.register(source).await.expect("registered");
    let run = desk.engine.start_run(local(), request("{}")).await.expect("started").run.id;
    (desk, run)
}

/// Lets `source` meet the journal that `write` left, in an engine of its own.
async fn meets(source: &str, write: impl FnOnce(&mut Scribe<'_>)) -> (Desk, Run) {
    let (desk, run) = queued(source).await;
    let mut scribe = Scribe::claim(&desk, run).await;
    scribe.start();
    write(&mut scribe);
    scribe.hand_back(None).await;
    let desk = desk.reopen(Setting::default()).await;
    // A replay may take ten seconds of guest time, which can be minutes on a busy machine.
    let ended = desk.engine.wait(run, Until::Terminal, 5 * PATIENCE).await.expect("read");
    (desk, ended.expect("it ends in time"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_journaled_is_told_again_and_the_first_call_without_an_entry_is_live() {
    let (desk, run) = meets(PROGRAM, |scribe| {
        scribe.read(1, "payments.order", A, FOUND).read(2, "payments.order", B, FOUND);
    })
    .await;
    // W-172 W-178 R-310 R-313: no handler was asked for what the journal answers.
    assert_eq!(desk.result(&run).await, r#"[{"from":"the journal"},{"from":"the journal"}]"#);
    // R-308: without a checkpoint the journal is replayed from the input.
    assert!(run.checkpoint.is_none());
    assert_eq!(desk.payments.applied().len(), 1); // W-176
    assert_eq!(run.budget.calls, 3); // R-313: replay counts nothing
    assert_eq!(log(&desk, run.id).await, ["begun", "looked"]); // W-177
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_difference_ends_the_run_and_nothing_is_dispatched_after_it() {
    type Write = fn(&mut Scribe<'_>);
    let asked = |arguments: &str| Value::String(Digest::of(arguments).to_string());
    let now = "{}";
    let table: [(&str, Write, Value, Value, Value); 7] = [
        (
            "another tool was called",
            |s| {
                s.read(1, "stasis.now", "{}", "\"t\"").read(2, "payments.order", B, FOUND);
            },
            json!("main/1"),
            asked(now),
            asked(A),
        ),
        (
            "the arguments differ",
            |s| {
                s.read(1, "payments.order", A, FOUND).read(2, "payments.order", A, FOUND);
            },
            json!("main/2"),
            asked(A),
            asked(B),
        ),
        (
            "the tool is another",
            |s| {
                let call = s.call_with(1, "payments.order", A, |call| call.tool.digest = Digest::of("older"));
                s.ok(call, FOUND);
            },
            json!("main/1"),
            json!(Digest::of("older")),
            Value::Null,
        ),
        (
            "the call has another number",
            |s| {
                s.read(7, "payments.order", A, FOUND);
            },
            json!("main/7"),
            asked(A),
            asked(A),
        ),
        (
            "the batch has another shape",
            |s| {
                s.batch(2).read(1, "payments.order", A, FOUND).read(2, "payments.order", B, FOUND);
            },
            json!("main/1"),
            asked(A),
            asked(A),
        ),
        // It waited for a person there; this program does not.
        (
            "another tool was called",
            |s| {
                s.read(1, "payments.order", A, FOUND);
                let gate = s.call(2, "stasis.gate", r#"{"title":"?"}"#);
                s.ok(gate, FOUND);
            },
            json!("main/2"),
            asked(r#"{"title":"?"}"#),
            asked(B),
        ),
        // It looked a third time where this program would spend.
        (
            "another tool was called",
            |s| {
                s.read(1, "payments.order", A, FOUND).read(2, "payments.order", B, FOUND);
                s.read(3, "payments.order", A, FOUND);
            },
            json!("main/3"),
            asked(A),
            asked(r#"{"amount":1,"order_id":"a"}"#),
        ),
    ];
    for (what, write, call, journaled, wanted) in table {
        let (desk, run) = meets(PROGRAM, write).await;
        let failure = diverged(&run);
        // W-173 R-311
        assert_eq!(failure["what"], what);
        // W-174: the detail names the call and both digests.
        assert_eq!(failure["call"], format!("{}/{}", run.id, call.as_str().unwrap()));
        assert_eq!(failure["journaled"], journaled, "{failure}");
        assert!(wanted.is_null() || failure["asked"] == wanted, "{failure}");
        assert!(failure["asked"].is_string(), "{failure}");
        // W-174: the refund is never sent.
        assert!(desk.payments.applied().is_empty(), "{failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_left_unread_are_a_difference() {
    let looks_once = "payments.order(order_id='a')\nresult = 1";
    let raises = "payments.order(order_id='a')\nraise ValueError('no')";
    for source in [looks_once, raises] {
        let (desk, run) = meets(source, |scribe| {
            scribe.read(1, "payments.order", A, FOUND).read(2, "payments.order", B, FOUND);
        })
        .await;
        let failure = diverged(&run);
        assert_eq!(failure["what"], "the program ended before this call"); // W-175 R-311
        assert_eq!(failure["call"], format!("{}/main/2", run.id));
        assert_eq!((&failure["journaled"], &failure["asked"]), (&json!(Digest::of(B)), &Value::Null));
        assert!(desk.payments.applied().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_diverges_has_its_questions_closed_first() {
    let (desk, run) = queued(PROGRAM).await;
    let mut scribe = Scribe::claim(&desk, run).await;
    scribe.start().batch(2);
    let (left, right) =
        (scribe.call(1, "stasis.gate", r#"{"title":"1"}"#), scribe.call(2, "stasis.gate", r#"{"title":"2"}"#));
    scribe.ask(left, Kind::Gate).ask(right, Kind::Gate);
    let checkpoint = scribe.checkpoint(|_| ());
    scribe.park(checkpoint).await;
    for approval in desk.pending(run).await {
        desk.decide(approval.id, Verdict::Approve).await.expect("approved");
    }
    let desk = desk.reopen(Setting::default()).await;
    let run = desk.ended(run).await;
    assert_eq!(diverged(&run)["what"], "the batch has another shape"); // W-173
    assert!(desk.pending(run.id).await.is_empty()); // W-174
    assert!(desk.payments.applied().is_empty()); // W-174
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_of_another_run_is_not_replayed() {
    type Write = fn(&mut Scribe<'_>);
    let table: [Write; 3] = [
        |s| {
            s.start_of(Digest::of("pattern"), s.run.input.digest).read(1, "payments.order", A, FOUND);
        },
        |s| {
            s.start_of(s.run.pattern.digest, Digest::of("input")).read(1, "payments.order", A, FOUND);
        },
        // A hop's entry follows an answer; here is none.
        |s| {
            s.read(1, "payments.order", A, FOUND);
        },
    ];
    for write in table {
        let (desk, run) = queued(PROGRAM).await;
        let mut scribe = Scribe::claim(&desk, run).await;
        write(&mut scribe);
        scribe.hand_back(None).await;
        let desk = desk.reopen(Setting::default()).await;
        let run = desk.ended(run).await;
        let failure = run.failure().expect("failed");
        assert_eq!((failure.code, failure.message.as_str()), (Code::CheckpointInvalid, "checkpoint invalid: journal")); // W-169 R-335
        assert!(log(&desk, run.id).await.is_empty()); // R-335: nothing runs
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_lost_a_row_is_not_replayed() {
    for statement in ["DELETE FROM journal WHERE position = 0", "DELETE FROM call", "UPDATE journal SET entry = x'00'"]
    {
        let (desk, run) = queued(PROGRAM).await;
        let mut scribe = Scribe::claim(&desk, run).await;
        scribe.start().read(1, "payments.order", A, FOUND);
        scribe.hand_back(None).await;
        tamper(&desk, statement);
        let desk = desk.reopen(Setting::default()).await;
        let run = desk.ended(run).await;
        let failure = run.failure().expect("failed");
        assert_eq!(
            (failure.code, failure.message.as_str()),
            (Code::CheckpointInvalid, "checkpoint invalid: journal"),
            "{statement}"
        ); // R-335
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_were_refused_whole_have_no_entry_and_are_refused_again() {
    let source = r#"
import _host, time
codes = []
before = time.time()
for request in (b'not json', b'{"n":9,"tool":"payments.order","arguments":{}}', b'[]'):
    codes.append(bytes(_host.send(request)).decode(errors='replace').count('n'))
try:
    payments.order(order_id='x' * 3_000_000)
except stasis.BadRequest as error:
    codes.append(error.code)
unmoved = time.time() == before
stasis.gate('go on?')
result = [codes[-1], unmoved]
"#;
    let mut setting = Setting::default();
    setting.limits.snapshot_max = 0;
    let desk = Desk::with(setting).await;
    let run = desk.run(source, "{}").await;
    assert_eq!((run.journal.len, run.budget.calls), (2, 1)); // W-171 W-169: the start and the gate
    let pending = desk.pending(run.id).await;
    desk.decide(pending[0].id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"["request_too_large",true]"#); // W-171
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_call_is_compared_by_what_the_program_asked() {
    let source = "
first = payments.refund(order_id='o-1', amount=500)
told = [stasis.last()['edited'], stasis.last()['arguments']['amount']]
stasis.gate('go on?')
result = told
";
    let mut setting = Setting::default();
    setting.limits.snapshot_max = 0;
    let desk = Desk::with(setting).await;
    let run = desk.run(source, "{}").await;
    let pending = desk.pending(run.id).await;
    desk.decide_with(pending[0].id, Verdict::Approve, Some(r#"{"order_id":"o-1","amount":120}"#))
        .await
        .expect("edited");
    let gate = desk.asked(run.id).await;
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "[true,120]"); // W-178
    assert_eq!(desk.payments.applied().len(), 1); // W-172
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_has_a_limit_of_its_own() {
    // The journal says that it was done in no time; met by that answer this program never comes to an end.
    let source = "
if payments.order(order_id='a') == {'from': 'the journal'}:
    while True: pass
payments.order(order_id='b')
";
    let (_, run) = meets(source, |scribe| {
        scribe.read(1, "payments.order", A, FOUND).read(2, "payments.order", B, FOUND);
    })
    .await;
    let failure = run.failure().expect("failed");
    assert_eq!(failure.code, Code::ReplayTimeout); // W-179
    let limit = failure.message.rsplit(' ').nth(1).and_then(|ms| ms.parse().ok());
    assert_eq!(limit, Some(10_000_u64), "{}", failure.message); // W-179 W-168
    assert_eq!(run.budget.active_us, 0); // W-166
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_question_is_not_there_asks_a_new_one() {
    let source = "result = payments.refund(order_id='a', amount=500)";
    let (desk, run) = queued(source).await;
    let mut scribe = Scribe::claim(&desk, run).await;
    scribe.start();
    // It was asked once, says its row; nothing says what, and of whom.
    scribe.call_with(1, "payments.refund", r#"{"amount":500,"order_id":"a"}"#, |call| call.rounds = 1);
    scribe.hand_back(None).await;
    let desk = desk.reopen(Setting::default()).await;
    let asked = desk.asked(run).await; // R-329
    assert_eq!((desk.payments.applied().len(), asked.is_pending()), (0, true)); // R-329
    desk.decide(asked.id, Verdict::Approve).await.expect("decided");
    assert_eq!(desk.ended(run).await.status(), Status::Done);
    assert_eq!(desk.payments.applied().len(), 1); // R-329
}

/// The detail of a run that failed by divergence.
fn diverged(run: &Run) -> Value {
    assert_eq!(run.status(), Status::Failed, "{:?}", run.phase);
    let failure: &Failure = run.failure().expect("failed");
    assert_eq!((failure.code, failure.message.as_str()), (Code::ReplayDiverged, "replay diverged")); // W-174
    assert_eq!(run.budget.active_us, 0); // R-313: nothing is charged
    detail(failure)
}
