//! Connectors against real sockets and real processes.

mod command;
mod http;
mod redirect;
mod secrets;
mod server;
mod tls;

use std::collections::HashMap;
use std::sync::Arc;

use engine::tools::{Connectors, Dispatch, Grant, Host, Names, Outcome, Secrets, Surroundings, Trust};
use protocol::call::Applied;
use protocol::code::Code;
use protocol::json::{Canonical, canonicalize};
use protocol::tool::{Connector, ToolSpec};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A tool of this effect with this connector; `more` are other fields of the spec.
fn tool(effect: &str, connector: Value, more: Value) -> ToolSpec {
    let mut spec = json!({
        "name": "test.tool", "version": "1", "description": "A tool", "effect": effect,
        "input_schema": {"type": "object"},
    });
    for part in [connector, more] {
        for (key, value) in part.as_object().expect("fields") {
            spec[key] = value.clone();
        }
    }
    let text = canonicalize(spec.to_string().as_bytes()).expect("strict JSON");
    ToolSpec::parse(&text).unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// A tool that calls `path` of a server on this machine.
fn http_tool(effect: &str, method: &str, port: u16, path: &str) -> ToolSpec {
    tool(effect, json!({"http": {"method": method, "url": format!("http://127.0.0.1:{port}{path}")}}), json!({}))
}

/// The grant that a configuration gives by default: host and port of the url (I-62).
fn default_grant(spec: &ToolSpec) -> Grant {
    match &spec.connector {
        Connector::Http(http) => Grant { hosts: vec![Host::of_url(http.url.host(), http.url.port())], secrets: vec![] },
        _ => Grant::default(),
    }
}

fn connectors() -> Connectors {
    connectors_with(&[], &[])
}

/// Connectors with these secrets in place of the environment, and these names in place of name service.
fn connectors_with(secrets: &[(&str, &str)], names: &[(&str, &str)]) -> Connectors {
    let secrets: HashMap<String, String> = secrets.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let names: HashMap<_, _> =
        names.iter().map(|(name, ip)| ((*name).to_owned(), vec![ip.parse().expect("an address")])).collect();
    Connectors::new(Surroundings {
        names: Names::Table(Arc::new(names)),
        secrets: Secrets::Table(Arc::new(secrets)),
        trust: Trust::System,
        server_concurrency: 64,
    })
}

fn arguments(value: Value) -> Canonical {
    canonicalize(value.to_string().as_bytes()).expect("strict JSON")
}

async fn call(connectors: &Connectors, spec: &ToolSpec, value: Value) -> Outcome {
    call_with(connectors, spec, &default_grant(spec), value).await
}

async fn call_with(connectors: &Connectors, spec: &ToolSpec, grant: &Grant, value: Value) -> Outcome {
    let arguments = arguments(value);
    let slot = connectors.slot(spec).await;
    let cancel = CancellationToken::new();
    let dispatch = Dispatch { spec, grant, arguments: &arguments, key: Some("stasis-k1"), cancel, slot };
    connectors.dispatch(dispatch).await.outcome
}

fn result(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Ok { result } => result.as_str(),
        other => panic!("no result: {other:?}"),
    }
}

#[track_caller]
fn assert_error(outcome: &Outcome, code: Code, applied: Applied) {
    match outcome {
        Outcome::Error { code: is, applied: was, .. } if *is == code && *was == applied => {}
        other => panic!("expected {code} with applied {applied:?}, got {other:?}"),
    }
}

#[track_caller]
fn assert_ambiguous(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Ambiguous { .. }), "expected an ambiguous end, got {outcome:?}");
}

fn detail(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Error { detail, .. } | Outcome::Ambiguous { detail } => detail,
        Outcome::Ok { result } => panic!("no detail: {result:?}"),
    }
}
