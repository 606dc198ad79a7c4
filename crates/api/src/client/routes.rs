//! One method per route.

use super::{ANSWER_WITHIN, Client, ClientError};
use crate::approval::{Approval, ApprovalQuery, BatchAnswer, BatchRequest, DecisionRequest, ExtendRequest};
use crate::audit::{AuditHead, CompareRequest, VerifyAnswer, VerifyRequest};
use crate::call::{Call, EffectItem, EffectQuery};
use crate::event::{Event, LogLine, TailQuery};
use crate::explain::Explain;
use crate::job::{
    AckRequest, ClaimRequest, ClaimedJobs, CompleteRequest, FailRequest, HeartbeatRequest, Job, JobQuery,
};
use crate::json::Json;
use crate::operate::{DoctorReport, Guest, NewToken, Queue, Ready, Resource, Token};
use crate::page::{ListQuery, Page, Tail};
use crate::run::{ActionRequest, AttestRequest, ForkRequest, MoveRequest, Run, RunQuery, StartRun, Until, WaitQuery};
use crate::signal::{Signal, SignalRequest};
use crate::webhook::{Message, NewWebhook, Webhook};
use crate::workflow::{ActivateRequest, Pattern, RegisterWorkflow, Registered, Tool, Workflow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::digest::Hasher;
use protocol::id::{ApprovalId, CallId, JobId, MessageId, PatternId, RunId, TokenId, WaitId, WebhookId};
use reqwest::{Method, StatusCode};
use std::io::Write;
use std::time::Duration;

/// Every method fails as [`ClientError`] says; what it does is the route's contract in interfaces.md section 2.
impl Client {
    /// `GET /readyz`. A server that is not ready answers too.
    pub async fn ready(&self) -> Result<Ready, ClientError> {
        let request = self.request(Method::GET, self.url(&["readyz"], &())?).timeout(ANSWER_WITHIN);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() || status == StatusCode::SERVICE_UNAVAILABLE {
            return self.read(response).await;
        }
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        Err(self.refusal(status, &bytes))
    }

    // Workflows (I-20).

    pub async fn register(&self, request: &RegisterWorkflow) -> Result<Registered, ClientError> {
        self.post(&["v1", "workflows"], request).await
    }

    pub async fn workflows(&self, query: &ListQuery) -> Result<Page<Workflow>, ClientError> {
        self.get(&["v1", "workflows"], query).await
    }

    pub async fn workflow(&self, key: &str) -> Result<Workflow, ClientError> {
        self.get(&["v1", "workflows", key], &()).await
    }

    pub async fn activate(&self, key: &str, request: &ActivateRequest) -> Result<Workflow, ClientError> {
        self.post(&["v1", "workflows", key, "activate"], request).await
    }

    pub async fn pause_workflow(&self, key: &str, request: &ActionRequest) -> Result<Workflow, ClientError> {
        self.post(&["v1", "workflows", key, "pause"], request).await
    }

    pub async fn resume_workflow(&self, key: &str, request: &ActionRequest) -> Result<Workflow, ClientError> {
        self.post(&["v1", "workflows", key, "resume"], request).await
    }

    pub async fn pattern(&self, id: PatternId) -> Result<Pattern, ClientError> {
        self.get(&["v1", "patterns", &id.to_string()], &()).await
    }

    // Runs (I-21 to I-24).

    /// `created` of the answer says whether this request made the run.
    pub async fn start(&self, request: &StartRun, idempotency_key: Option<&str>) -> Result<Run, ClientError> {
        let mut post = self.request(Method::POST, self.url(&["v1", "runs"], &())?).timeout(ANSWER_WITHIN);
        if let Some(key) = idempotency_key {
            post = post.header("idempotency-key", key);
        }
        self.read(self.send(post.json(request)).await?).await
    }

    /// Starts under an id of the caller's, which is the idempotency key too.
    pub async fn put_run(&self, id: RunId, request: &StartRun) -> Result<Run, ClientError> {
        let url = self.url(&["v1", "runs", &id.to_string()], &())?;
        let put = self.request(Method::PUT, url).timeout(ANSWER_WITHIN);
        self.read(self.send(put.json(request)).await?).await
    }

    pub async fn runs(&self, query: &RunQuery) -> Result<Page<Run>, ClientError> {
        self.get(&["v1", "runs"], query).await
    }

    pub async fn run(&self, id: RunId) -> Result<Run, ClientError> {
        self.get(&["v1", "runs", &id.to_string()], &()).await
    }

    /// One long poll; `None` when `timeout` (55 s at most, in whole milliseconds) passed first.
    pub async fn wait(&self, id: RunId, until: Until, timeout: Duration) -> Result<Option<Run>, ClientError> {
        let query = WaitQuery { until, timeout: Some(format!("{}ms", timeout.as_millis())) };
        let url = self.url(&["v1", "runs", &id.to_string(), "wait"], &query)?;
        let response = self.send(self.request(Method::GET, url).timeout(timeout + ANSWER_WITHIN)).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        self.read(response).await.map(Some)
    }

    /// `changed` of the answer says whether this request elected the cancel.
    pub async fn cancel(&self, id: RunId, request: &ActionRequest) -> Result<Run, ClientError> {
        self.post(&["v1", "runs", &id.to_string(), "cancel"], request).await
    }

    /// `changed` of the answer says whether it was not paused before. What goes on all the same stands in it with its time.
    pub async fn pause(&self, id: RunId, request: &ActionRequest) -> Result<Run, ClientError> {
        self.post(&["v1", "runs", &id.to_string(), "pause"], request).await
    }

    pub async fn resume(&self, id: RunId, request: &ActionRequest) -> Result<Run, ClientError> {
        self.post(&["v1", "runs", &id.to_string(), "resume"], request).await
    }

    /// A new run with what this one had come to at an event.
    pub async fn fork(&self, id: RunId, request: &ForkRequest) -> Result<Run, ClientError> {
        self.post(&["v1", "runs", &id.to_string(), "fork"], request).await
    }

    /// `changed` of the answer says whether it was pinned to another revision before. A proof may take as long as a replay.
    pub async fn move_run(&self, id: RunId, request: &MoveRequest) -> Result<Run, ClientError> {
        self.post(&["v1", "runs", &id.to_string(), "move"], request).await
    }

    pub async fn attest(&self, id: RunId, request: &AttestRequest) -> Result<Run, ClientError> {
        self.post(&["v1", "runs", &id.to_string(), "attest"], request).await
    }

    pub async fn explain(&self, id: RunId) -> Result<Explain, ClientError> {
        self.get(&["v1", "runs", &id.to_string(), "explain"], &()).await
    }

    /// In the order in which they were made.
    pub async fn calls(&self, id: RunId, query: &ListQuery) -> Result<Page<Call>, ClientError> {
        self.get(&["v1", "runs", &id.to_string(), "calls"], query).await
    }

    pub async fn log(&self, id: RunId, query: &TailQuery) -> Result<Tail<LogLine>, ClientError> {
        self.get(&["v1", "runs", &id.to_string(), "log"], query).await
    }

    /// A page of events; [`Client::follow`] is the stream. The server answers pages where `after` is there, so `None` is
    /// sent as the empty place, before the first event.
    pub async fn events(&self, id: RunId, query: &TailQuery) -> Result<Tail<Event>, ClientError> {
        let after = query.after.clone().or_else(|| Some(String::new()));
        let query = TailQuery { after, ..query.clone() };
        self.get(&["v1", "runs", &id.to_string(), "events"], &query).await
    }

    // Jobs (I-28).

    pub async fn jobs(&self, query: &JobQuery) -> Result<Page<Job>, ClientError> {
        self.get(&["v1", "jobs"], query).await
    }

    pub async fn claim_jobs(&self, request: &ClaimRequest) -> Result<ClaimedJobs, ClientError> {
        self.post(&["v1", "jobs", "claim"], request).await
    }

    /// `stop` of the answer says whether to stop.
    pub async fn heartbeat(&self, id: JobId, request: &HeartbeatRequest) -> Result<Job, ClientError> {
        self.post(&["v1", "jobs", &id.to_string(), "heartbeat"], request).await
    }

    pub async fn complete_job(&self, id: JobId, request: &CompleteRequest) -> Result<Job, ClientError> {
        self.post(&["v1", "jobs", &id.to_string(), "complete"], request).await
    }

    pub async fn fail_job(&self, id: JobId, request: &FailRequest) -> Result<Job, ClientError> {
        self.post(&["v1", "jobs", &id.to_string(), "fail"], request).await
    }

    pub async fn ack_cancel(&self, id: JobId, request: &AckRequest) -> Result<Job, ClientError> {
        self.post(&["v1", "jobs", &id.to_string(), "ack-cancel"], request).await
    }

    // Signals (I-29).

    /// To a name of a run; kept if no wait is open for it. `changed` of the answer says whether this request brought it.
    pub async fn signal(&self, run: RunId, name: &str, request: &SignalRequest) -> Result<Signal, ClientError> {
        self.post(&["v1", "runs", &run.to_string(), "signals", name], request).await
    }

    /// To one wait, which is open or refuses it.
    pub async fn signal_wait(&self, wait: WaitId, request: &SignalRequest) -> Result<Signal, ClientError> {
        self.post(&["v1", "waits", &wait.to_string(), "signals"], request).await
    }

    // Approvals (I-25 to I-27).

    pub async fn approvals(&self, query: &ApprovalQuery) -> Result<Page<Approval>, ClientError> {
        self.get(&["v1", "approvals"], query).await
    }

    pub async fn approval(&self, id: ApprovalId) -> Result<Approval, ClientError> {
        self.get(&["v1", "approvals", &id.to_string()], &()).await
    }

    /// With its bodies, for an auditor: an event of the run.
    pub async fn read_approval(&self, id: ApprovalId, request: &ActionRequest) -> Result<Approval, ClientError> {
        self.post(&["v1", "approvals", &id.to_string(), "read"], request).await
    }

    pub async fn decide(&self, id: ApprovalId, request: &DecisionRequest) -> Result<Approval, ClientError> {
        self.post(&["v1", "approvals", &id.to_string(), "decisions"], request).await
    }

    pub async fn extend(&self, id: ApprovalId, request: &ExtendRequest) -> Result<Approval, ClientError> {
        self.post(&["v1", "approvals", &id.to_string(), "extend"], request).await
    }

    pub async fn decide_batch(&self, request: &BatchRequest) -> Result<BatchAnswer, ClientError> {
        self.post(&["v1", "approvals:decide"], request).await
    }

    /// A call with its bodies, for an auditor: an event of the run.
    pub async fn read_call(&self, id: CallId, request: &ActionRequest) -> Result<Call, ClientError> {
        self.post(&["v1", "calls", &id.to_string(), "read"], request).await
    }

    // Effects (I-30).

    pub async fn effects(&self, query: &EffectQuery) -> Result<Page<EffectItem>, ClientError> {
        self.get(&["v1", "effects"], query).await
    }

    pub async fn settle(&self, call: CallId, request: &DecisionRequest) -> Result<Approval, ClientError> {
        self.post(&["v1", "effects", &call.to_string(), "settle"], request).await
    }

    // Operation (I-31, I-11).

    pub async fn guests(&self) -> Result<Page<Guest>, ClientError> {
        self.get(&["v1", "guests"], &()).await
    }

    pub async fn tools(&self, query: &ListQuery) -> Result<Page<Tool>, ClientError> {
        self.get(&["v1", "tools"], query).await
    }

    /// Every version of one tool, newest first.
    pub async fn tool(&self, name: &str) -> Result<Page<Tool>, ClientError> {
        self.get(&["v1", "tools", name], &()).await
    }

    /// `name` may end in `@<version>`; without, every version is withdrawn.
    pub async fn withdraw_tool(&self, name: &str, request: &ActionRequest) -> Result<Page<Tool>, ClientError> {
        self.post(&["v1", "tools", name, "withdraw"], request).await
    }

    pub async fn resources(&self) -> Result<Page<Resource>, ClientError> {
        self.get(&["v1", "resources"], &()).await
    }

    pub async fn reset_resource(&self, name: &str) -> Result<Resource, ClientError> {
        self.post(&["v1", "resources", name, "reset"], &ActionRequest::default()).await
    }

    pub async fn queues(&self) -> Result<Page<Queue>, ClientError> {
        self.get(&["v1", "queues"], &()).await
    }

    pub async fn pause_queue(&self, name: &str, request: &ActionRequest) -> Result<Queue, ClientError> {
        self.post(&["v1", "queues", name, "pause"], request).await
    }

    pub async fn resume_queue(&self, name: &str, request: &ActionRequest) -> Result<Queue, ClientError> {
        self.post(&["v1", "queues", name, "resume"], request).await
    }

    pub async fn new_token(&self, request: &NewToken) -> Result<Token, ClientError> {
        self.post(&["v1", "tokens"], request).await
    }

    pub async fn tokens(&self, query: &ListQuery) -> Result<Page<Token>, ClientError> {
        self.get(&["v1", "tokens"], query).await
    }

    pub async fn revoke_token(&self, id: TokenId, request: &ActionRequest) -> Result<Token, ClientError> {
        self.post(&["v1", "tokens", &id.to_string(), "revoke"], request).await
    }

    pub async fn new_webhook(&self, request: &NewWebhook) -> Result<Webhook, ClientError> {
        self.post(&["v1", "webhooks"], request).await
    }

    pub async fn webhooks(&self) -> Result<Page<Webhook>, ClientError> {
        self.get(&["v1", "webhooks"], &()).await
    }

    /// Removes a webhook with its messages.
    pub async fn remove_webhook(&self, id: WebhookId) -> Result<Webhook, ClientError> {
        let url = self.url(&["v1", "webhooks", &id.to_string()], &())?;
        let request = self.request(Method::DELETE, url).timeout(ANSWER_WITHIN);
        self.read(self.send(request).await?).await
    }

    pub async fn messages(&self, id: WebhookId, query: &ListQuery) -> Result<Page<Message>, ClientError> {
        self.get(&["v1", "webhooks", &id.to_string(), "messages"], query).await
    }

    /// Sends a message again.
    pub async fn redeliver(&self, id: WebhookId, message: MessageId) -> Result<Message, ClientError> {
        let path = ["v1", "webhooks", &id.to_string(), "messages", &message.to_string(), "redeliver"];
        self.post(&path, &ActionRequest::default()).await
    }

    pub async fn audit_head(&self) -> Result<AuditHead, ClientError> {
        self.get(&["v1", "audit", "head"], &()).await
    }

    /// Exported anchors after a number.
    pub async fn anchors(&self, query: &TailQuery) -> Result<Tail<Json>, ClientError> {
        self.get(&["v1", "audit", "anchors"], query).await
    }

    /// Makes an anchor of what changed.
    pub async fn anchor(&self) -> Result<AuditHead, ClientError> {
        self.post(&["v1", "audit", "anchor"], &ActionRequest::default()).await
    }

    /// Goes on with a ledger that was restored from an old copy.
    pub async fn accept_restored(&self, request: &ActionRequest) -> Result<AuditHead, ClientError> {
        self.post(&["v1", "audit", "accept"], request).await
    }

    pub async fn verify(&self, request: &VerifyRequest) -> Result<VerifyAnswer, ClientError> {
        self.post(&["v1", "audit", "verify"], request).await
    }

    pub async fn compare(&self, request: &CompareRequest) -> Result<VerifyAnswer, ClientError> {
        self.post(&["v1", "audit", "compare"], request).await
    }

    /// Copies the embedded store into `to`, piece by piece. Gives how many bytes it has.
    ///
    /// # Errors
    /// As every method's; or the copy is not what the server said that it is, or cannot be written.
    pub async fn backup(&self, to: &mut (impl Write + Send)) -> Result<u64, ClientError> {
        let request = self.request(Method::POST, self.url(&["v1", "backup"], &())?);
        let mut response = self.send(request).await?;
        let wrong = |cause: String| ClientError::Protocol { target: self.target().to_owned(), cause };
        let said = response.headers().get("repr-digest").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (mut hasher, mut bytes) = (Hasher::default(), 0);
        while let Some(piece) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            hasher.update(&piece);
            bytes += piece.len() as u64;
            to.write_all(&piece).map_err(|error| wrong(format!("the copy cannot be written: {error}")))?;
        }
        let found = format!("sha-256=:{}:", STANDARD.encode(hasher.finish().as_bytes()));
        match said {
            Some(said) if said == found => Ok(bytes),
            said => Err(wrong(format!("the copy is {found}, and {} was sent", said.unwrap_or_default()))),
        }
    }

    pub async fn doctor(&self) -> Result<DoctorReport, ClientError> {
        self.get(&["v1", "doctor"], &()).await
    }
}
