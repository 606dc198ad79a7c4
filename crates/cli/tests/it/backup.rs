//! A copy of a store that is in use (I-14a).

use crate::home::{Home, text};
use crate::servers::Server;
use serde_json::Value;

#[test]
fn a_copy_taken_while_runs_come_in_is_a_store_with_every_answered_run() {
    let home = Home::new();
    home.write("echo.py", "result = inputs\n");
    let server = Server::start(&home, &["serve"]);
    home.json(0, &["workflow", "register", "echo.py"]);
    let before: Vec<String> =
        (0..5).map(|_| text(&home.json(0, &["run", "start", "echo"]), "/id").to_owned()).collect();
    // Runs go on coming in while the copy is made.
    let mut busy: Vec<_> = (0..8)
        .map(|_| home.command(&["run", "start", "echo"]).stdout(std::process::Stdio::null()).spawn().expect("starts"))
        .collect();
    home.json(0, &["backup", "copy.db"]);
    for child in &mut busy {
        assert!(child.wait().expect("ends").success());
    }
    assert_eq!(server.end(), 0);
    // Nothing of it stays in the data directory.
    let names: Vec<String> = std::fs::read_dir(home.path().join(".stasis"))
        .expect("a folder")
        .map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().all(|name| !name.starts_with("backup-")), "{names:?}");

    let other = Home::new();
    std::fs::create_dir(other.path().join(".stasis")).expect("a folder");
    std::fs::copy(home.path().join("copy.db"), other.path().join(".stasis/stasis.db")).expect("copied");
    let listed = other.json(0, &["run", "list", "--limit", "100"]);
    let ids: Vec<&str> = listed["items"].as_array().expect("a list").iter().map(|run| text(run, "/id")).collect();
    assert!(before.iter().all(|id| ids.contains(&id.as_str())), "{ids:?}"); // I-14a
    let verified = other.json(0, &["audit", "verify"]);
    assert_eq!((&verified["broken"], verified["runs"].as_u64()), (&Value::Null, Some(ids.len() as u64))); // I-14a
    for id in &before {
        other.stasis(&["run", "wait", id]);
        assert_eq!(text(&other.json(0, &["run", "show", id]), "/status"), "done"); // I-14a
    }
}

#[test]
fn a_copy_that_cannot_be_made_leaves_no_file() {
    let home = Home::new();
    assert_eq!(home.stasis(&["backup", "copy.db"]).code, 7); // I-19: there is no store
    assert!(!home.path().join("copy.db").exists());
    home.write("echo.py", "result = inputs\n");
    home.json(0, &["run", "echo.py"]);
    assert_eq!(home.stasis(&["backup", "no/such/folder/copy.db"]).code, 2);
    // A disk that is full: the copy is larger than files may be.
    let said = Home::ends(home.limited("ulimit -f 64;", &["backup", "copy.db"]));
    assert_ne!(said.code, 0);
    let left: Vec<String> = std::fs::read_dir(home.path())
        .expect("a folder")
        .map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("backup") || name == "copy.db")
        .collect();
    assert!(left.is_empty(), "{left:?}"); // I-14a
}
