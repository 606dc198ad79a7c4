//! `kill -9` at every crash point and at every write-class system call of an approval cycle: after a restart on the
//! same data the effect was applied once, or is a question; the approval was asked once; nothing is lost.

use crate::home::{Home, Said, said, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const TOKEN: &str = "a-token-of-the-test";
/// Hits of one crash point beyond which no command of the cycle comes.
const MOST_HITS: u32 = 12;
/// Everything by which the cycle changes a file or sends a byte.
const WRITES: [&str; 9] =
    ["pwrite64", "write", "writev", "sendto", "fsync", "fdatasync", "ftruncate", "rename", "unlink"];

/// How the refund's tool can be settled after a crash.
#[derive(Clone, Copy, Debug)]
enum Class {
    Idempotent,
    Manual,
}

/// A folder with the example turned to one port, so that a prepared data directory can be used again and again.
struct Stage {
    home: Home,
    port: u16,
    class: Class,
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    fn new(class: Class) -> Stage {
        let mut home = Home::new();
        home.env("PAY_TOKEN", TOKEN);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let read = |name: &str| std::fs::read_to_string(example().join(name)).expect("the example has this file");
        home.write("refund.py", &read("refund.py"));
        home.write("order.json", &read("order.json"));
        let mut config = read("stasis.toml").replace("127.0.0.1:9100", &format!("127.0.0.1:{port}"));
        if let Class::Manual = class {
            assert!(config.contains("recovery = \"idempotent\""));
            config = config.replace("recovery = \"idempotent\"", "recovery = \"manual\"");
        }
        home.write("stasis.toml", &config);
        Stage { home, port, class }
    }

    fn data(&self) -> PathBuf {
        self.home.path().join(".stasis")
    }

    /// The payments server on this stage's port, with an empty ledger.
    fn server(&self) -> Server {
        for file in ["payments.jsonl", "mails.jsonl"] {
            let _ = std::fs::remove_file(self.home.path().join(file));
        }
        let mut child = Command::new("python3")
            .arg(example().join("payments.py"))
            .args(["--port", &self.port.to_string()])
            .current_dir(self.home.path())
            .env("PAY_TOKEN", TOKEN)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it is");
        assert!(line.contains("port"), "the payments server did not start: {line}");
        Server(child)
    }

    fn refunds(&self) -> usize {
        let text = std::fs::read_to_string(self.home.path().join("payments.jsonl")).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"refund\"")).count()
    }

    fn begin(&self, prefix: &[&str], crash: Option<&str>) -> Said {
        self.crashing(prefix, &["run", "refund.py", "--input", "@order.json"], crash)
    }

    fn crashing(&self, prefix: &[&str], words: &[&str], crash: Option<&str>) -> Said {
        let mut command = match prefix {
            [] => self.home.command(words),
            prefix => self.home.under(prefix, words),
        };
        if let Some(crash) = crash {
            command.env("STASIS_CRASH_AT", crash);
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        said(child.expect("the binary starts"), words)
    }

    /// Restarts on the same data and carries the run to its end, as a person would: approve what is asked, answer what
    /// is unknown by looking at the payments ledger. Then checks what must hold.
    fn restart(&self, what: &str) {
        let mut asked = 0;
        for _ in 0..12 {
            let listed = self.home.stasis(&["run", "list"]);
            // Killed before there was a store at all, the directory holds none.
            assert!(matches!(listed.code, 0 | 7), "{what}: {listed:?}");
            let runs = if listed.code == 0 { listed.object() } else { Value::Null };
            let Some(run) = runs["items"].as_array().and_then(|items| items.first()).cloned() else {
                // Killed before the admission was durable: nothing is there, and nothing was done.
                assert_eq!(self.refunds(), 0, "{what}");
                assert_eq!(self.begin(&[], None).code, 3, "{what}");
                continue;
            };
            let id = text(&run, "/id").to_owned();
            match text(&run, "/status") {
                "queued" | "running" => drop(self.home.stasis(&["run", "wait", &id])),
                "awaiting_consent" => asked += self.answer(&id),
                "done" => {
                    assert_eq!(self.refunds(), 1, "{what}: one effect"); // R-303 C-230
                    assert_eq!(run["effects"][0]["applied"], "yes", "{what}: {run}");
                    return self.check(&id, asked, what);
                }
                "failed" => {
                    // Only a person who found that it did not happen ends it so.
                    assert!(matches!(self.class, Class::Manual), "{what}: {run}");
                    assert_eq!(self.refunds(), 0, "{what}: {run}");
                    return self.check(&id, asked, what);
                }
                other => panic!("{what}: {other}: {run}"),
            }
        }
        panic!("{what}: the run did not come to its end");
    }

    /// Answers what is pending; gives how many calls were asked for.
    fn answer(&self, run: &str) -> usize {
        let pending = self.home.json(0, &["approvals", "list", "--run", run]);
        let mut asked = 0;
        for approval in pending["items"].as_array().into_iter().flatten() {
            let id = text(approval, "/id");
            match text(approval, "/kind") {
                "call" => {
                    asked += 1;
                    self.home.json(0, &["approve", id]);
                }
                "settle" => {
                    assert!(matches!(self.class, Class::Manual), "a key settles this: {approval}");
                    let call = text(approval, "/call");
                    let found = match self.refunds() {
                        0 => vec!["effect", "settle", call, "--did-not-happen", "--reason", "not in the ledger"],
                        _ => {
                            let result = r#"{"id":"refund-1","order_id":"o-7","amount":250.5}"#;
                            vec!["effect", "settle", call, "--happened", result, "--reason", "in the ledger"]
                        }
                    };
                    self.home.json(0, &found);
                }
                other => panic!("{other}: {approval}"),
            }
        }
        asked
    }

    fn check(&self, run: &str, asked: usize, what: &str) {
        assert!(self.refunds() <= 1, "{what}: two effects"); // C-117
        let events = self.home.stasis(&["run", "events", run, "--output", "ndjson"]);
        let events: Vec<Value> =
            events.stdout.lines().map(|line| serde_json::from_str(line).expect("an event a line")).collect();
        let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
        let calls =
            events.iter().filter(|event| event["kind"] == "approval.requested" && event["facts"]["kind"] == "call");
        assert_eq!(calls.count(), 1, "{what}: asked once ({asked} seen)"); // R-300
        assert_eq!(count("run.done") + count("run.failed"), 1, "{what}"); // R-248
        for (n, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], n as u64, "{what}: nothing is lost"); // R-355
        }
    }
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/refund")
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).expect("the folder is writable");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
        }
    }
}

/// The command of the cycle in which the process is killed.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Run,
    Approve,
}

/// Prepares a stage for `phase`: empty, or with the run parked on its approval.
fn prepare(stage: &Stage, phase: Phase) -> Option<(PathBuf, String)> {
    let Phase::Approve = phase else { return None };
    let _server = stage.server();
    let outcome = stage.begin(&[], None);
    assert_eq!(outcome.code, 3, "{outcome:?}");
    let approval = text(&outcome.object(), "/approvals/0/id").to_owned();
    let base = stage.home.path().join("base");
    copy(&stage.data(), &base);
    Some((base, approval))
}

/// Kills one command at one place and restarts; false if the command was over before it came to that place.
fn kill_once(
    stage: &Stage,
    prepared: Option<&(PathBuf, String)>,
    prefix: &[&str],
    crash: Option<&str>,
    what: &str,
) -> bool {
    let _server = stage.server();
    let killed = match prepared {
        None => {
            let _ = std::fs::remove_dir_all(stage.data());
            stage.begin(prefix, crash)
        }
        Some((base, approval)) => {
            copy(base, &stage.data());
            stage.crashing(prefix, &["approve", approval], crash)
        }
    };
    // A killed child has no exit code; under a tracer the tracer dies of the same signal, or says 137.
    let died = killed.code == -1 || killed.code == 137;
    if died {
        stage.restart(what);
    }
    died
}

#[test]
#[expect(clippy::print_stdout, reason = "how often it was killed is part of what this shows")]
fn killed_at_every_crash_point_the_cycle_is_whole() {
    let cases: Vec<(Class, Phase)> = [Class::Idempotent, Class::Manual]
        .into_iter()
        .flat_map(|class| [(class, Phase::Run), (class, Phase::Approve)])
        .collect();
    let kills = AtomicUsize::new(0);
    let reached = Mutex::new(BTreeMap::<&str, u32>::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((class, phase)) = cases.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let stage = Stage::new(*class);
                    let prepared = prepare(&stage, *phase);
                    for name in store::failpoint::NAMES.iter().chain(engine::failpoint::NAMES.iter()) {
                        for nth in 1..=MOST_HITS {
                            let at = format!("{name}:{nth}");
                            let what = format!("{class:?} {phase:?} {at}");
                            if !kill_once(&stage, prepared.as_ref(), &[], Some(&at), &what) {
                                break;
                            }
                            kills.fetch_add(1, Ordering::SeqCst);
                            *reached.lock().expect("no panic holds it").entry(name).or_default() += 1;
                        }
                    }
                }
            });
        }
    });
    let reached = reached.into_inner().expect("no panic holds it");
    println!("killed at {} crash points: {reached:?}", kills.load(Ordering::SeqCst));
    for name in ["after_commit", "gate.after", "handler.after", "park.after"] {
        assert!(reached.contains_key(name), "{name} was never reached: {reached:?}");
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "how often it was killed is part of what this shows")]
fn killed_at_every_write_class_system_call_the_cycle_is_whole() {
    let kills = AtomicUsize::new(0);
    let phases = [Phase::Run, Phase::Approve];
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(phase) = phases.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let stage = Stage::new(Class::Idempotent);
                    let prepared = prepare(&stage, *phase);
                    for (call, most) in counted(&stage, prepared.as_ref()) {
                        for nth in 1..=most {
                            let inject = format!("inject={call}:signal=SIGKILL:when={nth}");
                            let trace = format!("trace={call}");
                            let prefix = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
                            let what = format!("{phase:?} {call} {nth}");
                            if kill_once(&stage, prepared.as_ref(), &prefix, None, &what) {
                                kills.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    }
                }
            });
        }
    });
    let kills = kills.load(Ordering::SeqCst);
    println!("killed at {kills} write-class system calls");
    assert!(kills > 100, "the cycle writes more than that: {kills}");
}

/// For each write-class system call, the most that one thread of the command makes of it: the tracer counts each thread
/// apart.
fn counted(stage: &Stage, prepared: Option<&(PathBuf, String)>) -> Vec<(&'static str, u32)> {
    let _server = stage.server();
    let trace = stage.home.path().join("trace");
    let path = trace.display().to_string();
    let set = format!("trace={}", WRITES.join(","));
    let prefix = ["strace", "-f", "-qq", "-o", &path, "-e", &set];
    match prepared {
        None => {
            let _ = std::fs::remove_dir_all(stage.data());
            assert_eq!(stage.begin(&prefix, None).code, 3, "the traced command works; is strace installed?");
        }
        Some((base, approval)) => {
            copy(base, &stage.data());
            assert_eq!(stage.crashing(&prefix, &["approve", approval], None).code, 0);
        }
    }
    let mut most = BTreeMap::<&'static str, u32>::new();
    let mut threads = BTreeMap::<(String, &'static str), u32>::new();
    for line in std::fs::read_to_string(&trace).expect("the tracer wrote it").lines() {
        let mut words = line.splitn(2, ' ');
        let (Some(thread), Some(rest)) = (words.next(), words.next()) else { continue };
        let rest = rest.trim_start();
        let Some(call) = WRITES.iter().find(|call| rest.starts_with(&format!("{call}("))) else { continue };
        let count = threads.entry((thread.to_owned(), call)).or_default();
        *count += 1;
        let max = most.entry(call).or_default();
        *max = (*max).max(*count);
    }
    most.into_iter().collect()
}
