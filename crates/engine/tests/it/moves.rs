//! Moves: a run that rests goes on under another revision, once that is proved (R-349 to R-352).

use crate::desk::{Desk, Setting, eventually, local};
use engine::{Failure, ForkRun};
use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::command::Caller;
use protocol::event::Kind;
use protocol::id::RunId;
use protocol::principal::{Principal, Right};
use protocol::refusal::Refusal;
use protocol::run::{Forked, Run, Status};

/// Pays once, asks, and says what it is.
fn program(order: &str, question: &str, says: &str) -> String {
    format!(
        r#"
print("paying")
total = sum(i * i for i in range(200_000))
paid = payments.refund(order_id="{order}", amount=1)
told = stasis.ask("{question}").status
result = ["{says}", told]
"#
    )
}

async fn moved(desk: &Desk, run: RunId, revision: u32) -> Result<(Run, bool), Failure> {
    desk.engine.move_run(local(), run, revision, Some("a fix")).await
}

async fn refused(desk: &Desk, run: RunId, revision: u32) -> Refusal {
    match moved(desk, run, revision).await {
        Err(Failure::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

async fn row(desk: &Desk, run: RunId) -> Run {
    desk.engine.ledger().run(run).await.expect("read").expect("a run")
}

async fn approve(desk: &Desk, run: RunId) -> Run {
    let asked = desk.asked(run).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("decided");
    desk.ended(run).await
}

async fn sound(desk: &Desk, run: RunId) {
    let chain = desk.engine.ledger().chain(run).await.expect("read").expect("a run");
    assert_eq!(protocol::audit::check(&chain), Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_run_goes_on_under_the_revision_it_was_moved_to() {
    let desk = Desk::open().await;
    let run = desk.run(&program("a", "go on?", "old"), "{}").await;
    assert_eq!(run.status(), Status::AwaitingConsent);
    assert!(run.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.snapshot.is_some()));
    let asked = desk.asked(run.id).await;
    let new = desk.register(&program("a", "go on?", "new")).await.expect("registered");
    let (there, changed) = moved(&desk, run.id, 2).await.expect("moved"); // R-349 R-350
    assert!(changed);
    assert_eq!((there.pattern.revision, there.pattern.digest), (2, new.pattern.digest)); // R-351
    assert_eq!((there.status(), there.seq, there.fence), (run.status(), run.seq, run.fence));
    // What was frozen is of the old program.
    assert!(there.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.snapshot.is_none()));
    assert_eq!(desk.asked(run.id).await.id, asked.id); // R-350: the same question, still open
    let events = desk.engine.ledger().events(run.id, None, usize::MAX).await.unwrap().unwrap();
    let told = events.iter().find(|event| event.kind == Kind::RunMoved).expect("told");
    let facts = told.facts.canonical().as_str().to_owned();
    for digest in [run.pattern.digest, new.pattern.digest] {
        assert!(facts.contains(&digest.to_string()), "{facts}"); // R-351
    }
    assert!(facts.contains("\"proof\":\"sha256:"), "{facts}"); // R-351
    sound(&desk, run.id).await;
    let (_, again) = moved(&desk, run.id, 2).await.expect("there already");
    assert!(!again);

    // Another process knows nothing of the move but what the ledger says.
    let desk = desk.reopen(Setting::default()).await;
    let done = approve(&desk, run.id).await;
    assert_eq!(desk.result(&done).await, r#"["new","approved"]"#); // R-349
    assert_eq!(desk.payments.applied().len(), 1); // R-349: nothing was done again
    assert_eq!(done.budget.calls, 2);
    let log = desk.engine.ledger().log(run.id, None, 10).await.unwrap().unwrap();
    assert_eq!(log.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["paying"]);
    sound(&desk, run.id).await;

    // A fork of it begins under the revision that it was moved to.
    let fork =
        ForkRun { run: None, from: Forked { run: run.id, seq: done.events.len - 1 }, labels: None, priority: None };
    let forked = desk.engine.fork_run(local(), fork).await.expect("forked").run;
    let forked = desk.ended(forked.id).await;
    assert_eq!((forked.pattern.revision, desk.result(&forked).await), (2, r#"["new","approved"]"#.to_owned())); // R-16
    sound(&desk, forked.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_would_do_something_else_is_refused_with_the_first_difference() {
    let desk = Desk::open().await;
    let run = desk.run(&program("a", "go on?", "old"), "{}").await;
    let programs = [
        (program("b", "go on?", "new"), "main/1 the arguments differ"),
        (program("a", "really?", "new"), "main/2 the arguments differ"),
        (
            program("a", "go on?", "new").replace("payments.refund(", "payments.order("),
            "main/1 another tool was called",
        ),
        ("result = 1".to_owned(), "main/1 the program ended before this call"),
        ("result = 1 / 0".to_owned(), "main/1 the program ended before this call"),
    ];
    for (n, (source, difference)) in (2..).zip(programs) {
        desk.register(&source).await.expect("registered");
        let before = row(&desk, run.id).await;
        let refusal = refused(&desk, run.id, n).await;
        assert_eq!(refusal.code, Code::MoveRefused); // R-352
        assert!(refusal.detail.contains(difference), "{}", refusal.detail); // R-352
        assert_eq!(row(&desk, run.id).await, before); // R-352
    }
    assert_eq!(refused(&desk, run.id, 99).await.code, Code::MoveRefused);
    assert_eq!(desk.payments.applied().len(), 1); // R-349: a proof has no effect
    let done = approve(&desk, run.id).await;
    assert_eq!(desk.result(&done).await, r#"["old","approved"]"#); // R-352
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_does_not_change_under_an_open_approval() {
    let desk = Desk::open().await;
    let header =
        |calls: u32, rest: &str| format!("# /// script\n# [tool.stasis]\n# max_calls = {calls}\n# ///\n{rest}");
    let asks = "stasis.ask('go on?')\nstasis.signal('paid')\nresult = 1\n";
    let run = desk.run(&header(10, asks), "{}").await;
    desk.register(&header(20, asks)).await.expect("registered");
    let refusal = refused(&desk, run.id, 2).await;
    assert_eq!(refusal.code, Code::MoveRefused); // R-352
    assert!(refusal.detail.contains("its plan would change under apr_"), "{}", refusal.detail);
    let asked = desk.asked(run.id).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("decided");
    eventually("the signal", async || row(&desk, run.id).await.status() == Status::AwaitingSignal).await;
    let (there, changed) = moved(&desk, run.id, 2).await.expect("moved");
    assert_eq!((changed, there.settings.max_calls), (true, 20)); // R-351
    // The program's own limit was met: three calls were made, so that two are not enough.
    desk.register(&header(1, asks)).await.expect("registered");
    assert_eq!(refused(&desk, run.id, 3).await.code, Code::MoveRefused); // R-350
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_run_that_rests_is_moved_and_only_by_whom_may() {
    let desk = Desk::open().await;
    let source = "seen = payments.order(order_id=\"slow\")\nresult = [1, stasis.ask('go on?').status]\n";
    let run = desk.begin(source, "{}").await;
    desk.payments.reached().await;
    desk.register(&source.replace("[1,", "[2,")).await.expect("registered");
    let running = refused(&desk, run, 2).await;
    assert_eq!(running.code, Code::MoveRefused); // R-349
    assert!(running.hint.is_some_and(|hint| hint.contains("stasis run pause")));
    desk.engine.pause(local(), run, None).await.expect("paused");
    desk.payments.release();
    eventually("it is handed back", async || !row(&desk, run).await.status().is_active()).await;
    let nobody = Principal { rights: [Right::RunsRead].into_iter().collect(), ..Principal::local() };
    let by = Caller { principal: nobody, ..local() };
    let Err(Failure::Refused(refusal)) = desk.engine.move_run(by, run, 2, None).await else { panic!("moved") };
    assert_eq!(refusal.code, Code::NotPermitted); // R-12
    let foreign = Caller { principal: Principal { namespace: "other".to_owned(), ..Principal::local() }, ..local() };
    let Err(Failure::Refused(refusal)) = desk.engine.move_run(foreign, run, 2, None).await else { panic!("moved") };
    assert_eq!(refusal.code, Code::NotFound); // R-12
    let at = row(&desk, run).await.status();
    let (there, _) = moved(&desk, run, 2).await.expect("moved"); // R-349
    assert_eq!(there.status(), at);
    desk.engine.resume(local(), run, None).await.expect("resumed");
    let done = approve(&desk, run).await;
    assert_eq!(desk.result(&done).await, r#"[2,"approved"]"#);
    let over = refused(&desk, run, 1).await;
    assert_eq!(over.code, Code::RunTerminal); // R-349
}
