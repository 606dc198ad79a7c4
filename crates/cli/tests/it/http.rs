//! The page on the HTTP API, run as it is written.

use crate::home::{Home, text};
use crate::servers::Server;
use std::process::Command;

#[test]
fn the_first_run_of_the_page_runs() {
    let page = include_str!("../../../../docs/http.md");
    let script = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a script");
    let home = Home::new();
    // What waits parks at once.
    home.write("stasis.toml", "[worker]\nhot_window = \"0s\"\n");
    let server = Server::start(&home, &["dev"]);
    let script = script.replace("http://127.0.0.1:7878", text(&server.up, "/url"));
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", &script]).env("TOKEN", text(&server.up, "/token"));
    let said = Home::ends(command);
    assert_eq!(said.code, 0, "{said:?}"); // I-20 I-21
    let told: Vec<&str> = said.stdout.lines().filter(|line| line.starts_with('"')).collect();
    assert_eq!(told, ["\"hello\"", "\"awaiting_consent\"", "\"approved\"", "\"approved\""]); // I-23 I-26
    assert_eq!(server.end(), 0);
}
