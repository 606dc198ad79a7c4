//! The tools of module `stasis`, which every plan has (C-268).
//!
//! Owns: their specs. What they do is the broker's; a guest reaches them like any other tool, by the same steps.

use crate::json::canonicalize;
use crate::tool::ToolSpec;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Asks a person; always `ask`, with obligations from policy and what the program tightens (C-132).
pub const GATE: &str = "stasis.gate";
/// Waits for a timer.
pub const SLEEP: &str = "stasis.sleep";
/// Waits for a signal, perhaps with a limit.
pub const SIGNAL: &str = "stasis.signal";
/// Waits for whichever of several gates, signals, timers and jobs ends first.
pub const FIRST: &str = "stasis.first";
/// Hands a job over to an agent, and waits for its end.
pub const DELEGATE: &str = "stasis.delegate";
pub const NOW: &str = "stasis.now";
pub const RANDOM_BYTES: &str = "stasis.random_bytes";
pub const SHA256: &str = "stasis.sha256";

static SPECS: LazyLock<BTreeMap<String, Arc<ToolSpec>>> = LazyLock::new(|| {
    DOCUMENTS
        .iter()
        .map(|document| {
            let document = canonicalize(document.as_bytes()).expect("built-in specs are JSON");
            let spec = ToolSpec::parse_builtin(&document).expect("built-in specs are valid");
            (spec.name.clone(), Arc::new(spec))
        })
        .collect()
});

/// The spec of a built-in tool.
pub fn spec(name: &str) -> Option<Arc<ToolSpec>> {
    SPECS.get(name).cloned()
}

/// Every built-in tool, by name.
pub fn all() -> impl Iterator<Item = &'static Arc<ToolSpec>> {
    SPECS.values()
}

const DOCUMENTS: [&str; 8] = [
    r#"{"name": "stasis.gate", "version": "1", "effect": "read", "approval": "always", "builtin": {"function": "gate"},
        "description": "Ask a person, and go on only if they approve.",
        "input_schema": {"type": "object", "additionalProperties": false, "required": ["title"], "properties": {
            "title": {"type": "string", "minLength": 1, "maxLength": 1024},
            "details": true,
            "roles": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 64},
            "quorum": {"type": "integer", "minimum": 1, "maximum": 16},
            "lease_ms": {"type": "integer", "minimum": 1000, "maximum": 34560000000},
            "on_expiry": {"enum": ["reject", "fail"]},
            "form": {"type": ["object", "boolean"]}}},
        "output_schema": {}}"#,
    r#"{"name": "stasis.sleep", "version": "1", "effect": "read", "builtin": {"function": "sleep"},
        "description": "Wait until a time has come.",
        "input_schema": {"type": "object", "additionalProperties": false, "properties": {
            "ms": {"type": "integer", "minimum": 0, "maximum": 34560000000},
            "until": {"type": "string", "format": "date-time"}},
            "oneOf": [{"required": ["ms"]}, {"required": ["until"]}]},
        "output_schema": {"type": "null"}}"#,
    r#"{"name": "stasis.signal", "version": "1", "effect": "read", "builtin": {"function": "signal"},
        "description": "Wait for a signal, and get its payload.",
        "input_schema": {"type": "object", "additionalProperties": false, "required": ["name"], "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 256},
            "timeout_ms": {"type": "integer", "minimum": 0, "maximum": 34560000000},
            "schema": {"type": ["object", "boolean"]}}},
        "output_schema": {}}"#,
    r#"{"name": "stasis.first", "version": "1", "effect": "read", "builtin": {"function": "first"},
        "description": "Wait for the first of several gates, signals, timers and jobs.",
        "input_schema": {"type": "object", "additionalProperties": false, "required": ["waits"], "properties": {
            "waits": {"type": "array", "minItems": 1, "maxItems": 64, "items": {
                "type": "object", "additionalProperties": false, "required": ["tool", "arguments"], "properties": {
                    "tool": {"type": "string"}, "arguments": {"type": "object"}}}}}},
        "output_schema": {}}"#,
    r#"{"name": "stasis.delegate", "version": "1", "effect": "read", "builtin": {"function": "delegate"},
        "description": "Hand a job over to an agent, and wait until it has ended.",
        "input_schema": {"type": "object", "additionalProperties": false, "required": ["agent", "task"], "properties": {
            "agent": {"type": "string", "minLength": 1, "maxLength": 256},
            "task": true,
            "tools": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 256},
            "max_calls": {"type": "integer", "minimum": 1, "maximum": 10000},
            "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 34560000000},
            "schema": {"type": ["object", "boolean"]},
            "retry": {"enum": ["safe"]}}},
        "output_schema": {}}"#,
    r#"{"name": "stasis.now", "version": "1", "effect": "read", "builtin": {"function": "now"},
        "description": "The present time.",
        "input_schema": {"type": "object", "additionalProperties": false}, "output_schema": {"type": "string"}}"#,
    r#"{"name": "stasis.random_bytes", "version": "1", "effect": "read", "builtin": {"function": "random_bytes"},
        "description": "Random bytes, as base64.",
        "input_schema": {"type": "object", "additionalProperties": false, "required": ["n"], "properties": {
            "n": {"type": "integer", "minimum": 0, "maximum": 65536}}},
        "output_schema": {"type": "string"}}"#,
    r#"{"name": "stasis.sha256", "version": "1", "effect": "pure", "builtin": {"function": "sha256"},
        "description": "The SHA-256 of some bytes given as base64, in hex.",
        "input_schema": {"type": "object", "additionalProperties": false, "required": ["base64"], "properties": {
            "base64": {"type": "string"}}},
        "output_schema": {"type": "string"}}"#,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Effect;

    #[test]
    fn every_built_in_tool_has_a_valid_spec() {
        // C-268
        assert_eq!(all().count(), DOCUMENTS.len());
        assert_eq!(spec(SHA256).map(|s| s.effect), Some(Effect::Pure));
        assert_eq!(spec(NOW).map(|s| s.effect), Some(Effect::Read));
        assert!(spec("stasis.log").is_none());
    }
}
