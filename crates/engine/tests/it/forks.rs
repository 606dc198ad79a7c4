//! Forks: a new run with what another one had come to at an event (R-16).

use crate::desk::{Desk, Setting, eventually, local};
use engine::{Failure, ForkRun};
use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::command::Caller;
use protocol::event::Kind;
use protocol::id::RunId;
use protocol::principal::Principal;
use protocol::refusal::Refusal;
use protocol::run::{Forked, Run, Status};

/// Pays, and goes by what a person then says.
const PROGRAM: &str = r#"
import secrets
token = secrets.token_hex(8)
paid = payments.refund(order_id="a", amount=1)
seen = payments.order(order_id=token)
decision = stasis.ask("go on?")
mail.send(to=f"{token} {decision.status}")
result = [token, seen["id"] == token, decision.status]
"#;

async fn fork_as(desk: &Desk, by: Caller, from: RunId, seq: u32) -> Result<Run, Failure> {
    let fork = ForkRun { run: None, from: Forked { run: from, seq }, labels: None, priority: None };
    desk.engine.fork_run(by, fork).await.map(|started| started.run)
}

async fn fork(desk: &Desk, from: RunId, seq: u32) -> Run {
    fork_as(desk, local(), from, seq).await.expect("forked")
}

async fn refused(desk: &Desk, from: RunId, seq: u32) -> Refusal {
    match fork_as(desk, local(), from, seq).await {
        Err(Failure::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// The number of the `nth` event of a kind, counted from 0.
async fn event(desk: &Desk, run: RunId, kind: Kind, nth: usize) -> u32 {
    let events = desk.engine.ledger().events(run, None, usize::MAX).await.expect("read").expect("a run");
    events.iter().filter(|event| event.kind == kind).nth(nth).unwrap_or_else(|| panic!("no {kind} {nth}")).seq
}

async fn approve(desk: &Desk, run: RunId, verdict: Verdict) -> Run {
    let asked = desk.asked(run).await;
    desk.decide(asked.id, verdict).await.expect("decided");
    desk.ended(run).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_keeps_what_was_done_and_asks_anew_what_was_open() {
    let desk = Desk::open().await;
    let first = desk.run(PROGRAM, "{}").await;
    assert_eq!(first.status(), Status::AwaitingConsent);
    let last = first.events.len - 1;
    let rejected = approve(&desk, first.id, Verdict::Reject).await;
    let [told, other] = [desk.result(&rejected).await, "approved".to_owned()];

    let forked = fork(&desk, first.id, last).await;
    assert_eq!(forked.forked_from, Some(Forked { run: first.id, seq: last })); // R-16
    assert_eq!((&forked.pattern, forked.input), (&first.pattern, first.input)); // R-16
    let begun = desk.engine.ledger().events(forked.id, None, 1).await.unwrap().unwrap();
    let facts = begun[0].facts.canonical().as_str().to_owned();
    assert!(facts.contains(&first.id.to_string()) && facts.contains(&format!("\"forked_seq\":{last}")), "{facts}"); // R-16

    // Its question is its own, and the other run's answer is not known to it.
    let stopped = desk.stopped(forked.id).await;
    assert_eq!(stopped.status(), Status::AwaitingConsent); // R-16
    let asked = desk.asked(forked.id).await;
    assert!(asked.run == forked.id && asked.is_pending());
    let done = approve(&desk, forked.id, Verdict::Approve).await;
    // The same randomness was told again, from the same journal.
    assert_eq!(desk.result(&done).await, told.replace("rejected", &other));
    let paths: Vec<&str> = desk.payments.applied().iter().map(|effect| effect.path).collect();
    assert_eq!(paths, ["/refunds", "/mails", "/mails"]); // R-16
    assert_eq!(done.budget.calls, 4); // R-16

    let calls = desk.calls(forked.id).await;
    let from: Vec<bool> = calls.iter().map(|call| call.from == Some(first.id)).collect();
    assert_eq!(from, [true, true, false, false]);
    assert_eq!(calls[0].whole_id(), format!("{}/main/1", first.id));
    // What it did not do is none of its effects, and everything it names is there.
    let effects = desk.engine.ledger().effects(false, Some(forked.id), None, 10).await.unwrap().items;
    assert_eq!(effects.iter().map(|of| of.call.tool.name.as_str()).collect::<Vec<_>>(), ["mail.send"]);
    let chain = desk.engine.ledger().chain(forked.id).await.unwrap().unwrap();
    assert_eq!(protocol::audit::check(&chain), Ok(()));
    assert_eq!(chain.receipts.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_takes_no_more_than_had_ended_by_its_event() {
    let desk = Desk::open().await;
    let first = desk.run(PROGRAM, "{}").await;
    let paid = event(&desk, first.id, Kind::CallEnded, 0).await;
    let forked = fork(&desk, first.id, paid).await;
    assert_eq!(desk.stopped(forked.id).await.status(), Status::AwaitingConsent);
    let calls = desk.calls(forked.id).await;
    assert_eq!(calls.iter().map(|call| call.from.is_some()).collect::<Vec<_>>(), [true, false, false]); // R-16
    assert_eq!(desk.payments.applied().len(), 1); // R-16

    // From before anything was told: it starts like any other run, and does everything itself.
    let anew = fork(&desk, first.id, 0).await;
    assert_eq!(desk.stopped(anew.id).await.status(), Status::AwaitingConsent);
    assert!(desk.calls(anew.id).await.iter().all(|call| call.from.is_none())); // R-16
    assert_eq!(desk.payments.applied().len(), 2);
    // A fork of a fork names the run that made each call.
    let seq = anew.events.len;
    let again = fork(&desk, forked.id, forked.events.len - 1).await;
    assert_eq!(desk.stopped(again.id).await.status(), Status::AwaitingConsent);
    assert_eq!(desk.calls(again.id).await[0].from, Some(first.id)); // R-16
    assert_eq!(desk.payments.applied().len(), 2, "after {seq} events");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_fork_does_again_what_had_begun() {
    let desk = Desk::open().await;
    let source = r#"
a, b = stasis.parallel(payments.refund.later(order_id="a", amount=1), payments.order.later(order_id="slow"))
result = [a, b["id"]]
"#;
    let run = desk.begin(source, "{}").await;
    desk.payments.reached().await;
    eventually("the refund", async || desk.payments.applied().len() == 1).await;
    desk.payments.release();
    desk.ended(run).await;
    let (begun, whole) =
        (event(&desk, run, Kind::CallDispatched, 0).await, event(&desk, run, Kind::CallEnded, 1).await);
    for seq in begun..whole {
        let refusal = refused(&desk, run, seq).await;
        assert_eq!(refusal.code, Code::InvalidRequest, "{seq}"); // R-16
        let hint = refusal.hint.unwrap_or_default();
        assert!(hint.contains(&format!("--from {}", begun - 1)), "{seq}: {hint}");
    }
    let forked = fork(&desk, run, whole).await;
    assert_eq!(desk.ended(forked.id).await.status(), Status::Done);
    let before = fork(&desk, run, begun - 1).await;
    desk.payments.reached().await;
    desk.payments.release();
    assert_eq!(desk.ended(before.id).await.status(), Status::Done);
    assert_eq!(desk.payments.applied().len(), 2); // R-16: the whole fork paid nothing, the early one once
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_approved_is_told_again_and_not_asked_again() {
    let desk = Desk::open().await;
    let source = r#"
paid = payments.refund(order_id="a", amount=500)
result = [paid, stasis.ask("and now?").status]
"#;
    let first = desk.run(source, "{}").await;
    desk.decide(desk.asked(first.id).await.id, Verdict::Approve).await.expect("decided");
    eventually("the second question", async || desk.pending(first.id).await.len() == 1).await;
    let first = desk.stopped(first.id).await;
    let forked = fork(&desk, first.id, first.events.len - 1).await;
    let asked = desk.asked(forked.id).await;
    assert_eq!(asked.binding.tool, "stasis.gate"); // R-16
    let done = approve(&desk, forked.id, Verdict::Approve).await;
    assert_eq!(done.status(), Status::Done);
    assert_eq!(desk.payments.applied().len(), 1); // R-16
    let chain = desk.engine.ledger().chain(forked.id).await.unwrap().unwrap();
    assert_eq!(protocol::audit::check(&chain), Ok(()));
    // It outlives the other run's process and its own.
    let desk = desk.reopen(Setting::default()).await;
    let again = fork(&desk, forked.id, done.events.len - 1).await;
    assert_eq!(desk.ended(again.id).await.status(), Status::Done);
    assert_eq!(desk.payments.applied().len(), 1); // R-16
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_fork_what_and_where() {
    let desk = Desk::open().await;
    let first = desk.run(PROGRAM, "{}").await;
    let nobody = refused(&desk, RunId::from_bytes(first.id.as_bytes().map(|byte| byte ^ 1)), 0).await;
    assert_eq!(nobody.code, Code::NotFound);
    assert_eq!(refused(&desk, first.id, first.events.len).await.code, Code::InvalidRequest);
    let stranger = Caller { principal: Principal { id: "eve".to_owned(), ..Principal::local() }, ..local() };
    let Err(Failure::Refused(refusal)) = fork_as(&desk, stranger, first.id, 0).await else { panic!("forked") };
    assert_eq!(refusal.code, Code::NotPermitted); // C-282
    let foreign = Caller { principal: Principal { namespace: "other".to_owned(), ..Principal::local() }, ..local() };
    let Err(Failure::Refused(refusal)) = fork_as(&desk, foreign, first.id, 0).await else { panic!("forked") };
    assert_eq!(refusal.code, Code::NotFound); // R-12

    // The id of the new run is its key.
    let id = RunId::from_bytes(first.id.as_bytes().map(|byte| byte ^ 2));
    let request = |seq| ForkRun { run: Some(id), from: Forked { run: first.id, seq }, labels: None, priority: None };
    let made = desk.engine.fork_run(local(), request(0)).await.expect("forked");
    let again = desk.engine.fork_run(local(), request(0)).await.expect("there");
    assert_eq!((made.created, again.created, again.run.id), (true, false, id)); // R-50
    let Err(Failure::Refused(other)) = desk.engine.fork_run(local(), request(1)).await else { panic!("forked") };
    assert_eq!(other.code, Code::IdempotencyMismatch); // R-52
}
