//! Decisions about what is registered beside runs.
//!
//! Owns: the rules of registration (C-10, R-342, R-345) and of tokens. A change is refused whole or applied whole
//! (C-21, R-346).

use super::Cx;
use super::admit::not_permitted;
use crate::code::Code;
use crate::command::Caller;
use crate::digest::Digest;
use crate::limits::{DEFAULT_QUEUE, PAUSE_SPANS};
use crate::pause::{Cleared, Pause, Shared};
use crate::principal::Right;
use crate::refusal::Refusal;
use crate::registry::{Answer, Apply, Change, Register, Registry, Token, Tool, Withdrawal};
use crate::webhook::Webhook;
use crate::workflow::{Pattern, Workflow, is_key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a registry command changes: the registry as it will be, and the blobs to store with it.
#[derive(Debug)]
pub struct RegistryChange {
    pub registry: Registry,
    pub blobs: Vec<(Digest, Arc<[u8]>)>,
    pub answer: Answer,
}

/// Decides one registry command against the registry as it is.
pub fn decide_registry(change: Change, cx: &Cx<'_>) -> Result<RegistryChange, Refusal> {
    match change {
        Change::Register(register) => register_workflow(*register, cx),
        Change::Activate { by, key, revision } => activate(&by, &key, revision, cx),
        Change::Apply(apply) => apply_config(*apply, cx),
        Change::Withdraw { by, tool, version, reason } => withdraw(&by, &tool, version.as_deref(), reason, cx),
        Change::Pause { by, scope, reason } => pause(&by, scope, reason, cx),
        Change::Resume { by, scope } => resume(&by, scope, cx),
        Change::MintToken { by, token } => mint(&by, *token, cx),
        Change::AddWebhook { by, webhook } => add_webhook(&by, *webhook, cx),
        Change::RemoveWebhook { by, webhook } => {
            allowed(&by, Right::Admin)?;
            let mut registry = cx.registry.clone();
            match registry.webhooks.remove(&webhook).filter(|hook| hook.namespace == by.principal.namespace) {
                Some(_) => Ok(done(registry, true)),
                None => Err(Refusal::new(Code::NotFound, format!("there is no webhook {webhook}"))),
            }
        }
        Change::RevokeToken { by, token } => {
            allowed(&by, Right::Admin)?;
            let mut registry = cx.registry.clone();
            let kept = |row: &&mut Token| cx.registry.keeps_tokens(&by.principal, &row.principal);
            let Some(row) = registry.tokens.get_mut(&token).filter(kept) else {
                return Err(Refusal::new(Code::NotFound, format!("there is no token {token}")));
            };
            let changed = row.revoked_at.is_none();
            row.revoked_at.get_or_insert(cx.now);
            Ok(done(registry, changed))
        }
    }
}

fn allowed(by: &Caller, right: Right) -> Result<(), Refusal> {
    if by.principal.rights.has(right) { Ok(()) } else { Err(not_permitted(by, right)) }
}

fn done(registry: Registry, changed: bool) -> RegistryChange {
    RegistryChange { registry, blobs: Vec::new(), answer: Answer::Changed(changed) }
}

/// Equal content is the known revision again; else the next one. Registering also activates, unless told not
/// to, and sets the workflow's settings.
fn register_workflow(register: Register, cx: &Cx<'_>) -> Result<RegistryChange, Refusal> {
    allowed(&register.by, Right::WorkflowsWrite)?;
    let key = register.manifest.key.clone();
    if !is_key(&key) {
        let detail = format!("`{key}` is no workflow key: letters, digits, `.`, `_`, `-`, at most 128");
        return Err(Refusal::new(Code::InvalidRequest, detail));
    }
    let digest = register.manifest.digest();
    let mut registry = cx.registry.clone();
    let workflow = registry.workflows.entry(key.clone()).or_insert_with(|| Workflow {
        key,
        active: None,
        patterns: BTreeMap::new(),
        settings: register.settings,
    });
    let known = workflow.by_digest(digest).cloned();
    let created = known.is_none();
    let next = workflow.patterns.keys().last().map(|last| last + 1);
    if let Some(named) = register.revision {
        named_revision(workflow, named, known.as_ref(), next)?;
    }
    workflow.settings = register.settings;
    let pattern = known.unwrap_or_else(|| Pattern {
        id: register.id,
        revision: register.revision.or(next).unwrap_or(1),
        digest,
        manifest: register.manifest,
        title: register.title,
        registered_at: cx.now,
    });
    workflow.patterns.insert(pattern.revision, pattern.clone());
    if register.activate {
        workflow.active = Some(pattern.revision);
    }
    let active = workflow.active == Some(pattern.revision);
    let answer = Answer::Registered { pattern, created, active };
    Ok(RegistryChange { registry, blobs: register.blobs, answer })
}

/// A revision that the registering side numbers is the one that has this content, or the next one. Before the first
/// one there is no next: a ledger may begin with any.
fn named_revision(workflow: &Workflow, named: u32, known: Option<&Pattern>, next: Option<u32>) -> Result<(), Refusal> {
    let key = &workflow.key;
    let conflict = |detail: String| Err(Refusal::new(Code::PatternConflict, detail));
    match (known, workflow.patterns.get(&named), next) {
        (Some(known), _, _) if known.revision == named => Ok(()),
        (Some(known), _, _) => conflict(format!("{key}@{named} is {key}@{} already: {}", known.revision, known.digest)),
        (None, Some(other), _) => {
            conflict(format!("{key}@{named} is registered with another digest: {}", other.digest))
        }
        (None, None, Some(next)) if named != next => {
            conflict(format!("the next revision of {key} is {next}, not {named}"))
        }
        (None, None, _) if named == 0 => conflict(format!("revisions of {key} count from 1")),
        (None, None, _) => Ok(()),
    }
}

fn activate(by: &Caller, key: &str, revision: u32, cx: &Cx<'_>) -> Result<RegistryChange, Refusal> {
    allowed(by, Right::WorkflowsWrite)?;
    let mut registry = cx.registry.clone();
    let Some(workflow) = registry.workflows.get_mut(key) else {
        return Err(Refusal::new(Code::NotFound, format!("there is no workflow `{key}`")));
    };
    if !workflow.patterns.contains_key(&revision) {
        return Err(Refusal::new(Code::NotFound, format!("`{key}` has no revision {revision}")));
    }
    let changed = workflow.active != Some(revision);
    workflow.active = Some(revision);
    Ok(done(registry, changed))
}

/// The first pause of a scope stands until it is cleared.
fn pause(by: &Caller, scope: Shared, reason: Option<String>, cx: &Cx<'_>) -> Result<RegistryChange, Refusal> {
    may_pause(by, &scope, cx)?;
    let mut registry = cx.registry.clone();
    let shade = registry.pauses.entry(scope).or_default();
    let changed = shade.now.is_none();
    shade.now.get_or_insert_with(|| Pause { by: by.principal.id.clone(), reason, since: cx.now });
    Ok(done(registry, changed))
}

/// Clears this scope alone. When it was paused is kept for the clocks of runs that waited.
fn resume(by: &Caller, scope: Shared, cx: &Cx<'_>) -> Result<RegistryChange, Refusal> {
    may_pause(by, &scope, cx)?;
    let mut registry = cx.registry.clone();
    let Some(shade) = registry.pauses.get_mut(&scope) else { return Ok(done(registry, false)) };
    let Some(pause) = shade.now.take() else { return Ok(done(registry, false)) };
    if pause.since < cx.now {
        shade.before.push(Cleared { pause, until: cx.now });
    }
    let forgotten = shade.before.len().saturating_sub(PAUSE_SPANS);
    shade.before.drain(..forgotten);
    Ok(done(registry, true))
}

fn may_pause(by: &Caller, scope: &Shared, cx: &Cx<'_>) -> Result<(), Refusal> {
    allowed(by, Right::RunsPause)?;
    let unknown = |what: String, hint| Err(Refusal::new(Code::NotFound, format!("there is no {what}")).hint(hint));
    match scope {
        Shared::Workflow(key) if !cx.registry.workflows.contains_key(key) => {
            unknown(format!("workflow `{key}`"), "stasis workflow list")
        }
        Shared::Queue(name) if name != DEFAULT_QUEUE => unknown(format!("queue `{name}`"), "stasis queue list"),
        Shared::Workflow(_) | Shared::Queue(_) => Ok(()),
    }
}

/// Tools are added, never replaced (C-10); policy and principals are those of the configuration from now on (I-19). A
/// tool that is absent from it stays registered for the runs whose plan has it, since withdrawing is an act of its own
/// (C-45); programs that register from now on do not get it (I-68).
fn apply_config(apply: Apply, cx: &Cx<'_>) -> Result<RegistryChange, Refusal> {
    allowed(&apply.by, Right::ToolsWrite)?;
    let mut registry = cx.registry.clone();
    let mut blobs = Vec::new();
    let mut changed = false;
    let named: BTreeSet<(&str, &str)> =
        apply.tools.iter().map(|new| (new.spec.name.as_str(), new.spec.version.as_str())).collect();
    for (name, versions) in &mut registry.tools {
        for (version, tool) in versions {
            let configured = named.contains(&(name.as_str(), version.as_str()));
            changed |= std::mem::replace(&mut tool.configured, configured) != configured;
        }
    }
    for new in apply.tools {
        let (name, version) = (new.spec.name.clone(), new.spec.version.clone());
        let digest = new.spec.digest();
        let versions = registry.tools.entry(name.clone()).or_default();
        match versions.get(&version) {
            Some(known) if known.digest != digest => {
                let detail = format!("{name} {version} is registered as another tool ({})", known.digest);
                return Err(Refusal::new(Code::ToolConflict, detail)
                    .hint("give the changed tool a new version, or leave `version` out"));
            }
            Some(known) if known.grant == new.grant.digest() => {}
            _ => {
                changed = true;
                let whole = new.spec.canonical();
                blobs.push((whole.digest(), Arc::from(whole.as_bytes())));
                blobs.push((new.grant.digest(), Arc::from(new.grant.as_bytes())));
                versions.insert(
                    version,
                    Tool {
                        digest,
                        blob: whole.digest(),
                        grant: new.grant.digest(),
                        spec: new.spec,
                        registered_at: cx.now,
                        withdrawn: None,
                        configured: true,
                    },
                );
            }
        }
    }
    let policy_version = apply.policy.version();
    changed |= registry.policy_version != policy_version;
    registry.policy = apply.policy;
    registry.policy_version = policy_version;
    let principals = apply.principals.into_iter().map(|p| (p.id.clone(), p)).collect();
    changed |= registry.principals != principals;
    registry.principals = principals;
    Ok(RegistryChange { registry, blobs, answer: Answer::Changed(changed) })
}

fn withdraw(
    by: &Caller,
    tool: &str,
    version: Option<&str>,
    reason: Option<String>,
    cx: &Cx<'_>,
) -> Result<RegistryChange, Refusal> {
    allowed(by, Right::ToolsWrite)?;
    let mut registry = cx.registry.clone();
    let unknown = || Refusal::new(Code::NotFound, format!("there is no tool {tool}")).hint("stasis tool list");
    let versions = registry.tools.get_mut(tool).ok_or_else(unknown)?;
    let mut changed = false;
    let mut found = false;
    for (_, row) in versions.iter_mut().filter(|(v, _)| version.is_none_or(|wanted| wanted == *v)) {
        found = true;
        changed |= row.withdrawn.is_none();
        let by = || Withdrawal { at: cx.now, by: by.principal.id.clone(), reason: reason.clone() };
        row.withdrawn.get_or_insert_with(by);
    }
    if found { Ok(done(registry, changed)) } else { Err(unknown()) }
}

/// A token has its principal's rights or fewer, and works where its principal does: whoever is of another namespace makes
/// none there (I-65).
/// Most webhooks of one namespace: every change of a run makes a row for each.
const WEBHOOKS: usize = 32;

fn add_webhook(by: &Caller, webhook: Webhook, cx: &Cx<'_>) -> Result<RegistryChange, Refusal> {
    allowed(by, Right::Admin)?;
    if webhook.topics.is_empty() {
        return Err(Refusal::new(Code::InvalidRequest, "a webhook without types is told nothing"));
    }
    // Who may say where a namespace's messages go is of that namespace.
    let webhook = Webhook { namespace: by.principal.namespace.clone(), ..webhook };
    let own = cx.registry.webhooks.values().filter(|hook| hook.namespace == webhook.namespace).count();
    if own >= WEBHOOKS {
        let detail = format!("{} has {own} webhooks, and {WEBHOOKS} are the most", webhook.namespace);
        return Err(Refusal::new(Code::InvalidRequest, detail).hint("remove one of them"));
    }
    let mut registry = cx.registry.clone();
    registry.webhooks.insert(webhook.id, webhook);
    Ok(done(registry, true))
}

fn mint(by: &Caller, token: Token, cx: &Cx<'_>) -> Result<RegistryChange, Refusal> {
    allowed(by, Right::Admin)?;
    let kept = cx.registry.keeps_tokens(&by.principal, &token.principal);
    let Some(principal) = cx.registry.principal(&token.principal).filter(|_| kept) else {
        let detail = format!("there is no principal `{}`", token.principal);
        return Err(Refusal::new(Code::NotFound, detail).hint("add a [[principal]] to the configuration and apply it"));
    };
    if token.rights.as_ref().is_some_and(|rights| !rights.within(&principal.rights)) {
        let detail = format!("the token would have rights that {} lacks", token.principal);
        return Err(Refusal::new(Code::NotPermitted, detail));
    }
    if token.expires_at.is_some_and(|at| at <= cx.now) {
        let detail = "the token would have expired before it is told".to_owned();
        return Err(Refusal::new(Code::InvalidRequest, detail).hint("name a time to come, or none"));
    }
    let mut registry = cx.registry.clone();
    registry.tokens.insert(token.id, token);
    Ok(done(registry, true))
}
