//! The example as its page has it: begun, killed, answered by another process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn embedded(ledger: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedded"));
    command.arg(ledger).args(arguments).stdout(Stdio::piped());
    command.spawn().expect("the example starts")
}

fn line(child: &mut Child) -> String {
    let mut text = String::new();
    let output = child.stdout.as_mut().expect("piped");
    BufReader::new(output).read_line(&mut text).expect("text");
    text.trim_end().to_owned()
}

#[test]
fn a_payout_that_waits_outlives_the_process_that_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = folder.path().join("payouts.db");
    let mut asking = embedded(&ledger, &["start", "250"]);
    let asked = line(&mut asking);
    let (run, status) = asked.split_once(' ').expect("a run and its status");
    assert_eq!(status, "awaiting_consent"); // I-75: an engine with a store and an own typed workflow, in this process
    asking.kill().expect("killed");
    asking.wait().expect("it has ended");
    let answered = embedded(&ledger, &["approve"]).wait_with_output().expect("it ends");
    let told = String::from_utf8(answered.stdout).expect("text");
    assert_eq!(told.trim_end(), format!("{run} done: \"paid 250, as local said\"")); // I-75 R-299: a wait outlives its worker
    assert!(answered.status.success());
    let nothing = embedded(&ledger, &["approve"]).wait_with_output().expect("it ends");
    assert_eq!(nothing.stdout, b"");
}
