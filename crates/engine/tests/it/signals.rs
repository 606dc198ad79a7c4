//! Programs that wait for signals, from Python to the ledger and back.

use crate::desk::{Desk, Setting, eventually, local, manual};
use engine::{Failure, SendSignal};
use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::command::Target;
use protocol::id::RunId;
use protocol::json::canonicalize;
use protocol::run::{Run, Status};
use protocol::signal::{Signal, State};
use std::sync::atomic::Ordering;
use std::time::Duration;

async fn send(desk: &Desk, run: RunId, name: &str, id: &str, payload: &str) -> Result<(Run, Signal, bool), Failure> {
    let to = Target::Name { run, name: name.to_owned() };
    let payload = canonicalize(payload.as_bytes()).expect("JSON");
    desk.engine.send(local(), SendSignal { to, id: Some(id.to_owned()), payload }).await
}

fn code(failure: Failure) -> Code {
    match failure {
        Failure::Refused(refusal) => refusal.code,
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_parks_on_a_signal_and_goes_on_with_its_payload() {
    let desk = Desk::open().await;
    let run = desk.run("paid = stasis.signal('paid')\nresult = paid['amount']", "{}").await;
    assert_eq!(run.status(), Status::AwaitingSignal); // R-183
    assert!(desk.engine.guests().iter().all(|guest| !guest.resident)); // R-174
    let desk = desk.reopen(Setting::default()).await;
    send(&desk, run.id, "refused", "a", "1").await.expect("kept");
    let (_, signal, changed) = send(&desk, run.id, "paid", "b", r#"{"amount": 250.50}"#).await.expect("taken");
    assert!(changed && matches!(signal.state, State::Taken(_))); // R-235
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "250.5"); // W-121
    let late = send(&desk, run.id, "paid", "c", "1").await.expect_err("ended");
    assert_eq!(code(late), Code::RunTerminal); // R-240
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_that_came_before_their_waits_are_taken_first_in_first_out() {
    let desk = Desk::open().await;
    let source = "stasis.signal('go')\nresult = [stasis.signal('item') for _ in range(3)]";
    let run = desk.run(source, "{}").await;
    for (id, payload) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")] {
        send(&desk, run.id, "item", id, payload).await.expect("kept"); // W-135
    }
    send(&desk, run.id, "go", "go", "null").await.expect("taken");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "[1,2,3]"); // W-135
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_wait_takes_a_signal_in_place() {
    let desk = Desk::with(Setting::hot(Duration::from_secs(60))).await;
    let run = desk.begin("result = stasis.signal('paid', schema={'type': 'number'})", "{}").await;
    eventually("a wait", async || {
        desk.engine.ledger().rows(run).await.expect("read").expect("a run").waits.iter().any(|wait| wait.is_open())
    })
    .await;
    let refused = send(&desk, run, "paid", "a", "\"five\"").await.expect_err("it does not fit");
    assert_eq!(code(refused), Code::InvalidInput); // R-238
    send(&desk, run, "paid", "a", "5").await.expect("taken");
    let run = desk.ended(run).await;
    assert_eq!((desk.result(&run).await.as_str(), run.seq), ("5", 0)); // W-137
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_does_not_come_in_time_raises_expired() {
    let (setting, clock) = manual();
    let desk = Desk::with(setting).await;
    let source = "
try:
    result = stasis.signal('paid', timeout='1h')
except stasis.Expired as error:
    result = [error.code, stasis.signal('paid')]
";
    let run = desk.run(source, "{}").await;
    assert_eq!(run.status(), Status::AwaitingSignal); // R-183
    clock.fetch_add(Duration::from_secs(3_600).as_micros() as i64, Ordering::SeqCst);
    eventually("the second wait", async || {
        let rows = desk.engine.ledger().rows(run.id).await.expect("read").expect("a run");
        rows.run.status() == Status::AwaitingSignal && rows.run.seq == 1
    })
    .await;
    send(&desk, run.id, "paid", "late", "7").await.expect("taken by the next wait"); // R-237
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"["wait_expired",7]"#); // W-141 R-243
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_waits_the_first_to_end_wins_and_closes_the_others() {
    let (setting, clock) = manual();
    let desk = Desk::with(setting).await;
    let source = "
waits = [stasis.signal.later('paid'), stasis.signal.later('refused'), stasis.sleep.later('2h'), stasis.sleep.later('1h')]
result = [stasis.first(*waits), stasis.first(*waits)]
";
    let run = desk.run(source, "{}").await;
    let open = desk.engine.ledger().rows(run.id).await.expect("read").expect("a run").waits.len();
    assert_eq!((run.status(), open), (Status::AwaitingSignal, 4)); // R-183
    send(&desk, run.id, "refused", "a", "\"no\"").await.expect("taken");
    eventually("the second wait", async || {
        let rows = desk.engine.ledger().rows(run.id).await.expect("read").expect("a run");
        rows.run.status() == Status::AwaitingSignal && rows.run.seq == 1 && rows.waits.len() == 4
    })
    .await;
    clock.fetch_add(Duration::from_secs(3_600).as_micros() as i64, Ordering::SeqCst);
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"[[1,"no"],[3,null]]"#); // W-124 W-134
}

#[tokio::test(flavor = "multi_thread")]
async fn people_and_signals_may_race_for_one_wait() {
    let desk = Desk::open().await;
    let source = "
def waits(n):
    gate, ask = stasis.gate.later(f'money {n}'), stasis.ask.later(f'law {n}')
    return [gate, ask, stasis.signal.later('paid'), stasis.sleep.later('2h')]

told = []
for n in range(4):
    try:
        index, value = stasis.first(*waits(n))
        told.append([index, getattr(value, 'status', value)])
    except stasis.Rejected as error:
        told.append([error.code, error.detail['by']])
result = told
";
    let run = desk.run(source, "{}").await;
    assert_eq!(run.status(), Status::AwaitingConsent); // R-183
    let question = async |title: &str| {
        let digest = canonicalize(format!(r#"{{"title":"{title}"}}"#).as_bytes()).expect("JSON").digest();
        let mut found = None;
        eventually(title, async || {
            found = desk.pending(run.id).await.into_iter().find(|approval| approval.arguments.digest == digest);
            found.is_some()
        })
        .await;
        found.expect("just found").id
    };
    for (title, verdict) in [("law 0", Verdict::Approve), ("money 1", Verdict::Reject), ("law 2", Verdict::Reject)] {
        let asked = question(title).await;
        desk.decide(asked, verdict).await.expect("decided");
    }
    question("money 3").await;
    send(&desk, run.id, "paid", "a", "7").await.expect("taken");
    let run = desk.ended(run.id).await;
    let told = r#"[[1,"approved"],["approval_rejected",["local"]],[1,"rejected"],[2,7]]"#;
    assert_eq!(desk.result(&run).await, told); // W-124 W-120 W-134
    assert!(desk.pending(run.id).await.is_empty()); // R-182
}
