//! `kill -9` around a cancel tool: whatever the server dies between, the other side is asked to stop at most once, and what
//! nobody can know is asked of a person (C-22, C-235, R-301).

use crate::home::{Home, text};
use crate::servers::{Server, until};
use crate::teller::Teller;
use serde_json::Value;

/// `desk.ship` is stopped by `desk.halt`. Nobody can tell afterwards whether either happened. What is in flight of a dead hop is
/// given up a while after its limit (R-268).
const TOOLS: &str = r#"
[worker]
beyond_tool_limit = "1s"

[[tool]]
name = "desk.ship"
effect = "write"
description = "Ship"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:{port}/ship" }
approval = "never"
limits = { timeout = "5s" }
on_cancel = { tool = "desk.halt", arguments = { key = { "$key" = true } } }

[[tool]]
name = "desk.halt"
effect = "write"
description = "Stop a shipment"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:{port}/halt" }
approval = "never"
limits = { timeout = "5s" }
"#;

/// Where the server dies.
#[derive(Clone, Copy, Debug)]
enum Dies {
    At(&'static str),
    /// While the other side works on the request to stop.
    InFlight,
}

fn calls(home: &Home, run: &str) -> Vec<Value> {
    home.json(0, &["run", "calls", run])["items"].as_array().expect("a list").clone()
}

fn killed(dies: Dies) {
    let home = Home::new();
    let teller = Teller::start(&home);
    home.write("stasis.toml", &TOOLS.replace("{port}", &teller.port().to_string()));
    home.write("ships.py", "desk.ship(n=7)\nresult = 1\n");
    let server = match dies {
        Dies::At(point) => {
            let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
            command.env("STASIS_CRASH_AT", point);
            Server::if_up(command).expect("nothing stops before there is a run")
        }
        Dies::InFlight => Server::start(&home, &["serve"]),
    };
    home.json(0, &["workflow", "register", "ships.py"]);
    let ship = home.json(0, &["tool", "show", "desk.ship"]);
    assert_eq!(text(&ship, "/on_cancel"), "desk.halt"); // C-22
    let run = text(&home.json(0, &["run", "start", "ships"]), "/id").to_owned();
    teller.reached("/ship", 1);
    let mut server = server;
    // Its answer is lost where the server dies in it.
    home.stasis(&["run", "cancel", &run]);
    if let Dies::InFlight = dies {
        teller.reached("/halt", 1);
        server.signal("-KILL");
    }
    assert!(server.was_killed(), "{dies:?}");
    drop(server);
    teller.release_all();

    let server = Server::start(&home, &["serve"]);
    let mut answered = 0;
    until("it is cancelled, and what is not known is asked", || {
        let asked = home.json(0, &["approvals", "--run", &run]);
        for question in asked["items"].as_array().expect("a list") {
            assert_eq!(text(question, "/kind"), "settle", "{dies:?}");
            let call = text(question, "/call");
            home.json(0, &["effect", "settle", call, "--did-not-happen", "--reason", "looked"]);
            answered += 1;
        }
        let ended = calls(&home, &run).iter().all(|call| text(call, "/state") == "ended");
        ended && text(&home.json(0, &["run", "show", &run]), "/status") == "cancelled"
    });
    let (ships, halts) = (teller.seen("/ship").len(), teller.seen("/halt").len());
    assert_eq!(ships, 1, "{dies:?}"); // R-301: it is not made again
    let expected = match dies {
        Dies::At("stop.before") | Dies::InFlight => 1,
        // Past its gate it may have been sent, and is never sent again.
        Dies::At(_) => 0,
    };
    assert_eq!(halts, expected, "{dies:?}"); // C-22 C-235 R-301
    // Of whatever was in flight at the kill a person was asked; of nothing else.
    let unknown = match dies {
        Dies::At("stop.before") => 1,
        Dies::At(_) | Dies::InFlight => 2,
    };
    assert_eq!(answered, unknown, "{dies:?}"); // R-301
    home.json(0, &["audit", "verify"]);
    assert_eq!(server.end(), 0);
}

#[test]
fn killed_before_the_gate_of_a_cancel_tool_it_is_asked_once_all_the_same() {
    killed(Dies::At("stop.before"));
}

#[test]
fn killed_behind_the_gate_of_a_cancel_tool_it_is_never_asked_again() {
    killed(Dies::At("stop.after"));
}

#[test]
fn killed_while_the_other_side_is_being_stopped_a_person_is_asked_about_both() {
    killed(Dies::InFlight);
}
