//! Rules about words that may not stand anywhere: names that mean nothing, folders of one machine, outside hosts.

use super::Fault;
use crate::tree::{File, Tree};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// Hosts that the tree may name; addresses and names reserved for examples (RFC 2606, RFC 6761) always may stand.
const HOSTS: &[&str] = &[
    "github.com",
    "json-schema.org",
    "keepachangelog.com",
    "semver.org",
    "www.apache.org",
    "www.python.org",
    "www.w3.org",
];
const RESERVED: &[&str] = &["localhost", "example", "test", "invalid", "example.com", "example.org", "example.net"];

pub(super) fn names(tree: &Tree) -> Vec<Fault> {
    let empty = |file: &&File| {
        let stem = file.name().split('.').next().unwrap_or_default();
        file.path.split('/').chain([stem]).any(|part| EMPTY_NAMES.contains(&part))
    };
    let source = |file: &&File| ["rs", "py", "sql"].contains(&file.extension());
    tree.files
        .iter()
        .filter(source)
        .filter(empty)
        .map(|file| Fault::new(&file.path, 0, "is named after nothing in particular"))
        .collect()
}

pub(super) fn machine_paths(tree: &Tree) -> Vec<Fault> {
    // Spelled in two halves, or this file would find itself.
    const PATHS: &[&str] =
        &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
    let mut faults = Vec::new();
    for file in &tree.files {
        for (at, line) in file.text.lines().enumerate() {
            for path in PATHS.iter().filter(|path| opens_a_word(line, path)) {
                faults.push(Fault::new(&file.path, at + 1, format!("`{path}`")));
            }
        }
    }
    faults
}

/// Whether `path` stands in `line` as the start of an absolute path, and not within a longer one.
fn opens_a_word(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|sign| !sign.is_alphanumeric() && !"._-}{/".contains(sign))
    })
}

pub(super) fn hosts(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in &tree.files {
        for (at, line) in file.text.lines().enumerate() {
            for host in hosts_in(line).filter(|host| !may_stand(host)) {
                faults.push(Fault::new(&file.path, at + 1, format!("`{host}`")));
            }
        }
    }
    faults
}

/// The hosts of the `http` and `https` addresses of a line.
fn hosts_in(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("://").filter_map(|(at, sign)| {
        let scheme = &line[..at];
        let rest = &line[at + sign.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-._@".contains(c)).unwrap_or(rest.len());
        let host = rest[..end].rsplit('@').next().unwrap_or_default().trim_end_matches('.');
        let filled_in = host.is_empty() || rest[end..].starts_with(['{', '$', '<']);
        ((scheme.ends_with("http") || scheme.ends_with("https")) && !filled_in).then_some(host)
    })
}

fn may_stand(host: &str) -> bool {
    let lower = host.to_ascii_lowercase();
    let host = lower.as_str();
    // No registered name ends in a label that starts with a digit: these are addresses, in whatever spelling.
    let digit = |label: &str| label.starts_with(|sign: char| sign.is_ascii_digit());
    let address = host.rsplit('.').next().is_some_and(digit);
    let reserved =
        RESERVED.iter().any(|name| host == *name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')));
    // A single word is a name inside somebody's own network: documentation and tests make them up.
    address || reserved || HOSTS.contains(&host) || !host.contains('.')
}

#[cfg(test)]
mod tests {
    use super::super::{NOTHING, found};
    use super::*;

    #[test]
    fn a_name_that_means_nothing_is_found() {
        assert_eq!(found(names, "crates/x/src/utils.rs", ""), [0]);
        assert_eq!(found(names, "crates/x/src/common/mod.rs", ""), [0]);
        assert_eq!(found(names, "crates/x/src/commit.rs", ""), NOTHING);
    }

    #[test]
    fn a_folder_of_one_machine_is_found() {
        let sample = concat!("open(\"/wo", "rk/a\")\n");
        assert_eq!(found(machine_paths, "a.py", sample), [1]);
        assert_eq!(found(machine_paths, "a.py", concat!("\n~ /ho", "me/ann\n")), [2]);
        assert_eq!(found(machine_paths, "a.md", concat!("docs/wo", "rk/a.md\n")), NOTHING);
        assert_eq!(found(machine_paths, "a.md", concat!("{base}/ho", "me/a\n")), NOTHING);
    }

    #[test]
    fn an_outside_host_is_found() {
        let cases: &[(&str, &[usize])] = &[
            (concat!("https:", "//mirror.corp.dev/x"), &[1]),
            (concat!("see\n<http:", "//a.b.io>"), &[2]),
            ("http://127.0.0.1:9100/orders", &[]),
            ("http://[::1]:80/ http://0x7f.1/ https://{host}/x", &[]),
            ("https://API.pay.Example/x and https://example.com", &[]),
            ("https://github.com/a/b", &[]),
            ("postgres://db.corp.dev/x", &[]),
        ];
        for (text, lines) in cases {
            assert_eq!(found(hosts, "a.md", text), *lines, "{text}");
        }
    }
}
