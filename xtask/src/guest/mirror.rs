//! Which Debian mirror this machine uses, by its own apt sources. No host is written down in this repository.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A setting that names a mirror where apt's sources name none: `http://HOST/debian`.
const SETTING: &str = "STASIS_DEBIAN_MIRROR";

pub(super) fn find() -> Result<String> {
    if let Some(mirror) = std::env::var(SETTING).ok().filter(|mirror| !mirror.is_empty()) {
        return Ok(mirror);
    }
    let mut texts = Vec::new();
    let folder = Path::new("/etc/apt/sources.list.d");
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.push("/etc/apt/sources.list".into());
    paths.sort();
    for path in paths {
        let deb822 = path.extension().is_some_and(|kind| kind == "sources");
        texts.extend(fs::read_to_string(path).ok().map(|text| (deb822, text)));
    }
    let found = texts.iter().find_map(|(deb822, text)| if *deb822 { in_deb822(text) } else { in_lines(text) });
    found.with_context(|| format!("no Debian mirror among this machine's apt sources; name one in {SETTING}"))
}

/// In a `.sources` file: paragraphs of fields.
fn in_deb822(text: &str) -> Option<String> {
    text.split("\n\n").find_map(|paragraph| {
        let field = |name: &str| {
            let lines = paragraph.lines().filter(|line| !line.starts_with('#'));
            lines.filter_map(|line| line.split_once(':')).find(|(key, _)| *key == name).map(|(_, value)| value.trim())
        };
        let mut uris = field("URIs")?.split_whitespace();
        let main = field("Suites")?.split_whitespace().any(is_main_suite);
        (main && field("Types")?.contains("deb")).then(|| uris.find(|uri| is_http(uri)).map(str::to_owned)).flatten()
    })
}

/// In a `.list` file: one source a line.
fn in_lines(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        if words.next()? != "deb" {
            return None;
        }
        let mut words = words.skip_while(|word| !is_http(word));
        let (uri, suite) = (words.next()?, words.next()?);
        is_main_suite(suite).then(|| uri.to_owned())
    })
}

fn is_http(uri: &str) -> bool {
    uri.starts_with("http://") || uri.starts_with("https://")
}

/// A release of Debian itself: its mirror has the others too.
fn is_main_suite(suite: &str) -> bool {
    ["bullseye", "bookworm", "trixie", "forky", "sid", "oldstable", "stable", "testing", "unstable"].contains(&suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "Types: deb\n# a comment: with a colon\nURIs: http://security.example/debian-security\nSuites: bookworm-security\n\n\
        Types: deb deb-src\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n";

    #[test]
    fn the_mirror_is_that_of_the_release_itself() {
        assert_eq!(in_deb822(DEB822).as_deref(), Some("http://mirror.example/debian"));
        let lines = "deb https://other.example/apt cloud-sdk main\n# deb http://old.example/debian bookworm main\n\
            deb [signed-by=/k.gpg arch=amd64] http://mirror.example/debian trixie main\n";
        assert_eq!(in_lines(lines).as_deref(), Some("http://mirror.example/debian"));
    }

    #[test]
    fn other_distributions_have_none() {
        assert_eq!(in_lines("deb http://archive.example/ubuntu noble main\n"), None);
        assert_eq!(in_deb822("Types: deb\nURIs: http://archive.example/ubuntu\nSuites: noble\n"), None);
    }
}
