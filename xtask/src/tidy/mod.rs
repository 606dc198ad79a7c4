//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! Owns: the table of rules, each with its reason. Never does: mend. A rule is a function from the tree to its
//! faults, so a rule is tested with a small tree of literals that breaks it.

mod code;
mod crates;
mod docs;
mod words;

use anyhow::{Result, bail};

use crate::tree::{self, Tree};

/// Why a rule is broken, and where. Line 0 means the file as a whole.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    path: String,
    line: usize,
    what: String,
}

impl Fault {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

struct Rule {
    name: &'static str,
    /// Why the rule stands: printed beside its faults, so that one who breaks it can judge.
    reason: &'static str,
    check: fn(&Tree) -> Vec<Fault>,
}

const RULES: &[Rule] = &[
    Rule {
        name: "arrows",
        reason: "arrows between crates point down only, so that each can be read and tested without those above it",
        check: crates::arrows,
    },
    Rule {
        name: "homes",
        reason: "a large dependency is used by the one crate whose matter it is: SQL by store, guests by sandbox, HTML by server",
        check: crates::homes,
    },
    Rule {
        name: "lints",
        reason: "one set of lints for all; a crate that forgets to inherit it is checked by none",
        check: crates::lints,
    },
    Rule {
        name: "banned crates",
        reason: "TLS is rustls over ring: nothing that needs a system library, cmake or an assembler to build",
        check: crates::banned,
    },
    Rule {
        name: "module docs",
        reason: "a reader learns from the first lines what a module owns, never does, and keeps true",
        check: code::module_docs,
    },
    Rule {
        name: "length",
        reason: "a file of 800 lines holds more than one thought, unless it says why not (`//! Long because`)",
        check: code::length,
    },
    Rule {
        name: "unfinished",
        reason: "what is not there is absent; half of it, or a test that does not run, is a promise",
        check: code::unfinished,
    },
    Rule {
        name: "sleeps",
        reason: "a test that sleeps is slow when it passes and wrong when the machine is busy: wait for a signal or a condition",
        check: code::sleeps,
    },
    Rule {
        name: "pure protocol",
        reason: "protocol decides from rows, a command and a given time; with I/O, a clock or randomness it could not be simulated",
        check: code::pure_protocol,
    },
    Rule { name: "statuses", reason: "a status changes only by a decision of protocol (R-1)", check: code::statuses },
    Rule { name: "names", reason: "a module named after nothing collects everything", check: words::names },
    Rule {
        name: "machine paths",
        reason: "what names a folder of one machine works on that machine alone",
        check: words::machine_paths,
    },
    Rule {
        name: "hosts",
        reason: "the product contacts only what it is told to; an outside host in the tree is a slip or a new dependency",
        check: words::hosts,
    },
    Rule {
        name: "error pages",
        reason: "a code is something people search for: each has a page that says what happened and what to do",
        check: docs::error_pages,
    },
    Rule { name: "links", reason: "a link that leads nowhere is a claim without its proof", check: docs::links },
    Rule {
        name: "architecture",
        reason: "ARCHITECTURE.md is the map: it names every crate",
        check: docs::architecture,
    },
    Rule {
        name: "changelog",
        reason: "a change that users see has its line before it is released",
        check: docs::changelog,
    },
];

pub(crate) fn run() -> Result<()> {
    let tree = Tree::read(&tree::root())?;
    let mut count = 0;
    for rule in RULES {
        let faults = (rule.check)(&tree);
        if faults.is_empty() {
            continue;
        }
        eprintln!("{}: {}", rule.name, rule.reason);
        for Fault { path, line, what } in &faults {
            match line {
                0 => eprintln!("  {path}: {what}"),
                _ => eprintln!("  {path}:{line}: {what}"),
            }
        }
        count += faults.len();
    }
    if count > 0 {
        bail!("tidy found {count} faults");
    }
    println!("tidy: {} rules hold over {} files", RULES.len(), tree.files.len());
    Ok(())
}

/// Shared by the tests of the rules: one row is a file, and the lines a rule must find in it.
#[cfg(test)]
fn found(check: fn(&Tree) -> Vec<Fault>, path: &str, text: &str) -> Vec<usize> {
    check(&Tree::of(&[(path, text)])).iter().map(|fault| fault.line).collect()
}

/// What a rule finds in a file that keeps it.
#[cfg(test)]
const NOTHING: [usize; 0] = [];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_own_name_and_a_reason() {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
        assert!(RULES.iter().all(|rule| rule.reason.len() > 20));
    }

    #[test]
    fn rules_accept_an_empty_tree_but_for_what_must_exist() {
        let tree = Tree::default();
        let broken: Vec<&str> =
            RULES.iter().filter(|rule| !(rule.check)(&tree).is_empty()).map(|rule| rule.name).collect();
        assert_eq!(broken, ["architecture", "changelog"]);
    }
}
