//! Registering a script: its tools are sealed into a plan, its source is compiled, its pattern is stored by digest
//! (workflows.md section 1, runs.md section 16).

use crate::config::script::{self, ScriptMeta};
use crate::failure::Failure;
use crate::inner::Inner;
use protocol::code::Code;
use protocol::command::Caller;
use protocol::digest::Digest;
use protocol::json::{Canonical, canonicalize, to_canonical};
use protocol::plan::{Plan, PlanSchema, PlanTool};
use protocol::refusal::Refusal;
use protocol::registry::{Answer, Change, Register, Registry};
use protocol::run::{Kind, Settings};
use protocol::schema::Schema;
use protocol::workflow::{Manifest, Pattern};
use sandbox::CheckError;
use std::sync::Arc;

/// A script to register. Fields that are given here win over the script's inline metadata (I-68).
#[derive(Clone, Debug, Default)]
pub struct RegisterScript {
    /// `None`: the inline metadata's key, else the stem of the file name.
    pub key: Option<String>,
    pub source: String,
    /// As tracebacks show it.
    pub file_name: String,
    pub meta: ScriptMeta,
    /// Leave the active revision as it is.
    pub inactive: bool,
}

/// A registered pattern.
#[derive(Clone, Debug)]
pub struct Registered {
    pub pattern: Pattern,
    /// False where the same content was known.
    pub created: bool,
    pub active: bool,
}

/// Schema id of a script's checkpoints.
pub(crate) const SCRIPT_STATE: &str = "stasis.script.v1";

/// Registers a script. Nothing is stored unless all of it is sound.
pub(crate) async fn register(inner: &Inner, by: Caller, request: RegisterScript) -> Result<Registered, Failure> {
    if request.source.len() > protocol::limits::BODY_BYTES {
        let detail = format!("source exceeded: {} > {}", request.source.len(), protocol::limits::BODY_BYTES);
        return Err(Failure::refused(Code::LimitExceeded, detail));
    }
    let sandbox = inner.sandbox()?;
    let inline =
        script::metadata(&request.source).map_err(|fault| Failure::refused(Code::SourceInvalid, fault.to_string()))?;
    let meta = request.meta.clone().or(inline);
    match sandbox.check(&request.source, &request.file_name).await {
        Ok(()) => {}
        Err(CheckError::Source(fault)) => return Err(Failure::Source(fault)),
        Err(error) => return Err(Failure::Image(error.to_string())),
    }
    let registry = inner.ledger.registry();
    let plan = seal(&registry, &meta, inner)?;
    let plan_text = to_canonical(&plan).expect("a plan is texts and numbers");
    let source = Digest::of(request.source.as_bytes());
    let manifest = Manifest {
        schema: Manifest::SCHEMA.to_owned(),
        key: key(&request, &meta),
        kind: Kind::Script,
        source,
        input_schema: schema(meta.input.as_ref(), "input")?,
        output_schema: schema(meta.output.as_ref(), "output")?,
        plan: plan_text.digest(),
        engine: Some(sandbox.image().engine.clone()),
        image: Some(sandbox.image().digest),
        checkpoint_schema: SCRIPT_STATE.to_owned(),
        roots: Vec::new(),
        resume: meta.resume.unwrap_or(true),
    };
    let register = Register {
        by,
        id: inner.ids().mint(),
        settings: settings(inner, &meta, &plan, &manifest),
        manifest,
        title: meta.title.clone(),
        activate: !request.inactive,
        blobs: vec![
            (source, Arc::from(request.source.as_bytes())),
            (plan_text.digest(), Arc::from(plan_text.as_bytes())),
        ],
    };
    match inner.ledger.transact_registry(Change::Register(Box::new(register))).await? {
        Answer::Registered { pattern, created, active } => Ok(Registered { pattern, created, active }),
        Answer::Changed(_) => unreachable!("a registration is answered with its pattern"),
    }
}

fn key(request: &RegisterScript, meta: &ScriptMeta) -> String {
    let stem = request.file_name.rsplit('/').next().unwrap_or_default();
    let stem = stem.strip_suffix(".py").unwrap_or(stem);
    request.key.clone().or_else(|| meta.key.clone()).unwrap_or_else(|| stem.to_owned())
}

/// The sealed plan: the named tools, or all, each in its newest version (I-68, C-40 to C-43).
fn seal(registry: &Registry, meta: &ScriptMeta, inner: &Inner) -> Result<Plan, Failure> {
    let names: Vec<String> = match &meta.tools {
        Some(names) => names.clone(),
        None => registry.tools.keys().cloned().collect(),
    };
    let mut tools = Vec::new();
    let mut unknown = Vec::new();
    for name in names {
        match registry.newest(&name) {
            Some((version, tool)) => tools.push(PlanTool {
                name,
                version: version.to_owned(),
                tool_digest: tool.digest,
                grant_digest: tool.grant,
            }),
            None if meta.tools.is_some() && protocol::builtin::spec(&name).is_none() => unknown.push(name),
            None => {}
        }
    }
    if !unknown.is_empty() {
        let known: Vec<&str> = registry.tools.keys().map(String::as_str).collect();
        let hint = match known.as_slice() {
            [] => "the configuration has no tools: is the right one named by --config?".to_owned(),
            known => format!("known: {}", known.join(", ")),
        };
        let detail = format!("there is no tool {}", unknown.join(", "));
        return Err(Failure::Refused(Refusal::new(Code::ToolInvalid, detail).hint(hint)));
    }
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools.dedup_by(|a, b| a.name == b.name);
    let max_calls = meta.max_calls.unwrap_or(inner.limits.calls);
    if max_calls == 0 || max_calls > inner.limits.calls {
        let detail = format!("max_calls exceeded: {max_calls} > {}", inner.limits.calls);
        return Err(Failure::refused(Code::LimitExceeded, detail));
    }
    Ok(Plan { schema: PlanSchema::V1, max_calls, not_after: None, tools })
}

fn schema(given: Option<&Canonical>, what: &str) -> Result<Canonical, Failure> {
    let any = || canonicalize(b"{}").expect("an object");
    let schema = given.cloned().unwrap_or_else(any);
    match Schema::compile(&schema) {
        Ok(_) => Ok(schema),
        Err(fault) => {
            let detail = format!("the {what} schema: {}: {fault}", fault.pointer());
            Err(Failure::refused(fault.code(), detail))
        }
    }
}

fn settings(inner: &Inner, meta: &ScriptMeta, plan: &Plan, manifest: &Manifest) -> Settings {
    let active = meta.active_limit.unwrap_or(inner.limits.active_limit).min(inner.limits.active_limit_max);
    Settings {
        active_limit_us: active.as_micros() as u64,
        memory_bytes: meta.memory_bytes.unwrap_or(protocol::limits::GUEST_MEMORY),
        max_calls: plan.max_calls,
        not_after: plan.not_after,
        resume: manifest.resume,
        // Who starts a run says what holds for it (C-55).
        separate_requester: true,
    }
}
