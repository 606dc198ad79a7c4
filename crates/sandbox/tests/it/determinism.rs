//! Equal programs given equal answers do equal things (workflows.md section 3.3).

use protocol::time::Time;
use sandbox::{Binding, Event};
use serde_json::{Value, json};

use crate::support::{Lines, START, World, finish, program, run, run_program, sandbox};

#[tokio::test]
async fn every_clock_shows_the_time_of_the_last_answer_and_costs_no_call() {
    let done = run("\
import time, datetime, calendar
def clocks():
    now = datetime.datetime.now()
    assert datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) == now
    assert time.monotonic() == time.perf_counter() == time.time() == calendar.timegm(time.gmtime())
    assert time.time_ns() == time.monotonic_ns() and time.localtime() == time.gmtime()
    return now.isoformat()
before = [clocks() for _ in range(3)]
demo.get(i=1)
result = [*before, clocks(), time.tzname[0]]")
    .await;
    // W-153
    assert_eq!(
        done.result(),
        json!(["2026-11-30T09:30:00", "2026-11-30T09:30:00", "2026-11-30T09:30:00", "2026-11-30T09:30:01", "UTC"])
    );
    assert_eq!(done.requests.len(), 1);
}

const RANDOM: &str = "\
import random, secrets, uuid, os
def draw():
    return [random.random(), random.getrandbits(70), random.choice(range(10**9)), secrets.token_hex(8), str(uuid.uuid4()), str(uuid.uuid1()),
            os.urandom(4).hex(), random.Random().random(), random.SystemRandom().random(), random.gauss(0, 1), own.random(), sub.random()]
own = random.Random()
class Sub(random.Random): pass
sub = Sub()
first = draw()
demo.get(i=1)
result = [first, draw()]";

#[tokio::test]
async fn all_randomness_comes_from_the_seed() {
    let (one, same) = (run(RANDOM).await.result(), run(RANDOM).await.result());
    // W-154
    assert_eq!(one, same);
    let mut other = program(RANDOM);
    other.entropy = [8; 32];
    let other = run_program(&other).await.result();
    for part in 0..2 {
        for (a, b) in items(&one[part]).zip(items(&other[part])) {
            assert_ne!(a, b);
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().expect("a list").iter()
}

#[tokio::test]
async fn a_seed_of_the_programs_own_is_respected_over_new_entropy() {
    let source = "\
import random
random.seed(42)
own = random.Random(5)
result = [random.random(), own.random()]
demo.get(i=1)
result += [random.random(), own.random()]";
    let mut values = Vec::new();
    for entropy in [[1; 32], [2; 32]] {
        let mut world = World { entropy: Some(entropy), ..World::default() };
        let mut guest = sandbox().start(&program(source), Lines::default().limits()).await.unwrap();
        values.push(finish(&mut guest, &mut world).await);
    }
    assert_eq!(values[0], values[1]);
}

#[tokio::test]
async fn two_guests_thawed_from_one_snapshot_differ_from_their_first_draw() {
    let binding = Binding { run: [1; 16], hop: 1, position: 0 };
    let mut guest = sandbox().start(&program(RANDOM), Lines::default().limits()).await.unwrap();
    let Event::Call(_) = guest.next().await else { panic!("a call") };
    let snapshot = guest.freeze(&binding).await.unwrap();
    let mut ends = Vec::new();
    for entropy in [[1; 32], [2; 32], [1; 32]] {
        let mut guest = sandbox().thaw(snapshot.bytes(), &binding, Lines::default().limits()).await.unwrap();
        let mut world = World { entropy: Some(entropy), ..World::default() };
        let Some(Event::Call(request)) = guest.pending() else { panic!("it waits") };
        guest.answer(world.answer(&request));
        let end = finish(&mut guest, &mut world).await;
        let sandbox::End::Returned { result } = end else { panic!("{end:?}") };
        ends.push(serde_json::from_str::<Value>(&result).unwrap());
    }
    // W-154, W-248, W-249
    for (a, b) in items(&ends[0][1]).zip(items(&ends[1][1])) {
        assert_ne!(a, b);
    }
    assert_eq!(ends[0], ends[2]);
}

#[tokio::test]
#[should_panic(expected = "the first answer after a thaw brings new entropy")]
async fn a_thawed_guest_is_not_answered_without_entropy() {
    let binding = Binding { run: [1; 16], hop: 1, position: 0 };
    let mut guest = sandbox().start(&program("demo.get(i=1)"), Lines::default().limits()).await.unwrap();
    let Event::Call(request) = guest.next().await else { panic!("a call") };
    let snapshot = guest.freeze(&binding).await.unwrap();
    let mut guest = sandbox().thaw(snapshot.bytes(), &binding, Lines::default().limits()).await.unwrap();
    // W-248
    guest.answer(World::default().answer(&request));
}

#[tokio::test]
async fn sets_hashes_environment_and_nan_are_fixed() {
    let source = "\
import os, sys, struct, math
result = [list({f'key{i}' for i in range(50)}), hash('text'), hash(1.5), dict(os.environ), sys.argv, os.getpid(), sys.path,
          struct.pack('<d', math.nan * -1).hex(), struct.pack('<d', float('inf') - float('inf')).hex(), id(object()) > 0]";
    let (one, two) = (run(source).await.result(), run(source).await.result());
    // W-156
    assert_eq!(one, two);
    assert_eq!((&one[3], &one[4], &one[6]), (&json!({}), &json!(["program.py"]), &json!([])));
}

#[tokio::test]
async fn a_guest_cannot_see_whether_its_code_was_kept_or_made_anew() {
    // No other test has this source, so the first guest's code is made for it.
    let source = "class A: pass\nobjects = [A() for _ in range(9)]\nresult = [[id(o) for o in objects], id(A), [str(i) for i in {o: 0 for o in range(9)}]]";
    let (made, kept) = (run(source).await.result(), run(source).await.result());
    // W-156
    assert_eq!(made, kept);
}

#[tokio::test]
async fn a_callback_that_calls_while_a_call_is_prepared_takes_no_number_twice() {
    let done = run("\
import gc
class Noisy:
    def __del__(self): demo.get(i=7)
def leave_garbage():
    cycle = Noisy()
    cycle.me = cycle
gc.set_threshold(10)
for i in range(30):
    leave_garbage()
    demo.echo(rows=[[j] for j in range(20)])
gc.set_threshold(0)")
    .await;
    done.result();
    let numbers: Vec<_> = done.requests.iter().map(|request| request["n"].as_u64().unwrap()).collect();
    // C-60
    assert_eq!(numbers, (1..=done.requests.len() as u64).collect::<Vec<_>>());
    assert!(numbers.len() > 40, "the collector ran: {}", numbers.len());
}

#[tokio::test]
async fn asyncio_runs_on_timers_and_says_when_nothing_can_come() {
    let done = run("\
import asyncio
async def work(name, seconds):
    await asyncio.sleep(seconds)
    return name, demo.get(i=seconds)
async def main():
    return await asyncio.gather(work('a', 2), work('b', 1))
result = asyncio.run(main())
async def forever():
    await asyncio.get_running_loop().create_future()
try:
    asyncio.run(forever())
except RuntimeError as error:
    result.append(str(error))")
    .await;
    let result = done.result();
    assert_eq!((&result[0], &result[1]), (&json!(["a", 200]), &json!(["b", 100])));
    // W-157
    assert!(result[2].as_str().unwrap().starts_with("asyncio has nothing left to wait for"), "{result}");
    assert_eq!(done.requests[0], json!({"n": 1, "tool": "stasis.sleep", "arguments": {"ms": 1000}}));
}

#[tokio::test]
async fn what_a_guest_lacks_says_so() {
    let done = run("\
import threading, socket, subprocess, os, tempfile, pathlib, urllib.request, concurrent.futures, shutil, asyncio
def sub(): subprocess.run(['ls'])
tries = {
    'write': lambda: open('x', 'w'), 'append': lambda: pathlib.Path('x').write_text('y'), 'temp': lambda: tempfile.TemporaryFile(),
    'mkdir': lambda: os.mkdir('d'), 'low': lambda: os.open('x', os.O_CREAT | os.O_WRONLY), 'list': lambda: os.listdir('/'),
    'thread': lambda: threading.Thread(target=print).start(), 'pool': lambda: concurrent.futures.ThreadPoolExecutor().submit(print),
    'socket': lambda: socket.socket(), 'connect': lambda: socket.create_connection(('127.0.0.1', 1)),
    'url': lambda: urllib.request.urlopen('http://127.0.0.1/'), 'run': sub, 'system': lambda: os.system('ls'), 'fork': lambda: os.fork(),
}
result = {}
for name, attempt in tries.items():
    try:
        attempt()
        result[name] = 'worked'
    except (OSError, RuntimeError) as error:
        result[name] = f'{type(error).__name__}: {error}'
try:
    open('settings.toml')
except FileNotFoundError:
    result['fallback'] = True")
    .await;
    let result = done.result();
    let says = |name: &str, sentence: &str| {
        let text = result[name].as_str().unwrap();
        // W-157
        assert!(text.contains(sentence), "{name}: {text}");
    };
    for name in ["write", "append", "temp", "mkdir", "low"] {
        says(name, "a guest has no writable files");
    }
    says("list", "a guest has no files");
    for name in ["thread", "pool"] {
        says(name, "a guest has no threads");
    }
    for name in ["socket", "connect", "url"] {
        says(name, "a guest has no sockets");
    }
    says("run", "does not support processes");
    for name in ["system", "fork"] {
        says(name, "a guest has no processes");
    }
    assert_eq!(result["fallback"], true);
}

#[tokio::test]
async fn modules_of_the_library_import_or_raise_import_error() {
    let done = run("\
import sys, importlib
imported, absent = [], []
for name in sorted(sys.stdlib_module_names - {'antigravity', 'this', 'test', '__main__'}):
    try:
        importlib.import_module(name)
        imported.append(name)
    except ImportError:
        absent.append(name)
try:
    import numpy
except ImportError:
    result = [imported, absent]")
    .await;
    let result = done.result();
    let has = |list: &Value, name: &str| items(list).any(|item| item == name);
    // W-157, W-158
    for name in ["json", "unittest", "http", "zipfile", "multiprocessing", "email", "xml", "sqlite3"] {
        assert_eq!(has(&result[0], name), name != "sqlite3", "{name}: {}", result[1]);
    }
    assert!(items(&result[0]).count() > 200, "{}", result[1]);
}

#[tokio::test]
async fn the_time_of_an_answer_is_there_before_any_code_sees_it() {
    let mut program = program("import time\nresult = time.time_ns() // 1000");
    program.now = Time::from_micros(START + 5);
    assert_eq!(run_program(&program).await.result(), json!(START + 5));
}
