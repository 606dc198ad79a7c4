//! What makes the engine short to embed: its defaults, its own caller, and what came of a run (I-75).
//!
//! It adds nothing that the façade does not have.

use crate::admit::StartRun;
use crate::config::Resource;
use crate::engine::{Engine, EngineConfig, Image};
use crate::failure::Failure;
use crate::migrate::Migrators;
use crate::tools::{Connectors, Surroundings};
use crate::verdict::DecideRequest;
use crate::workflow::{Workflow, Workflows};
use protocol::approval::{Approval, Method, Verdict};
use protocol::command::Caller;
use protocol::json::Canonical;
use protocol::limits::{Limits, WorkerSettings};
use protocol::policy::Strength;
use protocol::principal::Principal;
use protocol::run::Run;
use std::collections::BTreeMap;
use std::time::Duration;
use store::Ledger;

/// Hops at once.
const CAPACITY: usize = 256;

impl EngineConfig {
    /// An engine on this ledger that carries runs, with the default settings: it has no guest image, so it runs no scripts, and
    /// no workflow yet.
    pub fn new(ledger: Ledger) -> EngineConfig {
        EngineConfig {
            audit: None,
            private_webhooks: false,
            image: Image::Missing { why: "this process has no guest image".to_owned() },
            connectors: Connectors::new(Surroundings::default()),
            resources: Vec::<Resource>::new(),
            agents: Vec::new(),
            owner: String::new(),
            limits: Limits::default(),
            worker: WorkerSettings::default(),
            migrators: Migrators::default(),
            workflows: Workflows::default(),
            hot_window: Duration::ZERO,
            carry: true,
            capacity: CAPACITY,
            separate_requester: true,
            ledger,
        }
    }

    /// Adds a workflow in Rust.
    #[must_use]
    pub fn workflow<W: Workflow>(self, workflow: W) -> EngineConfig {
        EngineConfig { workflows: self.workflows.with(workflow), ..self }
    }
}

impl Engine {
    /// Whoever started this process, as the principal `local`, for one request.
    pub fn local(&self) -> Caller {
        Caller {
            principal: Principal::local(),
            method: Method::Cli,
            strength: Strength::Session,
            request: self.request_id(),
        }
    }

    /// The result of a run that is done.
    pub async fn result(&self, run: &Run) -> Result<Option<Canonical>, Failure> {
        let Some(body) = run.result() else { return Ok(None) };
        let bytes = self.ledger().body(run.id, body.digest).await?;
        let text = bytes.as_deref().and_then(Canonical::from_stored);
        text.map(Some).ok_or_else(|| Failure::Corrupt(format!("the result of {} is not stored", run.id)))
    }
}

impl StartRun {
    /// A run of the active revision, with every default.
    pub fn new(workflow: impl Into<String>, input: Canonical) -> StartRun {
        StartRun {
            run: None,
            workflow: workflow.into(),
            revision: None,
            input,
            idempotency_key: None,
            priority: None,
            queue: None,
            session: None,
            deadline: None,
            labels: BTreeMap::new(),
            retry_of: None,
        }
    }
}

impl DecideRequest {
    /// A verdict on what this approval shows.
    pub fn new(approval: &Approval, verdict: Verdict) -> DecideRequest {
        DecideRequest {
            approval: approval.id,
            verdict,
            arguments_digest: Some(approval.arguments.digest),
            edit: None,
            answer: None,
            reason: None,
            unrenderable: false,
        }
    }
}
