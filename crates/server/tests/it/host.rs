//! How a directory is opened, held and closed (I-18, I-19, I-47, R-114).

use crate::house::{House, knock, options};
use api::Client;
use protocol::run::Status;
use stasis_server::{Host, HostOptions, StartError};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directory_and_its_socket_are_ours_alone_and_held_while_it_lives() {
    let house = House::open().await;
    let data = house.folder.path().join("data");
    assert_eq!((mode(&data), mode(house.host.socket())), (0o700, 0o600)); // I-18
    let second = Host::start(HostOptions::new(&data)).await.err().expect("refused");
    let StartError::Locked { pid } = second else { panic!("{second:?}") };
    assert_eq!(pid, Some(std::process::id())); // I-18
    assert_eq!(second.problem().code, "store_locked"); // I-47
    let socket = house.host.socket().to_owned();
    house.host.shutdown().await;
    assert!(!socket.exists());
    let third = Host::start(HostOptions::new(&data)).await.expect("the lock is gone");
    let ready = knock(&third).ready().await.unwrap();
    assert!(!ready.lasting && ready.workers && third.address().is_none()); // I-18
    third.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reading_command_makes_nothing_where_there_is_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("none");
    let reading = HostOptions { apply_config: false, carry: false, ..HostOptions::new(&data) };
    let absent = Host::start(reading).await.err().expect("refused");
    assert_eq!(absent.problem().code, "store_absent"); // I-47
    assert!(!data.exists()); // I-47
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_configuration_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("stasis.toml"), "[server]\nlistn = 1\n[worker]\nclaim_ttl = \"soon\"\n").unwrap();
    let error = Host::start(options(folder.path())).await.err().expect("refused");
    let problem = error.problem();
    assert_eq!((problem.code.as_str(), problem.errors.len()), ("config_invalid", 2)); // I-47
    assert!(problem.errors.iter().all(|fault| fault.line.is_some() && fault.file.is_some()), "{problem:?}"); // I-47
    assert!(!folder.path().join("data").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_process_left_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    drop(std::os::unix::net::UnixListener::bind(data.join("stasis.sock")).unwrap());
    let host = Host::start(HostOptions::new(&data)).await.expect("the socket file is dead");
    assert!(knock(&host).ready().await.unwrap().ready); // I-18
    host.shutdown().await;
    // The log beside the file has every page of a store this small.
    let _ = std::fs::remove_file(data.join("stasis.db-wal"));
    std::fs::write(
        data.join("stasis.db"),
        "this is no ledger, and long enough to be read as a page of one".repeat(100),
    )
    .unwrap();
    let damaged = Host::start(HostOptions::new(&data)).await.err().expect("refused");
    assert_eq!(damaged.problem().code, "store_damaged"); // I-47
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_close_cancels_nothing_and_a_parked_run_goes_on_after_it() {
    let house = House::open().await;
    let (run, approval) = house.asking().await;
    let mut stream = house.local.follow(Some(run.id), None);
    assert!(stream.next().await.is_some());
    let house = house.reopen().await;
    let shown = house.local.run(run.id).await.unwrap();
    assert_eq!((shown.status, shown.seq), (Status::AwaitingConsent, run.seq));
    assert_eq!(house.pending(&run).await[0].id, approval.id);
    let yes = api::DecisionRequest {
        arguments_digest: Some(approval.arguments_digest),
        ..api::DecisionRequest::of(api::Verdict::Approve)
    };
    house.person("maria").await.decide(approval.id, &yes).await.unwrap();
    assert_eq!(house.ended(&run).await.status, Status::Done);
    house.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_prints_a_sign_in_that_works_once_and_a_token() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("stasis.toml"), "").unwrap();
    let host = Host::start(HostOptions { sign_in: true, ..options(folder.path()) }).await.unwrap();
    let house = House::of(host, folder);
    let token = house.host.api_token().expect("a token"); // I-1
    let client = Client::tcp(&house.url(), Some(token)).unwrap();
    assert!(client.runs(&Default::default()).await.unwrap().items.is_empty()); // I-1
    let link = house.host.sign_in_url().expect("a link"); // I-1
    let path = link.strip_prefix(&house.url()).expect("on this server").to_owned();
    let get = || house.raw(reqwest::Method::GET, &path, None).send();
    for _ in 0..20 {
        assert!(get().await.unwrap().headers().get("set-cookie").is_none()); // C-297
    }
    let post = |origin: String| house.raw(reqwest::Method::POST, &path, None).header("origin", origin).send();
    assert!(post("http://evil.example".into()).await.unwrap().headers().get("set-cookie").is_none()); // C-297
    let signed = post(house.url()).await.unwrap();
    // The redirect was followed without the cookie; what set it came before.
    assert!(signed.status().is_success());
    assert!(post(house.url()).await.unwrap().status().is_client_error(), "a link is spent once"); // C-289
    house.host.shutdown().await;
}
