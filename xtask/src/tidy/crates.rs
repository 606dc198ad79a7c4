//! Rules about crates: who may depend on whom, on what, and under which lints.

use super::Fault;
use crate::tree::{File, Tree};

/// Which of our crates each one may name. Nothing may name `cli` or `sim`; an unlisted crate may name none.
const ARROWS: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("store", &["protocol"]),
    ("sandbox", &["protocol"]),
    ("engine", &["protocol", "store", "sandbox"]),
    ("api", &["protocol"]),
    ("server", &["protocol", "store", "sandbox", "engine", "api"]),
    ("cli", &["protocol", "store", "sandbox", "engine", "api", "server"]),
    ("sim", &["protocol", "store", "sandbox", "engine"]),
];

/// The crates that may use a large dependency in their product code.
const HOMES: &[(&str, &[&str])] = &[
    ("rusqlite", &["store"]),
    ("wasmtime", &["sandbox"]),
    ("maud", &["server"]),
    ("axum", &["server"]),
    ("utoipa", &["api", "server"]),
    ("clap", &["cli"]),
    ("comfy-table", &["cli"]),
    ("indicatif", &["cli"]),
    ("anyhow", &["cli"]),
];

/// Crates that must not appear in the lock file.
const BANNED: &[&str] = &["aws-lc-rs", "aws-lc-sys", "openssl", "openssl-sys", "native-tls"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Product,
    Test,
}

/// One dependency line of a manifest.
struct Dependency<'a> {
    line: usize,
    name: &'a str,
    kind: Kind,
}

/// The dependencies of a manifest: `name = ...` and `name.workspace = true` in the dependency tables.
fn dependencies(manifest: &File) -> Vec<Dependency<'_>> {
    let mut kind = None;
    let mut all = Vec::new();
    for (at, line) in manifest.text.lines().enumerate() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end().trim_end_matches(']');
            kind = match section.rsplit('.').next() {
                Some("dependencies" | "build-dependencies") => Some(Kind::Product),
                Some("dev-dependencies") => Some(Kind::Test),
                _ => None,
            };
        } else if let (Some(kind), Some((key, _))) = (kind, line.split_once('='))
            && !line.starts_with('#')
        {
            let name = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
            all.push(Dependency { line: at + 1, name, kind });
        }
    }
    all
}

/// The manifests of the crates, with the crate's folder name.
fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, &File)> {
    tree.crates().map(|name| {
        let path = format!("crates/{name}/Cargo.toml");
        (name, tree.get(&path).expect("a crate is a folder with a manifest"))
    })
}

pub(super) fn arrows(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (from, manifest) in manifests(tree) {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == from) else {
            faults.push(Fault::new(&manifest.path, 0, format!("{from} is not in the table of arrows")));
            continue;
        };
        for Dependency { line, name, kind } in dependencies(manifest) {
            let to = name.strip_prefix("stasis-").unwrap_or(name);
            let ours = ARROWS.iter().any(|(ours, _)| *ours == to);
            // For its tests a crate may name itself, to switch a feature of its own on.
            let itself = to == from && kind == Kind::Test;
            if ours && !itself && !allowed.contains(&to) {
                faults.push(Fault::new(&manifest.path, line, format!("{from} may not depend on {to}")));
            }
        }
    }
    faults
}

pub(super) fn homes(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (from, manifest) in manifests(tree) {
        for Dependency { line, name, kind } in dependencies(manifest) {
            let home = HOMES.iter().find(|(guest, _)| *guest == name);
            if let Some((_, homes)) = home
                && kind == Kind::Product
                && !homes.contains(&from)
            {
                let what = format!("{name} belongs to {}, not to {from}", homes.join(" and "));
                faults.push(Fault::new(&manifest.path, line, what));
            }
        }
    }
    faults
}

pub(super) fn lints(tree: &Tree) -> Vec<Fault> {
    let inherits = |text: &str| {
        text.split_once("[lints]").is_some_and(|(_, rest)| rest.trim_start().starts_with("workspace = true"))
    };
    manifests(tree)
        .filter(|(_, manifest)| !inherits(&manifest.text))
        .map(|(_, manifest)| Fault::new(&manifest.path, 0, "lacks `[lints] workspace = true`"))
        .collect()
}

pub(super) fn banned(tree: &Tree) -> Vec<Fault> {
    let Some(lock) = tree.get("Cargo.lock") else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    for (at, line) in lock.text.lines().enumerate() {
        let name = line.strip_prefix("name = \"").and_then(|rest| rest.strip_suffix('"'));
        if let Some(name) = name.filter(|name| BANNED.contains(name)) {
            faults.push(Fault::new(
                &lock.path,
                at + 1,
                format!("{name} is banned; `cargo tree -i {name}` says who wants it"),
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::{NOTHING, found};
    use super::*;

    #[test]
    fn an_arrow_that_points_up_or_sideways_is_found() {
        let cases: &[(&str, &str, &[usize])] = &[
            ("protocol", "[dependencies]\nserde.workspace = true\n", &[]),
            ("protocol", "[dependencies]\nstore.workspace = true\n", &[2]),
            ("sandbox", "[dependencies]\nprotocol = { path = \"../protocol\" }\nstore.workspace = true\n", &[3]),
            ("store", "[dev-dependencies]\nstasis-sandbox = \"1\"\n", &[2]),
            ("store", "[dev-dependencies]\nstasis-store = { path = \".\" }\n", &[]),
            ("store", "[dependencies]\nstasis-store = { path = \".\" }\n", &[2]),
            ("server", "[dependencies]\ncli.workspace = true\n", &[2]),
            ("server", "[dependencies]\nengine.workspace = true\napi.workspace = true\n", &[]),
            ("cli", "[package]\nstore = 1\n[target.'cfg(unix)'.dependencies]\nsim.workspace = true\n", &[4]),
            ("engine", "[dependencies]\n# server.workspace = true\n", &[]),
        ];
        for (name, text, lines) in cases {
            assert_eq!(found(arrows, &format!("crates/{name}/Cargo.toml"), text), *lines, "{name}: {text}");
        }
    }

    #[test]
    fn a_crate_that_the_table_does_not_know_is_found() {
        assert_eq!(found(arrows, "crates/misc/Cargo.toml", ""), [0]);
    }

    #[test]
    fn a_dependency_away_from_home_is_found_outside_tests() {
        let path = "crates/engine/Cargo.toml";
        assert_eq!(found(homes, path, "[dependencies]\nrusqlite.workspace = true\n"), [2]);
        assert_eq!(found(homes, path, "[dev-dependencies]\naxum.workspace = true\n"), NOTHING);
        assert_eq!(found(homes, "crates/store/Cargo.toml", "[dependencies]\nrusqlite.workspace = true\n"), NOTHING);
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let path = "crates/api/Cargo.toml";
        assert_eq!(found(lints, path, "[package]\n"), [0]);
        assert_eq!(found(lints, path, "[lints]\nworkspace = true\n"), NOTHING);
    }

    #[test]
    fn a_banned_crate_is_found() {
        let lock = "[[package]]\nname = \"aws-lc-rs\"\n\n[[package]]\nname = \"ring\"\n";
        assert_eq!(found(banned, "Cargo.lock", lock), [2]);
    }
}
