//! Secrets and tokens: what a command needs of them, and where none of them ever is.

use crate::home::{Home, text};
use crate::teller::Teller;
use store::{Ledger, StoreConfig};

/// Makes `desk.pay` and `desk.tell` send the secret.
fn with_secret(home: &Home) {
    let config = std::fs::read_to_string(home.path().join("stasis.toml")).expect("the teller wrote it");
    let secret = |path: &str| format!("{path}\", headers = {{ Authorization = {{ secret = \"env:PAY_TOKEN\" }} }} }}");
    let config = config.replace("/pay\" }", &secret("/pay")).replace("/tell\" }", &secret("/tell"));
    home.write("stasis.toml", &config);
}

#[test]
fn a_secret_that_is_not_set_in_this_shell_uses_up_no_approval() {
    let home = Home::new();
    let teller = Teller::start(&home);
    teller.release_all();
    with_secret(&home);
    home.write("pay.py", "result = desk.pay(n=1)\n");
    let asked = home.json(3, &["run", "pay.py"]);
    let approval = text(&asked, "/approvals/0/id");
    let problem = home.problem(1, &["approve", approval]);
    assert_eq!(text(&problem, "/code"), "tool_unavailable"); // I-47
    assert!(text(&problem, "/hint").contains("--no-run"), "{problem}"); // I-46
    assert!(text(&problem, "/detail").contains("PAY_TOKEN is not set; nothing was decided"), "{problem}"); // C-272
    assert_eq!(text(&home.json(0, &["approval", "show", approval]), "/status"), "pending"); // C-272
    // Deciding alone needs no secret; going on does.
    home.json(0, &["approve", approval, "--no-run"]);
    let mut wait = home.command(&["run", "wait", text(&asked, "/run/id")]);
    let done = Home::ends({
        wait.env("PAY_TOKEN", "a-token-of-the-test");
        wait
    });
    assert_eq!(text(&done.object(), "/run/status"), "done", "{done:?}");
    assert_eq!(teller.seen("/pay").len(), 1);
}

/// Builds something large enough to be frozen, tells somebody, and waits for a person.
const HOLDS: &str = r#"
import os
marker = "-".join(["this", "stands", "in", "the", "guest"])
rows = [[n, marker + str(n)] for n in range(40000)]
desk.tell(n=1)
print(dict(os.environ))
stasis.gate("go on?")
result = len(rows)
"#;

#[test]
fn no_secret_and_no_token_is_in_a_guest_or_in_what_is_kept_of_it() {
    let mut home = Home::new();
    let teller = Teller::start(&home);
    teller.release_all();
    with_secret(&home);
    let secret = "value-of-the-payment-secret";
    home.env("PAY_TOKEN", secret);
    let token = text(&home.json(0, &["token", "new", "--principal", "local"]), "/secret").to_owned();
    home.env("STASIS_TOKEN", &token);
    home.write("holds.py", HOLDS);
    let outcome = home.json(3, &["run", "holds.py"]);
    let run = text(&outcome, "/run/id");
    assert_eq!(home.stasis(&["run", "log", run, "--output", "table"]).stdout, "{}\n"); // C-295

    let mut kept = String::new();
    for words in [&["run", "show", run], &["run", "calls", run], &["run", "events", run], &["approvals", "--run", run]]
    {
        kept += &home.stasis(words).stdout;
    }
    let frozen = frozen(&home, run.parse().expect("an id"));
    let holds = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds(&frozen, "this-stands-in-the-guest"), "the memory of the guest can be read");
    for hidden in [secret, &token] {
        assert!(!kept.contains(hidden), "{hidden}"); // C-295
        assert!(!holds(&frozen, hidden), "{hidden}"); // C-295
        for file in std::fs::read_dir(home.path().join(".stasis")).expect("the data directory").flatten() {
            let bytes = std::fs::read(file.path()).unwrap_or_default();
            assert!(!holds(&bytes, hidden), "{hidden} in {}", file.path().display()); // C-295
        }
    }
}

/// The pages of the guest's memory that differ from its image, as they were frozen.
fn frozen(home: &Home, run: protocol::id::RunId) -> Vec<u8> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ledger = Ledger::open(StoreConfig::new(home.path().join(".stasis/stasis.db"))).expect("nobody has it open");
    let snapshot = runtime.block_on(ledger.snapshot(run)).expect("read").expect("it was frozen");
    let magic = snapshot.windows(4).position(|bytes| bytes == [0x28, 0xB5, 0x2F, 0xFD]).expect("compressed pages");
    zstd::stream::decode_all(&snapshot[magic..]).expect("whole")
}
