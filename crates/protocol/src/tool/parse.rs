//! Reading a tool spec from JSON, with every bad part told (C-21).

use super::connector::Connector;
use super::parse_connector::{check_http_arguments, connector};
use super::{Effect, Followup, OnCancel, Operand, Recovery, Template, ToolLimits, ToolSpec, names, split_name};
use crate::code::Code;
use crate::fields::{self, Fault, Fields, Wrong};
use crate::json::{Canonical, Value};
use crate::limits;
use crate::policy::OwnRule;
use crate::schema::Schema;

/// Whose tool it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Configured by the operator.
    Operator,
    /// Part of the engine, in the module `stasis`.
    Engine,
}

impl ToolSpec {
    /// Reads a tool spec with the fields of C-8, or lists everything that is wrong with it.
    pub fn parse(document: &Canonical) -> Result<Self, Vec<Fault>> {
        Self::read(&document.value(), Owner::Operator)
    }

    /// Reads the spec of a tool that the engine itself provides: in the module `stasis`, with the connector `builtin`.
    pub fn parse_builtin(document: &Canonical) -> Result<Self, Vec<Fault>> {
        Self::read(&document.value(), Owner::Engine)
    }

    fn read(value: &Value, owner: Owner) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let spec = read(value, owner, &mut faults);
        match spec {
            Some(mut spec) if faults.is_empty() => {
                if spec.version.is_empty() {
                    spec.version = spec.version_of_content();
                }
                Ok(spec)
            }
            _ => Err(faults),
        }
    }
}

fn read(value: &Value, owner: Owner, faults: &mut Vec<Fault>) -> Option<ToolSpec> {
    let mut fields = Fields::new(value, String::new(), Code::ToolInvalid, faults);
    // The member `schema` and the covered fields are what a stored spec has.
    fields.read("schema", |value| {
        if value.as_str() == Some("stasis.tool.v1") { Ok(()) } else { Err("expected `stasis.tool.v1`".to_owned()) }
    });
    let name = fields.need("name", |value| tool_name(fields::text(value)?, owner));
    let version = fields.read("version", version);
    let description = fields.need("description", |value| bounded(fields::text(value)?, 1, limits::DESCRIPTION_BYTES));
    let (title, tags, notes) = for_people(&mut fields);
    let effect: Option<Effect> = fields.need("effect", fields::word);
    let recovery = recovery(&mut fields, effect);
    let input_schema = fields.within("input_schema", schema);
    if fields.get("input_schema").is_none() {
        fields.fault("input_schema", "is required");
    }
    if let Some(input) = &input_schema
        && input.value().get("type").and_then(Value::as_str) != Some("object")
    {
        fields.fault("input_schema", "the root must say `\"type\": \"object\"`");
    }
    let output_schema = fields.within("output_schema", schema);
    let approval = fields.within("approval", OwnRule::read);
    let apply_defaults = fields.read("apply_defaults", fields::boolean).unwrap_or(false);
    let operands = fields.within("operands", operands).unwrap_or_default();
    let secret_params = fields.read("secret_params", fields::list(fields::pointer)).unwrap_or_default();
    let on_cancel = fields.within("on_cancel", on_cancel).unwrap_or(OnCancel::Wait);
    let compensate = fields.within("compensate", |value, pointer, faults| match value.as_str() {
        Some("none") => Some(None),
        _ => followup(value, pointer, faults).map(Some),
    });
    let limits = fields.within("limits", tool_limits).unwrap_or_default();
    let resource = fields.read("resource", |value| bounded(fields::text(value)?, 1, limits::NAME_BYTES));
    let connector = connector(&mut fields, owner);
    if let (Some(Connector::Http(http)), Some(input)) = (&connector, &input_schema) {
        check_http_arguments(http, &input.value(), &mut fields);
    }
    if let (OnCancel::Ask(_), Some(Effect::Pure | Effect::Read)) = (&on_cancel, effect) {
        fields.fault("on_cancel", "only a `write` asks the other side to stop: `wait` or `abort`");
    }
    if let Some(name) = &name {
        refuse_itself(name, &recovery, &on_cancel, compensate.as_ref().and_then(Option::as_ref), &mut fields);
    }
    fields.finish();
    Some(ToolSpec {
        name: name?,
        version: version.unwrap_or_default(),
        description: description?,
        title,
        tags,
        notes,
        effect: effect?,
        recovery: recovery?,
        input_schema: input_schema?,
        output_schema: output_schema.unwrap_or_else(Canonical::empty_object),
        approval,
        apply_defaults,
        operands,
        secret_params,
        on_cancel,
        compensate: compensate.flatten(),
        limits,
        resource,
        connector: connector?,
    })
}

/// A text between two lengths in bytes.
fn bounded(text: &str, least: usize, most: usize) -> Result<String, Wrong> {
    if (least..=most).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected {least} to {most} bytes"))
    }
}

fn tool_name(name: &str, owner: Owner) -> Result<String, Wrong> {
    let Some((module, function)) = split_name(name) else {
        return Err(
            "expected `module.function`, each of at most 31 lower-case letters, digits and `_`, a letter first"
                .to_owned(),
        );
    };
    if owner == Owner::Engine {
        return if module == "stasis" {
            Ok(name.to_owned())
        } else {
            Err("the engine's tools are in `stasis`".to_owned())
        };
    }
    match [module, function].into_iter().find_map(|word| Some((word, names::taken(word)?))) {
        Some((word, meaning)) if word == module => {
            Err(format!("`{word}` is {meaning}; such as `{word}_api.{function}` is free"))
        }
        Some((word, meaning)) => Err(format!("`{word}` is {meaning}; such as `{module}.do_{word}` is free")),
        None => Ok(name.to_owned()),
    }
}

fn version(value: &Value) -> Result<String, Wrong> {
    let version = bounded(fields::text(value)?, 1, limits::VERSION_BYTES)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if version.bytes().all(plain) { Ok(version) } else { Err("expected letters, digits, `.`, `_` and `-`".to_owned()) }
}

/// `title`, `tags` and `notes`: together at most 4 KiB.
fn for_people(fields: &mut Fields<'_, '_>) -> (Option<String>, Vec<String>, Option<String>) {
    let title = fields.read("title", fields::owned);
    let tags = fields.read("tags", fields::list(fields::owned)).unwrap_or_default();
    let notes = fields.read("notes", fields::owned);
    let bytes = title.iter().chain(&tags).chain(&notes).map(String::len).sum::<usize>();
    if bytes > limits::TOOL_TEXT_BYTES {
        fields.fault("notes", format!("title, tags and notes have {bytes} bytes, at most {}", limits::TOOL_TEXT_BYTES));
    }
    (title, tags, notes)
}

/// `recovery` with `key_life` and `lookup`, and whether it goes with the effect (C-11).
fn recovery(fields: &mut Fields<'_, '_>, effect: Option<Effect>) -> Option<Recovery> {
    let changes = effect == Some(Effect::Write);
    let usual = if changes { "manual" } else { "retry" };
    let word = fields.read("recovery", fields::owned).unwrap_or_else(|| usual.to_owned());
    let key_life = fields.read("key_life", fields::duration(limits::KEY_LIFE_MIN, limits::KEY_LIFE_MAX));
    let lookup = fields.within("lookup", followup);
    if key_life.is_some() && word != "idempotent" {
        fields.fault("key_life", "belongs to recovery `idempotent`");
    }
    if lookup.is_some() && word != "lookup" {
        fields.fault("lookup", "belongs to recovery `lookup`");
    }
    let recovery = match word.as_str() {
        "retry" => Recovery::Retry,
        "idempotent" => Recovery::Idempotent { key_life: key_life.unwrap_or(limits::KEY_LIFE) },
        "lookup" => match lookup {
            Some(lookup) => Recovery::Lookup(lookup),
            None => {
                fields.fault("lookup", "is required with recovery `lookup`");
                return None;
            }
        },
        "manual" => Recovery::Manual,
        _ => {
            fields.fault("recovery", "expected `retry`, `idempotent`, `lookup` or `manual`");
            return None;
        }
    };
    let effect = effect?;
    if changes == (recovery == Recovery::Retry) {
        fields.fault("recovery", format!("`{}` does not go with effect `{}`", recovery.as_str(), effect.as_str()));
    }
    Some(recovery)
}

fn schema(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Canonical> {
    let schema = match value.canonical() {
        Ok(schema) => schema,
        Err(fault) => {
            faults.push(Fault { pointer, code: Code::ToolInvalid, message: fault.to_string() });
            return None;
        }
    };
    match Schema::compile(&schema) {
        Ok(_) => Some(schema),
        Err(fault) => {
            let message = fault.to_string();
            faults.push(Fault { pointer: format!("{pointer}{}", fault.pointer()), code: fault.code(), message });
            None
        }
    }
}

fn operands(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Vec<Operand>> {
    let Some(items) = value.as_array() else {
        faults.push(Fault { pointer, code: Code::ToolInvalid, message: "expected a list".to_owned() });
        return None;
    };
    if items.len() > limits::OPERANDS {
        let message = format!("operands exceeded: {} > {}", items.len(), limits::OPERANDS);
        faults.push(Fault { pointer, code: Code::ToolInvalid, message });
        return None;
    }
    let operand = |(at, item): (usize, &Value)| {
        let mut fields = Fields::new(item, format!("{pointer}/{at}"), Code::ToolInvalid, faults);
        let pointer = fields.need("pointer", fields::pointer);
        let kind = fields.need("kind", fields::word);
        fields.finish();
        Some(Operand { pointer: pointer?, kind: kind? })
    };
    Some(items.iter().enumerate().filter_map(operand).collect())
}

fn on_cancel(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<OnCancel> {
    match value.as_str() {
        Some("wait") => Some(OnCancel::Wait),
        Some("abort") => Some(OnCancel::Abort),
        Some(_) => {
            let message = "expected `wait`, `abort` or {tool, arguments}".to_owned();
            faults.push(Fault { pointer, code: Code::ToolInvalid, message });
            None
        }
        None => followup(value, pointer, faults).map(OnCancel::Ask),
    }
}

fn followup(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Followup> {
    let compensates = pointer.ends_with("/compensate");
    let mut fields = Fields::new(value, pointer, Code::ToolInvalid, faults);
    let tool = fields.need("tool", |value| match split_name(fields::text(value)?) {
        Some(_) => fields::owned(value),
        None => Err("expected the name of a tool".to_owned()),
    });
    let arguments = fields.need("arguments", |value| {
        let template = Template::parse(value)?;
        if template.needs_result() && !compensates {
            return Err("there is no result to build from; only `compensate` has one".to_owned());
        }
        Ok(template)
    });
    fields.finish();
    Some(Followup { tool: tool?, arguments: arguments? })
}

/// No tool looks itself up, stops itself or compensates itself (C-13).
fn refuse_itself(
    name: &str,
    recovery: &Option<Recovery>,
    on_cancel: &OnCancel,
    compensate: Option<&Followup>,
    fields: &mut Fields<'_, '_>,
) {
    let lookup = match recovery {
        Some(Recovery::Lookup(followup)) => Some(followup),
        _ => None,
    };
    let asked = match on_cancel {
        OnCancel::Ask(followup) => Some(followup),
        _ => None,
    };
    for (field, followup) in [("lookup", lookup), ("on_cancel", asked), ("compensate", compensate)] {
        if followup.is_some_and(|followup| followup.tool == name) {
            fields.fault(field, "a tool may not name itself");
        }
    }
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            timeout: limits::TOOL_TIMEOUT,
            argument_bytes: limits::BODY_BYTES as u64,
            result_bytes: limits::BODY_BYTES as u64,
            concurrency: limits::TOOL_CONCURRENCY,
            calls: None,
        }
    }
}

fn tool_limits(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<ToolLimits> {
    let mut fields = Fields::new(value, pointer, Code::ToolInvalid, faults);
    let usual = ToolLimits::default();
    let size = |value: &Value| match value.as_str() {
        Some(text) => limits::parse_size(text).map_err(|error| error.to_string()),
        None => value.as_u64().ok_or_else(|| "expected bytes, or a size such as \"64KiB\"".to_owned()),
    };
    let size = |value: &Value| match size(value)? {
        bytes if (1..=limits::BODY_BYTES as u64).contains(&bytes) => Ok(bytes),
        _ => Err(format!("expected 1 to {} bytes", limits::BODY_BYTES)),
    };
    let limits = ToolLimits {
        timeout: fields
            .read("timeout", fields::duration(limits::TOOL_TIMEOUT_MIN, limits::TOOL_TIMEOUT_MAX))
            .unwrap_or(usual.timeout),
        argument_bytes: fields.read("argument_bytes", size).unwrap_or(usual.argument_bytes),
        result_bytes: fields.read("result_bytes", size).unwrap_or(usual.result_bytes),
        concurrency: fields
            .read("concurrency", fields::count(1, limits::TOOL_CONCURRENCY_MAX))
            .unwrap_or(usual.concurrency),
        calls: fields.read("calls", fields::count(1, limits::CALLS_MAX)),
    };
    fields.finish();
    Some(limits)
}
