//! The proof of the record: rows edited by hand are found, an old copy is not gone on with in silence (calls.md
//! section 14, R-361, R-362).

use crate::home::{Home, Said, text};
use crate::servers::{Server, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const ASKS: &str = "answer = stasis.gate('go on?')\nresult = 'went on'\n";

/// Runs Python with `db` open on the ledger, as somebody would who edits it by hand.
fn edit(home: &Home, lines: &str) {
    let head = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n";
    let script = format!("{head}{lines}\ndb.commit()\ndb.execute('PRAGMA wal_checkpoint(TRUNCATE)')\n");
    let edited = Command::new("python3").args(["-c", &script]).arg(home.path().join(".stasis/stasis.db")).output();
    let edited = edited.expect("python3 is there");
    assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "--"]).args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()));
}

/// A run that is done, with its events in several commits; anchored.
fn done(home: &Home) -> String {
    home.write("asks.py", ASKS);
    let asked = home.json(3, &["run", "asks.py"]);
    let ended = home.json(0, &["approve", text(&asked, "/approvals/0/id")]);
    assert_eq!(text(&ended, "/run/status"), "done");
    text(&ended, "/run/id").to_owned()
}

/// A run that was asked about twice, so that two of its commits wrote as many events of the same kinds.
fn asked_twice(home: &Home) -> String {
    home.write("twice.py", &ASKS.repeat(2));
    let mut stopped = home.json(3, &["run", "twice.py"]);
    for _ in 0..2 {
        stopped = home.json(0, &["approve", text(&stopped, "/approvals/0/id")]);
    }
    assert_eq!(text(&stopped, "/run/status"), "done");
    text(&stopped, "/run/id").to_owned()
}

fn anchors(home: &Home) -> Vec<String> {
    let file = home.path().join(".stasis/audit/anchors.ndjson");
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn broken(home: &Home, words: &[&str]) -> Value {
    let found = home.json(1, &[&["audit", "verify"], words].concat()); // C-278
    found["broken"].clone()
}

fn whole(home: &Home) -> Value {
    let found = home.json(0, &["audit", "verify"]);
    assert_eq!(found["broken"], Value::Null, "{found}");
    found
}

#[test]
fn a_whole_ledger_verifies_and_says_what_it_was_compared_with() {
    let home = Home::new();
    let run = done(&home);
    let found = whole(&home);
    assert_eq!((&found["runs"], &found["anchored"]), (&json!(1), &json!(1)), "{found}"); // C-278
    assert!(found["events"].as_u64() > Some(5), "{found}");
    // Each command anchored at its clean stop what it had changed.
    assert_eq!(anchors(&home).len(), 2); // C-276
    let head = home.json(0, &["audit", "tail"]);
    let last: Value = serde_json::from_str(&anchors(&home)[1]).expect("an anchor");
    assert_eq!((&head["anchor"], &last["anchor"]["n"]), (&json!(2), &json!(2))); // I-10
    let first: Value = serde_json::from_str(&anchors(&home)[0]).expect("an anchor");
    assert!(first["anchor"]["prev"].is_null() && last["anchor"]["prev"].is_string()); // C-276
    assert_eq!(last["anchor"]["heads"][0]["run"], json!(run));
    // Nothing changed since: there is nothing to anchor.
    home.json(0, &["run", "list"]);
    assert_eq!(home.stasis(&["audit", "export", "--to", "copy.ndjson"]).code, 0);
    assert_eq!(
        std::fs::read_to_string(home.path().join("copy.ndjson")).expect("a copy"),
        anchors(&home).join("\n") + "\n"
    );
    let one = home.json(0, &["audit", "verify", "--run", &run]);
    assert_eq!(one["anchored"], json!(1));
    assert_eq!(home.stasis(&["audit", "verify", "--run", "run_01m8nwmbe0e00bsaekf59edd1r"]).code, 7);
    let shown = home.stasis(&["audit", "verify", "--output", "table"]);
    assert!(shown.stdout.contains("1 run,") && shown.stdout.contains("kept elsewhere"), "{shown:?}");
}

#[test]
fn each_kind_of_edit_is_found_where_it_was_made() {
    let home = Home::new();
    let run = asked_twice(&home);
    let kept = home.path().join("kept");
    copy(&home.path().join(".stasis"), &kept);
    let edited = |lines: &str, kind: &str, field: &str| {
        let _ = std::fs::remove_dir_all(home.path().join(".stasis"));
        copy(&kept, &home.path().join(".stasis"));
        edit(&home, lines);
        let broken = broken(&home, &[]);
        assert_eq!((text(&broken, "/kind"), text(&broken, "/run")), (kind, run.as_str()), "{lines}: {broken}"); // C-279
        assert_eq!(text(&broken, "/field"), field, "{lines}: {broken}"); // C-278
        broken
    };
    let first = edited("db.execute('UPDATE event SET at = at + 1 WHERE n = 2')", "altered", "event digest");
    assert!(first["seq"].as_u64() >= Some(1) && first["expected"] != first["found"], "{first}"); // C-278 I-10
    edited("db.execute('DELETE FROM event WHERE n = 2')", "missing", "event seq");
    edited(
        "n, run, first, at, pack = db.execute('SELECT n, run, first, at, pack FROM event ORDER BY n DESC LIMIT 1').fetchone()
db.execute('INSERT INTO event (run, first, at, pack) VALUES (?, 99, ?, ?)', (run, at, pack))",
        "inserted",
        "event seq",
    );
    // Two commands that wrote as many events each change places.
    edited(
        "rows = db.execute('SELECT n, first, at, pack FROM event ORDER BY n').fetchall()
def size(i): return (rows[i + 1][1] if i + 1 < len(rows) else 99) - rows[i][1]
a, b = next((i, j) for i in range(len(rows)) for j in range(i + 1, len(rows) - 1) if size(i) == size(j))
db.execute('UPDATE event SET at = ?, pack = ? WHERE n = ?', (rows[a][2], rows[a][3], rows[b][0]))
db.execute('UPDATE event SET at = ?, pack = ? WHERE n = ?', (rows[b][2], rows[b][3], rows[a][0]))",
        "reordered",
        "event seq",
    );
    edited("db.execute('DELETE FROM event WHERE n = (SELECT max(n) FROM event)')", "missing", "events");
    edited("db.execute(\"UPDATE event SET pack = x'0102' WHERE n = 2\")", "altered", "pack");
    edited("db.execute('DELETE FROM journal')", "missing", "journal length");
    // What people saw and what was answered is under digests too.
    edited(
        "n, b = db.execute('SELECT n, bytes FROM body WHERE codec = 0 ORDER BY length(bytes) DESC LIMIT 1').fetchone()
db.execute('UPDATE body SET bytes = ? WHERE n = ?', (bytes([b[0] ^ 1]) + b[1:], n))",
        "altered",
        "bytes",
    );
    edited("db.execute('DELETE FROM body')", "missing", "body");
    edited("db.execute('DELETE FROM approval')", "missing", "approval");
    // A run that is gone as if it had never been; only what was exported knows of it.
    edited(
        "tables = [name for (name,) in db.execute(\"SELECT name FROM sqlite_master WHERE type = 'table'\")]
for table in tables:
    columns = [column[1] for column in db.execute(f'PRAGMA table_info({table})')]
    if 'run' in columns: db.execute(f'DELETE FROM {table}')
db.execute('DELETE FROM run')",
        "missing",
        "run",
    );
}

#[test]
fn what_was_cut_or_rewritten_as_a_whole_is_found_against_the_export() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let asked = home.json(3, &["run", "asks.py"]);
    let (run, approval) = (text(&asked, "/run/id").to_owned(), text(&asked, "/approvals/0/id").to_owned());
    let data = home.path().join(".stasis");
    let before = home.path().join("before.db");
    copy(&data.join("stasis.db"), &before);
    assert_eq!(home.stasis(&["approve", &approval]).code, 0);
    whole(&home);
    let newest =
        "n, digest, event, removed, line = db.execute('SELECT n, digest, event, removed, line FROM anchor').fetchone()";
    let forged = |home: &Home, old: &Path| {
        // The old rows with the new anchor's row, so that nothing looks behind.
        let lines = format!(
            "{newest}
old = sqlite3.connect({:?})
old.execute('UPDATE anchor SET n = ?, digest = ?, event = ?, removed = ?, line = ?', (n, digest, event, removed, line))
old.commit()
old.execute('PRAGMA wal_checkpoint(TRUNCATE)')",
            old.display().to_string()
        );
        edit(home, &lines);
        for name in ["stasis.db", "stasis.db-wal", "stasis.db-shm"] {
            let _ = std::fs::remove_file(data.join(name));
        }
        copy(old, &data.join("stasis.db"));
    };
    let after = home.path().join("after.db");
    copy(&data.join("stasis.db"), &after);
    forged(&home, &before);
    let cut = broken(&home, &[]);
    assert_eq!((text(&cut, "/kind"), text(&cut, "/run")), ("truncated", run.as_str()), "{cut}"); // C-279 R-361
    // Another end of the same run: every digest is right, and none is the one that was exported.
    let other = Home::new();
    other.write("asks.py", ASKS);
    std::fs::create_dir(other.path().join(".stasis")).expect("a folder");
    copy(&before, &other.path().join(".stasis/stasis.db"));
    assert_eq!(other.stasis(&["reject", &approval, "--reason", "no"]).code, 0);
    edit(&other, "pass");
    let rewritten = home.path().join("rewritten.db");
    copy(&other.path().join(".stasis/stasis.db"), &rewritten);
    copy(&after, &data.join("stasis.db"));
    forged(&home, &rewritten);
    let changed = broken(&home, &[]);
    assert_eq!((text(&changed, "/kind"), text(&changed, "/run")), ("altered", run.as_str()), "{changed}");
    assert!(text(&changed, "/expected").contains("anchor 2"), "{changed}");
    // Without what was exported neither can be seen, and the answer says so.
    std::fs::remove_file(data.join("audit/anchors.ndjson")).expect("the export");
    let said = home.stasis(&["audit", "verify", "--output", "table"]);
    assert_eq!(said.code, 0);
    assert!(said.stdout.contains("no exported anchor"), "{said:?}"); // C-280
}

#[test]
fn an_export_that_was_edited_is_found_and_a_copy_elsewhere_proves_more() {
    let home = Home::new();
    let run = done(&home);
    let key = text(&home.json(0, &["audit", "tail"]), "/public_key").to_owned();
    let file = home.path().join(".stasis/audit/anchors.ndjson");
    let copied = home.path().join("copy.ndjson");
    copy(&file, &copied);
    let lines = anchors(&home);
    let against = ["--anchors", "copy.ndjson", "--public-key", &key];
    let found = home.json(0, &[&["audit", "verify"], against.as_slice()].concat());
    assert_eq!((&found["anchors"], &found["anchored"]), (&json!(2), &json!(1)), "{found}");
    // The last anchor is gone from both: the server's own export is shorter, the copy is not.
    std::fs::write(&file, format!("{}\n", lines[1].replacen("\"n\":2", "\"n\":1", 1))).expect("writable");
    let bad = broken(&home, &[]);
    assert_eq!((text(&bad, "/kind"), &bad["anchor"]), ("bad_signature", &json!(1)), "{bad}"); // C-277 C-279
    std::fs::write(&file, format!("{}\n", lines[1])).expect("writable");
    let bad = broken(&home, &[]);
    assert_eq!((text(&bad, "/kind"), &bad["anchor"]), ("missing", &json!(1)), "{bad}"); // C-279
    // Somebody who has the server has the key as well, and signs another story; the copy has the first one.
    std::fs::remove_dir_all(home.path().join(".stasis")).expect("the data");
    let other = done(&home);
    assert_ne!(other, run);
    whole(&home);
    let bad = broken(&home, &against);
    assert_eq!((text(&bad, "/kind"), text(&bad, "/run")), ("missing", run.as_str()), "{bad}"); // C-277
    let wrong = "00".repeat(32);
    let bad = broken(&home, &["--anchors", "copy.ndjson", "--public-key", &wrong]);
    assert_eq!(text(&bad, "/kind"), "bad_signature"); // C-277
    // A file with other anchors is not written over.
    assert_eq!(home.stasis(&["audit", "export", "--to", "copy.ndjson"]).code, 2);
    assert_eq!(std::fs::read_to_string(&copied).expect("a copy"), lines.join("\n") + "\n");
}

#[test]
fn an_old_copy_claims_nothing_until_an_operator_accepts_it() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let asked = home.json(3, &["run", "asks.py"]);
    let approval = text(&asked, "/approvals/0/id").to_owned();
    let backup = home.path().join("backup.db");
    let copied = home.json(0, &["backup", "backup.db"]);
    assert_eq!(copied["bytes"].as_u64(), backup.metadata().ok().map(|file| file.len())); // I-14a
    // A file that is there is never written over.
    assert_eq!(home.stasis(&["backup", "backup.db"]).code, 2); // I-14a
    assert_eq!(home.stasis(&["approve", &approval]).code, 0);
    let data = home.path().join(".stasis");
    for name in ["stasis.db", "stasis.db-wal", "stasis.db-shm"] {
        let _ = std::fs::remove_file(data.join(name));
    }
    copy(&backup, &data.join("stasis.db"));
    // What carries runs says why it does not; what reads, reads.
    let refused = home.problem(1, &["run", "asks.py"]);
    assert!(
        text(&refused, "/detail").contains("old copy") && text(&refused, "/hint").contains("audit accept"),
        "{refused}"
    );
    let checks = home.json(1, &["doctor"]);
    let of_anchors =
        |checks: &Value| checks["checks"].as_array().and_then(|c| c.iter().find(|c| c["name"] == "anchors").cloned());
    assert_eq!(of_anchors(&checks).expect("a check")["verdict"], json!("failed"));
    let server = Server::start(&home, &["serve"]);
    home.json(0, &["approve", &approval]);
    let queued = home.json(0, &["run", "start", "asks"]);
    // As many looks of the claim loop as there are in a second.
    std::thread::park_timeout(std::time::Duration::from_millis(1_500));
    let status = |id: &str| text(&home.json(0, &["run", "show", id]), "/status").to_owned();
    assert_eq!(status(text(&queued, "/id")), "queued");
    assert_eq!(status(text(&asked, "/run/id")), "queued");
    assert_eq!(anchors(&home).len(), 2);
    // Without a reason it stands as it is.
    assert_eq!(home.stasis(&["audit", "accept"]).code, 2);
    let accepted = home.json(0, &["audit", "accept", "--reason", "the disk died"]);
    assert_eq!((&accepted["changed"], &accepted["behind"]), (&json!(true), &Value::Null));
    until("the accepted ledger goes on", || status(text(&asked, "/run/id")) == "done");
    until("what was queued is asked", || home.json(0, &["approvals"])["items"].as_array().map(Vec::len) == Some(1));
    assert_eq!(server.end(), 0);
    let last: Value = serde_json::from_str(&anchors(&home)[2]).expect("an anchor");
    assert_eq!(last["anchor"]["accepted"], json!({"by": "local", "reason": "the disk died"}));
    let found = whole(&home);
    assert_eq!(found["anchored"], json!(2), "{found}");
    assert_eq!(home.json(0, &["audit", "accept", "--reason", "again"])["changed"], json!(false));
}

#[test]
fn an_export_or_a_key_that_was_lost_is_begun_anew_with_a_word_for_it() {
    for lost in ["anchors.ndjson", "key"] {
        let home = Home::new();
        let run = done(&home);
        let audit = home.path().join(".stasis/audit");
        std::fs::remove_file(audit.join(lost)).expect("there");
        let before = anchors(&home);
        home.json(3, &["run", "asks.py"]);
        // Nothing that would not verify is added in silence.
        assert_eq!(anchors(&home), before, "{lost}");
        let checks = home.json(0, &["doctor"]);
        let told =
            checks["checks"].as_array().and_then(|checks| checks.iter().find(|check| check["name"] == "anchors"));
        let told = text(told.expect("a check"), "/verdict").to_owned();
        assert_eq!(told, "warning", "{lost}: {checks}"); // I-11
        if lost == "key" {
            std::fs::rename(audit.join("anchors.ndjson"), home.path().join("old.ndjson")).expect("moved");
        }
        let accepted = home.json(0, &["audit", "accept", "--reason", "lost with the disk"]);
        assert_eq!(accepted["changed"], json!(true), "{lost}");
        home.json(3, &["run", "asks.py"]);
        let found = whole(&home);
        assert_eq!(found["anchored"], json!(3), "{lost}: {found}");
        assert!(anchors(&home)[0].contains("lost with the disk"), "{lost}");
        assert_eq!(home.json(0, &["audit", "verify", "--run", &run])["anchored"], json!(1), "{lost}");
    }
}

#[test]
fn an_anchor_that_was_kept_and_not_exported_is_exported_by_the_next_process() {
    for (point, exported) in [("anchor.kept", 0), ("anchor.exported", 1)] {
        let home = Home::new();
        home.write("asks.py", ASKS);
        let mut command = home.command(&["run", "asks.py"]);
        let Said { code, .. } = Home::ends({
            command.env("STASIS_CRASH_AT", format!("{point}:1"));
            command
        });
        assert_eq!((code, anchors(&home).len()), (-1, exported), "{point}");
        assert_eq!(home.stasis(&["audit", "export", "--to", "copy.ndjson"]).code, 0);
        assert_eq!(anchors(&home).len(), 1, "{point}"); // C-276
        whole(&home);
        // What a crash left of a line is no line.
        let file = home.path().join(".stasis/audit/anchors.ndjson");
        let text = std::fs::read_to_string(&file).expect("an export");
        std::fs::write(&file, format!("{text}{}", &text[..90])).expect("writable");
        home.json(3, &["run", "asks.py"]);
        assert_eq!(anchors(&home).len(), 2, "{point}");
        whole(&home);
    }
}

#[test]
fn a_key_or_an_export_that_cannot_be_used_stops_no_run_and_is_told() {
    let home = Home::new();
    home.write("echo.py", "result = inputs\n");
    home.json(0, &["run", "echo.py"]);
    let audit = home.path().join(".stasis/audit");
    let told = |what: &str| {
        home.json(0, &["run", "echo.py"]);
        let problem = home.problem(1, &["audit", "verify"]);
        assert!(text(&problem, "/detail").contains(what), "{problem}");
        assert!(text(&problem, "/hint").contains("[audit]"), "{problem}"); // I-16
        let checks = home.json(0, &["doctor"]);
        let anchors =
            checks["checks"].as_array().and_then(|checks| checks.iter().find(|check| check["name"] == "anchors"));
        let anchors = anchors.expect("a check");
        assert_eq!(anchors["verdict"], json!("warning"), "{checks}"); // I-11
        assert!(text(anchors, "/found").contains(what), "{checks}");
    };
    let key = std::fs::read(audit.join("key")).expect("a key");
    std::fs::write(audit.join("key"), "no key\n").expect("written");
    told("audit/key");
    // A key that is there is never written over.
    assert_eq!(std::fs::read(audit.join("key")).expect("a key"), b"no key\n");
    std::fs::write(audit.join("key"), key).expect("written");
    let export = std::fs::read(audit.join("anchors.ndjson")).expect("an export");
    std::fs::remove_file(audit.join("anchors.ndjson")).expect("removed");
    std::fs::create_dir(audit.join("anchors.ndjson")).expect("a folder");
    told("anchors.ndjson");
    std::fs::remove_dir(audit.join("anchors.ndjson")).expect("removed");
    std::fs::write(audit.join("anchors.ndjson"), export).expect("written");
    home.json(0, &["run", "echo.py"]);
    assert_eq!(whole(&home)["anchored"], json!(4)); // C-276
}
