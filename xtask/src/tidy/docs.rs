//! Rules about the pages: links lead somewhere, every code has its page, the map and the changelog are there.

use super::Fault;
use crate::tree::{File, Tree};

const CODES: &str = "crates/protocol/src/code.rs";
const PAGES: &str = "docs/errors/";

/// A row of the table of codes.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    line: usize,
    code: &'a str,
    http: Option<&'a str>,
}

/// Every wire code has a page `docs/errors/<code>.md` that names its HTTP status, and every page there is of a code.
pub(super) fn error_pages(tree: &Tree) -> Vec<Fault> {
    let Some(table) = tree.get(CODES) else { return Vec::new() };
    let rows = rows(&table.text);
    let mut faults = Vec::new();
    if rows.is_empty() {
        faults.push(Fault::new(CODES, 0, "no code found: has the table another form now?"));
    }
    for Row { line, code, http } in &rows {
        let path = format!("{PAGES}{code}.md");
        let status = http.map_or("no HTTP status".to_owned(), |status| format!("HTTP {status}"));
        match tree.get(&path) {
            None => faults.push(Fault::new(CODES, *line, format!("{code} has no page {path}"))),
            Some(page) if page.text.contains(&status) => {}
            Some(_) => faults.push(Fault::new(&path, 0, format!("does not say `{status}`"))),
        }
    }
    let pages = tree.files.iter().filter_map(|file| file.path.strip_prefix(PAGES)?.strip_suffix(".md"));
    for page in pages.filter(|page| *page != "README" && !rows.iter().any(|row| row.code == *page)) {
        faults.push(Fault::new(&format!("{PAGES}{page}.md"), 0, "no such code"));
    }
    faults
}

/// The rows of the table of codes in protocol.
fn rows(text: &str) -> Vec<Row<'_>> {
    text.lines().enumerate().filter_map(|(at, line)| row(at + 1, line)).collect()
}

/// One row: `Name "text" 409 retry;`, status and retry only where there is one.
fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let (name, rest) = text.trim().strip_suffix(';')?.split_once(" \"")?;
    let (code, rest) = rest.split_once('"')?;
    let http = rest.split_whitespace().find(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    name.bytes().all(|byte| byte.is_ascii_alphanumeric()).then_some(Row { line, code, http })
}

/// Links of the pages to files of the tree and to headings.
pub(super) fn links(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for page in tree.files.iter().filter(|file| file.extension() == "md") {
        for (line, target) in targets(&page.text) {
            if let Some(what) = broken(tree, page, target) {
                faults.push(Fault::new(&page.path, line, what));
            }
        }
    }
    faults
}

/// The targets of `[text](target)`, with their lines; fenced blocks and `code` are left out.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let links = line.match_indices("](").filter(|(from, _)| line[..*from].matches('`').count() % 2 == 0);
            let inside = links.filter_map(|(from, sign)| Some(line[from + sign.len()..].split_once(')')?.0));
            all.extend(inside.map(|target| (at + 1, target)));
        }
    }
    all
}

fn broken(tree: &Tree, page: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { page.path.clone() } else { resolve(&page.path, path)? };
    if !path.is_empty() && !tree.exists(&path) {
        return Some(format!("`{target}` leads nowhere"));
    }
    let other = tree.get(&path).filter(|file| file.extension() == "md" && !heading.is_empty())?;
    let found = other.text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
    (!found).then(|| format!("`{target}`: no such heading"))
}

/// `path` as seen from the folder of `page`, relative to the root. A path that leaves the tree resolves to one
/// that is in no tree.
fn resolve(page: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." if parts.pop().is_none() => return Some("..".to_owned()),
            ".." => {}
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The name under which a heading can be linked to.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|sign| sign.is_alphanumeric() || " -_".contains(*sign));
    kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect()
}

pub(super) fn architecture(tree: &Tree) -> Vec<Fault> {
    const MAP: &str = "ARCHITECTURE.md";
    let Some(map) = tree.get(MAP) else {
        return vec![Fault::new(MAP, 0, "is missing")];
    };
    tree.crates()
        .map(|name| format!("crates/{name}"))
        .filter(|folder| !map.text.contains(folder.as_str()))
        .map(|folder| Fault::new(MAP, 0, format!("does not name {folder}")))
        .collect()
}

pub(super) fn changelog(tree: &Tree) -> Vec<Fault> {
    const LOG: &str = "CHANGELOG.md";
    let open = |file: &File| file.text.lines().any(|line| line == "## [Unreleased]");
    match tree.get(LOG) {
        None => vec![Fault::new(LOG, 0, "is missing")],
        Some(log) if !open(log) => vec![Fault::new(LOG, 0, "has no section `## [Unreleased]`")],
        Some(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NOTHING, found};
    use super::*;

    fn paths(check: fn(&Tree) -> Vec<Fault>, files: &[(&str, &str)]) -> Vec<(String, usize)> {
        check(&Tree::of(files)).into_iter().map(|fault| (fault.path, fault.line)).collect()
    }

    #[test]
    fn a_code_without_its_page_and_a_page_without_its_code_are_found() {
        let table = "codes! {\n    // one\n    Rejected \"approval_rejected\";\n    Busy \"session_busy\" 409;\n    Gone \"gone\" 410 retry;\n}\nlet a = \"b\";\n";
        let files = [
            (CODES, table),
            ("docs/errors/session_busy.md", "HTTP 409"),
            ("docs/errors/gone.md", "HTTP 404"),
            ("docs/errors/old.md", ""),
            ("docs/errors/README.md", ""),
        ];
        let expected = [(CODES, 3), ("docs/errors/gone.md", 0), ("docs/errors/old.md", 0)];
        assert_eq!(paths(error_pages, &files), expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn a_table_that_cannot_be_read_is_found() {
        assert_eq!(found(error_pages, CODES, "enum Code {}\n"), [0]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let page = "[a](b.md) [c](gone.md)\n[d](#here) [e](#there)\n```\n[f](gone.md)\n```\n`[g](gone.md)`\n# Here\n[h](b.md#two-words) [i](b.md#gone)\n[j](../..)\n";
        let files = [("docs/a.md", page), ("docs/b.md", "## Two words\n")];
        let lines: Vec<usize> = links(&Tree::of(&files)).iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1, 2, 8, 9]);
    }

    #[test]
    fn links_reach_folders_and_files_above() {
        let files = [
            ("docs/a.md", "[x](../crates/x) [y](../README.md) [z](errors/)\n"),
            ("README.md", ""),
            ("crates/x/Cargo.toml", ""),
            ("docs/errors/b.md", ""),
        ];
        assert!(links(&Tree::of(&files)).is_empty());
    }

    #[test]
    fn a_crate_missing_from_the_map_is_found() {
        let files =
            [("ARCHITECTURE.md", "crates/api\n"), ("crates/api/Cargo.toml", ""), ("crates/store/Cargo.toml", "")];
        assert_eq!(paths(architecture, &files), [("ARCHITECTURE.md".to_owned(), 0)]);
    }

    #[test]
    fn a_changelog_without_an_open_section_is_found() {
        assert_eq!(found(changelog, "CHANGELOG.md", "# Changelog\n"), [0]);
        assert_eq!(found(changelog, "CHANGELOG.md", "## [Unreleased]\n"), NOTHING);
    }
}
