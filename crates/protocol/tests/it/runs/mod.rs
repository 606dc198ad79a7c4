//! Stories of runs: what the decisions promise, told by outcome.

mod approvals;
mod gate;
mod lifecycle;
mod random;
mod recovery;

use protocol::digest::Digest;
use protocol::json::canonicalize;
use protocol::run::Kind;
use protocol::tool::ToolSpec;
use protocol::workflow::Manifest;

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

fn tool(text: &str) -> ToolSpec {
    ToolSpec::parse(&canonicalize(text.as_bytes()).expect("JSON")).expect("a tool")
}

pub(crate) fn write_tool() -> ToolSpec {
    tool(
        r#"{"name": "payments.refund", "version": "1", "description": "Refund", "effect": "write",
            "input_schema": {"type": "object"}, "http": {"method": "POST", "url": "http://127.0.0.1:1/refunds"}}"#,
    )
}

pub(crate) fn read_tool() -> ToolSpec {
    tool(
        r#"{"name": "payments.order", "version": "1", "description": "Order", "effect": "read",
            "input_schema": {"type": "object"}, "http": {"method": "GET", "url": "http://127.0.0.1:1/orders"}}"#,
    )
}
