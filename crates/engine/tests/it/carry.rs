//! Programs from their start to their end, over parks, restarts and people.

use crate::desk::{Desk, Setting, eventually, local, request};
use protocol::approval::Verdict;
use protocol::call::OutcomeStatus;
use protocol::code::Code;
use protocol::run::Status;
use std::time::Duration;

const REFUND: &str = r#"
order = payments.order(order_id=inputs["id"])
receipt = payments.refund(order_id=order["id"], amount=order["amount"])
mail.send(to="customer@example.com")
result = {"refunded": order["amount"], "receipt": receipt}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_calls_ends_in_its_result() {
    let desk = Desk::open().await;
    let run = desk.run("result = inputs['a'] + 1", r#"{"a": 41}"#).await;
    assert_eq!(desk.result(&run).await, "42"); // W-115
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_stops_for_a_person_and_comes_back() {
    let desk = Desk::open().await;
    let run = desk.run(REFUND, r#"{"id": "o-7"}"#).await;
    assert_eq!(run.status(), Status::AwaitingConsent, "{:?}", run.phase); // R-174
    assert!(desk.engine.guests().iter().all(|guest| !guest.resident)); // R-174
    let pending = desk.pending(run.id).await;
    assert_eq!(pending.len(), 1);
    assert!(desk.payments.applied().is_empty()); // C-88
    desk.decide(pending[0].id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"{"receipt":{"applied":true},"refunded":250.5}"#);
    let applied = desk.payments.applied();
    let bodies: Vec<_> = applied.iter().map(|e| (e.path, e.body.as_str())).collect();
    assert_eq!(
        bodies,
        [("/refunds", r#"{"amount":250.5,"order_id":"o-7"}"#), ("/mails", r#"{"to":"customer@example.com"}"#)]
    ); // C-68
    assert!(applied[0].key.starts_with("stasis-")); // C-254
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_run_returns_in_another_engine() {
    let desk = Desk::open().await;
    let run = desk.run(REFUND, r#"{"id": "o-7"}"#).await;
    let desk = desk.reopen(Setting::default()).await;
    let pending = desk.pending(run.id).await;
    desk.decide(pending[0].id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(run.status(), Status::Done); // R-344
    assert_eq!(desk.payments.applied().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_wait_keeps_its_guest_and_its_hop() {
    let setting = Setting { hot: Duration::from_secs(50), ..Setting::default() };
    let desk = Desk::with(setting).await;
    desk.register(REFUND).await.expect("registered");
    let started = desk.engine.start_run(local(), request(r#"{"id": "o-7"}"#)).await.expect("started");
    let id = started.run.id;
    let approval = loop {
        if let Some(found) = desk.pending(id).await.first() {
            break found.id;
        }
        tokio::task::yield_now().await;
    };
    desk.decide(approval, Verdict::Approve).await.expect("approved");
    let run = desk.ended(id).await;
    assert_eq!((run.status(), run.seq), (Status::Done, 0)); // R-172
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_reaches_the_program_as_an_error() {
    let desk = Desk::open().await;
    let source = r#"
try:
    payments.refund(order_id="o-1", amount=500)
except stasis.Rejected as error:
    result = [error.code, error.by, error.reason]
"#;
    let run = desk.run(source, "{}").await;
    let pending = desk.pending(run.id).await;
    desk.decide(pending[0].id, Verdict::Reject).await.expect("rejected");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"["approval_rejected",["local"],"because"]"#); // W-140
    assert!(desk.payments.applied().is_empty()); // C-88
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_is_what_runs_and_the_program_is_told() {
    let desk = Desk::open().await;
    let source = r#"
payments.refund(order_id="o-1", amount=500)
result = [stasis.last()["edited"], stasis.last()["arguments"]["amount"]]
"#;
    let run = desk.run(source, "{}").await;
    let pending = desk.pending(run.id).await;
    let edit = r#"{"order_id": "o-1", "amount": 120}"#;
    desk.decide_with(pending[0].id, Verdict::Approve, Some(edit)).await.expect("edited");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "[true,120]"); // C-186 W-147
    assert_eq!(desk.payments.applied()[0].body, r#"{"amount":120,"order_id":"o-1"}"#); // C-184
}

#[tokio::test(flavor = "multi_thread")]
async fn several_questions_of_one_batch_are_decided_alone() {
    let desk = Desk::open().await;
    let source = r#"
done = stasis.parallel(
    payments.refund.later(order_id="a", amount=101),
    payments.refund.later(order_id="b", amount=102),
    payments.order.later(order_id="c"),
    errors="return",
)
result = [type(d).__name__ for d in done]
"#;
    let run = desk.run(source, "{}").await;
    let pending = desk.pending(run.id).await;
    assert_eq!(pending.len(), 2); // W-131
    desk.decide(pending[1].id, Verdict::Approve).await.expect("approved");
    let run = loop {
        let run = desk.stopped(run.id).await;
        if run.seq == 1 {
            break run;
        }
    };
    assert_eq!(run.status(), Status::AwaitingConsent); // R-185
    assert_eq!(desk.payments.applied().len(), 1); // W-131: dispatched without waiting for the other
    desk.decide(pending[0].id, Verdict::Reject).await.expect("rejected");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"["Rejected","dict","dict"]"#); // W-133
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_runs_beside_questions_does_not_ask_them_twice() {
    let desk = Desk::open().await;
    let source = r#"
first, second, gate, slept = stasis.parallel(
    payments.refund.later(order_id="a", amount=20),
    payments.refund.later(order_id="b", amount=300),
    stasis.gate.later("Go on?"),
    stasis.sleep.later(0.2),
    errors="return",
)
result = [type(first).__name__, type(second).__name__, gate.status]
"#;
    let run = desk.run(source, "{}").await;
    let pending = desk.pending(run.id).await;
    let mut asked: Vec<_> = pending.iter().map(|approval| approval.call).collect();
    asked.dedup();
    assert_eq!((pending.len(), asked.len()), (2, 2)); // W-131 C-134
    let (refund, gate) = match pending[0].kind() {
        protocol::approval::Kind::Gate => (&pending[1], &pending[0]),
        _ => (&pending[0], &pending[1]),
    };
    desk.decide(refund.id, Verdict::Reject).await.expect("rejected");
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"["dict","Rejected","approved"]"#);
    assert_eq!(desk.payments.applied().len(), 1); // a recorded no is never overruled by a second question
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_wait_in_place_give_way_to_runs_that_have_none() {
    let desk = Desk::with(Setting::hot(Duration::from_secs(600))).await;
    let mut runs = Vec::new();
    // The desk carries eight hops at once.
    for _ in 0..20 {
        runs.push(desk.begin("stasis.gate('Go on?')\nresult = 1", "{}").await);
    }
    let asked = async || {
        let mut asked = 0;
        for run in &runs {
            asked += desk.pending(*run).await.len();
        }
        asked == runs.len()
    };
    eventually("each run has asked", asked).await; // C-205
    let first = desk.engine.ledger().rows(runs[0]).await.expect("read").expect("a run").run;
    assert_eq!(first.status(), Status::AwaitingConsent); // C-205 R-97: the one that waited longest parked
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_asks_and_tells_the_decision() {
    let desk = Desk::open().await;
    let source = r#"
decision = stasis.gate("Ship it?", details={"version": 3})
result = [decision.approved, decision.by, decision.status]
"#;
    let run = desk.run(source, "{}").await;
    assert_eq!(run.status(), Status::AwaitingConsent); // C-132
    let pending = desk.pending(run.id).await;
    assert_eq!(pending[0].kind(), protocol::approval::Kind::Gate); // C-130
    desk.decide(pending[0].id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, r#"[true,["local"],"approved"]"#); // W-263
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_asks_what_happened() {
    let desk = Desk::open().await;
    let run = desk.run("mail.drop()\nresult = 'sent'", "{}").await;
    assert_eq!(run.status(), Status::AwaitingConsent); // R-302
    let pending = desk.pending(run.id).await;
    assert_eq!(pending[0].kind(), protocol::approval::Kind::Settle); // C-232
    let calls = desk.engine.ledger().calls(run.id).await.expect("read").expect("a run");
    assert!(matches!(calls[0].state, protocol::call::State::Ambiguous(_))); // C-121
    desk.decide(pending[0].id, Verdict::DidNotHappen).await.expect("settled");
    let run = desk.ended(run.id).await;
    let failure = run.failure().expect("R-305: an error that nobody caught");
    assert!(failure.message.contains("effect_not_executed"), "{failure:?}"); // C-238
    assert_eq!(desk.payments.applied().len(), 1); // C-239: nothing was sent again
}

#[tokio::test(flavor = "multi_thread")]
async fn giving_up_fails_the_run() {
    let desk = Desk::open().await;
    let run = desk.run("mail.drop()\nresult = 'sent'", "{}").await;
    let pending = desk.pending(run.id).await;
    desk.decide(pending[0].id, Verdict::GiveUp).await.expect("given up");
    let run = desk.ended(run.id).await;
    let failure = run.failure().expect("failed");
    assert_eq!(failure.code, Code::EffectAbandoned); // C-238
    assert!(failure.message.starts_with("effect abandoned: call_")); // R-305
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_program_fails_its_run_with_its_line() {
    let desk = Desk::open().await;
    let run = desk.run("x = 1\nraise ValueError('no such order')", "{}").await;
    let failure = run.failure().expect("failed");
    assert_eq!((failure.code, failure.message.as_str()), (Code::StepFailed, "ValueError: no such order")); // W-150
    assert!(failure.detail.as_ref().is_some_and(|d| d.as_str().contains("\"line\":2"))); // I-41
}

#[tokio::test(flavor = "multi_thread")]
async fn source_that_does_not_compile_is_refused_before_a_run() {
    let desk = Desk::open().await;
    let Err(engine::Failure::Source(fault)) = desk.register("x = (").await else { panic!("refused") };
    assert_eq!(fault.line, 1); // W-152
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_are_denied_before_anything_is_sent() {
    let desk = Desk::open().await;
    let source = r#"
try:
    payments.refund(order_id=7, amount=1)
except stasis.Denied as error:
    result = error.code
"#;
    let run = desk.run(source, "{}").await;
    assert_eq!(desk.result(&run).await, "\"invalid_arguments\""); // C-77
    let calls = desk.engine.ledger().calls(run.id).await.expect("read").expect("a run");
    assert_eq!(calls[0].outcome().map(|o| o.status), Some(OutcomeStatus::Denied)); // C-89
    let receipts = desk.engine.ledger().receipts(run.id).await.expect("read").expect("a run");
    assert_eq!(receipts.len(), 1); // C-125
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_parked_run_ends_it_at_once() {
    let desk = Desk::open().await;
    let run = desk.run(REFUND, r#"{"id": "o-7"}"#).await;
    let (run, changed) = desk.engine.cancel(local(), run.id, None).await.expect("cancelled");
    assert!(changed && run.status() == Status::Cancelled); // R-273
    assert!(desk.pending(run.id).await.is_empty()); // R-262
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_busy_program_stops_its_guest() {
    let desk = Desk::open().await;
    desk.register("while True: pass").await.expect("registered");
    let started = desk.engine.start_run(local(), request("{}")).await.expect("started");
    desk.engine.cancel(local(), started.run.id, None).await.expect("cancelled");
    let run = desk.ended(started.run.id).await;
    assert_eq!(run.status(), Status::Cancelled); // R-265
}

#[tokio::test(flavor = "multi_thread")]
async fn sleeping_parks_and_comes_back_by_itself() {
    let desk = Desk::open().await;
    desk.register("stasis.sleep(0.2)\nresult = 'woke'").await.expect("registered");
    let started = desk.engine.start_run(local(), request("{}")).await.expect("started");
    let run = desk.ended(started.run.id).await;
    assert_eq!(desk.result(&run).await, "\"woke\""); // W-122
    assert!(run.seq >= 1); // R-241
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_can_only_tighten_what_policy_says_of_its_gates() {
    let desk = Desk::open().await;
    desk.apply(
        r#"
        [[principal]]
        id = "maria"
        roles = ["finance", "legal"]
        [[principal]]
        id = "rita"
        roles = ["finance", "legal"]
        [[principal]]
        id = "otto"
        roles = ["finance"]
        [[policy.rule]]
        tool = "stasis.gate"
        outcome = "ask"
        roles = ["finance"]
        quorum = 2
        lease = "2h"
        "#,
    )
    .await;
    let asked = async |options: &str| {
        let run = desk.run(&format!("stasis.gate('go on?'{options})"), "{}").await;
        let asked = desk.asked(run.id).await;
        desk.engine.cancel(local(), run.id, None).await.expect("cancelled");
        asked
    };
    let hours = |asked: &protocol::approval::Approval| {
        asked.expires_at.expect("it expires").since(asked.binding.created_at).as_secs() / 3_600
    };
    let plain = asked("").await;
    assert_eq!((plain.obligation.quorum, hours(&plain)), (2, 2));
    // W-129: less than policy wants is not what it gets.
    let loose = asked(", quorum=1, lease='9h', roles=['finance']").await;
    assert_eq!((loose.obligation.quorum, hours(&loose)), (2, 2)); // W-129
    let tight = asked(", lease='1h', roles=['legal'], on_expiry='fail'").await;
    assert_eq!((tight.obligation.quorum, hours(&tight)), (2, 1)); // W-129
    assert_eq!(tight.obligation.on_expiry, protocol::policy::OnExpiry::Fail); // W-129
    let registry = desk.engine.ledger().registry();
    let may = |asked: &protocol::approval::Approval, who: &str| {
        asked.obligation.eligible(&registry.principal(who).expect("a principal"))
    };
    assert!(may(&loose, "otto") && may(&tight, "maria") && !may(&tight, "otto")); // W-129
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_of_now_is_what_a_parked_run_meets() {
    let desk = Desk::open().await;
    let source = "
stasis.gate('go on?')
try:
    mail.send(to='x')
except stasis.Denied as error:
    result = error.code
";
    let run = desk.run(source, "{}").await;
    let gate = desk.asked(run.id).await;
    desk.apply("[[policy.rule]]\ntool = \"mail.send\"\noutcome = \"deny\"\n").await;
    desk.decide(gate.id, Verdict::Approve).await.expect("approved");
    let run = desk.ended(run.id).await;
    assert_eq!(desk.result(&run).await, "\"policy_denied\""); // R-341
    assert!(desk.payments.applied().is_empty()); // R-341
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_of_a_run_has_a_limit_that_its_next_call_meets() {
    let mut setting = Setting::default();
    setting.limits.run_bytes = 2_000;
    let desk = Desk::with(setting).await;
    let source = "
made = 0
try:
    while made < 100:
        payments.order(order_id=f'{made}' + 'x' * 200)
        made += 1
except stasis.BudgetExceeded as error:
    told = error.code
try:
    payments.refund(order_id='a', amount=1)
except stasis.BudgetExceeded:
    result = [made, told]
";
    let run = desk.run(source, "{}").await;
    // Arguments and result of one look are about 440 bytes.
    assert_eq!(desk.result(&run).await, r#"[5,"call_budget_exceeded"]"#); // W-165
    assert!(desk.payments.applied().is_empty()); // W-165: before it is dispatched
}
