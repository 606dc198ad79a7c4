//! `cargo xtask demo`: the refund example from nothing to its result, with a person's decision in between.
//!
//! Owns: building what is missing, and the payments server that the example calls. Never does: anything that a user
//! could not type; each command is shown before it runs. All it writes is under `target/demo`.

use std::fs;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::steps::{Steps, call, spell};
use crate::{ci, guest, tree};

const EXAMPLE: &str = "examples/refund";
const FOLDER: &str = "target/demo";
/// The port that the example's `stasis.toml` names.
const PORT: u16 = 9100;
/// What the payments server asks for, and what the configuration refers to.
const TOKEN: (&str, &str) = ("PAY_TOKEN", "demo");
/// The exit code of a run that stopped without an end (I-2).
const STOPPED: i32 = 3;

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Approve without asking
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &DemoArgs) -> Result<()> {
    let root = tree::root();
    let mut steps = Steps::new();
    steps.step("build stasis (some minutes, the first time)", || {
        call(Command::new("cargo").args(["build", "--package", "stasis-cli"]).current_dir(&root))
    })?;
    steps.step("guest image", || guest::run(guest::GuestArgs::default()))?;
    let demo = Demo::start(root)?;
    if args.yes || !std::io::stdin().is_terminal() {
        demo.run_apart(args.yes)?;
    } else {
        demo.run_here()?;
    }
    demo.show_end()
}

/// The example with its own payments server and a ledger that no earlier demonstration has written to.
struct Demo {
    root: PathBuf,
    stasis: PathBuf,
    /// Relative to the root.
    config: String,
    _payments: Payments,
}

impl Demo {
    fn start(root: PathBuf) -> Result<Self> {
        let folder = root.join(FOLDER);
        if folder.exists() {
            fs::remove_dir_all(&folder).context("cannot clear away the last demonstration")?;
        }
        fs::create_dir_all(&folder)?;
        let free = TcpListener::bind(("127.0.0.1", PORT)).is_ok();
        let payments = Payments::start(&root, if free { PORT } else { 0 })?;
        let config = config(&root, payments.port)?;
        Ok(Self { stasis: ci::stasis(&root)?, root, config, _payments: payments })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.stasis);
        command.args(words).args(["--data", &format!("{FOLDER}/stasis")]);
        command.current_dir(&self.root).env(TOKEN.0, TOKEN.1);
        command
    }

    fn example(&self) -> Command {
        let program = format!("{EXAMPLE}/refund.py");
        let input = format!("@{EXAMPLE}/order.json");
        self.command(&["run", &program, "--input", &input, "--config", &self.config])
    }

    /// On a terminal: `stasis run` asks. Whoever answers "later" leaves the run parked.
    fn run_here(&self) -> Result<()> {
        let mut command = self.example();
        println!("$ {}", spell(&command));
        let status = command.status().context("cannot start stasis")?;
        if !status.success() && status.code() != Some(STOPPED) {
            bail!("stasis ended with {status}");
        }
        Ok(())
    }

    /// As without a terminal: one process runs to the approval and ends, another decides.
    fn run_apart(&self, yes: bool) -> Result<()> {
        let output = output(&mut self.example())?;
        let outcome = object(&output)?;
        if output.status.code() != Some(STOPPED) {
            bail!("the run did not stop for an approval: {outcome}");
        }
        let approval = &outcome["approvals"][0];
        let id = approval["id"].as_str().context("the run stopped, but waits for no approval")?;
        println!("\nThe program has stopped, and so has its process. It waits for a decision about:");
        println!("  {} {}", approval["tool"].as_str().unwrap_or_default(), approval["arguments"]);
        println!("  {}", approval["arguments_digest"].as_str().unwrap_or_default());
        let mut decision = if yes || approved()? {
            self.command(&["approve", id, "--config", &self.config])
        } else {
            self.command(&["reject", id, "--reason", "not this time", "--config", &self.config])
        };
        let output = output_ok(&mut decision)?;
        println!("{}", object(&output)?["approval"]["status"].as_str().unwrap_or_default());
        Ok(())
    }

    /// The end of the run, and what the payments server has written down.
    fn show_end(&self) -> Result<()> {
        let runs = object(&output_ok(&mut self.command(&["run", "list", "--output", "json"]))?)?;
        let run = &runs["items"][0];
        println!("\nrun {}: {}", run["id"].as_str().unwrap_or_default(), run["status"].as_str().unwrap_or_default());
        println!("result: {}", run["result"]);
        let ledger = Path::new(FOLDER).join("payments.jsonl");
        let lines = fs::read_to_string(self.root.join(&ledger)).context("cannot read the payments ledger")?;
        println!("payments ledger {}, lines: {}", ledger.display(), lines.lines().count());
        println!("{}", lines.trim_end());
        println!("\nThe whole story: {}", spell(&self.command(&["run", "show", run["id"].as_str().unwrap_or("ID")])));
        Ok(())
    }
}

/// Asks on stdin. An input that ends without an answer decides nothing.
fn approved() -> Result<bool> {
    print!("Approve? [y/n] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        "" => bail!("nobody answered, and the run stays where it is; `cargo xtask demo --yes` approves by itself"),
        other => bail!("`{other}` is neither y nor n"),
    }
}

/// The configuration for this port: the example's own file, or a copy that names another port.
fn config(root: &Path, port: u16) -> Result<String> {
    let path = format!("{EXAMPLE}/stasis.toml");
    if port == PORT {
        return Ok(path);
    }
    let text = fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
    let copy = format!("{FOLDER}/stasis.toml");
    fs::write(root.join(&copy), text.replace(&format!("127.0.0.1:{PORT}"), &format!("127.0.0.1:{port}")))?;
    println!("port {PORT} is taken: the payments server listens on {port}, and {copy} says so");
    Ok(copy)
}

/// The payments server of the example. It ends with its owner.
struct Payments {
    server: Child,
    port: u16,
}

impl Payments {
    fn start(root: &Path, port: u16) -> Result<Self> {
        let mut command = Command::new("python3");
        command.arg(format!("{EXAMPLE}/payments.py")).args(["--port", &port.to_string()]);
        command.args(["--ledger", &format!("{FOLDER}/payments.jsonl"), "--outbox", &format!("{FOLDER}/mails.jsonl")]);
        command.current_dir(root).env(TOKEN.0, TOKEN.1).stdin(Stdio::null()).stdout(Stdio::piped());
        println!("$ {} &", spell(&command));
        let server = command.spawn().context("cannot start python3")?;
        let mut payments = Self { server, port };
        payments.port = payments.listening()?;
        Ok(payments)
    }

    /// Its first line says where it listens.
    fn listening(&mut self) -> Result<u16> {
        let output = self.server.stdout.take().expect("its output was asked for");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).context("the payments server did not start")?;
        let port = ready["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        port.context("the payments server names no port")
    }
}

impl Drop for Payments {
    fn drop(&mut self) {
        // It may have ended by itself; nothing is lost with it, for its effects are on disk.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Runs a command, its stdout for us and its stderr for the person who watches.
fn output(command: &mut Command) -> Result<Output> {
    println!("$ {}", spell(command));
    let command = command.stdin(Stdio::null()).stderr(Stdio::inherit());
    command.output().with_context(|| format!("cannot start `{}`", spell(command)))
}

fn output_ok(command: &mut Command) -> Result<Output> {
    let output = output(command)?;
    if !output.status.success() {
        bail!("`{}` ended with {}: {}", spell(command), output.status, String::from_utf8_lossy(&output.stdout));
    }
    Ok(output)
}

fn object(output: &Output) -> Result<Value> {
    serde_json::from_slice(&output.stdout).with_context(|| format!("stasis ({}) printed no JSON object", output.status))
}
