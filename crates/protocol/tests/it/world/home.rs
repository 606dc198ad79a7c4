//! Where runs live: people, a workflow, two tools.

use protocol::approval::Method;
use protocol::command::Caller;
use protocol::digest::Digest;
use protocol::id::{PatternId, RequestId};
use protocol::json::canonicalize;
use protocol::policy::Strength;
use protocol::principal::{Kind as PrincipalKind, Principal, Rights, Roles};
use protocol::registry::{Registry, Tool};
use protocol::run::{Kind, Settings};
use protocol::time::Time;
use protocol::tool::ToolSpec;
use protocol::workflow::{Manifest, Pattern, Workflow};
use std::collections::BTreeMap;
use std::sync::Arc;

const LONG_AGO: Time = Time::from_millis(1);

/// Ana, Ben and Cleo may decide; so may whoever else is made by [`person`].
pub(super) fn registry() -> Registry {
    let mut registry = Registry::default();
    for id in ["ana", "ben", "cleo"] {
        registry.principals.insert(id.to_owned(), person(id));
    }
    registry.workflows.insert("refund".to_owned(), workflow());
    for spec in [write_tool(), read_tool()] {
        let (name, version) = (spec.name.clone(), spec.version.clone());
        registry.tools.entry(name).or_default().insert(version, tool(spec));
    }
    registry
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
    // The same program under another text, and one whose plan is another.
    let second = Manifest { source: Digest::of("second"), ..pattern.manifest.clone() };
    let third = Manifest { plan: Digest::of("third plan"), ..second.clone() };
    let later = |revision: u32, manifest: Manifest| {
        let id = PatternId::mint(LONG_AGO, 0, revision.into());
        (revision, Pattern { id, revision, digest: manifest.digest(), manifest, ..pattern.clone() })
    };
    let patterns = BTreeMap::from([later(2, second), later(3, third), (1, pattern)]);
    Workflow { key: "refund".to_owned(), active: Some(1), patterns, settings: settings() }
}

fn tool(spec: ToolSpec) -> Tool {
    let (digest, blob) = (spec.digest(), spec.canonical().digest());
    Tool {
        digest,
        blob,
        grant: grant(),
        registered_at: LONG_AGO,
        withdrawn: None,
        configured: true,
        spec: Arc::new(spec),
    }
}

/// The grant that the plan gives every tool here.
pub(crate) fn grant() -> Digest {
    Digest::of("{}")
}

pub(crate) fn person(id: &str) -> Principal {
    Principal {
        id: id.to_owned(),
        name: id.to_owned(),
        kind: PrincipalKind::Person,
        namespace: "default".to_owned(),
        partition: None,
        roles: Roles::from_iter(["approver"]),
        rights: Rights::all(),
    }
}

pub(crate) fn caller(principal: Principal) -> Caller {
    let request = RequestId::mint(LONG_AGO, 0, 1);
    Caller { principal, method: Method::Api, strength: Strength::Session, request }
}

pub(crate) fn settings() -> Settings {
    Settings {
        active_limit_us: 60_000_000,
        memory_bytes: 512 << 20,
        max_calls: 300,
        not_after: None,
        resume: true,
        separate_requester: true,
    }
}

pub(crate) fn manifest() -> Manifest {
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

fn spec(text: &str) -> ToolSpec {
    ToolSpec::parse(&canonicalize(text.as_bytes()).expect("JSON")).expect("a tool")
}

pub(crate) fn write_tool() -> ToolSpec {
    spec(
        r#"{"name": "payments.refund", "version": "1", "description": "Refund", "effect": "write",
            "input_schema": {"type": "object"}, "http": {"method": "POST", "url": "http://127.0.0.1:1/refunds"}}"#,
    )
}

pub(crate) fn read_tool() -> ToolSpec {
    spec(
        r#"{"name": "payments.order", "version": "1", "description": "Order", "effect": "read",
            "input_schema": {"type": "object"}, "http": {"method": "GET", "url": "http://127.0.0.1:1/orders"}}"#,
    )
}
