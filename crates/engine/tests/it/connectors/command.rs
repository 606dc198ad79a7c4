//! Commands: real processes, their groups, and what is left of them.

use std::path::Path;
use std::time::Duration;

use engine::tools::Ended;

use super::*;

fn command(effect: &str, argv: &[&str], more: Value) -> ToolSpec {
    let mut command = json!({"argv": argv});
    let mut fields = json!({});
    for (key, value) in more.as_object().expect("fields") {
        match key.as_str() {
            "env" | "exit" => command[key] = value.clone(),
            _ => fields[key] = value.clone(),
        }
    }
    tool(effect, json!({"command": command}), fields)
}

fn shell(effect: &str, script: &str, more: Value) -> ToolSpec {
    command(effect, &["/bin/sh", "-c", script], more)
}

async fn run(connectors: &Connectors, spec: &ToolSpec, value: Value) -> Ended {
    let (grant, arguments) = (Grant::default(), arguments(value));
    let slot = connectors.slot(spec).await;
    let dispatch = Dispatch {
        spec,
        grant: &grant,
        arguments: &arguments,
        key: Some("stasis-k1"),
        cancel: CancellationToken::new(),
        slot,
    };
    connectors.dispatch(dispatch).await
}

/// Waits until a condition holds; fails after ten seconds.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        while !holds() {
            tick.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waited).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// The process whose number stands in the file, once it is there.
async fn pid(path: &Path) -> u32 {
    eventually("the process wrote its number", || std::fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n')))
        .await;
    std::fs::read_to_string(path).expect("just read").trim().parse().expect("a number")
}

/// Whether a process runs; one that is dead and not reaped does not.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[tokio::test]
async fn arguments_go_in_and_the_result_comes_out_without_a_shell() {
    let connectors = connectors();
    let cat = command("pure", &["/bin/cat"], json!({}));
    assert!(connectors.ready(&cat, &Grant::default()).is_ok());
    assert_eq!(result(&run(&connectors, &cat, json!({"b": 1.50, "a": "é"})).await.outcome), r#"{"a":"é","b":1.5}"#); // C-265
    let echo = command("pure", &["/bin/echo", "$HOME; exit 9", "*"], json!({}));
    assert_eq!(result(&run(&connectors, &echo, json!({})).await.outcome), r#"{"text":"$HOME; exit 9 *\n"}"#); // C-265, C-260
    let silent = command("write", &["/bin/true"], json!({}));
    let large = json!({"x": "y".repeat(900_000)});
    assert_eq!(result(&run(&connectors, &silent, large).await.outcome), "null");
}

#[tokio::test]
async fn the_environment_holds_the_listed_names_and_nothing_else() {
    let connectors = connectors_with(&[("LANG", "C"), ("PATH", "/nowhere"), ("KEY", "s3cret")], &[]);
    let env = json!({"LANG": true, "ABSENT": true, "MODE": "test", "IDEMPOTENCY_KEY": true, "TOKEN": {"secret": "env:KEY", "prefix": "t "}});
    let spec = command("write", &["/usr/bin/env"], json!({"env": env}));
    let ended = run(&connectors, &spec, json!({})).await;
    assert_eq!(
        result(&ended.outcome),
        r#"{"text":"IDEMPOTENCY_KEY=stasis-k1\nLANG=C\nMODE=test\nTOKEN=t [secret KEY]\n"}"#
    ); // C-265, C-271
    let bare = run(&connectors, &command("write", &["/usr/bin/env"], json!({})), json!({})).await;
    assert_eq!(result(&bare.outcome), "null"); // C-265
}

#[tokio::test]
async fn the_exit_says_what_became_of_it() {
    let connectors = connectors();
    let exit = json!({"exit": {"3": "error", "4": "ok", "5": "ambiguous"}});
    let write = |code: u8| shell("write", &format!("echo '\"done\"'; echo oops >&2; exit {code}"), exit.clone());
    assert_eq!(result(&run(&connectors, &write(0), json!({})).await.outcome), r#""done""#); // C-266
    assert_eq!(result(&run(&connectors, &write(4), json!({})).await.outcome), r#""done""#); // C-266
    let refused = run(&connectors, &write(3), json!({})).await;
    assert_error(&refused.outcome, Code::HandlerError, Applied::No); // C-266
    assert_eq!((detail(&refused.outcome), refused.stderr.as_deref()), ("exit 3: oops", Some(&b"oops\n"[..]))); // C-266
    assert_ambiguous(&run(&connectors, &write(5), json!({})).await.outcome); // C-266
    assert_ambiguous(&run(&connectors, &write(1), json!({})).await.outcome); // C-266
    assert_ambiguous(&run(&connectors, &shell("write", "kill -9 $$", json!({})), json!({})).await.outcome); // C-266
    let read = run(&connectors, &shell("read", "exit 1", json!({})), json!({})).await;
    assert_error(&read.outcome, Code::HandlerError, Applied::No); // C-120
}

#[tokio::test]
async fn a_program_that_does_not_start_changed_nothing() {
    let connectors = connectors();
    let spec = command("write", &["/nowhere/program"], json!({}));
    assert!(connectors.ready(&spec, &Grant::default()).is_err());
    assert_error(&run(&connectors, &spec, json!({})).await.outcome, Code::ConnectorUnreachable, Applied::No); // C-122
}

#[tokio::test]
async fn output_beyond_the_limit_is_dropped_and_the_program_comes_to_its_end() {
    let connectors = connectors();
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("end");
    let script =
        format!("head -c 3000000 /dev/zero | tr '\\0' y; head -c 200000 /dev/zero >&2; echo end > {}", mark.display());
    for effect in ["write", "read"] {
        let ended = run(&connectors, &shell(effect, &script, json!({})), json!({})).await;
        match effect {
            "write" => assert_error(&ended.outcome, Code::InvalidResult, Applied::Yes), // C-123
            _ => assert_error(&ended.outcome, Code::ResultTooLarge, Applied::No),       // C-250
        }
        assert_eq!(ended.stderr.map(|bytes| bytes.len()), Some(64 * 1024));
        assert!(mark.exists());
        std::fs::remove_file(&mark).expect("removed");
    }
}

#[tokio::test]
async fn a_time_out_ends_the_whole_group() {
    let connectors = connectors();
    let folder = tempfile::tempdir().expect("a folder");
    let (leader, child) = (folder.path().join("leader"), folder.path().join("child"));
    let script = format!("sleep 600 & echo $! > {}; echo $$ > {}; wait", child.display(), leader.display());
    let limits = json!({"limits": {"timeout": "1s"}});
    for effect in ["write", "read"] {
        let ended = run(&connectors, &shell(effect, &script, limits.clone()), json!({})).await;
        match effect {
            "write" => assert_ambiguous(&ended.outcome), // C-266
            _ => assert_error(&ended.outcome, Code::HandlerTimeout, Applied::No),
        }
        let (leader, child) = (pid(&leader).await, pid(&child).await);
        assert!(!runs(leader) && !Path::new(&format!("/proc/{leader}")).exists()); // C-267: reaped
        eventually("the child is dead", || !runs(child)).await; // C-267
        assert!(!ended.escaped);
    }
}

#[tokio::test]
async fn a_group_that_ignores_the_polite_signal_is_killed_after_five_seconds() {
    let connectors = connectors();
    let folder = tempfile::tempdir().expect("a folder");
    let leader = folder.path().join("leader");
    let script = format!("trap 'echo asked >&2' TERM; echo $$ > {}; while :; do sleep 1; done", leader.display());
    let spec = shell("write", &script, json!({"limits": {"timeout": "500ms"}}));
    let mut call = Box::pin(run(&connectors, &spec, json!({})));
    assert!(tokio::time::timeout(Duration::from_secs(5), &mut call).await.is_err()); // C-267
    let ended = call.await;
    assert_ambiguous(&ended.outcome);
    assert!(ended.stderr.is_some_and(|said| said.ends_with(b"asked\n"))); // C-267
    assert!(!runs(pid(&leader).await)); // C-267
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_no_process() {
    let connectors = connectors();
    let folder = tempfile::tempdir().expect("a folder");
    let (leader, child) = (folder.path().join("leader"), folder.path().join("child"));
    let script = format!("sleep 600 & echo $! > {}; echo $$ > {}; wait", child.display(), leader.display());
    let spec = shell("write", &script, json!({}));
    let (leader, child) = tokio::select! {
        ended = run(&connectors, &spec, json!({})) => panic!("{ended:?}"),
        pids = async { (pid(&leader).await, pid(&child).await) } => pids,
    };
    eventually("both are dead", || !runs(leader) && !runs(child)).await; // C-267
}

#[tokio::test]
async fn a_child_that_left_the_group_is_reported() {
    let connectors = connectors();
    let folder = tempfile::tempdir().expect("a folder");
    let fled = folder.path().join("fled");
    let script = format!(
        "setsid /bin/sh -c 'echo $$ > {0}; exec sleep 600' & while ! [ -s {0} ]; do :; done; echo 1",
        fled.display()
    );
    let ended = run(&connectors, &shell("write", &script, json!({})), json!({})).await;
    assert_eq!(result(&ended.outcome), "1");
    assert!(ended.escaped); // C-267
    let fled = pid(&fled).await;
    assert!(runs(fled));
    let number = rustix::process::Pid::from_raw(i32::try_from(fled).expect("a number")).expect("not zero");
    rustix::process::kill_process(number, rustix::process::Signal::KILL).expect("it still ran");
}
