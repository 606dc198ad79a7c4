//! What is registered beside runs: workflows, tools, policy, principals, tokens (the "laws" a decision is made under).
//!
//! Owns: the registry as decisions see it, and the commands that change it. Stores keep it in one small table set and
//! hold a copy in memory that changes only with a commit, so a decision reads it without a load.

use crate::command::Caller;
use crate::digest::Digest;
use crate::id::{PatternId, TokenId, WebhookId};
use crate::json::Canonical;
use crate::pause::{Shade, Shared};
use crate::policy::Policy;
use crate::principal::{Principal, Rights};
use crate::run::Settings;
use crate::time::Time;
use crate::tool::ToolSpec;
use crate::webhook::Webhook;
use crate::workflow::{Manifest, Pattern, Workflow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Everything registered.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    pub workflows: BTreeMap<String, Workflow>,
    /// Every tool ever registered, by name and version, with its digest; specs are blobs by digest (C-10, C-43).
    pub tools: BTreeMap<String, BTreeMap<String, Tool>>,
    pub policy: Arc<Policy>,
    /// The record digest of `policy` (C-48).
    pub policy_version: Digest,
    pub principals: BTreeMap<String, Principal>,
    pub tokens: BTreeMap<TokenId, Token>,
    /// Digests of grants that were revoked (C-45).
    pub revoked_grants: BTreeSet<Digest>,
    /// What is, or lately was, paused for many runs.
    pub pauses: BTreeMap<Shared, Shade>,
    /// Who is told of runs outside (I-34).
    pub webhooks: BTreeMap<WebhookId, Webhook>,
    /// Rows that could not be read when the store opened, each with why. What they named is as if it were not there: nothing is
    /// allowed by it, and what is pinned to it waits.
    pub unreadable: Vec<String>,
}

/// One registered version of a tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tool {
    pub digest: Digest,
    /// Digest of the whole spec, under which it is stored.
    pub blob: Digest,
    pub spec: Arc<ToolSpec>,
    /// Digest of the grant that came with it.
    pub grant: Digest,
    pub registered_at: Time,
    /// Its calls are refused from then on (C-45).
    pub withdrawn: Option<Withdrawal>,
    /// Whether the configuration in force names this version: only then is it given to programs that register (I-68).
    pub configured: bool,
}

/// When, by whom and why (I-38); the first one stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Withdrawal {
    pub at: Time,
    pub by: String,
    pub reason: Option<String>,
}

/// An API token: what is stored of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    pub id: TokenId,
    /// SHA-256 of the secret; the secret itself is shown once and kept nowhere.
    pub secret: Digest,
    pub principal: String,
    /// The principal's rights, or fewer.
    pub rights: Option<Rights>,
    pub created_at: Time,
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
}

/// A command on the registry.
#[derive(Clone, Debug)]
pub enum Change {
    Register(Box<Register>),
    Activate {
        by: Caller,
        key: String,
        revision: u32,
    },
    /// Applies a configuration's tools, policy and principals (I-19).
    Apply(Box<Apply>),
    Withdraw {
        by: Caller,
        tool: String,
        version: Option<String>,
        reason: Option<String>,
    },
    /// Keeps every run of a workflow or queue from workers.
    Pause {
        by: Caller,
        scope: Shared,
        reason: Option<String>,
    },
    Resume {
        by: Caller,
        scope: Shared,
    },
    MintToken {
        by: Caller,
        token: Box<Token>,
    },
    RevokeToken {
        by: Caller,
        token: TokenId,
    },
    AddWebhook {
        by: Caller,
        webhook: Box<Webhook>,
    },
    /// Its messages go with it.
    RemoveWebhook {
        by: Caller,
        webhook: WebhookId,
    },
}

/// Registers a workflow's content; equal content is the known revision again.
#[derive(Clone, Debug)]
pub struct Register {
    pub by: Caller,
    pub id: PatternId,
    pub manifest: Manifest,
    /// As the registering side numbers it; else it is given the next one.
    pub revision: Option<u32>,
    pub title: Option<String>,
    pub settings: Settings,
    /// Activate it too, which is the default.
    pub activate: bool,
    /// Source, plan, tool specs and grants by digest (C-43, R-343).
    pub blobs: Vec<(Digest, Arc<[u8]>)>,
}

/// A configuration to apply.
#[derive(Clone, Debug)]
pub struct Apply {
    pub by: Caller,
    /// Name, version, spec bytes (canonical) and grant of each tool.
    pub tools: Vec<NewTool>,
    pub policy: Arc<Policy>,
    pub principals: Vec<Principal>,
}

/// A tool of a configuration, with the grant that belongs to it (I-62).
#[derive(Clone, Debug)]
pub struct NewTool {
    pub spec: Arc<ToolSpec>,
    pub grant: Canonical,
}

/// What a registry command did.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "one answer a command, moved once")]
pub enum Answer {
    Registered { pattern: Pattern, created: bool, active: bool },
    Changed(bool),
}

impl Registry {
    /// Who a subject is now: a configured principal, or the built-in `local` one (I-19a).
    pub fn principal(&self, subject: &str) -> Option<Principal> {
        let local = || (subject == Principal::LOCAL).then(Principal::local);
        self.principals.get(subject).cloned().or_else(local)
    }

    /// Whether `by` has a say in the tokens of `subject`: as one of the same namespace, or as `local`, whose the machine is
    /// (I-65).
    pub fn keeps_tokens(&self, by: &Principal, subject: &str) -> bool {
        let same = |other: Principal| other.namespace == by.namespace;
        by.id == Principal::LOCAL || self.principal(subject).is_some_and(same)
    }

    /// The spec of a registered or built-in tool in one of its versions.
    pub fn tool(&self, name: &str, version: &str) -> Option<Arc<ToolSpec>> {
        let registered = self.tools.get(name).and_then(|versions| versions.get(version));
        registered.map(|tool| tool.spec.clone()).or_else(|| crate::builtin::spec(name))
    }

    /// The version that a plan takes: of those that the configuration in force names and nobody withdrew, the one
    /// registered last (I-68).
    pub fn newest(&self, name: &str) -> Option<&Tool> {
        let offered = |tool: &&Tool| tool.configured && tool.withdrawn.is_none();
        self.tools.get(name)?.values().filter(offered).max_by_key(|tool| (tool.registered_at, &tool.spec.version))
    }
}
