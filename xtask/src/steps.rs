//! Runs the steps of a chore one after the other, each with a heading and the time it took.
//!
//! Owns: how a chore talks to the person who watches it. The only place here that reads the clock.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The steps done so far, and how long each took.
pub(crate) struct Steps {
    done: Vec<(String, Duration)>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self { done: Vec::new() }
    }

    /// Runs one step under its heading. The first step that fails ends the chore.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n== {name}");
        #[allow(clippy::disallowed_methods, reason = "how long a step takes is for people; no result depends on it")]
        let start = Instant::now();
        work().with_context(|| format!("step `{name}` failed"))?;
        let took = start.elapsed();
        println!("== {name}: ok in {}", seconds(took));
        self.done.push((name.to_owned(), took));
        Ok(())
    }

    /// A table of all steps with their times.
    pub(crate) fn print_summary(&self) {
        println!();
        for (name, took) in &self.done {
            println!("{:>9}  {name}", seconds(*took));
        }
        let total = self.done.iter().map(|(_, took)| *took).sum();
        println!("{:>9}  all steps passed", seconds(total));
    }
}

/// Runs a program to its end, its output going where ours goes.
pub(crate) fn call(command: &mut Command) -> Result<()> {
    let text = spell(command);
    println!("$ {text}");
    let status = command.status().with_context(|| format!("cannot start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` ended with {status}");
    }
    Ok(())
}

/// A command as a person would type it.
pub(crate) fn spell(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
