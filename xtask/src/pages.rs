//! Holds words to deeds: every command that a page or a hint of the program names is one that the built `stasis` has.
//!
//! Owns: finding the commands. Never does: run one; it asks each for its help. The specification is left out, for it
//! says what there has to be, and not what there is.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::source;
use crate::tree::{File, Tree};

/// Texts that open like a command and are none: a failure's whole message, a list of names, a sentence.
const TEXTS: &[&str] = &["stasis lost", "stasis inputs", "stasis approvals lists"];

/// Asks `binary` for help on each command that the tree names.
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
    println!("{} commands are named, and all exist", commands.len());
    Ok(())
}

/// The commands, as the words before their first argument, each with one place that names it.
fn commands(tree: &Tree) -> BTreeMap<Vec<String>, String> {
    let mut all = BTreeMap::new();
    for file in &tree.files {
        let pieces = match file.extension() {
            "md" if !file.path.starts_with("docs/spec/") => in_page(file),
            "rs" if file.path.starts_with("crates/") => in_program(tree, file),
            _ => Vec::new(),
        };
        for (line, piece) in pieces.into_iter().filter(|(_, piece)| !TEXTS.iter().any(|text| piece.starts_with(text))) {
            if let Some(words) = command(piece) {
                all.entry(words).or_insert_with(|| format!("{}:{line}", file.path));
            }
        }
    }
    all
}

/// The code of a page: fenced lines, and what stands between back quotes.
fn in_page(page: &File) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut pieces = Vec::new();
    for (at, line) in page.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            pieces.push((at + 1, line));
        } else {
            pieces.extend(line.split('`').skip(1).step_by(2).map(|piece| (at + 1, piece)));
        }
    }
    pieces
}

/// The texts of the program that open with `stasis`, and what its texts hold between back quotes; tests left out.
fn in_program<'a>(tree: &Tree, file: &'a File) -> Vec<(usize, &'a str)> {
    let lines = source::lines(tree, file);
    let mut pieces = Vec::new();
    for (at, text) in file.text.lines().enumerate() {
        let comment = lines.get(at).is_none_or(|line| line.test || line.code.trim().is_empty());
        if !comment {
            let opened = text.match_indices("stasis ").filter(|(from, _)| text[..*from].ends_with(['"', '`']));
            pieces.extend(opened.filter_map(|(from, _)| Some((at + 1, text[from..].split(['"', '`']).next()?))));
        }
    }
    pieces
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
    fn commands_are_found_in_text_in_blocks_and_in_hints() {
        let page = "Use `stasis run show ID`, not `stasis lost`; stasis works.\n```sh\nstasis run refund.py\n$ stasis dev --open\nexport A=stasis\n```\n`stasis --version`\n";
        let hint = "//! `stasis no`\nlet a = \"try `stasis tool list`\"; // `stasis doctor`\nlet b = \"stasis run wait {id}\";\n";
        let files = [("README.md", page), ("docs/spec/a.md", "`stasis bench`\n"), ("crates/x/src/a.rs", hint)];
        let tree = Tree::of(&files);
        let found: Vec<String> =
            commands(&tree).into_iter().map(|(words, place)| format!("{} {place}", words.join(" "))).collect();
        let expected = [
            "stasis dev README.md:4",
            "stasis doctor crates/x/src/a.rs:2",
            "stasis run README.md:3",
            "stasis run show README.md:1",
            "stasis run wait crates/x/src/a.rs:3",
            "stasis tool list crates/x/src/a.rs:2",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_command_that_the_program_lacks_is_found() {
        let tree = Tree::of(&[("README.md", "`stasis fly`\n")]);
        // A program that knows no help stands in for one that lacks the command.
        let error = check(&tree, Path::new("true")).expect_err("there is no such command");
        assert!(error.to_string().contains("README.md:1"), "{error}");
    }
}
