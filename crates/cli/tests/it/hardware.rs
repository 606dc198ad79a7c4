//! The gpu-wait example: two models that do not fit together, and two runs that need one each.

use crate::home::{Home, text};
use crate::servers::{Server, free_port, until};
use serde_json::Value;
use std::path::Path;

/// A folder with the example, whose models load in a second.
fn example() -> Home {
    let home = Home::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gpu-wait");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("the example has this file");
    for name in ["ask.py", "model.py"] {
        home.write(name, &read(name));
    }
    let [small, large] = [(); 2].map(|()| free_port().to_string());
    let quick = ["\"--load\", \"3\"", "\"--load\", \"5\""];
    let config = read("stasis.toml").replace("8081", &small).replace("8082", &large);
    home.write("stasis.toml", &quick.iter().fold(config, |config, slow| config.replace(slow, "\"--load\", \"1\"")));
    home
}

fn holding(home: &Home) -> Vec<Value> {
    let runs = home.json(0, &["run", "list", "--status", "awaiting_hardware"]);
    runs["items"].as_array().expect("a list").clone()
}

#[test]
fn two_runs_swap_the_models_that_do_not_fit_together_and_both_are_done() {
    let home = example();
    let server = Server::start(&home, &["serve"]);
    let ask = |model: &str| format!(r#"{{"model": "{model}", "texts": ["one", "two"]}}"#);
    std::thread::scope(|scope| {
        let run = |model| {
            let (home, input) = (&home, ask(model));
            scope.spawn(move || home.json(0, &["run", "ask.py", "--input", &input]))
        };
        let runs = [run("small"), run("large")];
        until("both wait for their models", || holding(&home).len() == 2);
        until("one asks a second time", || {
            holding(&home).iter().any(|run| {
                let explained = home.json(0, &["run", "explain", text(run, "/id")]);
                text(&explained, "/why").contains("request 2 of 8, 2 of 3 in a row") // R-152
            })
        });
        for run in runs {
            let ended = run.join().expect("it ends");
            assert_eq!(text(&ended, "/run/status"), "done");
            assert_eq!(ended["run"]["result"], serde_json::json!(["ONE", "TWO"]));
        }
    });
    let resources = home.json(0, &["resource", "list"]);
    let warm = resources["items"].as_array().expect("a list").iter().filter(|one| one["state"] == "warm");
    assert_eq!(warm.count(), 1, "{resources}");
    // Its model servers end with it.
    assert_eq!(server.end(), 0);
}
