//! Rules about Rust and Python source: how a module opens, how long it is, and words that may not stand in code.

use super::Fault;
use crate::source;
use crate::tree::{File, Tree};

const LONGEST: usize = 800;
/// Kinds of files that people write and read line by line.
const WRITTEN: &[&str] = &["rs", "py", "sql", "css", "js", "ts", "sh", "html"];

fn rust(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.extension() == "rs")
}

pub(super) fn module_docs(tree: &Tree) -> Vec<Fault> {
    rust(tree)
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| Fault::new(&file.path, 1, "does not open with `//!`"))
        .collect()
}

pub(super) fn length(tree: &Tree) -> Vec<Fault> {
    let excused = |file: &File| file.text.lines().take(20).any(|line| line.contains("Long because"));
    tree.files
        .iter()
        .filter(|file| WRITTEN.contains(&file.extension()))
        .filter(|file| file.text.lines().count() > LONGEST && !excused(file))
        .map(|file| Fault::new(&file.path, 0, format!("{} lines", file.text.lines().count())))
        .collect()
}

/// Where a word stands in the code of a file, comments and texts left out.
fn in_code<'a>(tree: &'a Tree, words: &'a [&'a str], test_only: bool) -> impl Iterator<Item = Fault> + 'a {
    tree.files.iter().flat_map(move |file| {
        let lines = source::lines(tree, file);
        let mut faults = Vec::new();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.test || !test_only) {
            for word in words.iter().filter(|word| line.code.contains(**word)) {
                faults.push(Fault::new(&file.path, at + 1, format!("`{word}`")));
            }
        }
        faults
    })
}

pub(super) fn unfinished(tree: &Tree) -> Vec<Fault> {
    const WORDS: &[&str] = &["#[ignore", "todo!(", "unimplemented!(", "@unittest.skip", "pytest.mark.skip"];
    in_code(tree, WORDS, false).collect()
}

/// A poll with a deadline against another process is a condition and no sleep: its line, or the one above, says
/// `Poll:` and what is waited for.
pub(super) fn sleeps(tree: &Tree) -> Vec<Fault> {
    const WORDS: &[&str] = &["thread::sleep(", "time::sleep(", "time.sleep(", "Timer.sleep("];
    in_code(tree, WORDS, true)
        .filter(|fault| {
            let file = tree.get(&fault.path).expect("a fault names a file of the tree");
            let lines = source::lines(tree, file);
            let near = &lines[fault.line.saturating_sub(2)..fault.line];
            !near.iter().any(|line| line.comment.contains("Poll:"))
        })
        .collect()
}

pub(super) fn pure_protocol(tree: &Tree) -> Vec<Fault> {
    const WORDS: &[&str] = &[
        "std::fs",
        "std::net::Tcp",
        "std::net::Udp",
        "ToSocketAddrs",
        "std::env",
        "std::process",
        "std::thread",
        "SystemTime",
        "Instant::",
        "tokio",
        "getrandom",
        "now_v7",
        "println!",
        "RandomState",
    ];
    // Its tests may say what they saw and how long it took them.
    let product = |fault: &Fault| {
        let file = tree.get(&fault.path).expect("a fault names a file of the tree");
        fault.path.starts_with("crates/protocol/src/") && !source::lines(tree, file)[fault.line - 1].test
    };
    in_code(tree, WORDS, false).filter(product).collect()
}

/// Outside protocol no statement spells a status that it writes, and no code assigns one.
pub(super) fn statuses(tree: &Tree) -> Vec<Fault> {
    const SQL: &[&str] = &["set status = '", "set status='", "set state = '", "set state='"];
    const CODE: &[&str] = &[
        "status = Status::",
        "status = RunStatus::",
        "status = run::Status::",
        ".phase = Phase::",
        ".phase = run::Phase::",
    ];
    let outside = |path: &str| path.starts_with("crates/") && !path.starts_with("crates/protocol/");
    let mut faults = Vec::new();
    for file in tree.files.iter().filter(|file| outside(&file.path) && ["rs", "sql"].contains(&file.extension())) {
        let lines = source::lines(tree, file);
        for (at, text) in file.text.lines().enumerate() {
            let tested = lines.get(at).is_some_and(|line| line.test);
            let lower = text.to_ascii_lowercase();
            let code = lines.get(at).map_or("", |line| line.code.as_str());
            let spelled = SQL.iter().any(|word| lower.contains(word));
            if !tested && (spelled || CODE.iter().any(|word| code.contains(word))) {
                faults.push(Fault::new(&file.path, at + 1, text.trim()));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::{NOTHING, found};
    use super::*;

    #[test]
    fn a_module_without_docs_is_found() {
        assert_eq!(found(module_docs, "crates/x/src/a.rs", "use std::fs;\n"), [1]);
        assert_eq!(found(module_docs, "crates/x/src/a.rs", "//! Owns a.\n"), NOTHING);
    }

    #[test]
    fn a_long_file_needs_a_reason() {
        let long = "a\n".repeat(LONGEST + 1);
        assert_eq!(found(length, "crates/x/src/a.rs", &long), [0]);
        assert_eq!(found(length, "a.css", &long), [0]);
        assert_eq!(found(length, "a.md", &long), NOTHING);
        assert_eq!(found(length, "crates/x/src/a.rs", &format!("//! Long because one table.\n{long}")), NOTHING);
    }

    #[test]
    fn unfinished_work_is_found_in_code_only() {
        let path = "crates/x/src/a.rs";
        assert_eq!(found(unfinished, path, "fn a() { todo!() }\n"), [1]);
        assert_eq!(found(unfinished, path, "\n#[ignore = \"slow\"]\n"), [2]);
        assert_eq!(found(unfinished, path, "// todo!()\nlet a = \"unimplemented!(\";\n"), NOTHING);
        assert_eq!(found(unfinished, "crates/x/tests/test_a.py", "@unittest.skip('later')\n"), [1]);
    }

    #[test]
    fn a_sleep_is_found_in_tests_unless_it_polls() {
        let path = "crates/x/tests/it/a.rs";
        assert_eq!(found(sleeps, path, "std::thread::sleep(a);\n"), [1]);
        assert_eq!(found(sleeps, path, "// Poll: the socket answers.\nthread::sleep(a);\n"), NOTHING);
        assert_eq!(found(sleeps, "crates/x/src/a.rs", "tokio::time::sleep(a).await;\n"), NOTHING);
        assert_eq!(found(sleeps, "crates/x/src/a.rs", "#[cfg(test)]\nmod t {\n  tokio::time::sleep(a);\n}\n"), [3]);
        assert_eq!(found(sleeps, "examples/x/test_a.py", "time.sleep(1)\n"), [1]);
    }

    #[test]
    fn input_output_in_protocol_is_found() {
        assert_eq!(found(pure_protocol, "crates/protocol/src/a.rs", "//! A.\nuse std::fs;\n"), [2]);
        assert_eq!(found(pure_protocol, "crates/store/src/a.rs", "use std::fs;\n"), NOTHING);
        assert_eq!(
            found(pure_protocol, "crates/protocol/src/a.rs", "#[cfg(test)]\nmod t {\n  println!();\n}\n"),
            NOTHING
        );
    }

    #[test]
    fn a_status_written_outside_protocol_is_found() {
        let sql = "UPDATE run\nSET status = 'done'\n";
        assert_eq!(found(statuses, "crates/store/src/sql/run.sql", sql), [2]);
        assert_eq!(found(statuses, "crates/engine/src/a.rs", "run.status = Status::Done;\n"), [1]);
        assert_eq!(found(statuses, "crates/server/src/a.rs", "run.phase = Phase::Queued { delivery };\n"), [1]);
        assert_eq!(found(statuses, "crates/engine/src/a.rs", "if run.status == Status::Done {}\n"), NOTHING);
        assert_eq!(found(statuses, "crates/protocol/src/a.rs", "run.status = Status::Done;\n"), NOTHING);
        assert_eq!(found(statuses, "crates/store/src/sql/run.sql", "SET status = ?2\n"), NOTHING);
        assert_eq!(found(statuses, "crates/store/tests/it/a.rs", "a(\"UPDATE run SET status = 'done'\");\n"), NOTHING);
    }
}
