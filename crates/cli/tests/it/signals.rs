//! `kill -9` at every crash point of the commands by which a program's waits end: whoever asks again is told the truth, every
//! signal is there once, and the program gets each in its place.

use crate::crash::copy;
use crate::home::{Home, said, text};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// It waits for one, and then for several at once; one of them came before anybody waited for it.
const PROGRAM: &str = "
result = [stasis.signal('go')]
later = stasis.signal.later
told = stasis.parallel(later('item'), later('item', timeout='30d'), stasis.gate.later('go on?'), stasis.sleep.later('1ms'))
result += [told[0], told[1], told[2].status, told[3]]
";

/// So often a point is hit by the step itself and the hop that it wakes; later hits are of the hops behind them.
const HITS: u32 = 3;

struct Stage {
    home: Home,
    run: String,
}

/// What ends a wait of the program, in this order.
const STEPS: [&str; 4] = ["early", "go", "item", "approve"];

impl Stage {
    fn new() -> Stage {
        let home = Home::new();
        home.write("waits.py", PROGRAM);
        let run = text(&home.json(3, &["run", "waits.py"]), "/run/id").to_owned();
        Stage { home, run }
    }

    fn data(&self) -> PathBuf {
        self.home.path().join(".stasis")
    }

    fn words(&self, step: &str) -> Vec<String> {
        let signal = |name: &str| {
            ["signal", &self.run, name, "--payload", &format!("\"{step}\""), "--id", step].map(str::to_owned)
        };
        match step {
            "go" => signal("go").to_vec(),
            "early" | "item" => signal("item").to_vec(),
            _ => {
                let asked = self.home.json(0, &["approvals", "list", "--run", &self.run, "--status", "all"]);
                vec!["approve".to_owned(), text(&asked, "/items/0/id").to_owned()]
            }
        }
    }

    /// One step, killed at a crash point if there is one; whether it was.
    fn step(&self, step: &str, crash: Option<&str>) -> bool {
        let words = self.words(step);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.home.command(&words);
        command.envs(crash.map(|at| ("STASIS_CRASH_AT", at)));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let said = said(child.expect("the binary starts"), &words);
        assert!(said.code == 0 || (crash.is_some() && said.code == -1), "{words:?} {crash:?}: {said:?}");
        said.code == -1
    }

    /// What must hold at the end, however often somebody had to ask again.
    fn check(&self, what: &str) {
        let shown = self.home.json(0, &["run", "wait", &self.run]);
        assert_eq!(shown["run"]["result"], json!(["go", "early", "item", "approved", null]), "{what}"); // W-135 R-237
        let events = self.home.stasis(&["run", "events", &self.run, "--output", "ndjson"]);
        let events: Vec<Value> =
            events.stdout.lines().map(|line| serde_json::from_str(line).expect("an event a line")).collect();
        let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
        assert_eq!(count("signal.received"), 3, "{what}"); // one signal, however often it is sent
        assert_eq!((count("signal.taken"), count("timer.fired")), (1, 1), "{what}"); // R-234 R-242
        assert_eq!((count("approval.requested"), count("approval.approved")), (1, 1), "{what}"); // R-164 R-166
        assert_eq!(count("run.done"), 1, "{what}");
    }
}

/// The steps before this one are done; the one itself is killed wherever it can be, and then all is done again.
fn killed_in(killed: &str) -> usize {
    let stage = Stage::new();
    let at = STEPS.iter().position(|step| *step == killed).expect("a step");
    for step in &STEPS[..at] {
        stage.step(step, None);
    }
    let base = stage.home.path().join("base");
    copy(&stage.data(), &base);
    let mut kills = 0;
    for name in store::failpoint::NAMES.iter().chain(engine::failpoint::NAMES.iter()) {
        for nth in 1..=HITS {
            copy(&base, &stage.data());
            let point = format!("{name}:{nth}");
            if !stage.step(killed, Some(&point)) {
                break;
            }
            kills += 1;
            for step in &STEPS[at..] {
                stage.step(step, None);
            }
            stage.check(&format!("{killed} {point}"));
        }
    }
    kills
}

#[test]
#[expect(clippy::print_stdout, reason = "how often it was killed is part of what this shows")]
fn killed_at_every_crash_point_no_wait_loses_its_end_or_has_two() {
    let (next, kills) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(step) = STEPS.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let killed = killed_in(step);
                    kills.lock().expect("no panic holds it").push((*step, killed));
                }
            });
        }
    });
    let kills = kills.into_inner().expect("no panic holds it");
    println!("killed at crash points: {kills:?}");
    assert!(kills.len() == STEPS.len() && kills.iter().all(|(_, kills)| *kills >= 5), "{kills:?}");
}
