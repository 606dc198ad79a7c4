//! The programs of docs/programs.md, run as the page shows them.

use crate::home::{Home, text};
use serde_json::Value;
use std::path::Path;

/// The blocks of a page, each with its language.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("\n```") {
        let (head, body) = after.split_once('\n').expect("a block has lines");
        let (body, after) = body.split_once("\n```\n").expect("a block ends");
        blocks.push((head, body));
        rest = after;
    }
    blocks
}

/// The run's result; whatever it asks is approved, whatever it waits for is awaited.
fn result(home: &Home, program: &str) -> Value {
    let said = home.stasis(&["run", program]);
    let mut outcome = said.object();
    while let Some(id) = outcome["approvals"][0]["id"].as_str() {
        let id = id.to_owned();
        outcome = home.json(0, &["approve", &id]);
    }
    if outcome["run"]["status"] != "done" {
        outcome = home.stasis(&["run", "wait", text(&outcome, "/run/id"), "--until", "terminal"]).object();
    }
    assert_eq!(outcome["run"]["status"], "done", "{outcome}");
    outcome["run"]["result"].clone()
}

#[test]
fn the_programs_of_the_page_give_what_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/programs.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let home = Home::new();
    let blocks = blocks(&page);
    let mut ran = 0;
    for (at, (language, body)) in blocks.iter().enumerate() {
        match *language {
            "toml" => drop(home.write("stasis.toml", body)),
            "python" => {
                let name = format!("page{at}.py");
                home.write(&name, body);
                let Some(("json", wanted)) = blocks.get(at + 1) else { panic!("what does this give?\n{body}") };
                let wanted: Value = serde_json::from_str(wanted).expect("a result is JSON");
                assert_eq!(result(&home, &name), wanted, "{body}");
                ran += 1;
            }
            _ => {}
        }
    }
    assert!(ran >= 9, "{ran} programs");
}
