//! Judging one accepted call: steps 8 to 11 of the broker, and who could decide it. In them no handler has started (C-88).

use super::delegation::{Delegated, delegated};
use super::waits::{Wanted as Awaits, wanted};
use crate::hop::Hop;
use crate::pinned::PinnedTool;
use protocol::approval::Kind;
use protocol::builtin;
use protocol::call::{Call, State};
use protocol::code::Code;
use protocol::digest::Digest;
use protocol::json::{Canonical, Value};
use protocol::policy::{Judgement, Obligation, Question, Terms};
use protocol::principal::Roles;
use std::collections::BTreeSet;

/// What is to happen with a call.
#[derive(Debug)]
pub(crate) enum Judged {
    Allowed,
    /// A person decides first.
    Ask(Box<Wanted>),
    /// It waits for signals, times, gates and jobs.
    Waits(Vec<Awaits>),
    /// It hands a job over.
    Delegates(Box<Delegated>),
    Denied {
        code: Code,
        message: String,
    },
}

/// A question that is to be published.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    pub(crate) obligation: Obligation,
    pub(crate) claim: Option<String>,
    pub(crate) form: Option<Canonical>,
    pub(crate) unrenderable: bool,
}

impl Judged {
    fn denied(code: Code, message: impl Into<String>) -> Judged {
        Judged::Denied { code, message: message.into() }
    }
}

/// The arguments a call is dispatched with, if its schema takes them (step 9); then plan and policy.
pub(crate) fn judge(hop: &Hop, call: &Call, asked: &Canonical) -> (Judged, Option<Canonical>) {
    let tool = match in_plan(hop, call) {
        Ok(tool) => tool,
        Err(judged) => return (judged, None),
    };
    let arguments = match fixed(hop, tool, asked) {
        Ok(arguments) => arguments,
        Err(judged) => return (judged, None),
    };
    if let Some(message) = awaits_settling(hop, call, arguments.digest()) {
        return (Judged::denied(Code::EffectAmbiguous, message), Some(arguments));
    }
    (by_policy(hop, tool, &arguments), Some(arguments))
}

/// C-243: while a write is ambiguous, the same effect is not started by another call.
pub(crate) fn awaits_settling(hop: &Hop, call: &Call, arguments: Digest) -> Option<String> {
    let same = |other: &&Call| {
        matches!(other.state, State::Ambiguous(_))
            && other.id != call.id
            && other.tool.name == call.tool.name
            && other.arguments.digest == arguments
    };
    let other = hop.calls.values().find(same)?;
    let question = other.settle.map_or_else(String::new, |id| format!(" ({id} asks what happened)"));
    Some(format!("the same effect awaits settling{question}"))
}

/// Step 8.
fn in_plan<'a>(hop: &'a Hop, call: &Call) -> Result<&'a PinnedTool, Judged> {
    let name = &call.tool.name;
    let Some(tool) = hop.pinned.tools.get(name) else {
        // The guest's module has names of later versions too: `stasis.signal` and the like.
        let message = match name.starts_with("stasis.") {
            true => format!("{name} is not available in this version"),
            false => format!("{name} is not offered to this run"),
        };
        return Err(Judged::denied(Code::ToolNotInPlan, message));
    };
    if let Some(most) = tool.spec.limits.calls {
        let made = hop.calls.values().filter(|other| other.tool.name == *name && other.position.is_some());
        let made = made.count() as u32;
        if made > most {
            return Err(Judged::denied(Code::ToolBudgetExceeded, format!("calls of {name} exceeded: {made} > {most}")));
        }
    }
    let (kept, most) = (hop.kept_bytes(), hop.inner.limits.run_bytes);
    if kept > most {
        let message = format!("bytes kept of this run exceeded: {kept} > {most}");
        return Err(Judged::denied(Code::CallBudgetExceeded, message));
    }
    authority(hop, tool).map_err(|(code, detail)| Judged::denied(code, detail))?;
    Ok(tool)
}

/// Whether the tool may still be used as the plan has it: not withdrawn, its grant not revoked, the plan not ended.
pub(crate) fn authority(hop: &Hop, tool: &PinnedTool) -> Result<(), (Code, String)> {
    let registry = hop.inner.ledger.registry();
    let name = &tool.spec.name;
    let registered = registry.tools.get(name).and_then(|versions| versions.get(&tool.spec.version));
    if registered.is_some_and(|row| row.withdrawn.is_some()) {
        return Err((Code::ToolUnavailable, format!("{name} was withdrawn")));
    }
    if registry.revoked_grants.contains(&tool.grant_digest) {
        return Err((Code::AuthorityUnavailable, "authority unavailable: revoked".to_owned()));
    }
    if hop.run.settings.not_after.is_some_and(|end| hop.inner.now() >= end) {
        return Err((Code::AuthorityUnavailable, "authority unavailable: expired".to_owned()));
    }
    Ok(())
}

/// Step 9: size, defaults where the tool declares them, schema, and what only the connector can judge.
fn fixed(hop: &Hop, tool: &PinnedTool, asked: &Canonical) -> Result<Canonical, Judged> {
    let (len, limit) = (asked.len() as u64, tool.spec.limits.argument_bytes);
    if len > limit {
        return Err(Judged::denied(Code::ArgumentsTooLarge, format!("arguments exceeded: {len} > {limit}")));
    }
    let invalid = |message: String| Judged::denied(Code::InvalidArguments, message);
    let arguments = match tool.spec.apply_defaults {
        true => tool.input.apply_defaults(asked).map_err(|fault| invalid(fault.to_string()))?,
        false => asked.clone(),
    };
    tool.input.check(&arguments).map_err(|v| invalid(format!("`{}` ({}): {}", v.pointer, v.keyword, v.message)))?;
    hop.inner.connectors.fit(&tool.spec, &tool.grant, &arguments).map_err(|unfit| invalid(unfit.to_string()))?;
    Ok(arguments)
}

/// What is to happen with one of the things that a call waits for: it is judged like a call of its own.
pub(crate) fn judge_member(hop: &Hop, tool: &str, arguments: &Canonical) -> Judged {
    let Some(tool) = hop.pinned.tools.get(tool) else {
        return Judged::denied(Code::ToolNotInPlan, format!("{tool} is not offered to this run"));
    };
    match authority(hop, tool) {
        Ok(()) => by_policy(hop, tool, arguments),
        Err((code, detail)) => Judged::denied(code, detail),
    }
}

/// Step 11: the strictest of policy, the tool's own rule and what the guest asks for.
fn by_policy(hop: &Hop, tool: &PinnedTool, arguments: &Canonical) -> Judged {
    let value = arguments.value();
    let wishes = match tool.spec.name.as_str() {
        builtin::GATE => match wishes(&value) {
            Ok(terms) => Some(terms),
            Err(message) => return Judged::denied(Code::InvalidArguments, message),
        },
        _ => None,
    };
    let registry = hop.inner.ledger.registry();
    let nobody = Roles::These(BTreeSet::new());
    let requester = registry.principal(&hop.run.requester.subject);
    let judgement = registry.policy.judge(&Question {
        tool: &tool.spec,
        workflow: &hop.run.pattern.key,
        requester: requester.as_ref().map_or(&nobody, |person| &person.roles),
        arguments: &value,
        wishes: wishes.as_ref(),
        separate_requester: hop.run.settings.separate_requester,
    });
    match judgement {
        Judgement::Deny { reason } => Judged::denied(Code::PolicyDenied, reason),
        Judgement::Allow if tool.spec.name == builtin::DELEGATE => match delegated(hop, &value) {
            Ok(job) => Judged::Delegates(Box::new(job)),
            Err((code, message)) => Judged::denied(code, message),
        },
        Judgement::Allow => match wanted(&tool.spec.name, &value) {
            Some(Ok(waits)) => Judged::Waits(waits),
            Some(Err(fault)) => Judged::denied(Code::InvalidArguments, fault),
            None => Judged::Allowed,
        },
        Judgement::Ask(obligation) => ask(tool, &value, arguments, *obligation),
    }
}

fn ask(tool: &PinnedTool, value: &Value, arguments: &Canonical, obligation: Obligation) -> Judged {
    let gate = tool.spec.name == builtin::GATE;
    let form = value.get("form").filter(|_| gate).and_then(|form| form.canonical().ok());
    if let Some(fault) = form.as_ref().and_then(|form| protocol::schema::Schema::compile(form).err()) {
        return Judged::denied(Code::InvalidArguments, format!("`/form`: {fault}"));
    }
    let details = value.get("details").filter(|details| gate && !details.is_null());
    Judged::Ask(Box::new(Wanted {
        kind: if gate { Kind::Gate } else { Kind::Call },
        obligation,
        claim: details.map(|d| {
            d.as_str().map_or_else(|| d.canonical().map(|c| c.as_str().to_owned()).unwrap_or_default(), str::to_owned)
        }),
        form,
        unrenderable: protocol::text::unrenderable(arguments),
    }))
}

/// C-145: somebody could decide it; else who is wanted, and what an operator can do about it.
pub(crate) fn decider(hop: &Hop, obligation: &Obligation) -> Result<(), String> {
    if somebody(hop, obligation) { Ok(()) } else { Err(nobody(obligation)) }
}

fn nobody(obligation: &Obligation) -> String {
    let roles = obligation.roles.iter().map(|role| format!("role {role}"));
    let wanted: Vec<String> = roles.chain(obligation.principals.iter().cloned()).collect();
    let other = if obligation.separate_requester { " other than who started the run" } else { "" };
    let wanted = wanted.join(", ");
    let lone = if obligation.separate_requester { ", or let the rule say separate_requester = false" } else { "" };
    format!("nobody{other} could decide this: it wants {wanted}; add a [[principal]] who is or has that{lone}")
}

/// At least one principal could decide, once the requester is left out.
fn somebody(hop: &Hop, obligation: &Obligation) -> bool {
    let registry = hop.inner.ledger.registry();
    let requester = &hop.run.requester;
    let left_out = |id: &str| {
        obligation.separate_requester && (requester.subject == id || requester.acts_for.as_deref() == Some(id))
    };
    let local = registry.principal(protocol::principal::Principal::LOCAL);
    registry
        .principals
        .values()
        .chain(local.as_ref())
        .any(|person| !left_out(&person.id) && obligation.eligible(person))
}

/// What a program asks of `stasis.gate`; it can only tighten (W-129).
fn wishes(arguments: &Value) -> Result<Terms, String> {
    let texts = |name: &str| -> Vec<String> {
        let list = arguments.get(name).and_then(Value::as_array).unwrap_or_default();
        list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let mut terms = Terms::default();
    let roles = texts("roles");
    if !roles.is_empty() {
        terms.circles.push(protocol::policy::Circle { roles, principals: Vec::new() });
    }
    terms.quorum = arguments.get("quorum").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let lease = arguments.get("lease_ms").and_then(Value::as_u64);
    terms.lease = lease.map(std::time::Duration::from_millis);
    terms.on_expiry = match arguments.get("on_expiry").and_then(Value::as_str) {
        None => None,
        Some("reject") => Some(protocol::policy::OnExpiry::Reject),
        Some("fail") => Some(protocol::policy::OnExpiry::Fail),
        Some(other) => return Err(format!("`on_expiry` is reject or fail, not {other}")),
    };
    Ok(terms)
}
