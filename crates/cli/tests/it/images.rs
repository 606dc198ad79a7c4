//! Guest images of this machine: which there are, who needs them, and removing one (I-69, W-4).

use crate::cycle::ASKS;
use crate::home::{Home, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A cache folder with the newest image of the machine's, and its digest.
fn cache_of_its_own(home: &mut Home) -> (PathBuf, String) {
    let machine = sandbox::cache::default_dir().expect("a cache folder");
    let newest = sandbox::cache::images(&machine).expect("a cache").into_iter().next().expect("a guest image");
    let cache = home.path().join("cache");
    fs::DirBuilder::new().mode(0o700).recursive(true).create(cache.join("guests/compiled")).expect("made");
    let hex = newest.digest.hex();
    for folder in ["guests", "guests/compiled"] {
        for file in fs::read_dir(machine.join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
            if name.contains(&hex) && file.is_file() {
                link(&file, &cache.join(folder).join(name));
            }
        }
    }
    home.env("STASIS_CACHE", cache.to_str().expect("a path"));
    (cache, newest.digest.to_string())
}

fn link(from: &Path, to: &Path) {
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to).expect("copied");
    }
}

fn images_in(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|kind| kind == "wasm" || kind == "cwasm")).count()
}

#[test]
fn an_image_is_kept_while_an_unfinished_run_is_pinned_to_it() {
    let mut home = Home::new();
    let (cache, digest) = cache_of_its_own(&mut home);
    home.write("asks.py", ASKS);
    let run = text(&home.json(3, &["run", "asks.py"]), "/run/id").to_owned();
    let image = |home: &Home| -> Value { home.json(0, &["guest", "images"])["items"][0].clone() };
    let listed = image(&home);
    assert_eq!(text(&listed, "/digest"), digest);
    assert_eq!((&listed["newest"], &listed["runs"]), (&true.into(), &1.into()));
    assert!(listed["bytes"].as_u64() > Some(1 << 20) && listed["compiled_bytes"].as_u64() > Some(1 << 20));
    let refused = home.problem(8, &["guest", "remove", &digest]);
    assert_eq!(text(&refused, "/code"), "pattern_in_use"); // W-4
    assert!(text(&refused, "/detail").contains(&run), "{refused}"); // W-4: named
    assert_eq!(images_in(&cache.join("guests")), 1); // W-4: kept
    home.problem(7, &["guest", "remove", &digest.replace(&digest[7..], &"0".repeat(64))]);

    home.json(0, &["run", "cancel", &run]);
    assert_eq!(image(&home)["runs"], 0);
    assert_eq!(home.stasis(&["guest", "remove", &digest]).code, 0);
    assert_eq!(images_in(&cache.join("guests")) + images_in(&cache.join("guests/compiled")), 0);
    let missing = home.problem(1, &["run", "asks.py"]);
    assert_eq!(text(&missing, "/code"), "image_unavailable"); // I-47
}
