//! Holds the pages to the program: every command that a page names is one that the built `stasis` has.
//!
//! Owns: finding the commands. Never does: run one; it asks each for its help. The specification is left out, for it
//! says what there has to be, and not what there is.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tree::Tree;

/// Texts that open like a command and are none.
const TEXTS: &[&str] = &["stasis lost"];

/// Asks `binary` for help on each command of the pages.
pub(crate) fn check(tree: &Tree, binary: &Path) -> Result<()> {
    let commands = commands(tree);
    let mut absent = Vec::new();
    for (words, place) in &commands {
        let mut command = Command::new(binary);
        let output = command.args(&words[1..]).arg("--help").output().context("cannot start stasis")?;
        let usage = format!("Usage: {}", words.join(" "));
        if !String::from_utf8_lossy(&output.stdout).contains(&usage) {
            absent.push(format!("{place}: `{}` is no command", words.join(" ")));
        }
    }
    if !absent.is_empty() {
        bail!("{}", absent.join("\n"));
    }
    println!("{} commands of the pages exist", commands.len());
    Ok(())
}

/// The commands, as the words before their first argument, each with one place that names it.
fn commands(tree: &Tree) -> BTreeMap<Vec<String>, String> {
    let mut all = BTreeMap::new();
    let pages = tree.files.iter().filter(|file| file.extension() == "md" && !file.path.starts_with("docs/spec/"));
    for page in pages {
        let mut fenced = false;
        for (at, line) in page.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
                continue;
            }
            // Within a line of text the odd pieces between back quotes are code; a fenced line is code as a whole.
            let pieces: Vec<&str> = if fenced { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
            for words in pieces.into_iter().filter(|piece| !TEXTS.contains(piece)).filter_map(command) {
                all.entry(words).or_insert_with(|| format!("{}:{}", page.path, at + 1));
            }
        }
    }
    all
}

/// `stasis`, then its verb, then the verb's own verb, as far as these are plain words.
fn command(code: &str) -> Option<Vec<String>> {
    let mut words = code.trim_start().trim_start_matches("$ ").split_whitespace();
    let name = words.next().filter(|name| *name == "stasis")?;
    let verbs = words.take(2).take_while(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()));
    let command: Vec<String> = std::iter::once(name).chain(verbs).map(str::to_owned).collect();
    (command.len() > 1).then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_text_and_in_blocks() {
        let page = "Use `stasis run show ID`, not `stasis lost`; stasis works.\n```sh\nstasis run refund.py\n$ stasis dev --open\nexport A=stasis\n```\n`stasis --version`\n";
        let tree = Tree::of(&[("README.md", page), ("docs/spec/a.md", "`stasis bench`\n")]);
        let found: Vec<String> =
            commands(&tree).into_iter().map(|(words, place)| format!("{} {place}", words.join(" "))).collect();
        assert_eq!(found, ["stasis dev README.md:4", "stasis run README.md:3", "stasis run show README.md:1"]);
    }

    #[test]
    fn a_command_that_the_program_lacks_is_found() {
        let tree = Tree::of(&[("README.md", "`stasis fly`\n")]);
        // A program that knows no help stands in for one that lacks the command.
        let error = check(&tree, Path::new("true")).expect_err("there is no such command");
        assert!(error.to_string().contains("README.md:1"), "{error}");
    }
}
