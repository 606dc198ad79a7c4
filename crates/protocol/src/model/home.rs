//! Where the runs of the small worlds live: people who may decide, a workflow, one tool that changes the world and one
//! that reads it.

use super::world::{Ask, World};
use crate::approval::Method;
use crate::call::{Call, Identity, RecoveryClass, State, ToolRef};
use crate::command::{self, Admit, Caller};
use crate::digest::Digest;
use crate::id::{Ids, PatternId, RequestId, RunId, WorkerId};
use crate::json::{Canonical, canonicalize};
use crate::limits::Limits;
use crate::policy::{self, Obligation, OnExpiry, Outcome, Strength, Terms};
use crate::principal::{Kind as PrincipalKind, Principal, Rights, Roles};
use crate::registry::{Registry, Tool};
use crate::rows::NewBody;
use crate::run::{Kind, PatternRef, Settings};
use crate::time::Time;
use crate::tool::{Effect, ToolSpec};
use crate::workflow::{Manifest, Pattern, Workflow};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a claim stands without renewal.
pub(super) const TTL: Duration = Duration::from_secs(30);
/// How long a question stands.
const LEASE: Duration = Duration::from_secs(60);
/// How long a yes stands at least.
const GRACE: Duration = Duration::from_secs(30);
const LONG_AGO: Time = Time::from_millis(1);
const START: Time = Time::from_millis(1_000_000);

/// What stays the same through a world: who may what, and under which policies the same tools stand.
pub(super) struct Home {
    /// By [`Policy`].
    registries: [Registry; 3],
    pub(super) limits: Limits,
    write: ToolRef,
    read: ToolRef,
}

/// What the policy says of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Policy {
    Allow,
    Ask,
    Deny,
}

impl Home {
    pub(super) fn new() -> Home {
        let (write, read) = (tool("write"), tool("read"));
        let registry = |outcome| {
            let mut registry = Registry::default();
            for name in ["ana", "ben"] {
                registry.principals.insert(name.to_owned(), person(name));
            }
            registry.workflows.insert("refund".to_owned(), workflow());
            for tool in [&write, &read] {
                let (name, version) = (tool.spec.name.clone(), tool.spec.version.clone());
                registry.tools.entry(name).or_default().insert(version, tool.clone());
            }
            let mut policy = (*registry.policy).clone();
            policy.default.write = outcome;
            registry.policy = Arc::new(policy);
            registry
        };
        let registries = [Outcome::Allow, Outcome::Ask, Outcome::Deny].map(registry);
        let reference = |tool: &Tool| ToolRef {
            name: tool.spec.name.clone(),
            version: tool.spec.version.clone(),
            digest: tool.digest,
        };
        Home { registries, limits: Limits::default(), write: reference(&write), read: reference(&read) }
    }

    pub(super) fn registry(&self, policy: Policy) -> &Registry {
        &self.registries[policy as usize]
    }

    /// A new call, as a hop would journal it.
    pub(super) fn call(&self, run: RunId, n: u32, class: Option<RecoveryClass>, now: Time, ids: &mut Ids) -> Call {
        let body = NewBody::new(arguments(false).as_bytes()).body;
        let (effect, tool) = match class {
            Some(_) => (Effect::Write, &self.write),
            None => (Effect::Read, &self.read),
        };
        Call {
            id: ids.mint(),
            run,
            position: None,
            identity: Identity::main(n + 1),
            tool: tool.clone(),
            effect,
            recovery: class.unwrap_or(RecoveryClass::Retry),
            timeout_ms: 30_000,
            asked: body.digest,
            arguments: body,
            edited: false,
            approval: None,
            settle: None,
            state: State::Entered,
            rounds: 0,
            from: None,
            receipt: None,
            at: now,
        }
    }

    pub(super) fn question(&self, call: &Call, ask: Ask, ids: &mut Ids) -> command::Ask {
        let rule = Terms::default().resolve(true);
        let on_expiry = if ask == Ask::OrFail { OnExpiry::Fail } else { rule.on_expiry };
        let rule = Obligation { edit: policy::Edit::Yes, lease: LEASE, dispatch_within: GRACE, on_expiry, ..rule };
        command::Ask {
            id: ids.mint(),
            wait: ids.mint(),
            call: call.id,
            kind: crate::approval::Kind::Call,
            obligation: Arc::new(rule),
            policy: self.registries[Policy::Ask as usize].policy_version,
            claim: None,
            form: None,
            unrenderable: false,
            operands: Vec::new(),
            member: None,
        }
    }
}

/// What a call asks for, or what an approver made of it.
pub(super) fn arguments(edited: bool) -> Canonical {
    let text: &[u8] = if edited { br#"{"amount":1}"# } else { br#"{"amount":5}"# };
    canonicalize(text).expect("JSON")
}

pub(super) fn body(text: &str) -> NewBody {
    NewBody::new(text.as_bytes())
}

pub(super) fn worker(n: u8) -> WorkerId {
    WorkerId::mint(LONG_AGO, 0, u64::from(n) + 1)
}

pub(super) fn caller(name: &str) -> Caller {
    let request = RequestId::mint(LONG_AGO, 0, 1);
    Caller { principal: person(name), method: Method::Api, strength: Strength::Session, request }
}

/// The grant that the plan gives every tool here.
pub(super) fn grant() -> Digest {
    Digest::of("{}")
}

/// The admission with which a world begins, and its time.
pub(super) fn admission(world: &World, ids: &mut Ids) -> (Admit, Time) {
    let manifest = manifest();
    let admit = Admit {
        by: caller("req"),
        run: ids.mint(),
        pattern: PatternRef { key: "refund".to_owned(), revision: 1, digest: manifest.digest() },
        kind: Kind::Script,
        plan: manifest.plan,
        input: body("{}"),
        settings: settings(),
        acts_for: None,
        idempotency_key: None,
        request_digest: Digest::of("request"),
        queue: "default".to_owned(),
        priority: 50,
        session: None,
        deadline: world.deadline.map(|after| START + after),
        labels: BTreeMap::new(),
        retry_of: None,
        fork: None,
        max_queued: None,
        taker: None,
    };
    (admit, START)
}

pub(super) fn ids() -> Ids {
    Ids::new(START, 0, 42)
}

fn person(name: &str) -> Principal {
    Principal {
        id: name.to_owned(),
        name: name.to_owned(),
        kind: PrincipalKind::Person,
        namespace: "default".to_owned(),
        partition: None,
        roles: Roles::from_iter(["approver"]),
        rights: Rights::all(),
    }
}

fn tool(effect: &str) -> Tool {
    let text = format!(
        r#"{{"name": "bank.{effect}", "version": "1", "description": "{effect}", "effect": "{effect}",
             "input_schema": {{"type": "object"}}, "http": {{"method": "POST", "url": "http://127.0.0.1:1/"}}}}"#
    );
    let text = text.replace(r#""POST""#, if effect == "read" { r#""GET""# } else { r#""POST""# });
    let spec = ToolSpec::parse(&canonicalize(text.as_bytes()).expect("JSON")).expect("a tool");
    let (digest, blob) = (spec.digest(), spec.canonical().digest());
    let spec = Arc::new(spec);
    Tool { digest, blob, grant: grant(), registered_at: LONG_AGO, withdrawn: None, configured: true, spec }
}

fn settings() -> Settings {
    Settings {
        active_limit_us: 60_000_000,
        memory_bytes: 512 << 20,
        max_calls: 300,
        not_after: None,
        resume: true,
        separate_requester: true,
    }
}

fn manifest() -> Manifest {
    let any = canonicalize(b"{}").expect("JSON");
    Manifest {
        schema: Manifest::SCHEMA.to_owned(),
        key: "refund".to_owned(),
        kind: Kind::Script,
        source: Digest::of("source"),
        input_schema: any.clone(),
        output_schema: any,
        plan: Digest::of("plan"),
        engine: None,
        image: None,
        checkpoint_schema: "stasis.script.v1".to_owned(),
        roots: Vec::new(),
        resume: true,
    }
}

fn workflow() -> Workflow {
    let manifest = manifest();
    let pattern = Pattern {
        id: PatternId::mint(LONG_AGO, 0, 1),
        revision: 1,
        digest: manifest.digest(),
        manifest,
        title: None,
        registered_at: LONG_AGO,
    };
    let patterns = BTreeMap::from([(1, pattern)]);
    Workflow { key: "refund".to_owned(), active: Some(1), patterns, settings: settings() }
}
