//! Registering a script: its tools are sealed into a plan, its source is compiled, its pattern is stored by digest
//! (workflows.md section 1, runs.md section 16).

use crate::config::script::{self, ScriptMeta};
use crate::failure::Failure;
use crate::inner::Inner;
use protocol::code::Code;
use protocol::command::Caller;
use protocol::digest::Digest;
use protocol::json::{Canonical, canonicalize, to_canonical};
use protocol::plan::Plan;
use protocol::refusal::Refusal;
use protocol::registry::{Answer, Change, Register, Registry, Tool};
use protocol::run::{Kind, Settings};
use protocol::schema::Schema;
use protocol::workflow::{Manifest, Pattern};
use sandbox::CheckError;
use std::collections::BTreeMap;
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

/// Registers a script. Nothing is stored unless all of it is sound, and all that is not is told.
pub(crate) async fn register(inner: &Inner, by: Caller, request: RegisterScript) -> Result<Registered, Failure> {
    if request.source.len() > protocol::limits::BODY_BYTES {
        let detail = format!("source exceeded: {} > {}", request.source.len(), protocol::limits::BODY_BYTES);
        return Err(Failure::refused(Code::LimitExceeded, detail));
    }
    let sandbox = inner.sandbox()?;
    let mut faults = Vec::new();
    let inline =
        script::metadata(&request.source).map_err(|fault| Failure::refused(Code::SourceInvalid, fault.to_string()));
    let meta = request.meta.clone().or(sound(inline, &mut faults).unwrap_or_default());
    match sandbox.check(&request.source, &request.file_name).await {
        Ok(()) => {}
        Err(CheckError::Source(fault)) => faults.push(Failure::Source(fault)),
        Err(error) => return Err(Failure::Image(error.to_string())),
    }
    let registry = inner.ledger.registry();
    let tools = sound(offered(&registry, meta.tools.as_deref()), &mut faults);
    let max_calls = sound(max_calls(meta.max_calls, inner), &mut faults);
    let input = sound(schema(meta.input.as_ref(), "input"), &mut faults);
    let output = sound(schema(meta.output.as_ref(), "output"), &mut faults);
    let (Some(tools), Some(max_calls), Some(input_schema), Some(output_schema), []) =
        (tools, max_calls, input, output, &faults[..])
    else {
        return Err(Failure::of_several(faults));
    };
    let plan = seal(max_calls, &tools)?;
    let plan_text = to_canonical(&plan).expect("a plan is texts and numbers");
    let source = Digest::of(request.source.as_bytes());
    let manifest = Manifest {
        schema: Manifest::SCHEMA.to_owned(),
        key: key(&request, &meta),
        kind: Kind::Script,
        source,
        input_schema,
        output_schema,
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
        revision: None,
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

/// What is sound; what is not is a fault beside others.
fn sound<T>(part: Result<T, Failure>, faults: &mut Vec<Failure>) -> Option<T> {
    part.map_err(|fault| faults.push(fault)).ok()
}

fn key(request: &RegisterScript, meta: &ScriptMeta) -> String {
    let stem = request.file_name.rsplit('/').next().unwrap_or_default();
    let stem = stem.strip_suffix(".py").unwrap_or(stem);
    request.key.clone().or_else(|| meta.key.clone()).unwrap_or_else(|| stem.to_owned())
}

/// The sealed plan (C-40 to C-43).
pub(crate) fn seal(max_calls: u32, tools: &BTreeMap<String, &Tool>) -> Result<Plan, Failure> {
    let tools: Vec<_> = tools.values().map(|tool| (&*tool.spec, tool.grant)).collect();
    Plan::seal(max_calls, None, &tools).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Failure::refused(Code::ToolInvalid, faults.join("; "))
    })
}

/// How many calls a run may make; all that the engine allows unless less is said.
pub(crate) fn max_calls(wanted: Option<u32>, inner: &Inner) -> Result<u32, Failure> {
    let max_calls = wanted.unwrap_or(inner.limits.calls);
    if max_calls == 0 || max_calls > inner.limits.calls {
        let detail = format!("max_calls exceeded: {max_calls} > {}", inner.limits.calls);
        return Err(Failure::refused(Code::LimitExceeded, detail));
    }
    Ok(max_calls)
}

/// The tools that a workflow names, or all of the configuration, each in its newest version (I-68), and the tools that
/// these refer to (C-13).
pub(crate) fn offered<'a>(
    registry: &'a Registry,
    named: Option<&[String]>,
) -> Result<BTreeMap<String, &'a Tool>, Failure> {
    let configured = || registry.tools.keys().filter_map(|name| Some((name.clone(), registry.newest(name)?)));
    let Some(named) = named else { return Ok(configured().collect()) };
    let (mut tools, mut wanted, mut unknown) = (BTreeMap::new(), named.to_vec(), Vec::new());
    while let Some(name) = wanted.pop() {
        match registry.newest(&name) {
            _ if tools.contains_key(&name) => {}
            Some(tool) => {
                wanted.extend(tool.spec.followups().into_iter().map(|(_, followup, _)| followup.tool.clone()));
                tools.insert(name, tool);
            }
            None if protocol::builtin::spec(&name).is_some() => {}
            None => unknown.push(name),
        }
    }
    if unknown.is_empty() {
        return Ok(tools);
    }
    unknown.sort_unstable();
    let known: Vec<String> = configured().map(|(name, _)| name).collect();
    let hint = match known.as_slice() {
        [] => "the configuration has no tools: is the right one named by --config?".to_owned(),
        known => format!("known: {}", known.join(", ")),
    };
    let detail = format!("the configuration has no tool {}", unknown.join(", "));
    Err(Failure::Refused(Refusal::new(Code::ToolInvalid, detail).hint(hint)))
}

pub(crate) fn schema(given: Option<&Canonical>, what: &str) -> Result<Canonical, Failure> {
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
