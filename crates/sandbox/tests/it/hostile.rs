//! Programs that mean harm: each is stopped or answered, and guests beside it notice nothing.

use std::time::Duration;

use protocol::time::Time;
use sandbox::{Answer, End, Event, GuestLimits, Limit, Outcome, Refusal, Replies, Reply};
use serde_json::json;

use crate::support::{Lines, START, World, finish, program, run, sandbox};

/// Runs a program with little guest time, and gives its end and the time it took.
async fn with_little_time(source: &str) -> (End, Duration) {
    let limits = GuestLimits { active: Duration::from_millis(200), ..GuestLimits::default() };
    let mut guest = sandbox().start(&program(source), limits).await.unwrap();
    let end = finish(&mut guest, &mut World::default()).await;
    (end, guest.active())
}

#[tokio::test]
async fn endless_code_is_stopped_soon_after_its_time_is_spent() {
    for source in [
        "while True: pass",
        "7 ** 3000000",
        "x = [1]\nx.extend(iter(x.copy, None))",
        "import re\nre.match('(a+)+b', 'a' * 60)",
        "class A:\n    def __del__(self): A()\nA()\nwhile True:\n    try:\n        A()\n    except BaseException: pass",
        "try:\n    while True: pass\nfinally:\n    while True: pass",
    ] {
        let (end, spent) = with_little_time(source).await;
        // W-161, W-167, W-168, W-148
        assert!(matches!(&end, End::Limit(Limit::Time { .. }) | End::Limit(Limit::Memory { .. })), "{source}: {end:?}");
        assert!(spent < Duration::from_millis(300), "{source}: {spent:?}");
    }
}

#[tokio::test]
async fn a_busy_guest_does_not_slow_one_beside_it_on_the_same_thread() {
    let limits = GuestLimits { active: Duration::from_millis(400), ..GuestLimits::default() };
    let mut busy = sandbox().start(&program("while True: pass"), limits).await.unwrap();
    let mut calm =
        sandbox().start(&program("result = [demo.get(i=i) for i in range(5)]"), GuestLimits::default()).await.unwrap();
    let mut world = World::default();
    let (busy_end, calm_end) = tokio::join!(busy.next(), finish(&mut calm, &mut world));
    // W-167
    assert_eq!(calm_end, End::Returned { result: "[0,100,200,300,400]".into() });
    assert!(matches!(busy_end, Event::Ended(End::Limit(Limit::Time { .. }))));
}

/// Both are on one thread, and the busy one has the first turn.
#[tokio::test]
async fn a_program_that_calls_without_end_does_not_keep_its_thread_from_others() {
    let limits = GuestLimits { active: Duration::from_millis(400), ..GuestLimits::default() };
    let mut busy = sandbox().start(&program("while True: demo.get(i=1)"), limits).await.unwrap();
    let done = std::cell::Cell::new(false);
    let (mut busy_world, mut calm_world) = (World::default(), World::default());
    let calls = async {
        let end = finish(&mut busy, &mut busy_world).await;
        assert!(done.get(), "the calm program had to wait for the end of the busy one");
        end
    };
    let calm = async {
        let source = "result = [demo.get(i=i) for i in range(5)]";
        let mut calm = sandbox().start(&program(source), GuestLimits::default()).await.unwrap();
        let end = finish(&mut calm, &mut calm_world).await;
        done.set(true);
        end
    };
    let (busy_end, calm_end) = tokio::join!(biased; calls, calm);
    // W-167
    assert_eq!(calm_end, End::Returned { result: "[0,100,200,300,400]".into() });
    assert!(matches!(busy_end, End::Limit(Limit::Time { .. })));
}

#[tokio::test]
async fn a_stopper_ends_a_busy_guest_and_a_waiting_one() {
    let mut busy = sandbox()
        .start(&program("try:\n    while True: pass\nfinally: print('never')"), GuestLimits::default())
        .await
        .unwrap();
    let stopper = busy.stopper();
    let stopped = std::thread::spawn(move || stopper.stop());
    // R-103, W-148
    assert!(matches!(busy.next().await, Event::Ended(End::Stopped)));
    stopped.join().unwrap();

    let lines = Lines::default();
    let mut waiting =
        sandbox().start(&program("try:\n    demo.get(i=1)\nfinally: print('never')"), lines.limits()).await.unwrap();
    let Event::Call(_) = waiting.next().await else { panic!("a call") };
    let stopper = waiting.stopper();
    let (event, ()) = tokio::join!(waiting.next(), async { stopper.stop() });
    assert!(matches!(event, Event::Ended(End::Stopped)));
    assert!(lines.take().is_empty());
}

#[tokio::test]
async fn dropping_a_guest_anywhere_ends_it() {
    let lines = Lines::default();
    let guest = |source: &'static str| {
        let lines = lines.clone();
        async move { sandbox().start(&program(source), lines.limits()).await.unwrap() }
    };
    drop(guest("print('never')").await);
    let mut waiting = guest("try:\n    demo.get(i=1)\nfinally:\n    print('never')").await;
    let Event::Call(_) = waiting.next().await else { panic!("a call") };
    drop(waiting);
    let mut busy = guest("while True: pass").await;
    let cut = tokio::time::timeout(Duration::from_millis(30), busy.next()).await;
    assert!(cut.is_err(), "it was still running");
    drop(busy);
    // W-148
    assert!(lines.take().is_empty());
}

#[tokio::test]
async fn a_giant_request_is_not_copied_and_the_program_can_go_on() {
    let source = "\
try:
    demo.echo(text='x' * (3 << 20))
except stasis.BadRequest as error:
    result = [error.code, demo.get(i=1)]";
    let mut guest = sandbox().start(&program(source), GuestLimits::default()).await.unwrap();
    let Event::Oversized { length } = guest.next().await else { panic!("an oversized request") };
    assert!(length > 3 << 20);
    let refusal =
        Refusal { code: "request_too_large".into(), message: "too large".into(), detail: None, applied: None };
    let reply = Reply { n: 1, call: String::new(), approval: None, outcome: Outcome::Error(refusal), edited: None };
    // C-69, C-60: the number is not used up.
    guest.answer(Answer { now: Time::from_micros(START), entropy: None, next: 1, replies: Replies::One(reply) });
    let mut world = World::default();
    let end = finish(&mut guest, &mut world).await;
    assert_eq!(end, End::Returned { result: r#"["request_too_large",100]"#.into() });
    assert_eq!(world.requests[0]["n"], 1);
}

#[tokio::test]
async fn a_request_of_exactly_the_limit_is_copied() {
    let opening = r#"{"n":1,"tool":"demo.echo","arguments":{"text":""}}"#.len();
    let fits = (1 << 20) + (4 << 10) - opening;
    for (length, copied) in [(fits, true), (fits + 1, false)] {
        let source = format!("demo.echo(text='x' * {length})");
        let mut guest = sandbox().start(&program(&source), GuestLimits::default()).await.unwrap();
        // C-69
        assert_eq!(matches!(guest.next().await, Event::Call(_)), copied, "{length}");
    }
}

#[tokio::test]
async fn forged_bytes_go_out_as_they_are() {
    let source = "import _host\n_host.send(b'{\"n\":99,\"tool\":\"demo.get\",\"run\":\"another\"}')\n_host.send(b'\\xff not json')";
    let mut guest = sandbox().start(&program(source), GuestLimits::default()).await.unwrap();
    let Event::Call(request) = guest.next().await else { panic!("a call") };
    // C-66: the broker judges what was sent, and nothing here does.
    assert_eq!(request, br#"{"n":99,"tool":"demo.get","run":"another"}"#);
    let refusal = Refusal { code: "call_identity_mismatch".into(), message: "no".into(), detail: None, applied: None };
    let reply = Reply { n: 99, call: String::new(), approval: None, outcome: Outcome::Denied(refusal), edited: None };
    guest.answer(Answer { now: Time::from_micros(START), entropy: None, next: 1, replies: Replies::One(reply) });
    let Event::Call(request) = guest.next().await else { panic!("a call") };
    assert_eq!(request, b"\xff not json");
}

#[tokio::test]
async fn what_is_sent_is_what_was_there_when_it_was_sent() {
    let source = "\
rows = ['a']
call = demo.echo.later(rows=rows)
rows[0] = 'b'
stasis.parallel(call)
rows[0] = 'c'";
    let done = run(source).await;
    // C-66
    assert_eq!(done.requests[0][0]["arguments"], json!({"rows": ["a"]}));
}

#[tokio::test]
async fn a_flood_of_output_costs_only_the_programs_own_time() {
    let lines = Lines::default();
    let limits = GuestLimits { active: Duration::from_millis(300), ..lines.limits() };
    let mut guest = sandbox().start(&program("while True: print('flood' * 100)"), limits).await.unwrap();
    let end = finish(&mut guest, &mut World::default()).await;
    assert!(matches!(end, End::Limit(Limit::Time { .. })));
    let bytes: usize = lines.take().iter().map(|line| line.len() + 1).sum();
    // W-163
    assert!(bytes <= (1 << 20) + 100, "{bytes}");
}

#[tokio::test]
async fn breaking_the_interpreter_ends_one_guest_only() {
    let mut calm = sandbox().start(&program("result = demo.get(i=1)"), GuestLimits::default()).await.unwrap();
    for source in [
        "import os\nos.abort()",
        "import os\nos._exit(3)",
        "import faulthandler\nfaulthandler._fatal_error_c_thread()",
        "import _host\n_host.end(77, b'')",
    ] {
        let end = run(source).await.end;
        assert!(matches!(end, End::Trap { .. } | End::Raised(_)), "{source}: {end:?}");
    }
    let end = finish(&mut calm, &mut World::default()).await;
    // W-168
    assert_eq!(end, End::Returned { result: "100".into() });
}

#[tokio::test]
async fn the_library_and_the_boot_module_can_be_torn_up_and_only_the_program_suffers() {
    let done = run("\
import sys, builtins, json
sys.modules.clear()
json.dumps = None
builtins.print = None
result = 1")
    .await;
    assert!(matches!(done.end, End::Returned { .. } | End::Raised(_) | End::Trap { .. }), "{:?}", done.end);
}
