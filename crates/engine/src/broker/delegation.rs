//! What `stasis.delegate` hands over: the task, and the tools that its agent may call (W-123, W-136).
//!
//! Invariant: a job that would reach further than its run is refused before it exists (C-46).

use crate::hop::Hop;
use crate::pinned::Pinned;
use protocol::code::Code;
use protocol::json::{Canonical, Value};
use protocol::plan::{Plan, Widened};
use protocol::schema::Schema;
use std::time::Duration;

/// A job to be handed over.
#[derive(Debug)]
pub(crate) struct Delegated {
    /// The agents that may claim it.
    pub(crate) kind: String,
    pub(crate) task: Canonical,
    /// None: its agent may call no tool.
    pub(crate) plan: Option<Plan>,
    /// What its result has to fit.
    pub(crate) schema: Option<Canonical>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retries: u32,
}

/// Reads the arguments of a call, which fit the tool's schema.
pub(crate) fn delegated(hop: &Hop, arguments: &Value) -> Result<Delegated, (Code, String)> {
    let invalid = |detail: String| (Code::InvalidArguments, detail);
    let kind = arguments.get("agent").and_then(Value::as_str).unwrap_or_default().to_owned();
    let task = arguments.get("task").map(Value::canonical).transpose().map_err(|fault| invalid(fault.to_string()))?;
    let task = task.ok_or_else(|| invalid("`task` is missing".to_owned()))?;
    let (size, most) = (task.as_bytes().len() as u64, hop.inner.limits.job_bytes);
    if size > most {
        return Err((Code::LimitExceeded, format!("job text exceeded: {size} > {most}")));
    }
    let left = hop.pinned.plan.max_calls.saturating_sub(hop.counted);
    let wanted = arguments.get("max_calls").and_then(Value::as_u64).map(|calls| calls as u32);
    let tools = arguments.get("tools").and_then(Value::as_array).unwrap_or_default();
    let names: Vec<&str> = tools.iter().filter_map(Value::as_str).collect();
    let plan =
        if names.is_empty() && wanted.is_none() { None } else { Some(attenuated(&hop.pinned, left, wanted, &names)?) };
    let timeout = arguments.get("timeout_ms").and_then(Value::as_u64).map(Duration::from_millis);
    let schema =
        arguments.get("schema").map(Value::canonical).transpose().map_err(|fault| invalid(fault.to_string()))?;
    if let Some(fault) = schema.as_ref().and_then(|schema| Schema::compile(schema).err()) {
        return Err(invalid(format!("`/schema`: {fault}")));
    }
    let safe = arguments.get("retry").is_some();
    let retries = if safe { hop.inner.settings.job_retries } else { 0 };
    Ok(Delegated { kind, task, plan, schema, timeout, retries })
}

/// The plan of the job: those tools of the run's own plan, as that has them, for as many of its calls as are left.
fn attenuated(pinned: &Pinned, left: u32, wanted: Option<u32>, names: &[&str]) -> Result<Plan, (Code, String)> {
    let widened = |fault: Widened| (fault.code(), fault.to_string());
    let unknown = names.iter().find(|name| pinned.plan.tool(name).is_none());
    if let Some(name) = unknown {
        return Err(widened(Widened::Tool((*name).to_owned())));
    }
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    let tools: Vec<_> = names.iter().map(|name| &pinned.tools[*name]).collect();
    let tools: Vec<_> = tools.iter().map(|tool| (&*tool.spec, tool.grant_digest)).collect();
    let plan = Plan::seal(wanted.unwrap_or(left).max(1), pinned.plan.not_after, &tools).map_err(|faults| {
        let told: Vec<String> = faults.iter().map(|fault| format!("`{}`: {}", fault.pointer, fault.message)).collect();
        (faults.first().map_or(Code::InvalidArguments, |fault| fault.code), told.join("; "))
    })?;
    pinned.plan.check_attenuation(left, &plan).map_err(widened)?;
    Ok(plan)
}
