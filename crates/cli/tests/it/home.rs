//! A folder of its own for one test, and the binary run in it as a shell would.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// No command of these tests works longer than this on the slowest machine; one that does hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);

pub(crate) struct Home {
    dir: TempDir,
    env: Vec<(String, String)>,
}

/// What a command left.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { dir: tempfile::tempdir().expect("a temporary folder"), env: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Sets a variable for every later command.
    pub(crate) fn env(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Writes a file and gives its name.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("the folder is writable");
        path
    }

    /// The command, not yet started: without a terminal, and without the settings of whoever runs the tests.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
        command.args(words).current_dir(self.path()).stdin(Stdio::null());
        for name in ["STASIS_DATA", "STASIS_CONFIG", "STASIS_URL", "STASIS_TOKEN", "STASIS_LOG"] {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The command under another program, such as a tracer, which gets its words behind its own.
    pub(crate) fn under(&self, prefix: &[&str], words: &[&str]) -> Command {
        let inner = self.command(words);
        let mut outer = Command::new(prefix[0]);
        outer.args(&prefix[1..]).arg(inner.get_program()).args(words);
        outer.current_dir(self.path()).stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        outer
    }

    /// The command in a shell that first sets limits; a write past a limit of size is an error, and no signal.
    pub(crate) fn limited(&self, limits: &str, words: &[&str]) -> Command {
        let script = format!("trap '' XFSZ; {limits} exec \"$@\"");
        self.under(&["sh", "-c", &script, "sh"], words)
    }

    /// Runs the command to its end.
    pub(crate) fn stasis(&self, words: &[&str]) -> Said {
        let child = self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        said(child.expect("the binary starts"), words)
    }

    /// Runs what was made ready to its end.
    pub(crate) fn ends(mut command: Command) -> Said {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        said(child.expect("the binary starts"), &[])
    }

    /// Runs the command, which must exit with `code`, and reads the one JSON object it printed.
    pub(crate) fn json(&self, code: i32, words: &[&str]) -> Value {
        let said = self.stasis(words);
        assert_eq!(said.code, code, "{words:?}: {said:?}");
        said.object()
    }

    /// Runs the command, which must exit with `code`, and reads the problem it printed to stderr.
    pub(crate) fn problem(&self, code: i32, words: &[&str]) -> Value {
        let said = self.stasis(words);
        assert_eq!(said.code, code, "{words:?}: {said:?}");
        assert_eq!(said.stdout, "", "{words:?}"); // I-16
        said.told()
    }
}

impl Said {
    /// The problem it printed.
    pub(crate) fn told(&self) -> Value {
        let line = self.stderr.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {self:?}")) // I-16
    }

    pub(crate) fn object(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// Waits for a child, and kills it if it hangs.
pub(crate) fn said(child: Child, what: &[&str]) -> Said {
    let id = child.id();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || drop(sender.send(child.wait_with_output())));
    let Ok(output) = receiver.recv_timeout(HANGS_AFTER) else {
        let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        panic!("{what:?} hangs");
    };
    let Output { status, stdout, stderr } = output.expect("a child can be waited for");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Said { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}

/// The text at a JSON pointer.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {pointer} of {value}"))
}
