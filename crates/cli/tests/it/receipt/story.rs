//! The three stories: their programs, who acts outside, and what must have happened once when they are over.

use super::stage::Told;
use crate::servers::free_port;
use api::approval::{ApprovalQuery, DecisionRequest, Verdict};
use api::job::{ClaimRequest, CompleteRequest, HeartbeatRequest};
use api::{Client, ClientError, Json, Run};
use protocol::run::Status;
use serde_json::json;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Story {
    Approval,
    Delegate,
    Hardware,
}

const APPROVAL: &str = r#"
mail.send(to="ada@customers.example", body="We ask.")
told = mail.announce(to="ada@customers.example", body="It was approved.")
result = told["to"]
"#;

const DELEGATE: &str = r#"
review = stasis.delegate("reviewer", {"text": "three words here"}, timeout="24h")
mail.send(to="ada@customers.example", body=review["verdict"])
result = review["verdict"]
"#;

const HARDWARE: &str = r#"
reply = small.ask(text="hello")["reply"]
mail.send(to="ada@customers.example", body=reply)
result = reply
"#;

/// A mail that waits for somebody, at the server of the example's own mails.
const ANNOUNCE: &str = r#"
[[tool]]
name = "mail.announce"
effect = "write"
recovery = "idempotent"
description = "Send a mail that somebody approved"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:{mails}/mails" }
approval = "always"
"#;

const ROBOT: &str = r#"
[[principal]]
id = "robot"
kind = "program"
rights = ["jobs:claim"]
"#;

const MODEL: &str = r#"
[[tool]]
name = "small.ask"
effect = "read"
description = "Ask the model"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:{model}/ask" }
resource = "chat:small"

[[resource]]
name = "chat:small"
cost = { memory_mib = 3000 }
start = ["python3", "model.py", "--port", "{model}", "--load", "0.1", "--log", "models.log"]
ready = "http://127.0.0.1:{model}/health"
"#;

impl Story {
    pub(super) fn program(self) -> &'static str {
        match self {
            Story::Approval => APPROVAL,
            Story::Delegate => DELEGATE,
            Story::Hardware => HARDWARE,
        }
    }

    /// What the configuration of the refund example lacks; `mails` is the port of its server.
    pub(super) fn configuration(self, mails: u16) -> String {
        let own = match self {
            Story::Approval => ANNOUNCE.replace("{mails}", &mails.to_string()),
            Story::Delegate => ROBOT.to_owned(),
            Story::Hardware => MODEL.replace("{model}", &free_port().to_string()),
        };
        // Nothing here is about waiting hot.
        let worker = "\n[worker]\nhot_window = \"1ms\"\nresource_memory_mib = 8000\n";
        own + worker
    }

    /// Mails that a run of it sends.
    pub(super) fn effects(self) -> usize {
        match self {
            Story::Approval => 2,
            Story::Delegate | Story::Hardware => 1,
        }
    }

    /// What somebody outside does where the run is now. What was answered already is said again, as by one who does not know.
    pub(super) async fn outside(self, person: &Client, agent: &Client, run: &Run) -> Result<(), ClientError> {
        match (self, run.status) {
            (Story::Approval, Status::AwaitingConsent) => approve(person, run).await,
            (Story::Delegate, Status::AwaitingDelegate) => review(agent).await,
            _ => Ok(()),
        }
    }

    /// What stands in the ledger once, whatever was killed.
    pub(super) fn check(self, told: &Told, run: &Run, what: &str) -> String {
        let result = run.result.as_ref().map(|result| result.as_str());
        match self {
            Story::Approval => {
                assert_eq!(result, Some("\"ada@customers.example\""), "{what}");
                let parked = told.parked("run.awaiting_consent", what); // R-175 R-177
                parked + "; " + &told.once(&["approval.requested", "approval.approved"], what) // R-300 R-166
            }
            Story::Delegate => {
                assert_eq!(result, Some("\"fine\""), "{what}");
                let parked = told.parked("run.awaiting_delegate", what); // R-175 R-177
                parked + "; " + &told.once(&["job.queued", "job.running", "job.succeeded"], what) // R-215 R-217 R-222
            }
            Story::Hardware => {
                assert_eq!(result, Some("\"HELLO\""), "{what}");
                let holds = told.count("run.awaiting_hardware");
                // What was stored before the kill is not asked for anew without being counted.
                assert_eq!(run.budgets.hardware.total as usize, holds, "{what}"); // R-145 R-147
                assert!((1..=2).contains(&holds), "{what}: {holds} holds, one of them before the kill"); // R-302
                format!("run.awaiting_hardware {holds}")
            }
        }
    }
}

async fn approve(person: &Client, run: &Run) -> Result<(), ClientError> {
    let query = ApprovalQuery { run: Some(run.id), ..ApprovalQuery::default() };
    for approval in person.approvals(&query).await?.items {
        let digest = Some(approval.arguments_digest);
        let decision = DecisionRequest { arguments_digest: digest, ..DecisionRequest::of(Verdict::Approve) };
        person.decide(approval.id, &decision).await?;
    }
    Ok(())
}

/// One agent, whose claim id stands somewhere safe: it claims, says that it lives, and completes.
async fn review(agent: &Client) -> Result<(), ClientError> {
    let claim = ClaimRequest {
        kind: "reviewer".to_owned(),
        worker: "outside".to_owned(),
        lease: Some("60s".to_owned()),
        claim_id: "the-only-one".to_owned(),
        limit: Some(1),
    };
    for job in agent.claim_jobs(&claim).await?.items {
        let Some(token) = job.agent.as_ref().map(|agent| agent.token) else { continue };
        let json = |value: serde_json::Value| Json::of(&value).expect("a plain object");
        if job.ended_at.is_none() {
            agent.heartbeat(job.id, &HeartbeatRequest { token, progress: Some(json(json!({"words": 2}))) }).await?;
        }
        agent.complete_job(job.id, &CompleteRequest { token, result: json(json!({"verdict": "fine"})) }).await?;
    }
    Ok(())
}
