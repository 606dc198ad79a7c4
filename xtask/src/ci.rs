//! `cargo xtask ci`: everything that a change must pass, in order, cheapest first.
//!
//! Owns: the list of steps. Never does: install anything; `.ci/run` does that on a bare machine. A step that cannot
//! run here fails; none is skipped in silence.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::steps::{Steps, call, spell};
use crate::tree::{self, Tree};
use crate::{guest, pages, spec, tidy};

#[derive(Args)]
pub(crate) struct CiArgs {
    /// Leave out the tests: formatting, lints and the rules of tidy and spec alone
    #[arg(long)]
    no_tests: bool,
}

pub(crate) fn run(args: &CiArgs) -> Result<()> {
    let root = tree::root();
    let mut steps = Steps::new();
    steps.step("format", || call(cargo(&root).args(["fmt", "--all", "--check"])))?;
    steps.step("tidy", tidy::run)?;
    steps.step("clauses", || spec::run(&spec::SpecArgs::brief()))?;
    steps.step("lints", || {
        let every = ["--workspace", "--all-features", "--all-targets"];
        call(cargo(&root).arg("clippy").args(every).args(["--", "--deny", "warnings"]))
    })?;
    if !args.no_tests {
        steps.step("build", || call(cargo(&root).args(["build", "--workspace", "--all-targets"])))?;
        steps.step("guest image", || guest::run(guest::GuestArgs::default()))?;
        let tree = Tree::read(&root)?;
        steps.step("commands that are named", || pages::check(&tree, &stasis(&root)?))?;
        for folder in python_tests(&tree) {
            steps.step(&format!("tests of {folder}"), || python(&root, &folder))?;
        }
        steps.step("tests", || rust_tests(&root))?;
    }
    steps.print_summary();
    Ok(())
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// The folders that hold Python tests, in path order.
fn python_tests(tree: &Tree) -> Vec<String> {
    let tests = tree.files.iter().filter(|file| file.name().starts_with("test_") && file.extension() == "py");
    let mut folders: Vec<String> = tests.filter_map(|file| Some(file.path.rsplit_once('/')?.0.to_owned())).collect();
    folders.dedup();
    folders
}

/// Runs the Python tests of one folder. They find the program under test by STASIS_BIN.
fn python(root: &Path, folder: &str) -> Result<()> {
    let binary = stasis(root)?;
    let mut command = Command::new("python3");
    command.args(["-m", "unittest", "discover", "--start-directory", folder]).arg("--verbose");
    call(command.current_dir(root).stdin(Stdio::null()).env("STASIS_BIN", binary))
}

/// Where a dev build puts the binary `stasis`.
pub(crate) fn stasis(root: &Path) -> Result<PathBuf> {
    Ok(target(root)?.join("debug").join("stasis"))
}

/// Cargo's target folder.
pub(crate) fn target(root: &Path) -> Result<PathBuf> {
    let mut command = cargo(root);
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("`{}` ended with {}", spell(&command), output.status);
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let target = metadata["target_directory"].as_str().context("cargo names no target folder")?;
    Ok(PathBuf::from(target))
}

/// What the closing lines of the test binaries add up to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    binaries: usize,
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl Tally {
    /// Counts one line of the runner's output: `test result: ok. 12 passed; 0 failed; 0 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        self.binaries += 1;
        for count in counts.split("; ") {
            match count.split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// Runs every Rust test, all of them even after a failure, and adds up what the binaries say.
fn rust_tests(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--no-fail-fast"]).stdout(Stdio::piped());
    println!("$ {}", spell(&command));
    let mut child = command.spawn().context("cannot start cargo")?;
    let output = child.stdout.take().expect("its output was asked for");
    let mut tally = Tally::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        tally.add(&line);
        println!("{line}");
    }
    let status = child.wait()?;
    let Tally { binaries, passed, failed, ignored } = tally;
    println!("all Rust tests: {passed} passed, {failed} failed, {ignored} ignored, in {binaries} binaries");
    if !status.success() {
        bail!("the tests ended with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_add_up() {
        let mut tally = Tally::default();
        tally.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.03s");
        tally.add("test it::a ... ok");
        tally.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s");
        assert_eq!(tally, Tally { binaries: 2, passed: 15, failed: 2, ignored: 1 });
    }

    #[test]
    fn folders_with_python_tests_are_found_once() {
        let files =
            [("examples/a/test_x.py", ""), ("examples/a/test_y.py", ""), ("examples/a/x.py", ""), ("test_z.rs", "")];
        assert_eq!(python_tests(&Tree::of(&files)), ["examples/a"]);
    }
}
