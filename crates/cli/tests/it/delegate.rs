//! The delegate example: an agent in plain Python that is killed, comes back late and answers twice, and one that does not
//! listen to a cancel.

use crate::home::{Home, text};
use crate::servers::{Server, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const INPUT: &str = r#"{"text": "three words here"}"#;

/// A server with the example's files in its folder, and the secret of its agent.
struct Desk {
    home: Home,
    server: Server,
    secret: String,
}

impl Desk {
    fn open() -> Desk {
        let home = Home::new();
        let read = |name: &str| std::fs::read_to_string(example().join(name)).expect("the example has this file");
        home.write("review.py", &read("review.py"));
        // Nothing here is about waiting hot.
        home.write("stasis.toml", &format!("{}\n[worker]\nhot_window = \"1ms\"\n", read("stasis.toml")));
        let server = Server::start(&home, &["serve"]);
        let secret = text(&home.json(0, &["token", "new", "--principal", "robot"]), "/secret").to_owned();
        Desk { home, server, secret }
    }

    fn agent(&self, flags: &[&str]) -> Child {
        Command::new("python3")
            .arg(example().join("agent.py"))
            .args(["--url", text(&self.server.up, "/url"), "--pace", "0.1", "--once"])
            .args(flags)
            .current_dir(self.home.path())
            .env("STASIS_TOKEN", &self.secret)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there")
    }

    /// What an agent told until it ended.
    fn told(&self, flags: &[&str]) -> Vec<Value> {
        let output = self.agent(flags).wait_with_output().expect("it ends");
        assert!(output.status.success());
        let lines = String::from_utf8(output.stdout).expect("UTF-8");
        lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    fn delegates(&self) -> String {
        let stopped = self.home.json(3, &["run", "review.py", "--input", INPUT]);
        assert_eq!(text(&stopped, "/run/status"), "awaiting_delegate"); // R-183
        text(&stopped, "/run/id").to_owned()
    }

    fn job(&self, run: &str) -> Value {
        self.home.json(0, &["job", "list", "--run", run])["items"][0].clone()
    }

    fn run(&self, run: &str) -> Value {
        self.home.json(0, &["run", "show", run])
    }
}

fn example() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/delegate")
}

fn kill(mut agent: Child) {
    agent.kill().expect("it is there");
    agent.wait().expect("a child can be waited for");
}

#[test]
fn an_agent_brings_the_review_that_a_program_waits_for() {
    let desk = Desk::open();
    let run = desk.delegates();
    let told = desk.told(&[]);
    assert_eq!((&told[1]["what"], &told[1]["status"]), (&json!("completed"), &json!(200))); // R-205
    let done = desk.home.json(0, &["run", "wait", &run, "--until", "terminal"]);
    assert_eq!(done["run"]["result"], json!({"verdict": "fine", "words": 3})); // W-123
}

#[test]
fn an_agent_that_is_killed_comes_back_late_and_answers_twice_changes_nothing() {
    let desk = Desk::open();
    let run = desk.delegates();
    let agent = desk.agent(&["--lease", "2s", "--until", "go"]);
    until("a heartbeat", || desk.job(&run)["progress"]["step"].as_u64() >= Some(2)); // R-218
    kill(agent);
    let done = desk.home.json(0, &["run", "wait", &run, "--until", "terminal"]);
    assert_eq!(done["run"]["result"], json!({"verdict": "none", "why": "lost"})); // R-206 R-229
    let lost = desk.job(&run);
    assert_eq!((&lost["state"], &lost["may_still_run"]), (&json!("lost"), &json!(true))); // R-232
    desk.home.write("go", "");
    let told = desk.told(&["--twice"]);
    let late: Vec<_> = told.iter().filter(|line| line["what"] == "completed").collect();
    assert_eq!(late.len(), 2);
    for line in late {
        assert_eq!((&line["job"], &line["status"], &line["state"]), (&lost["id"], &json!(409), &json!("lost"))); // R-222
    }
    let kept = desk.job(&run);
    assert_eq!((&kept["state"], kept["late"].as_array().map(Vec::len)), (&json!("lost"), Some(1))); // R-112 R-3
    assert_eq!((&kept["late"][0]["by"], &kept["late"][0]["outcome"]), (&json!("robot"), &json!("succeeded"))); // R-112
    assert_eq!((&kept["may_still_run"], &desk.run(&run)["seq"]), (&json!(false), &json!(1))); // R-211 R-224
}

#[test]
fn a_cancel_that_an_agent_ignores_names_it_until_it_acknowledges() {
    let desk = Desk::open();
    let run = desk.delegates();
    let deaf = desk.agent(&["--name", "deaf", "--until", "never", "--ignore-stop"]);
    until("a heartbeat", || desk.job(&run)["progress"]["step"].as_u64() >= Some(1));
    desk.home.json(0, &["run", "cancel", &run, "--yes"]);
    let step = desk.job(&run)["progress"]["step"].as_u64();
    until("it heard, and goes on", || desk.job(&run)["progress"]["step"].as_u64() > step.map(|step| step + 2));
    let owed = desk.run(&run);
    assert_eq!(text(&owed, "/status"), "cancelling"); // R-263
    assert_eq!((text(&owed, "/obligations/0/kind"), text(&owed, "/obligations/0/name")), ("job", "robot (deaf)")); // R-272
    let shown = desk.home.stasis(&["run", "show", &run, "--output", "table"]);
    assert!(shown.stdout.contains("of robot (deaf)"), "{}", shown.stdout); // R-272
    kill(deaf);
    let told = desk.told(&["--until", "never"]);
    assert_eq!((&told[1]["what"], &told[1]["state"]), (&json!("stopped"), &json!("cancelled"))); // R-209
    assert_eq!(text(&desk.run(&run), "/status"), "cancelled"); // R-270
}

#[test]
fn a_cancel_whose_agent_is_gone_ends_by_the_word_of_a_person() {
    let desk = Desk::open();
    let run = desk.delegates();
    let deaf = desk.agent(&["--name", "deaf", "--until", "never", "--ignore-stop"]);
    until("a heartbeat", || desk.job(&run)["progress"]["step"].as_u64() >= Some(1));
    kill(deaf);
    desk.home.json(0, &["run", "cancel", &run, "--yes"]);
    let job = text(&desk.run(&run), "/obligations/0/ref").to_owned();
    let reason = "its machine is switched off";
    desk.home.problem(7, &["run", "attest", &run, "job_01m8nwmbe0e00bsaekf59edd1r", "--reason", reason]);
    desk.home.problem(2, &["run", "attest", &run, &job]); // R-271
    let ended = desk.home.json(0, &["run", "attest", &run, &job, "--reason", reason]);
    assert_eq!((text(&ended, "/status"), &ended["changed"]), ("cancelled", &json!(true))); // E-17 R-271
    let again = desk.home.json(0, &["run", "attest", &run, &job, "--reason", "another"]);
    assert_eq!(again["changed"], json!(false));
    let kept = &desk.run(&run)["obligations"][0];
    assert_eq!((&kept["state"], &kept["by"], &kept["reason"]), (&json!("attested"), &json!("local"), &json!(reason))); // R-271
    for verb in ["show", "explain"] {
        let shown = desk.home.stasis(&["run", verb, &run, "--output", "table"]).stdout;
        assert!(shown.contains(reason) && shown.contains("attested by local"), "{shown}"); // R-271
    }
}
