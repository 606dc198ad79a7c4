//! What is kept of a run holds no secret, whoever hands it back (runs.md R-37, R-260).

use crate::desk::Desk;
use crate::shop::{Reply, Shop};
use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::run::Status;

const SECRET: &str = "hunter2-hunter2";
/// A server that says back what it should keep to itself.
const ECHO: &str = r#"{"saw": "Bearer hunter2-hunter2"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_stored_of_a_run_has_its_secrets() {
    let (desk, shop) = (Desk::open().await, Shop::open().await);
    let ledger = desk.ledger_path();
    let folder = ledger.parent().expect("a folder");
    let token = folder.join("token");
    std::fs::write(&token, SECRET).expect("written");
    desk.apply(&format!(
        r#"
        [[tool]]
        name = "shop.ask"
        effect = "write"
        description = "Ask, with leave"
        input = {{ type = "object" }}
        http = {{ method = "POST", url = "{}/ask", headers = {{ Authorization = {{ secret = "file:{}", prefix = "Bearer " }} }} }}
        approval = {{ lease = "1h" }}
        "#,
        shop.url(),
        token.display()
    ))
    .await;
    shop.tell("/ask", [Reply::Says(200, ECHO), Reply::Says(400, ECHO), Reply::Says(400, ECHO)]);
    let source = "
print('told', shop.ask(n=1))
try:
    shop.ask(n=2)
except stasis.ToolError as error:
    print('refused', error)
shop.ask(n=3)
";
    let (ledger, read) = (desk.engine.ledger(), "read");
    let mut run = desk.run(source, "{}").await;
    let mut kept = Vec::new();
    while run.status() == Status::AwaitingConsent {
        // The last one is deleted with the end of its run.
        let checkpoint = ledger.checkpoint(run.id).await.expect(read).expect("parked");
        kept.push(String::from_utf8_lossy(&checkpoint).into_owned());
        let question = desk.asked(run.id).await;
        desk.decide(question.id, Verdict::Approve).await.expect("approved");
        run = desk.stopped(run.id).await;
    }
    assert_eq!(run.status(), Status::Failed, "{:?}", run.phase);
    assert!(kept.len() == 3 && shop.seen("/ask").len() == 3);

    kept.push(format!("{:?}", ledger.rows(run.id).await.expect(read)));
    kept.push(format!("{:?}", ledger.journal(run.id).await.expect(read)));
    kept.push(format!("{:?}", ledger.events(run.id, None, 1_000).await.expect(read)));
    kept.push(format!("{:?}", ledger.receipts(run.id).await.expect(read)));
    let log = ledger.log(run.id, None, 100).await.expect(read).expect("a run");
    assert!(log.iter().any(|line| line.text.contains("[secret token]")), "{log:?}");
    kept.push(format!("{log:?}"));
    let calls = desk.calls(run.id).await;
    let bodies = calls.iter().flat_map(|call| [Some(call.arguments), call.outcome().and_then(|outcome| outcome.body)]);
    for body in bodies.chain([Some(run.input)]).flatten() {
        let bytes = ledger.body(run.id, body.digest).await.expect(read).expect("stored");
        kept.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    // Whatever lies in the files as it is.
    for file in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if file.is_file() && file != token {
            kept.push(String::from_utf8_lossy(&std::fs::read(&file).expect("bytes")).into_owned());
        }
    }
    assert!(kept.len() > 14);
    for text in kept {
        assert!(!text.contains(SECRET), "{}", text.chars().take(2_000).collect::<String>()); // R-37
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_has_the_steps_own_text_and_of_a_tool_its_code() {
    let (desk, shop) = (Desk::open().await, Shop::open().await);
    desk.apply(&shop.tools()).await;
    let run = desk.run("raise ValueError('no' * 4000)", "{}").await;
    let failure = run.failure().expect("failed");
    assert_eq!((failure.code, failure.message.len()), (Code::StepFailed, 4_096)); // R-260
    assert!(failure.message.starts_with("ValueError: nono"), "{}", failure.message); // R-260
    shop.tell("/look", [Reply::Says(400, "what only this server should have said")]);
    let run = desk.run("shop.look()", "{}").await;
    let failure = run.failure().expect("failed");
    assert_eq!(failure.code, Code::StepFailed);
    assert!(failure.message.contains("handler_error"), "{}", failure.message); // R-260
    assert!(!failure.message.contains("only this server"), "{}", failure.message); // R-260
}
