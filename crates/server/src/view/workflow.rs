//! Workflows, patterns, tools and tokens as the wire shows them (I-20, I-31, I-11).

use super::json;
use api::workflow::{Revision, Tool};
use api::{Json, Pattern, Token, Workflow};
use protocol::digest::Digest;
use protocol::pause::Shared;
use protocol::policy::{OwnRule, Trigger};
use protocol::principal::Rights;
use protocol::registry;
use protocol::tool::{Connector, OnCancel, ToolSpec};
use protocol::workflow;

/// A workflow with its revisions, newest first. `None` while it has none.
pub(crate) fn workflow(row: &workflow::Workflow, registry: &registry::Registry) -> Option<Workflow> {
    let newest = row.patterns.values().next_back()?;
    let first = row.patterns.values().next()?;
    let shown = row.active().unwrap_or(newest);
    let revisions = row.patterns.values().rev().map(|pattern| Revision {
        revision: pattern.revision,
        pattern: pattern.id,
        digest: pattern.digest,
        active: row.active == Some(pattern.revision),
        created_at: pattern.registered_at,
    });
    Some(Workflow {
        key: row.key.clone(),
        kind: shown.manifest.kind.into(),
        title: shown.title.clone(),
        revision: row.active,
        queue: protocol::limits::DEFAULT_QUEUE.to_owned(),
        priority: protocol::limits::PRIORITY,
        paused: super::run::shade(&Shared::Workflow(row.key.clone()), registry),
        created_at: first.registered_at,
        revisions: revisions.collect(),
        changed: None,
    })
}

/// One revision with its source; `source` was read by the manifest's digest.
pub(crate) fn pattern(row: &workflow::Pattern, active: bool, source: String) -> Pattern {
    Pattern {
        id: row.id,
        key: row.manifest.key.clone(),
        revision: row.revision,
        digest: row.digest,
        kind: row.manifest.kind.into(),
        active,
        manifest: Json::of(&row.manifest).expect("a manifest has text keys"),
        source,
        source_digest: row.manifest.source,
        image_digest: row.manifest.image,
        created_at: row.registered_at,
    }
}

pub(crate) fn tool(spec: &ToolSpec, digest: Digest, rule: Option<&OwnRule>, row: Option<&registry::Tool>) -> Tool {
    let withdrawn = row.and_then(|row| row.withdrawn.as_ref());
    Tool {
        name: spec.name.clone(),
        version: spec.version.clone(),
        digest,
        effect: spec.effect.into(),
        recovery: spec.recovery.as_str().to_owned(),
        on_cancel: match &spec.on_cancel {
            OnCancel::Wait => "wait".to_owned(),
            OnCancel::Abort => "abort".to_owned(),
            OnCancel::Ask(asked) => asked.tool.clone(),
        },
        description: (!spec.description.is_empty()).then(|| spec.description.clone()),
        connector: match spec.connector {
            Connector::Http(_) => "http",
            Connector::Mcp(_) => "mcp",
            Connector::Command(_) => "command",
            Connector::Builtin(_) => "builtin",
        }
        .to_owned(),
        approval: match rule.map(|rule| &rule.trigger) {
            None => "policy".to_owned(),
            Some(Trigger::Always) => "always".to_owned(),
            Some(Trigger::Never) => "never".to_owned(),
            Some(Trigger::When(when)) => when.to_string(),
        },
        input: json(&spec.input_schema),
        output: Some(json(&spec.output_schema)),
        configured: row.is_none_or(|row| row.configured),
        withdrawn_at: withdrawn.map(|withdrawn| withdrawn.at),
        withdrawn_by: withdrawn.map(|withdrawn| withdrawn.by.clone()),
        withdrawn_reason: withdrawn.and_then(|withdrawn| withdrawn.reason.clone()),
    }
}

/// A token without its secret; `rights` are the ones it works with.
pub(crate) fn token(row: &registry::Token, rights: &Rights) -> Token {
    Token {
        id: row.id,
        principal: row.principal.clone(),
        rights: rights.iter().map(|right| right.as_str().to_owned()).collect(),
        created_at: row.created_at,
        expires_at: row.expires_at,
        revoked_at: row.revoked_at,
        secret: None,
        changed: None,
    }
}
