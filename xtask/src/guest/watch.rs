//! Runs the commands of a stage, shows that they go on, and keeps what they say for when one fails.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::steps::spell;

/// How much of a failed command's words is shown.
const TAIL_LINES: usize = 20;

/// One stage while it runs: a moving line on a terminal, two plain lines elsewhere.
pub(super) struct Watch {
    bar: ProgressBar,
    title: String,
    started: Instant,
    log: PathBuf,
}

impl Watch {
    pub(super) fn start(number: usize, of: usize, title: &str, log: PathBuf) -> Result<Self> {
        let title = format!("[{number:>2}/{of}] {title}");
        let style = ProgressStyle::with_template("{msg} {spinner} {elapsed}").expect("a fixed template");
        let bar = ProgressBar::new_spinner().with_style(style).with_message(title.clone());
        bar.enable_steady_tick(Duration::from_millis(200));
        if bar.is_hidden() {
            println!("{title} ...");
        }
        File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        #[allow(clippy::disallowed_methods, reason = "how long a stage takes is for people; no result depends on it")]
        let started = Instant::now();
        Ok(Self { bar, title, started, log })
    }

    /// Runs a command to its end, its output going to the stage's log.
    pub(super) fn run(&self, command: &mut Command) -> Result<()> {
        let log = File::options().append(true).open(&self.log)?;
        let status = command.stdin(std::process::Stdio::null()).stdout(log.try_clone()?).stderr(log).status();
        let text = spell(command);
        let status = status.with_context(|| format!("cannot start `{text}`"))?;
        if !status.success() {
            bail!("`{text}` ended with {status}; {} ends with:\n{}", self.log.display(), tail(&self.log));
        }
        Ok(())
    }

    pub(super) fn done(self) {
        self.bar.finish_and_clear();
        println!("{}: {:.1} s", self.title, self.started.elapsed().as_secs_f64());
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
