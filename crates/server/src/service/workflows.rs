//! The verbs of workflows and patterns (I-20).

use super::failure::{told, unread};
use super::list;
use super::problem::{Answer, internal, not_found, problem, with_hint};
use super::{Service, invalid};
use crate::view;
use api::page::{ListQuery, Page};
use api::run::{ActionRequest, WorkflowKind};
use api::workflow::ActivateRequest;
use api::{Pattern, RegisterWorkflow, Registered, Workflow};
use engine::RegisterScript;
use engine::config::script::ScriptMeta;
use protocol::code::Code;
use protocol::command::Caller;
use protocol::id::PatternId;
use protocol::json::canonicalize;
use protocol::pause::Shared;
use protocol::principal::Right;
use protocol::workflow::is_key;

impl Service {
    /// Registers a program; the same content again is the known pattern.
    pub async fn register(&self, by: &Caller, request: RegisterWorkflow) -> Answer<Registered> {
        self.need(by, &[Right::WorkflowsWrite])?;
        if request.kind != WorkflowKind::Script {
            let detail = format!("field `kind`: this build runs scripts, not `{}`", request.kind.as_str());
            return Err(with_hint(Code::InvalidRequest, detail, "register a Python program, with kind `script`"));
        }
        if !is_key(&request.key) {
            let detail = format!(
                "field `key`: `{}` is no workflow key: letters, digits, `.`, `_`, `-`, at most 128",
                request.key
            );
            return Err(invalid(detail));
        }
        let meta = match &request.manifest {
            Some(manifest) => meta(manifest.as_str())?,
            None => ScriptMeta::default(),
        };
        let script = RegisterScript {
            // The program's own key wins over the name of its file (I-68).
            key: None,
            source: request.source,
            file_name: format!("{}.py", request.key),
            meta,
            inactive: request.active == Some(false),
        };
        let registered = self.engine.register(by.clone(), script).await.map_err(|failure| told(failure, by))?;
        let pattern = registered.pattern;
        Ok(Registered {
            key: pattern.manifest.key,
            revision: pattern.revision,
            digest: pattern.digest,
            pattern: pattern.id,
            created: registered.created,
            active: registered.active,
        })
    }

    /// A page of workflows, the one registered last first.
    pub async fn workflows(&self, by: &Caller, query: &ListQuery) -> Answer<Page<Workflow>> {
        self.reads(by)?;
        let limit = list::limit(query.limit)?;
        let registry = self.engine.ledger().registry();
        let mut all: Vec<Workflow> =
            registry.workflows.values().filter_map(|row| view::workflow::workflow(row, &registry)).collect();
        let newest = |workflow: &Workflow| workflow.revisions.first().map(|revision| revision.created_at);
        all.sort_by(|a, b| newest(b).cmp(&newest(a)).then_with(|| a.key.cmp(&b.key)));
        list::page_of(all, |workflow| workflow.key.clone(), query.cursor.as_deref(), limit)
    }

    pub async fn workflow(&self, by: &Caller, key: &str) -> Answer<Workflow> {
        self.reads(by)?;
        self.drawn(key)
    }

    fn drawn(&self, key: &str) -> Answer<Workflow> {
        let registry = self.engine.ledger().registry();
        registry.workflows.get(key).and_then(|row| view::workflow::workflow(row, &registry)).ok_or_else(not_found)
    }

    /// Lets new runs use a revision.
    pub async fn activate(&self, by: &Caller, key: &str, request: &ActivateRequest) -> Answer<Workflow> {
        self.engine.activate(by.clone(), key, request.revision).await.map_err(|failure| told(failure, by))?;
        self.drawn(key)
    }

    /// Keeps every run of a workflow from workers. `changed` of the answer says whether it was not paused before.
    pub async fn pause_workflow(&self, by: &Caller, key: &str, request: &ActionRequest) -> Answer<Workflow> {
        let (scope, reason) = (Shared::Workflow(key.to_owned()), request.reason.as_deref());
        let paused = self.engine.pause_all(by.clone(), scope, reason).await;
        let changed = paused.map_err(|failure| told(failure, by))?;
        Ok(Workflow { changed: Some(changed), ..self.drawn(key)? })
    }

    /// Clears the pause of a workflow, and no other.
    pub async fn resume_workflow(&self, by: &Caller, key: &str) -> Answer<Workflow> {
        let resumed = self.engine.resume_all(by.clone(), Shared::Workflow(key.to_owned())).await;
        let changed = resumed.map_err(|failure| told(failure, by))?;
        Ok(Workflow { changed: Some(changed), ..self.drawn(key)? })
    }

    /// One revision with its source.
    pub async fn pattern(&self, by: &Caller, id: PatternId) -> Answer<Pattern> {
        self.reads(by)?;
        let registry = self.engine.ledger().registry();
        let mut workflows = registry.workflows.values();
        let found = workflows.find_map(|workflow| {
            let pattern = workflow.patterns.values().find(|pattern| pattern.id == id)?;
            Some((workflow.active == Some(pattern.revision), pattern))
        });
        let (active, pattern) = found.ok_or_else(not_found)?;
        let digest = pattern.manifest.source;
        let source = self.engine.ledger().blob(digest).await.map_err(|error| unread(error, by))?;
        let source = source.ok_or_else(|| internal(&format!("source {digest} of {id} is not there"), by.request))?;
        Ok(view::workflow::pattern(pattern, active, String::from_utf8_lossy(&source).into_owned()))
    }
}

/// The keys of I-68 as JSON.
fn meta(manifest: &str) -> Answer<ScriptMeta> {
    let canonical = canonicalize(manifest.as_bytes()).map_err(|fault| {
        problem(Code::InvalidJson, format!("field `manifest`: {} at byte {}", fault.reason, fault.offset))
    })?;
    ScriptMeta::from_json(&canonical).map_err(|faults| {
        let mut problem = invalid("field `manifest`: not every key in it is understood");
        problem.errors = faults.0.iter().map(fault).collect();
        problem
    })
}

fn fault(fault: &engine::config::Fault) -> api::Fault {
    api::Fault {
        message: fault.message.clone(),
        key: (!fault.key.is_empty()).then(|| format!("manifest.{}", fault.key)),
        suggestion: fault.hint.clone(),
        ..api::Fault::default()
    }
}
