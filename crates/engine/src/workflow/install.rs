//! Registering the workflows of a build.
//!
//! Invariant: what the ledger has of a revision is never replaced. A build that has other code under a revision that is
//! there is refused before it carries anything.

use super::set::Code as Workflow;
use super::{About, Workflows};
use crate::engine::StartError;
use crate::failure::Failure;
use crate::inner::Inner;
use crate::register;
use protocol::code::Code;
use protocol::command::Caller;
use protocol::json::to_canonical;
use protocol::registry::{Answer, Change, Register, Registry};
use protocol::run::{Kind, Settings};
use protocol::workflow::{Manifest, Pattern};
use std::sync::Arc;

/// A workflow whose code is not that of the revision which the ledger has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{key}@{revision} is registered with another implementation than `{implementation}`: give the code a new revision"
)]
pub struct InstallError {
    pub key: String,
    pub revision: u32,
    /// The one that this build declares.
    pub implementation: String,
}

/// Refuses a build whose code differs from what the ledger has under the same revision.
pub(crate) fn check(workflows: &Workflows, registry: &Registry) -> Result<(), StartError> {
    let differs = |code: &&Arc<dyn Workflow>| known(registry, &***code).is_some_and(|found| !is_of(&***code, found));
    match workflows.all().find(differs) {
        None => Ok(()),
        Some(code) => Err(StartError::Workflow(InstallError {
            key: code.key().to_owned(),
            revision: code.revision(),
            implementation: code.implementation().to_owned(),
        })),
    }
}

fn known<'r>(registry: &'r Registry, code: &dyn Workflow) -> Option<&'r Pattern> {
    registry.workflows.get(code.key())?.patterns.get(&code.revision())
}

/// Whether this code is what the pattern names.
pub(crate) fn is_of(code: &dyn Workflow, pattern: &Pattern) -> bool {
    pattern.manifest.kind == Kind::Rust && pattern.manifest.source == code.source()
}

/// Registers what the ledger does not know yet, the oldest revision of a key first, and activates it. What is known stays
/// as it is, active or not.
pub(crate) async fn install(inner: &Inner, by: &Caller) -> Result<Vec<Pattern>, Failure> {
    let mut installed = Vec::new();
    for code in inner.workflows.all() {
        if known(&inner.ledger.registry(), &**code).is_some() {
            continue;
        }
        let register = registration(inner, by.clone(), &**code)?;
        match inner.ledger.transact_registry(Change::Register(Box::new(register))).await? {
            Answer::Registered { pattern, .. } => installed.push(pattern),
            Answer::Changed(_) => unreachable!("a registration is answered with its pattern"),
        }
    }
    Ok(installed)
}

fn registration(inner: &Inner, by: Caller, code: &dyn Workflow) -> Result<Register, Failure> {
    let About { title, tools, input, output, max_calls, active_limit, resume } = code.about();
    let registry = inner.ledger.registry();
    let plan = register::seal(register::max_calls(max_calls, inner)?, &register::offered(&registry, Some(&tools))?)?;
    let plan_text = to_canonical(&plan).expect("a plan is texts and numbers");
    let schema = |schema: &serde_json::Value, what| {
        let schema = to_canonical(schema)
            .map_err(|error| Failure::refused(Code::InvalidJson, format!("the {what} schema: {error}")))?;
        register::schema(Some(&schema), what)
    };
    let manifest = Manifest {
        schema: Manifest::SCHEMA.to_owned(),
        key: code.key().to_owned(),
        kind: Kind::Rust,
        source: code.source(),
        input_schema: schema(&input, "input")?,
        output_schema: schema(&output, "output")?,
        plan: plan_text.digest(),
        engine: None,
        image: None,
        checkpoint_schema: code.schema().to_owned(),
        roots: Vec::new(),
        resume,
    };
    let active = active_limit.unwrap_or(inner.limits.active_limit).min(inner.limits.active_limit_max);
    let settings = Settings {
        active_limit_us: active.as_micros() as u64,
        // No guest is made for it.
        memory_bytes: 0,
        max_calls: plan.max_calls,
        not_after: plan.not_after,
        resume,
        separate_requester: true,
    };
    let implementation = code.implementation().as_bytes();
    Ok(Register {
        by,
        id: inner.ids().mint(),
        manifest,
        revision: Some(code.revision()),
        title,
        settings,
        activate: true,
        blobs: vec![(code.source(), Arc::from(implementation)), (plan_text.digest(), Arc::from(plan_text.as_bytes()))],
    })
}
