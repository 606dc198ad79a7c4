//! The tables of the registry: read whole at start, written by difference.
//!
//! Invariant: what is saved reads back as the registry that the decision made, so a restart changes no decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::decide::RegistryChange;
use protocol::digest::Digest;
use protocol::id::TokenId;
use protocol::json::{self, Canonical};
use protocol::pause::{Cleared, Pause, Shade, Shared};
use protocol::policy::Policy;
use protocol::principal::Principal;
use protocol::registry::{Registry, Token, Tool, Withdrawal};
use protocol::time::Time;
use protocol::tool::ToolSpec;
use protocol::workflow::{Manifest, Pattern, Workflow};
use rusqlite::{Connection, params};

use super::body;
use super::fault::{Fault, Fields};
use super::message;
use super::names::{SETTINGS, read_settings, write_settings};
use crate::error::Corrupt;

type Field<T> = Result<T, Box<Corrupt>>;

/// Reads everything registered.
pub(super) fn load(db: &Connection) -> Result<Registry, Fault> {
    let mut registry = Registry::default();
    for mut workflow in rows(db, "workflow", "SELECT key, active, settings FROM workflow", read_workflow)? {
        let of = "SELECT id, revision, digest, manifest, title, registered_at FROM pattern WHERE workflow = ?1";
        let patterns = readable(db, "pattern", of, &[&workflow.key], read_pattern, &mut registry.unreadable)?;
        workflow.patterns = patterns.into_iter().map(|pattern| (pattern.revision, pattern)).collect();
        registry.workflows.insert(workflow.key.clone(), workflow);
    }
    let all = "SELECT name, version, digest, spec, grant_digest, registered_at, configured, withdrawn_at,
               withdrawn_by, withdrawn_reason FROM tool";
    for row in readable(db, "tool", all, &[], read_tool, &mut registry.unreadable)? {
        let tool = match row.tool(db) {
            Ok(tool) => tool,
            Err(Fault::Corrupt(corrupt)) => {
                left_out(&corrupt, &mut registry.unreadable);
                continue;
            }
            Err(other) => return Err(other),
        };
        registry.tools.entry(row.name).or_default().insert(row.version, tool);
    }
    let last = "SELECT version, document FROM policy ORDER BY n DESC LIMIT 1";
    if let Some((version, policy)) = rows(db, "policy", last, read_policy)?.pop() {
        registry.policy_version = version;
        registry.policy = Arc::new(policy);
    }
    let all = "SELECT document FROM principal";
    let principals = readable(db, "principal", all, &[], json_field::<Principal>, &mut registry.unreadable)?;
    registry.principals = principals.into_iter().map(|principal| (principal.id.clone(), principal)).collect();
    let all = "SELECT id, secret, principal, rights, created_at, expires_at, revoked_at FROM token";
    let tokens = readable(db, "token", all, &[], read_token, &mut registry.unreadable)?;
    registry.tokens = tokens.into_iter().map(|token| (token.id, token)).collect();
    for row in rows(db, "pause", "SELECT scope, name, since, until, by, reason FROM pause ORDER BY since", read_pause)?
    {
        let shade: &mut Shade = registry.pauses.entry(row.scope).or_default();
        match row.until {
            Some(until) => shade.before.push(Cleared { pause: row.pause, until }),
            None => shade.now = Some(row.pause),
        }
    }
    registry.webhooks = message::webhooks(db)?;
    let revoked = rows(db, "revoked_grant", "SELECT digest FROM revoked_grant", |f| f.digest("digest"))?;
    registry.revoked_grants = revoked.into_iter().collect();
    Ok(registry)
}

pub(super) fn rows<T>(
    db: &Connection,
    table: &'static str,
    sql: &str,
    read: impl FnMut(&mut Fields<'_>) -> Field<T>,
) -> Result<Vec<T>, Fault> {
    rows_of(db, table, sql, &[], read)
}

fn rows_of<T>(
    db: &Connection,
    table: &'static str,
    sql: &str,
    values: &[&dyn rusqlite::ToSql],
    mut read: impl FnMut(&mut Fields<'_>) -> Field<T>,
) -> Result<Vec<T>, Fault> {
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query(values)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(&mut Fields::new(row, table))?);
    }
    Ok(all)
}

/// As [`rows_of`], but for rows that cannot be read: one of them stops no start. This is for what allows something or
/// is pinned to; a policy, a pause or a revocation that cannot be read must not be passed over.
fn readable<T>(
    db: &Connection,
    table: &'static str,
    sql: &str,
    values: &[&dyn rusqlite::ToSql],
    mut read: impl FnMut(&mut Fields<'_>) -> Field<T>,
    unreadable: &mut Vec<String>,
) -> Result<Vec<T>, Fault> {
    let mut all = Vec::new();
    for row in rows_of(db, table, sql, values, |fields| Ok(read(fields)))? {
        match row {
            Ok(row) => all.push(row),
            Err(corrupt) => left_out(&corrupt, unreadable),
        }
    }
    Ok(all)
}

fn left_out(corrupt: &Corrupt, unreadable: &mut Vec<String>) {
    tracing::error!(%corrupt, "a row of the registry cannot be read, and is left out");
    unreadable.push(corrupt.to_string());
}

fn read_workflow(f: &mut Fields<'_>) -> Field<Workflow> {
    let key = f.text("key")?.to_owned();
    let active = f.maybe_uint("active")?;
    let settings = f.blob("settings")?;
    let settings = f.packed(settings, "settings", SETTINGS, read_settings)?;
    Ok(Workflow { key, active, patterns: BTreeMap::new(), settings })
}

fn read_pattern(f: &mut Fields<'_>) -> Field<Pattern> {
    let id = f.id("id")?;
    f.named::<protocol::id::PatternId>(id);
    let revision = f.uint("revision")?;
    let digest = f.digest("digest")?;
    let manifest: Manifest = json_field(f)?;
    if manifest.digest() != digest {
        return Err(f.corrupt("manifest", format!("is not of the digest {digest}")));
    }
    let title = f.maybe_text("title")?.map(str::to_owned);
    Ok(Pattern { id, revision, digest, manifest, title, registered_at: f.time("registered_at")? })
}

struct ToolRow {
    name: String,
    version: String,
    digest: Digest,
    spec: Digest,
    grant: Digest,
    registered_at: Time,
    configured: bool,
    withdrawn: Option<Withdrawal>,
}

impl ToolRow {
    fn tool(&self, db: &Connection) -> Result<Tool, Fault> {
        let corrupt = |field, why: String| {
            let key = format!("{}@{}", self.name, self.version);
            Fault::from(Box::new(Corrupt { table: "tool", key, field, why }))
        };
        let document = body::blob(db, self.spec)?.ok_or_else(|| corrupt("spec", "is not stored".to_owned()))?;
        let document =
            Canonical::from_stored(&document).ok_or_else(|| corrupt("spec", "is not canonical JSON".to_owned()))?;
        let spec = ToolSpec::parse(&document)
            .map_err(|faults| corrupt("spec", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
        if spec.digest() != self.digest {
            return Err(corrupt("digest", format!("is {}, not {}", spec.digest(), self.digest)));
        }
        Ok(Tool {
            digest: self.digest,
            blob: self.spec,
            spec: Arc::new(spec),
            grant: self.grant,
            registered_at: self.registered_at,
            configured: self.configured,
            withdrawn: self.withdrawn.clone(),
        })
    }
}

fn read_tool(f: &mut Fields<'_>) -> Field<ToolRow> {
    Ok(ToolRow {
        name: f.text("name")?.to_owned(),
        version: f.text("version")?.to_owned(),
        digest: f.digest("digest")?,
        spec: f.digest("spec")?,
        grant: f.digest("grant_digest")?,
        registered_at: f.time("registered_at")?,
        configured: f.flag("configured")?,
        withdrawn: read_withdrawal(f)?,
    })
}

fn read_withdrawal(f: &mut Fields<'_>) -> Field<Option<Withdrawal>> {
    let at = f.maybe_time("withdrawn_at")?;
    let by = f.maybe_text("withdrawn_by")?.map(str::to_owned);
    let reason = f.maybe_text("withdrawn_reason")?.map(str::to_owned);
    match at {
        None => Ok(None),
        Some(at) => Ok(Some(Withdrawal { at, by: f.needed(by, "withdrawn_by")?, reason })),
    }
}

fn read_policy(f: &mut Fields<'_>) -> Field<(Digest, Policy)> {
    let version = f.digest("version")?;
    let document = f.text("document")?;
    let document =
        Canonical::from_stored(document.as_bytes()).ok_or_else(|| f.corrupt("document", "is not canonical JSON"))?;
    let policy = Policy::parse(&document)
        .map_err(|faults| f.corrupt("document", faults.first().map(ToString::to_string).unwrap_or_default()))?;
    if policy.version() != version {
        return Err(f.corrupt("version", format!("is {version}, not {}", policy.version())));
    }
    Ok((version, policy))
}

fn read_token(f: &mut Fields<'_>) -> Field<Token> {
    let id: TokenId = f.id("id")?;
    f.named(id);
    let secret = f.digest("secret")?;
    let principal = f.text("principal")?.to_owned();
    let rights = match f.maybe_text("rights")? {
        Some(text) => Some(serde_json::from_str(text).map_err(|error| f.corrupt("rights", error))?),
        None => None,
    };
    let (created_at, expires_at) = (f.time("created_at")?, f.maybe_time("expires_at")?);
    Ok(Token { id, secret, principal, rights, created_at, expires_at, revoked_at: f.maybe_time("revoked_at")? })
}

struct PauseRow {
    scope: Shared,
    pause: Pause,
    until: Option<Time>,
}

fn read_pause(f: &mut Fields<'_>) -> Field<PauseRow> {
    let queue = f.flag("scope")?;
    let name = f.text("name")?.to_owned();
    let scope = if queue { Shared::Queue(name) } else { Shared::Workflow(name) };
    let (since, until) = (f.time("since")?, f.maybe_time("until")?);
    let by = f.text("by")?.to_owned();
    let reason = f.maybe_text("reason")?.map(str::to_owned);
    Ok(PauseRow { scope, pause: Pause { by, reason, since }, until })
}

/// Reads the next column as JSON.
fn json_field<T: serde::de::DeserializeOwned>(f: &mut Fields<'_>) -> Field<T> {
    let text = f.text("document")?;
    serde_json::from_str(text).map_err(|error| f.corrupt("document", error))
}

/// Writes what differs between the registry before and after a change, and the blobs that come with it.
pub(super) fn save(db: &Connection, before: &Registry, change: &RegistryChange, now: Time) -> Result<(), Fault> {
    let after = &change.registry;
    for (digest, bytes) in &change.blobs {
        body::add_blob(db, *digest, bytes)?;
    }
    for workflow in after.workflows.values() {
        save_workflow(db, before.workflows.get(&workflow.key), workflow)?;
    }
    for (name, versions) in &after.tools {
        let known = before.tools.get(name);
        for (version, tool) in versions {
            if known.and_then(|known| known.get(version)) != Some(tool) {
                save_tool(db, name, version, tool)?;
            }
        }
    }
    if before.policy_version != after.policy_version {
        let (version, document) = (after.policy_version, after.policy.canonical());
        let values = params![version.as_bytes(), document.as_str(), now.as_micros()];
        db.execute("INSERT INTO policy (version, document, since) VALUES (?1, ?2, ?3)", values)?;
    }
    save_principals(db, before, after)?;
    for token in after.tokens.values() {
        if before.tokens.get(&token.id) != Some(token) {
            save_token(db, token)?;
        }
    }
    for (scope, shade) in &after.pauses {
        if before.pauses.get(scope) != Some(shade) {
            save_pauses(db, scope, shade)?;
        }
    }
    message::save_webhooks(db, &before.webhooks, &after.webhooks)?;
    for digest in after.revoked_grants.difference(&before.revoked_grants) {
        db.execute("INSERT INTO revoked_grant (digest) VALUES (?1)", [digest.as_bytes()])?;
    }
    Ok(())
}

fn save_workflow(db: &Connection, before: Option<&Workflow>, workflow: &Workflow) -> Result<(), Fault> {
    if before == Some(workflow) {
        return Ok(());
    }
    db.execute(
        "INSERT OR REPLACE INTO workflow (key, active, settings) VALUES (?1, ?2, ?3)",
        params![workflow.key, workflow.active, write_settings(&workflow.settings)],
    )?;
    for pattern in workflow.patterns.values() {
        if before.is_some_and(|known| known.patterns.contains_key(&pattern.revision)) {
            continue;
        }
        let manifest = json::to_canonical(&pattern.manifest).map_err(|error| Fault::Broken(error.to_string()))?;
        db.execute(
            "INSERT INTO pattern (id, workflow, revision, digest, manifest, title, registered_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                pattern.id.as_bytes(),
                workflow.key,
                pattern.revision,
                pattern.digest.as_bytes(),
                manifest.as_str(),
                pattern.title,
                pattern.registered_at.as_micros()
            ],
        )?;
    }
    Ok(())
}

fn save_tool(db: &Connection, name: &str, version: &str, tool: &Tool) -> Result<(), Fault> {
    db.execute(
        "INSERT OR REPLACE INTO tool (name, version, digest, spec, grant_digest, registered_at, configured,
         withdrawn_at, withdrawn_by, withdrawn_reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            name,
            version,
            tool.digest.as_bytes(),
            tool.blob.as_bytes(),
            tool.grant.as_bytes(),
            tool.registered_at.as_micros(),
            tool.configured,
            tool.withdrawn.as_ref().map(|withdrawn| withdrawn.at.as_micros()),
            tool.withdrawn.as_ref().map(|withdrawn| &withdrawn.by),
            tool.withdrawn.as_ref().and_then(|withdrawn| withdrawn.reason.as_ref())
        ],
    )?;
    Ok(())
}

fn save_principals(db: &Connection, before: &Registry, after: &Registry) -> Result<(), Fault> {
    for gone in before.principals.keys().filter(|id| !after.principals.contains_key(*id)) {
        db.execute("DELETE FROM principal WHERE id = ?1", [gone])?;
    }
    for principal in after.principals.values() {
        if before.principals.get(&principal.id) != Some(principal) {
            let document = serde_json::to_string(principal).map_err(|error| Fault::Broken(error.to_string()))?;
            db.execute(
                "INSERT OR REPLACE INTO principal (id, document) VALUES (?1, ?2)",
                params![principal.id, document],
            )?;
        }
    }
    Ok(())
}

/// What is kept of a scope is little, so it is written anew.
fn save_pauses(db: &Connection, scope: &Shared, shade: &Shade) -> Result<(), Fault> {
    let kind = matches!(scope, Shared::Queue(_));
    db.execute("DELETE FROM pause WHERE scope = ?1 AND name = ?2", params![kind, scope.name()])?;
    let before = shade.before.iter().map(|cleared| (&cleared.pause, Some(cleared.until)));
    for (pause, until) in before.chain(shade.now.iter().map(|pause| (pause, None))) {
        db.execute(
            "INSERT OR FAIL INTO pause (scope, name, since, until, by, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![kind, scope.name(), pause.since.as_micros(), until.map(Time::as_micros), pause.by, pause.reason],
        )?;
    }
    Ok(())
}

fn save_token(db: &Connection, token: &Token) -> Result<(), Fault> {
    let rights = match &token.rights {
        Some(rights) => Some(serde_json::to_string(rights).map_err(|error| Fault::Broken(error.to_string()))?),
        None => None,
    };
    db.execute(
        "INSERT OR REPLACE INTO token (id, secret, principal, rights, created_at, expires_at, revoked_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            token.id.as_bytes(),
            token.secret.as_bytes(),
            token.principal,
            rights,
            token.created_at.as_micros(),
            token.expires_at.map(Time::as_micros),
            token.revoked_at.map(Time::as_micros)
        ],
    )?;
    Ok(())
}
