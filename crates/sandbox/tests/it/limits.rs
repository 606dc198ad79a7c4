//! Limits that a program meets (W-159..W-168), and what counts as its time.

use std::time::Duration;

use sandbox::{End, Event, GuestLimits, Limit, StartError};
use serde_json::json;

use crate::support::{Lines, World, finish, program, run, sandbox};

#[tokio::test]
async fn memory_past_the_limit_is_a_memory_error_and_the_program_goes_on() {
    let done = run("\
try:
    'x' * 10**9
except MemoryError:
    survived = 'one'
rows = []
try:
    while True:
        rows.append('x' * 10**7)
except MemoryError:
    count = len(rows)
    rows.clear()
result = [survived, 20 < count < 60, demo.get(i=1)]")
    .await;
    // W-160
    assert_eq!(done.result(), json!(["one", true, 100]));
}

#[tokio::test]
async fn memory_that_a_program_cannot_do_without_ends_it_with_both_numbers() {
    let limits = GuestLimits { memory_bytes: 80 << 20, ..GuestLimits::default() };
    let mut guest = sandbox().start(&program("rows = [0] * 10**8"), limits).await.unwrap();
    let end = finish(&mut guest, &mut World::default()).await;
    let End::Limit(Limit::Memory { limit_bytes, wanted_bytes }) = &end else { panic!("{end:?}") };
    // W-160, W-168
    assert_eq!(*limit_bytes, 80 << 20);
    assert!(*wanted_bytes > 400_000_000);
    let text = Limit::Memory { limit_bytes: 80, wanted_bytes: 90 }.to_string();
    assert_eq!(text, "guest memory: the limit is 80 bytes, 90 were asked for");
}

#[tokio::test]
async fn no_guest_is_given_more_memory_than_the_ceiling() {
    let limits = GuestLimits { memory_bytes: (1 << 30) + 1, ..GuestLimits::default() };
    let refused = sandbox().start(&program(""), limits).await;
    // W-160
    assert!(matches!(refused.err(), Some(StartError::Memory { limit_bytes: 1_073_741_824, .. })));
}

#[tokio::test]
async fn waiting_is_not_guest_time() {
    let mut guest =
        sandbox().start(&program("demo.get(i=1)\nfor i in range(10**5): pass"), GuestLimits::default()).await.unwrap();
    let Event::Call(request) = guest.next().await else { panic!("a call") };
    let before = guest.active();
    assert!(before > Duration::ZERO);
    tokio::task::yield_now().await;
    // W-166
    assert_eq!(guest.active(), before);
    let mut world = World::default();
    guest.answer(world.answer(&request));
    finish(&mut guest, &mut world).await;
    assert!(guest.active() > before);
}

#[tokio::test]
async fn time_of_earlier_hops_counts() {
    let limits =
        GuestLimits { active: Duration::from_secs(60), spent: Duration::from_secs(61), ..GuestLimits::default() };
    let mut guest = sandbox().start(&program("while True: pass"), limits).await.unwrap();
    let end = finish(&mut guest, &mut World::default()).await;
    // W-166
    let End::Limit(Limit::Time { limit, spent }) = end else { panic!("{end:?}") };
    assert_eq!(limit, Duration::from_secs(60));
    assert!(spent > Duration::from_secs(61));
}

#[tokio::test]
async fn after_a_replay_the_clock_is_set_to_what_the_journal_says() {
    let mut guest =
        sandbox().start(&program("for i in range(10**5): pass\ndemo.get(i=1)"), GuestLimits::default()).await.unwrap();
    let Event::Call(_) = guest.next().await else { panic!("a call") };
    guest.set_active(Duration::from_millis(7), Duration::from_secs(1));
    assert_eq!(guest.active(), Duration::from_millis(7));
}

#[tokio::test]
async fn python_recursion_ends_in_a_recursion_error() {
    let done = run("\
import json, sys
def deep(n): return deep(n + 1)
nest = []
for _ in range(100_000): nest = [nest]
class Odd:
    def __getattr__(self, name): return getattr(self, name + 'x')
tries = [lambda: deep(0), lambda: repr(nest), lambda: json.loads('[' * 100_000), lambda: Odd().x, lambda: max([1], key=lambda x: deep(x))]
names = []
for attempt in tries:
    try:
        attempt()
    except RecursionError as error:
        names.append(type(error).__name__)
result = [names, sys.getrecursionlimit()]")
    .await;
    // W-162
    assert_eq!(done.result(), json!([vec!["RecursionError"; 5], 1000]));
}

#[tokio::test]
async fn a_log_is_cut_by_line_and_in_all_and_says_so() {
    let done = run("\
print('x' * 20_000)
print('y')
for i in range(200):
    print('z' * 10_000)
print('never seen')")
    .await;
    // W-163
    assert_eq!(done.lines[0].len(), 16_384);
    assert_eq!(done.lines[1], "[the line before this one was cut at 16384 bytes]");
    assert_eq!(done.lines[2], "y");
    assert_eq!(done.lines.last().unwrap(), "[the log of this run ends here: it reached 1048576 bytes]");
    assert!(done.lines.len() < 110);
}

#[tokio::test]
async fn more_guests_than_seats_are_refused_and_a_dropped_guest_frees_its_seat() {
    let one = sandbox().start(&program("demo.get(i=1)"), Lines::default().limits()).await.unwrap();
    let before = sandbox().guests();
    assert!(before >= 1);
    drop(one);
    let mut config = sandbox::SandboxConfig::new(sandbox::cache::default_dir().unwrap());
    config.max_guests = 1;
    let small = sandbox::Sandbox::open(&config, &mut |_| ()).unwrap();
    let only = small.start(&program(""), GuestLimits::default()).await.unwrap();
    assert!(matches!(
        small.start(&program(""), GuestLimits::default()).await.err(),
        Some(StartError::Full { limit: 1 })
    ));
    drop(only);
    let mut next = small.start(&program("result = 1"), GuestLimits::default()).await.unwrap();
    assert!(matches!(finish(&mut next, &mut World::default()).await, End::Returned { .. }));
}

#[tokio::test]
async fn a_guest_is_measured_by_what_it_alone_holds() {
    let resident = async |source: &str| {
        let mut guest = sandbox().start(&program(source), GuestLimits::default()).await.unwrap();
        let Event::Call(_) = guest.next().await else { panic!("a call") };
        guest.meter().resident_bytes().expect("the kernel tells")
    };
    let (small, large) = (resident("demo.get(i=1)").await, resident("kept = b'x' * (32 << 20)\ndemo.get(i=1)").await);
    // I-9: measured, and the image, which all guests share, is not in it.
    assert!((1..8 << 20).contains(&small), "{small}");
    assert!((32 << 20..40 << 20).contains(&(large)), "{large}");
}
