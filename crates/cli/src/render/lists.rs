//! The other lists and objects, one function each.

use super::run::pause_text;
use super::{arguments, indent, or_dash, pretty, relative, short, table, visible};
use api::call::CallState;
use api::job::Job;
use api::operate::CheckVerdict;
use api::{Call, DoctorReport, EffectItem, Guest, Queue, Registered, Resource, Signal, Token, Tool, Workflow};
use protocol::digest::Digest;
use protocol::time::Time;
use serde::Serialize;
use std::fmt::Write as _;

pub(crate) fn calls(calls: &[Call], now: Time) -> String {
    if calls.is_empty() {
        return "no calls\n".into();
    }
    let rows = calls.iter().map(|call| {
        let scope = call.identity.split_once('/').map_or(call.identity.as_str(), |(_, rest)| rest);
        vec![
            scope.to_owned(),
            // What a program calls a tool is the program's word, if there is none of that name.
            short(&call.tool, 40),
            call.effect.as_str().to_owned(),
            call_stands(call),
            short(arguments(call.arguments.as_ref()), 40),
            relative(call.created_at, now),
            call.id.to_string(),
        ]
    });
    let mut text = table(&["CALL", "TOOL", "EFFECT", "OUTCOME", "ARGUMENTS", "ASKED", "ID"], rows.collect());
    let reasons: Vec<String> = calls.iter().filter_map(reason).collect();
    if !reasons.is_empty() {
        let _ = write!(text, "\nwhy\n{}", indent(&reasons.concat(), "  "));
    }
    text
}

/// One call with its bodies.
pub(crate) fn call(call: &Call, now: Time) -> String {
    let mut text = format!("{}  {}@{}  {}\n", call.id, visible(&call.tool), call.tool_version, call_stands(call));
    let _ = writeln!(text, "{}, asked {}", call.identity, relative(call.created_at, now));
    let mut body = |name: &str, body: Option<&api::Json>| {
        if let Some(body) = body {
            let _ = write!(text, "{name}\n{}", indent(&visible(&pretty(body)), "  "));
        }
    };
    body("arguments", call.arguments.as_ref());
    body("result", call.result.as_ref());
    body("detail", call.detail.as_ref());
    let _ = writeln!(text, "digest {}", call.arguments_digest);
    text
}

/// What is told of a call that did not end well: its place, its code, and what the other side said.
fn reason(call: &Call) -> Option<String> {
    let scope = call.identity.split_once('/').map_or(call.identity.as_str(), |(_, rest)| rest);
    let head = format!("{scope} {}", visible(&call.tool));
    if let Some(seen) = &call.seen {
        return Some(format!(
            "{head}: outcome unknown; the last of {} attempts saw: {}\n",
            call.attempts,
            visible(seen)
        ));
    }
    let detail = call.detail.as_ref()?.peek();
    let said = |key: &str| match &detail[key] {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    // The message of a failed tool is its code as prose; what it said is beside it.
    let told = said("detail").or_else(|| said("message")).unwrap_or_default();
    Some(format!("{head}: {}: {}\n", call.code.as_deref().unwrap_or("no code"), visible(&told)))
}

fn call_stands(call: &Call) -> String {
    match (call.state, call.outcome) {
        (CallState::Ended, Some(outcome)) => {
            let code = call.code.as_deref().map(|code| format!(" {code}")).unwrap_or_default();
            format!("{}{code}", outcome.as_str())
        }
        (state, _) => state.as_str().to_owned(),
    }
}

pub(crate) fn effects(effects: &[EffectItem], now: Time) -> String {
    if effects.is_empty() {
        return "no effects\n".into();
    }
    let rows = effects.iter().map(|effect| {
        vec![
            effect.call.to_string(),
            short(&effect.tool, 40),
            effect.outcome.map_or(effect.state.as_str(), |outcome| outcome.as_str()).to_owned(),
            or_dash(effect.applied.map(|applied| applied.as_str())),
            short(arguments(effect.arguments.as_ref()), 40),
            or_dash(effect.gate_at.map(|at| relative(at, now))),
            effect.run.to_string(),
        ]
    });
    table(&["CALL", "TOOL", "OUTCOME", "APPLIED", "ARGUMENTS", "DISPATCHED", "RUN"], rows.collect())
}

pub(crate) fn guests(guests: &[Guest], now: Time) -> String {
    if guests.is_empty() {
        return "no guests\n".into();
    }
    let rows = guests.iter().map(|guest| {
        vec![
            guest.run.to_string(),
            guest.tier.as_str().to_owned(),
            or_dash(guest.resident_bytes.map(size)),
            or_dash(guest.waiting_since_at.map(|at| relative(at, now))),
            short(guest.waits_for.as_deref().unwrap_or("-"), 40),
        ]
    });
    table(&["RUN", "TIER", "RESIDENT", "WAITING SINCE", "WAITS FOR"], rows.collect())
}

pub(crate) fn resources(resources: &[Resource]) -> String {
    if resources.is_empty() {
        return "no resources are declared here\n".into();
    }
    let rows = resources.iter().map(|resource| {
        vec![
            visible(&resource.name),
            resource.state.clone(),
            or_dash(resource.memory_mib.map(|mib| format!("{mib} MiB"))),
            resource.leases.to_string(),
            resource.waiting.to_string(),
            short(resource.last_error.as_deref().unwrap_or("-"), 60),
        ]
    });
    table(&["RESOURCE", "STATE", "TAKES", "LEASES", "WAITING", "LAST ERROR"], rows.collect())
}

/// A guest image of this machine, and who needs it.
#[derive(Serialize)]
pub(crate) struct Image {
    pub(crate) digest: Digest,
    pub(crate) engine: String,
    pub(crate) bytes: u64,
    pub(crate) compiled_bytes: u64,
    /// New programs get it.
    pub(crate) newest: bool,
    /// Unfinished runs that are pinned to it.
    pub(crate) runs: usize,
}

pub(crate) fn images(images: &[Image]) -> String {
    if images.is_empty() {
        return "no images\n".into();
    }
    let rows = images.iter().map(|image| {
        vec![
            image.digest.to_string(),
            image.engine.clone(),
            size(image.bytes),
            size(image.compiled_bytes),
            if image.newest { "new programs" } else { "-" }.to_owned(),
            image.runs.to_string(),
        ]
    });
    table(&["IMAGE", "ENGINE", "SIZE", "COMPILED", "FOR", "RUNS"], rows.collect())
}

/// Bytes in binary units, one decimal.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

pub(crate) fn tools(tools: &[Tool]) -> String {
    if tools.is_empty() {
        return "no tools\n".into();
    }
    let rows = tools.iter().map(|tool| {
        let name = format!("{}@{}", tool.name, tool.version);
        let state = match (tool.withdrawn_at.is_some(), tool.configured) {
            (true, _) => "withdrawn",
            (false, true) => "",
            (false, false) => "not configured",
        };
        vec![
            name,
            tool.effect.as_str().to_owned(),
            tool.connector.clone(),
            short(&tool.approval, 30),
            short(tool.description.as_deref().unwrap_or(""), 48),
            state.to_owned(),
        ]
    });
    table(&["TOOL", "EFFECT", "CONNECTOR", "ASKS", "DESCRIPTION", ""], rows.collect())
}

pub(crate) fn tool(tool: &Tool, now: Time) -> String {
    let mut text = format!("{}@{}  {}\n", tool.name, tool.version, tool.effect.as_str());
    if let Some(description) = &tool.description {
        let _ = writeln!(text, "  {}", visible(description));
    }
    let _ = writeln!(text, "connector {}, recovery {}, asks: {}", tool.connector, tool.recovery, tool.approval);
    let on_cancel = match tool.on_cancel.as_str() {
        "wait" => "a call in flight is waited for".to_owned(),
        "abort" => "a call in flight is cut".to_owned(),
        other => format!("{other} asks the other side to stop, and the call is waited for"),
    };
    let _ = writeln!(text, "on cancel: {on_cancel}");
    let _ = writeln!(text, "digest {}", tool.digest);
    if let Some(at) = tool.withdrawn_at {
        let by = tool.withdrawn_by.as_deref().map(|by| format!(" by {}", visible(by))).unwrap_or_default();
        let why = tool.withdrawn_reason.as_deref().map(|why| format!(": {}", visible(why))).unwrap_or_default();
        let _ = writeln!(text, "withdrawn {}{by}{why}", relative(at, now));
    }
    if !tool.configured {
        text.push_str("not in the configuration: only runs that were given it before use it\n");
    }
    let _ = write!(text, "input\n{}", indent(&visible(&pretty(&tool.input)), "  "));
    if let Some(output) = &tool.output {
        let _ = write!(text, "output\n{}", indent(&visible(&pretty(output)), "  "));
    }
    text
}

pub(crate) fn workflows(workflows: &[Workflow], now: Time) -> String {
    if workflows.is_empty() {
        return "no workflows\n".into();
    }
    let rows = workflows.iter().map(|workflow| {
        vec![
            visible(&workflow.key),
            workflow.kind.as_str().to_owned(),
            or_dash(workflow.revision),
            workflow.revisions.len().to_string(),
            relative(workflow.created_at, now),
            if workflow.paused.is_empty() { String::new() } else { "paused".into() },
        ]
    });
    table(&["WORKFLOW", "KIND", "ACTIVE", "REVISIONS", "CREATED", ""], rows.collect())
}

pub(crate) fn signal(signal: &Signal) -> String {
    let name = signal.name.as_deref().map(visible).unwrap_or_default();
    let state = match signal.wait {
        Some(wait) => format!("{} by {wait}", signal.state.as_str()),
        None => signal.state.as_str().to_owned(),
    };
    format!("{}  {name}  {state}\n", visible(&signal.id))
}

pub(crate) fn jobs(jobs: &[Job], now: Time) -> String {
    let rows = jobs.iter().map(|job| {
        let agent = job.agent.as_ref().map(|agent| format!("{} ({})", agent.principal, agent.worker));
        let running = if job.may_still_run && job.ended_at.is_some() { "may still be running" } else { "" };
        vec![
            job.id.to_string(),
            visible(&job.kind),
            job.state.as_str().to_owned(),
            or_dash(agent.as_deref().map(visible)),
            job.run.to_string(),
            relative(job.created_at, now),
            running.to_owned(),
        ]
    });
    table(&["JOB", "KIND", "STATE", "AGENT", "RUN", "CREATED", ""], rows.collect())
}

/// A job after one of its agent's verbs.
pub(crate) fn job(job: &Job) -> String {
    let stop = if job.stop { "  asked to stop" } else { "" };
    format!("{}  {}  {}{stop}\n", job.id, visible(&job.kind), job.state.as_str())
}

/// Jobs that were just claimed, each with what is to be done.
pub(crate) fn claimed(jobs: &[Job]) -> String {
    if jobs.is_empty() {
        return "no job waits\n".to_owned();
    }
    let one = |job: &Job| {
        let token = job.agent.as_ref().map_or(0, |agent| agent.token);
        let task = job.task.as_ref().map(|task| indent(&pretty(task), "  ")).unwrap_or_default();
        format!("{}  {}  --job-token {token}\n{task}", job.id, visible(&job.kind))
    };
    jobs.iter().map(one).collect()
}

pub(crate) fn queues(queues: &[Queue], now: Time) -> String {
    let rows = queues.iter().map(|queue| {
        let paused = queue.paused.iter().map(|pause| pause_text(pause, now)).collect::<Vec<_>>().join("; ");
        vec![visible(&queue.name), queue.queued.to_string(), or_dash(queue.max_queued), paused]
    });
    table(&["QUEUE", "WAITING", "AT MOST", ""], rows.collect())
}

pub(crate) fn workflow(workflow: &Workflow, now: Time) -> String {
    let title = workflow.title.as_deref().map(|title| format!("  {}", visible(title))).unwrap_or_default();
    let mut text = format!("{}  {}{title}\n", workflow.key, workflow.kind.as_str());
    let _ = writeln!(text, "queue {}, priority {}", workflow.queue, workflow.priority);
    for pause in &workflow.paused {
        let _ = writeln!(text, "{}", pause_text(pause, now));
    }
    let rows = workflow.revisions.iter().map(|revision| {
        vec![
            revision.revision.to_string(),
            if revision.active { "active".into() } else { "retained".into() },
            relative(revision.created_at, now),
            revision.pattern.to_string(),
            revision.digest.to_string(),
        ]
    });
    text.push('\n');
    text + &table(&["REVISION", "STATE", "CREATED", "PATTERN", "DIGEST"], rows.collect())
}

pub(crate) fn registered(registered: &Registered) -> String {
    let new = if registered.created { "new" } else { "known already" };
    let active = if registered.active { ", active" } else { "" };
    format!("{}@{} ({new}{active})  {}\n", registered.key, registered.revision, registered.digest)
}

pub(crate) fn tokens(tokens: &[Token], now: Time) -> String {
    if tokens.is_empty() {
        return "no tokens\n".into();
    }
    let rows = tokens.iter().map(|token| {
        vec![
            token.id.to_string(),
            visible(&token.principal),
            short(&token.rights.join(" "), 60),
            relative(token.created_at, now),
            token.expires_at.map_or_else(|| "never".into(), |at| relative(at, now)),
            if token.revoked_at.is_some() { "revoked".into() } else { String::new() },
        ]
    });
    table(&["TOKEN", "PRINCIPAL", "RIGHTS", "MADE", "EXPIRES", ""], rows.collect())
}

pub(crate) fn token(token: &Token, now: Time) -> String {
    let mut text = tokens(std::slice::from_ref(token), now);
    if let Some(secret) = &token.secret {
        let _ = write!(text, "\n{secret}\n");
    }
    text
}

pub(crate) fn doctor(report: &DoctorReport) -> String {
    let mut text = String::new();
    for check in &report.checks {
        let _ = writeln!(text, "{:<8} {:<18} {}", check.verdict.as_str(), check.name, visible(&check.found));
        if let Some(hint) = &check.hint {
            let _ = writeln!(text, "{:<8} {:<18} hint: {}", "", "", visible(hint));
        }
    }
    let warnings = report.checks.iter().filter(|check| check.verdict == CheckVerdict::Warning).count();
    let whole = match (report.ok, warnings) {
        (false, _) => "something is wrong".to_owned(),
        (true, 0) => "all well".to_owned(),
        (true, 1) => "it works; 1 warning above".to_owned(),
        (true, n) => format!("it works; {n} warnings above"),
    };
    let _ = writeln!(text, "stasis {}: {whole}", report.version);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(size(900), "900 B");
        assert_eq!(size(16 * 1024), "16.0 KiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
    }
}
