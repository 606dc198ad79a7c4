//! Programs that mean harm, in an engine that carries others beside them: each is stopped or answered, the others and
//! the engine notice nothing, and the next run works.

use crate::desk::{Desk, Setting, local, request};
use engine::RegisterScript;
use protocol::code::Code;
use protocol::limits::LOG_BYTES;
use protocol::run::{Run, Status};
use std::time::{Duration, Instant};

/// Runs a program with little guest time beside one that only looks, and then another one.
async fn beside_a_neighbour(desk: &Desk, source: &str) -> Run {
    let register = async |key: &str, source: &str| {
        let mut script =
            RegisterScript { source: source.to_owned(), key: Some(key.to_owned()), ..RegisterScript::default() };
        script.file_name = "program.py".to_owned();
        script.meta.active_limit = Some(Duration::from_secs(2));
        desk.engine.register(local(), script).await.expect("registered");
    };
    register("program", source).await;
    register("neighbour", "result = [payments.order(order_id=str(i))['id'] for i in range(5)]").await;
    let neighbour = engine::StartRun { workflow: "neighbour".to_owned(), ..request("{}") };
    let hostile = desk.engine.start_run(local(), request("{}")).await.expect("started").run.id;
    let calm = desk.engine.start_run(local(), neighbour.clone()).await.expect("started").run.id;
    let calm = desk.ended(calm).await;
    assert_eq!(desk.result(&calm).await, r#"["0","1","2","3","4"]"#); // W-168
    let hostile = desk.ended(hostile).await;
    let next = desk.engine.start_run(local(), neighbour).await.expect("started").run.id;
    let next = desk.ended(next).await;
    assert_eq!(next.status(), Status::Done, "{:?}", next.phase); // W-168
    hostile
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_without_an_end_are_ended() {
    let desk = Desk::open().await;
    for source in ["while True: pass", "7 ** 30_000_000", "import re\nre.match('(a+)+b', 'a' * 60)"] {
        #[allow(clippy::disallowed_methods, reason = "a test measures by a real clock")]
        let began = Instant::now();
        let run = beside_a_neighbour(&desk, source).await;
        let failure = run.failure().expect("failed");
        assert_eq!(failure.code, Code::GuestTime, "{source}: {failure:?}"); // W-161
        // W-168: the limit and both numbers.
        let numbers: Vec<u64> = failure.message.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(matches!(numbers[..], [spent, 2_000] if (2_000..2_100).contains(&spent)), "{}", failure.message); // W-167 R-376
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_of_memory_or_depth_bursts_in_its_own_guest() {
    let desk = Desk::open().await;
    let table = [
        ("kept = []\nwhile True: kept.append(bytearray(16 << 20))", Code::GuestMemory),
        ("def down(): down()\ndown()", Code::StepFailed),
        ("nest = []\nfor _ in range(200_000): nest = [nest]\nresult = nest", Code::ResultInvalid),
    ];
    for (source, wanted) in table {
        let run = beside_a_neighbour(&desk, source).await;
        let failure = run.failure().expect("failed");
        assert!(failure.code == wanted || failure.code == Code::GuestTrap, "{source}: {failure:?}"); // W-160 W-162
    }
    let caught = "try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    result = 'refused'";
    let run = beside_a_neighbour(&desk, caught).await;
    assert_eq!(desk.result(&run).await, "\"refused\""); // W-160
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_and_giant_requests_are_answered_and_cost_nothing() {
    let desk = Desk::open().await;
    let source = r#"
import _host, json
codes = []
try:
    payments.refund(order_id="x" * (8 << 20), amount=1)
except stasis.BadRequest as error:
    codes.append(error.code)
forged = [
    {"n": 2, "tool": "payments.refund", "arguments": {"order_id": "a", "amount": 1}},
    {"n": 1, "tool": "payments.refund", "arguments": {"order_id": "a", "amount": 1}, "approval": "apr_1"},
    {"n": 1, "tool": "payments.refund", "arguments": {"order_id": "a", "amount": 1}, "run": "run_1"},
    {"n": 1, "tool": "payments.refund", "arguments": [1]},
    [{"n": 1, "tool": "stasis.now", "arguments": {}}] * 65,
    [{"n": 1, "tool": "stasis.now", "arguments": {}}, {"n": 1, "tool": "stasis.now", "arguments": {}}],
]
for one in forged:
    _host.send(json.dumps(one).encode())
_host.send(b"\xff\x00" * 1000)
_host.send(b"[" * 100_000)
codes.append(payments.order(order_id="still")["id"])
result = codes
"#;
    let run = beside_a_neighbour(&desk, source).await;
    assert_eq!(desk.result(&run).await, r#"["request_too_large","still"]"#); // C-69 C-66
    assert_eq!(run.budget.calls, 1); // W-171 C-60: refused whole, they are no calls
    assert!(desk.payments.applied().is_empty()); // C-61
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_output_fills_its_own_log_and_nothing_else() {
    let desk = Desk::with(Setting::default()).await;
    let run = beside_a_neighbour(&desk, "while True: print('flood' * 4_000)").await;
    assert_eq!(run.failure().map(|failure| failure.code), Some(Code::GuestTime));
    let lines = desk.engine.ledger().log(run.id, None, 100_000).await.expect("read").expect("a run");
    let bytes: usize = lines.iter().map(|line| line.text.len() + 1).sum();
    assert!(bytes as u64 <= LOG_BYTES + 200, "{bytes}"); // W-163
}
