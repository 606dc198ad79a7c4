//! The payments server of the refund example, on a free port, with its ledger in the test's folder.

use crate::home::Home;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const TOKEN: &str = "a-token-of-the-test";

pub(crate) struct Payments {
    child: Child,
    port: u16,
    ledger: PathBuf,
}

impl Payments {
    /// Starts the server, and puts the example's program and configuration beside its ledger, turned to its port.
    pub(crate) fn start(home: &mut Home, flags: &[&str]) -> Payments {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/refund");
        let read = |name: &str| std::fs::read_to_string(example.join(name)).expect("the example has this file");
        let mut child = Command::new("python3")
            .arg(example.join("payments.py"))
            .args(["--port", "0"])
            .args(flags)
            .current_dir(home.path())
            .env("PAY_TOKEN", TOKEN)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is a pipe"))
            .read_line(&mut line)
            .expect("it says where it is");
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        home.write("refund.py", &read("refund.py"));
        home.write("order.json", &read("order.json"));
        let port = ready["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
        home.write("stasis.toml", &read("stasis.toml").replace("127.0.0.1:9100", &format!("127.0.0.1:{port}")));
        home.env("PAY_TOKEN", TOKEN);
        let ledger = home.path().join("payments.jsonl");
        Payments { child, port, ledger }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The refunds that are on disk.
    pub(crate) fn ledger(&self) -> Vec<Value> {
        lines(&self.ledger)
    }

    /// The mails that are on disk.
    pub(crate) fn outbox(&self) -> Vec<Value> {
        lines(&self.ledger.with_file_name("mails.jsonl"))
    }
}

impl Drop for Payments {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect()
}
