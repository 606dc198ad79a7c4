//! The closed list of codes against the tables of the specification.

use std::collections::{BTreeMap, BTreeSet};

use protocol::code::Code;

const RUNS: &str = include_str!("../../../../docs/spec/runs.md");
const CALLS: &str = include_str!("../../../../docs/spec/calls.md");
const WORKFLOWS: &str = include_str!("../../../../docs/spec/workflows.md");
const INTERFACES: &str = include_str!("../../../../docs/spec/interfaces.md");

/// The cells of the table rows between the line with `from` and the next line that begins with `to`.
fn rows<'a>(page: &'a str, from: &str, to: &str) -> Vec<Vec<&'a str>> {
    let lines = page.lines().skip_while(|line| !line.contains(from)).skip(1).take_while(|line| !line.starts_with(to));
    let rows = lines.filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The words in back quotes that look like a code.
fn codes(cell: &str) -> Vec<&str> {
    let word = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase());
    cell.split('`').skip(1).step_by(2).filter(word).collect()
}

#[test]
fn the_list_is_that_of_the_tables() {
    let tables = [
        rows(RUNS, "## 19. Codes", "## 20"),
        rows(CALLS, "**C-306** code", "- **C-307**"),
        rows(WORKFLOWS, "**W-259** code", "## 7"),
        rows(INTERFACES, "**I-47** codes", "- **I-48**"),
    ];
    for table in &tables {
        assert!(table.len() > 5, "a table was not found");
    }
    let stated: BTreeSet<&str> = tables.iter().flatten().flat_map(|row| codes(row[0])).collect();
    let known: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    // C-307
    assert_eq!(stated.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new(), "codes that only the tables have");
    assert_eq!(known.difference(&stated).collect::<Vec<_>>(), Vec::<&&str>::new(), "codes that no table has");
}

/// The values of a cell for each of the codes of its row: one for all, or one each.
fn each<'a>(codes: &[&'a str], cell: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
    let values: Vec<&str> = cell.split(", ").collect();
    match values.len() {
        1 => Some(codes.iter().map(|&code| (code, values[0])).collect()),
        len if len == codes.len() => Some(codes.iter().copied().zip(values).collect()),
        _ => None,
    }
}

#[test]
fn http_statuses_and_retries_are_those_of_the_table() {
    // Other tables say more: what a run ended with is an HTTP status where a command is refused for it.
    let elsewhere = BTreeMap::from([("resource_contained", Some(503))]);
    let mut checked = 0;
    for row in rows(CALLS, "**C-306** code", "- **C-307**") {
        let codes = codes(row[0]);
        for (code, status) in each(&codes, row[1]).into_iter().flatten() {
            let Ok(status) = status.parse().map(Some).or(if status.is_empty() { Ok(None) } else { Err(()) }) else {
                continue;
            };
            let known: Code = code.parse().unwrap();
            // C-306
            assert_eq!(known.http(), *elsewhere.get(code).unwrap_or(&status), "{code}");
            checked += 1;
        }
        for (code, retry) in each(&codes, row[2]).into_iter().flatten() {
            let known: Code = code.parse().unwrap();
            // C-306
            assert_eq!(known.retryable(), retry == "yes", "{code}");
        }
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn whole_texts_are_those_of_the_table() {
    let mut stated = BTreeMap::new();
    for row in rows(RUNS, "## 19. Codes", "## 20") {
        if let Some(text) = row[1].strip_prefix("W `") {
            stated.insert(codes(row[0])[0], text.trim_end_matches('`'));
        }
    }
    let known = Code::ALL.iter().filter_map(|code| Some((code.as_str(), code.fixed_text()?)));
    //
    assert_eq!(known.collect::<BTreeMap<_, _>>(), stated);
}
