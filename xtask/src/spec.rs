//! `cargo xtask spec`: which clauses of docs/spec have a test, and which have none.
//!
//! A clause is covered when its id stands in a comment inside a test; an id in product code counts for nothing, or
//! a reference would pass for a proof. Whether the assertion beside an id shows the clause is for reviewers.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use crate::source;
use crate::tree::{self, Tree};

const SPEC: &str = "docs/spec/";
const DEFERRED: &str = "docs/spec/deferred.md";

#[derive(Args)]
pub(crate) struct SpecArgs {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Print the table alone, without the lists of missing clauses
    #[arg(long, conflicts_with = "json")]
    brief: bool,
}

impl SpecArgs {
    /// The table alone: what CI shows.
    pub(crate) fn brief() -> Self {
        Self { json: false, brief: true }
    }
}

/// What `--json` prints. Deferred clauses are in no other figure.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Coverage {
    total: usize,
    covered: usize,
    deferred: usize,
    files: Vec<FileCoverage>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
struct FileCoverage {
    name: String,
    total: usize,
    covered: usize,
    missing: Vec<String>,
}

/// The id of a clause, ordered as the pages number them: `R-9` before `R-12`, `I-1` before `I-1b`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    letter: char,
    number: u32,
    suffix: Option<char>,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.letter, self.number)?;
        self.suffix.map_or(Ok(()), |suffix| write!(f, "{suffix}"))
    }
}

/// An id that a test names and no page states: most likely a slip of the finger.
#[derive(Debug, PartialEq, Eq)]
struct Unknown {
    path: String,
    line: usize,
    id: String,
}

pub(crate) fn run(args: &SpecArgs) -> Result<()> {
    let (coverage, unknown) = measure(&Tree::read(&tree::root())?);
    if args.json {
        println!("{}", serde_json::to_string(&coverage)?);
    } else {
        print(&coverage, !args.brief);
    }
    for Unknown { path, line, id } in &unknown {
        eprintln!("{path}:{line}: no page of docs/spec states {id}");
    }
    if !unknown.is_empty() {
        bail!("{} unknown clause ids in tests", unknown.len());
    }
    Ok(())
}

fn measure(tree: &Tree) -> (Coverage, Vec<Unknown>) {
    let pages = stated(tree);
    let known: BTreeSet<&Id> = pages.values().flatten().collect();
    let deferred: BTreeSet<Id> = deferred(tree).into_iter().filter(|id| known.contains(id)).collect();
    let mut named = BTreeSet::new();
    let mut unknown = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.starts_with(SPEC)) {
        for (at, line) in source::lines(tree, file).iter().enumerate() {
            if !line.test {
                continue;
            }
            for id in ids(&line.comment) {
                if known.contains(&id) {
                    named.insert(id);
                } else {
                    unknown.push(Unknown { path: file.path.clone(), line: at + 1, id: id.to_string() });
                }
            }
        }
    }
    let files: Vec<FileCoverage> = pages
        .iter()
        .map(|(name, stated)| {
            let due: Vec<&Id> = stated.iter().filter(|id| !deferred.contains(*id)).collect();
            let missing: Vec<String> = due.iter().filter(|id| !named.contains(**id)).map(ToString::to_string).collect();
            FileCoverage { name: name.clone(), total: due.len(), covered: due.len() - missing.len(), missing }
        })
        .collect();
    let coverage = Coverage {
        total: files.iter().map(|file| file.total).sum(),
        covered: files.iter().map(|file| file.covered).sum(),
        deferred: deferred.len(),
        files,
    };
    (coverage, unknown)
}

/// The clauses that each page states: a bold id that opens a list item or a table row, a plain `E-n` that opens a row.
fn stated(tree: &Tree) -> BTreeMap<String, BTreeSet<Id>> {
    let mut pages = BTreeMap::new();
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix(SPEC) else {
            continue;
        };
        let clauses: BTreeSet<Id> = file.text.lines().filter_map(stated_on).collect();
        if !clauses.is_empty() {
            pages.insert(name.to_owned(), clauses);
        }
    }
    pages
}

fn stated_on(line: &str) -> Option<Id> {
    if let Some(cell) = line.strip_prefix("| E-") {
        let cell = cell.split(' ').next()?;
        return exact(&format!("E-{cell}"));
    }
    let opened = line.strip_prefix("- **").or_else(|| line.strip_prefix("| **"))?;
    exact(opened.split_once("**")?.0)
}

/// The ids of the first column of the deferred table, ranges spelled out.
fn deferred(tree: &Tree) -> BTreeSet<Id> {
    let Some(page) = tree.get(DEFERRED) else {
        return BTreeSet::new();
    };
    let mut all = BTreeSet::new();
    for row in page.text.lines().filter_map(|line| line.strip_prefix('|')) {
        for part in row.split('|').next().unwrap_or_default().split(',') {
            let named = ids(part);
            match named.as_slice() {
                [first, last] if part.contains(" to ") && first.letter == last.letter => {
                    all.extend((first.number..=last.number).map(|number| Id { number, ..first.clone() }));
                }
                _ => all.extend(named),
            }
        }
    }
    all
}

/// Every id in a text. A word such as `UTF-8` or `SHA-256` is none: the letter must open the word.
fn ids(text: &str) -> Vec<Id> {
    text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-').filter_map(exact).collect()
}

/// The id that the whole of `word` spells.
fn exact(word: &str) -> Option<Id> {
    let (letter, rest) = word.split_once('-')?;
    let letter = match letter {
        "R" | "E" | "C" | "W" | "I" => letter.chars().next()?,
        _ => return None,
    };
    let digits = rest.trim_end_matches(|sign: char| sign.is_ascii_lowercase());
    let suffix = match &rest.as_bytes()[digits.len()..] {
        [] => None,
        [suffix] => Some(char::from(*suffix)),
        _ => return None,
    };
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain)?;
    Some(Id { letter, number, suffix })
}

fn print(coverage: &Coverage, with_missing: bool) {
    println!("{:<16} {:>7} {:>7} {:>7}", "page", "clauses", "tested", "missing");
    let row = |name: &str, total: usize, covered: usize| {
        println!("{name:<16} {total:>7} {covered:>7} {:>7}", total - covered);
    };
    for file in &coverage.files {
        row(&file.name, file.total, file.covered);
    }
    row("all", coverage.total, coverage.covered);
    println!("deferred, and in no figure above: {}", coverage.deferred);
    for file in coverage.files.iter().filter(|file| with_missing && !file.missing.is_empty()) {
        println!("\n{} without a test:", file.name);
        for some in file.missing.chunks(14) {
            println!("  {}", some.join(" "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(text: &str) -> Vec<String> {
        ids(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ids_are_whole_words() {
        assert_eq!(spelled(" C-25 C-26, I-14a; (R-3)."), ["C-25", "C-26", "I-14a", "R-3"]);
        assert!(spelled("UTF-8 SHA-256 RFC-3339 X-1 C-x C-+1 R-1ab C-25-26").is_empty());
    }

    #[test]
    fn ids_sort_by_number() {
        let sorted: BTreeSet<Id> = ids("I-14a I-2 I-14").into_iter().collect();
        assert_eq!(sorted.iter().map(ToString::to_string).collect::<Vec<_>>(), ["I-2", "I-14", "I-14a"]);
    }

    #[test]
    fn a_clause_is_stated_only_where_its_bold_id_opens_a_line() {
        let cases = [
            ("- **R-12** Every verb", Some("R-12")),
            ("| **I-1b** every command | finds |", Some("I-1b")),
            ("| E-3 | QUEUED -> RUNNING |", Some("E-3")),
            ("3. **R-252**: prove the claim", None),
            ("- see **R-12**", None),
            ("| R-4 | plain |", None),
            ("| **R-1, R-2** |", None),
        ];
        for (line, id) in cases {
            assert_eq!(stated_on(line).map(|id| id.to_string()).as_deref(), id, "{line}");
        }
    }

    const PAGE: &str = "- **R-1** One.\n- **R-2** Two.\n- **R-3** Three.\n| E-1 | a |\n- **R-54** a\n- **R-55** b\n";
    const LATER: &str = "| clauses | what |\n|---|---|\n| E-7, R-54 to R-56 | held R-2 |\n";

    fn measured(path: &str, text: &str) -> (Coverage, Vec<Unknown>) {
        measure(&Tree::of(&[("docs/spec/runs.md", PAGE), (DEFERRED, LATER), (path, text)]))
    }

    #[test]
    fn only_comments_of_tests_cover() {
        let text = "// R-1\n#[cfg(test)]\nmod tests {\n    let a = \"R-2\"; // R-3 E-1\n}\n";
        let (coverage, unknown) = measured("crates/x/src/a.rs", text);
        assert!(unknown.is_empty());
        assert_eq!((coverage.total, coverage.covered, coverage.deferred), (4, 2, 2));
        let missing = vec!["R-1".to_owned(), "R-2".to_owned()];
        let file = FileCoverage { name: "runs.md".to_owned(), total: 4, covered: 2, missing };
        assert_eq!(coverage.files, [file]);
    }

    #[test]
    fn an_id_that_no_page_states_is_reported() {
        let (_, unknown) = measured("crates/x/tests/it/a.rs", "\n// R-9\n");
        let slip = Unknown { path: "crates/x/tests/it/a.rs".to_owned(), line: 2, id: "R-9".to_owned() };
        assert_eq!(unknown, [slip]);
        assert!(measured("crates/x/src/a.rs", "\n// R-9\n").1.is_empty());
    }

    #[test]
    fn python_tests_cover_too() {
        assert_eq!(measured("crates/x/tests/browser/test_a.py", "a = 1  # R-1\n").0.covered, 1);
    }

    #[test]
    fn json_has_the_keys_that_scripts_read() {
        let (coverage, _) = measured("a.md", "");
        let json = serde_json::to_string(&coverage).expect("plain data");
        assert_eq!(
            json,
            r#"{"total":4,"covered":0,"deferred":2,"files":[{"name":"runs.md","total":4,"covered":0,"missing":["E-1","R-1","R-2","R-3"]}]}"#
        );
    }
}
