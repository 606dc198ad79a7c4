//! A thousand runs that wait for people, a killed server, and each effect once.

use crate::home::Home;
use crate::payments::Payments;
use crate::servers::Server;
use api::approval::{ApprovalQuery, BatchItem, BatchRequest, Verdict};
use api::run::RunQuery;
use api::{Client, Json, StartRun};
use futures_util::{StreamExt, TryStreamExt, stream};
use protocol::run::Status;
use std::collections::BTreeSet;
use std::time::Duration;

const RUNS: usize = 1_000;
/// C-199
const BATCH: u32 = 100;
const AT_ONCE: usize = 32;

fn client(home: &Home) -> Client {
    // Another client of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::unix(&home.path().join(".stasis/stasis.sock"), None).expect("a client")
}

async fn count(client: &Client, status: Status) -> usize {
    let mut query = RunQuery { status: Some(status.to_string()), limit: Some(500), ..RunQuery::default() };
    let mut runs = 0;
    loop {
        let page = client.runs(&query).await.expect("a list");
        runs += page.items.len();
        match page.next_cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return runs,
        }
    }
}

/// Looks until so many runs have the status. A look costs as much as some runs do, so it is not taken often.
async fn until(client: &Client, status: Status, runs: usize) {
    let mut looks = 0;
    while count(client, status).await < runs {
        looks += 1;
        assert_eq!(count(client, Status::Failed).await, 0);
        assert!(looks < 600, "waited for long: {runs} runs {status}");
        let _ = tokio::time::timeout(Duration::from_millis(500), std::future::pending::<()>()).await;
    }
}

/// Approves up to a hundred of what is pending, in one request, and says how many it was.
async fn approve_some(client: &Client) -> usize {
    let query = ApprovalQuery { limit: Some(BATCH), ..ApprovalQuery::default() };
    let page = client.approvals(&query).await.expect("a list");
    let items = page.items.iter().map(|approval| BatchItem {
        approval: approval.id,
        decision: Verdict::Approve,
        arguments_digest: Some(approval.arguments_digest),
        answer: None,
        reason: None,
    });
    let request = BatchRequest { items: items.collect() };
    if request.items.is_empty() {
        return 0;
    }
    let answer = client.decide_batch(&request).await.expect("a batch");
    assert!(answer.items.iter().all(|item| item.problem.is_none()), "{:?}", answer.items); // C-199
    answer.items.len()
}

/// Mails are asked for here, as every write is that no rule allows.
const PROGRAM: &str = "\
# /// script
# [tool.stasis]
# tools = [\"mail.send\"]
# ///
result = mail.send(to=f\"customer-{inputs['n']}@customers.example\", body=\"hello\")
";

#[test]
fn a_thousand_parked_runs_outlive_a_killed_server_and_each_effect_happens_once() {
    let mut home = Home::new();
    let payments = Payments::start(&mut home, &[]);
    let config = std::fs::read_to_string(home.path().join("stasis.toml")).expect("it was written");
    let asking: Vec<&str> = config.lines().filter(|line| !line.starts_with("approval = \"never\"")).collect();
    // What waits parks at once; the hot window is not what is shown here.
    home.write("stasis.toml", &format!("{}\n[worker]\nhot_window = \"0s\"\n", asking.join("\n")));
    home.write("greet.py", PROGRAM);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = Server::start(&home, &["dev"]);
    home.json(0, &["workflow", "register", "greet.py"]);
    runtime.block_on(async {
        let client = &client(&home);
        let started = stream::iter(0..RUNS).map(|n| async move {
            let input: Json = serde_json::from_str(&format!("{{\"n\":{n}}}")).expect("JSON");
            client.start(&StartRun::of("greet", Some(input)), None).await
        });
        started.buffer_unordered(AT_ONCE).try_for_each(|_| std::future::ready(Ok(()))).await.expect("all are admitted");
        until(client, Status::AwaitingConsent, RUNS).await;
    });
    assert!(payments.outbox().is_empty());

    server.signal("-KILL");
    drop(server);
    let _server = Server::start(&home, &["dev"]);
    runtime.block_on(async {
        let client = &client(&home);
        assert_eq!(count(client, Status::Queued).await, 0);
        assert_eq!(count(client, Status::AwaitingConsent).await, RUNS);
        let mut approved = 0;
        while approved < RUNS {
            let some = approve_some(client).await;
            assert!(some > 0, "{approved} were asked, and no more");
            approved += some;
        }
        assert_eq!(approve_some(client).await, 0);
        until(client, Status::Done, RUNS).await;
    });
    let mails = payments.outbox();
    let customers: BTreeSet<&str> = mails.iter().filter_map(|mail| mail["to"].as_str()).collect();
    assert_eq!((mails.len(), customers.len()), (RUNS, RUNS));
}
