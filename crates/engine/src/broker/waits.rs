//! What the built-in calls that wait are to wait for: `stasis.sleep`, `stasis.signal`, `stasis.first` (W-121 to W-124).
//!
//! It reads arguments and nothing else, so that the same arguments tell, when a wait has ended, which of them it was.

use protocol::builtin;
use protocol::command::Due;
use protocol::json::{Canonical, Value};
use protocol::schema::Schema;
use protocol::signal::Awaited;
use protocol::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// One thing a call waits for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Timer(Due),
    /// A question to people, with the arguments of `stasis.gate`.
    Gate(Canonical),
    /// A job, which knows its place itself.
    Job,
    /// With a limit it waits for a timer too.
    Signal(Arc<Awaited>, Option<Duration>),
}

/// What a call waits for, in the order of its arguments; `None` if it is no call that waits.
pub(crate) fn wanted(tool: &str, arguments: &Value) -> Option<Result<Vec<Wanted>, String>> {
    match tool {
        builtin::FIRST => Some(first(arguments)),
        builtin::SLEEP | builtin::SIGNAL => Some(one(tool, arguments).map(|wanted| vec![wanted])),
        _ => None,
    }
}

fn first(arguments: &Value) -> Result<Vec<Wanted>, String> {
    let waits = arguments.get("waits").and_then(Value::as_array).unwrap_or_default();
    let one = |wait: &Value| {
        let tool = wait.get("tool").and_then(Value::as_str).unwrap_or_default();
        let waits = matches!(tool, builtin::GATE | builtin::SLEEP | builtin::SIGNAL | builtin::DELEGATE);
        let spec = builtin::spec(tool).filter(|_| waits);
        let spec = spec.ok_or_else(|| format!("`first` waits for gates, signals, timers and jobs, not for {tool}"))?;
        let arguments = wait.get("arguments").ok_or("`arguments` is an object")?;
        let text = arguments.canonical().map_err(|fault| fault.to_string())?;
        let schema = Schema::compile(&spec.input_schema).map_err(|fault| fault.to_string())?;
        schema.check(&text).map_err(|fault| format!("{tool}: `{}`: {}", fault.pointer, fault.message))?;
        match tool {
            builtin::GATE => Ok(Wanted::Gate(text)),
            builtin::DELEGATE => Ok(Wanted::Job),
            _ => self::one(tool, arguments),
        }
    };
    waits.iter().map(one).collect()
}

/// The tool and the arguments of each thing that `stasis.first` waits for; they fit it once [`wanted`] has read them.
pub(crate) fn members(arguments: &Value) -> Vec<(String, Canonical)> {
    let waits = arguments.get("waits").and_then(Value::as_array).unwrap_or_default();
    let one = |wait: &Value| Some((wait.get("tool")?.as_str()?.to_owned(), wait.get("arguments")?.canonical().ok()?));
    waits.iter().filter_map(one).collect()
}

fn one(tool: &str, arguments: &Value) -> Result<Wanted, String> {
    if tool == builtin::SLEEP {
        return due(arguments).map(Wanted::Timer).ok_or("`until` is a time such as 2026-11-30T09:30:00Z".to_owned());
    }
    let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let schema: Option<Canonical> = match arguments.get("schema") {
        None => None,
        Some(schema) => Some(schema.canonical().map_err(|fault| format!("`/schema`: {fault}"))?),
    };
    if let Some(fault) = schema.as_ref().and_then(|schema| Schema::compile(schema).err()) {
        return Err(format!("`/schema`: {fault}"));
    }
    let limit = arguments.get("timeout_ms").and_then(Value::as_u64).map(Duration::from_millis);
    Ok(Wanted::Signal(Arc::new(Awaited { name, schema }), limit))
}

fn due(arguments: &Value) -> Option<Due> {
    if let Some(ms) = arguments.get("ms").and_then(Value::as_u64) {
        return Some(Due::In(Duration::from_millis(ms)));
    }
    let until: Time = arguments.get("until")?.as_str()?.parse().ok()?;
    Some(Due::At(until))
}
