//! How much one value is made to go through: schemas that apply to the same value as the schema they stand in.
//!
//! `$ref`, `allOf` and their like go no deeper into the value, so the bounds of a body do not bound them. A document whose
//! schemas go round in place, deeper than [`limits::SCHEMA_DEPTH`], or along more ways than [`limits::SCHEMA_WAYS`], is
//! refused: no schema can exhaust the stack, or make one scalar cost more than a bounded number of steps.

use std::collections::HashMap;

use super::SchemaFault;
use super::references::Place;
use crate::json::Value;
use crate::limits;

/// What applying a schema to one value comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    /// Schemas inside each other.
    depth: usize,
    /// Ways from the schema to the ends of its branches.
    ways: u64,
}

/// Checks every schema of a document.
pub(super) fn check(document: &Value, places: &[Place<'_>]) -> Result<(), SchemaFault> {
    let anchor = |schema: &Value, keyword| Some(schema.get(keyword)?.as_str()?.to_owned());
    let anchors = places.iter().flat_map(|(_, schema)| {
        ["$anchor", "$dynamicAnchor"].into_iter().filter_map(move |keyword| Some((anchor(schema, keyword)?, *schema)))
    });
    let mut graph = Graph { document, anchors: anchors.collect(), known: HashMap::new() };
    for (pointer, schema) in places {
        graph.cost(schema, 0).map_err(|message| SchemaFault::Invalid { pointer: pointer.clone(), message })?;
    }
    Ok(())
}

struct Graph<'v> {
    document: &'v Value,
    anchors: HashMap<String, &'v Value>,
    /// By address; `None` while the schema is being looked at.
    known: HashMap<*const Value, Option<Cost>>,
}

impl<'v> Graph<'v> {
    fn cost(&mut self, schema: &'v Value, above: usize) -> Result<Cost, String> {
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(Some(cost)) => return within(*cost),
            Some(None) => return Err("the schema refers to itself without going deeper into the value".to_owned()),
            None if above > limits::SCHEMA_DEPTH => return within(Cost { depth: above, ways: 1 }),
            None => {}
        }
        self.known.insert(schema, None);
        let mut cost = Cost { depth: 1, ways: 1 };
        for inner in self.applied_in_place(schema) {
            let inner = self.cost(inner, above + 1)?;
            cost.depth = cost.depth.max(inner.depth + 1);
            cost.ways = cost.ways.saturating_add(inner.ways);
        }
        self.known.insert(schema, Some(cost));
        within(cost)
    }

    /// The schemas that apply to the same value as this one.
    fn applied_in_place(&self, schema: &'v Value) -> Vec<&'v Value> {
        let refs =
            ["$ref", "$dynamicRef"].into_iter().filter_map(|keyword| self.target(schema.get(keyword)?.as_str()?));
        let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
        let alone = ["not", "if", "then", "else"].into_iter().filter_map(|keyword| schema.get(keyword));
        let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
        let dependent = dependent.into_iter().flat_map(|named| named.iter().map(|(_, schema)| schema));
        refs.chain(lists.flatten()).chain(alone).chain(dependent).collect()
    }

    /// What a reference leads to; nothing if it leads nowhere, which compiling refuses.
    fn target(&self, reference: &str) -> Option<&'v Value> {
        let fragment = reference.strip_prefix('#')?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.document.pointer(&percent_decode(fragment)?);
        }
        self.anchors.get(fragment).copied()
    }
}

fn within(cost: Cost) -> Result<Cost, String> {
    if cost.depth > limits::SCHEMA_DEPTH {
        return Err(format!("more than {} schemas apply inside each other to one value", limits::SCHEMA_DEPTH));
    }
    if cost.ways > limits::SCHEMA_WAYS {
        return Err(format!("more than {} schemas apply to one value", limits::SCHEMA_WAYS));
    }
    Ok(cost)
}

/// The text of a fragment, in which a pointer's characters may be percent-encoded.
pub(super) fn percent_decode(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let hex = (byte == b'%').then(|| behind.get(..2)).flatten();
        let decoded = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).ok()
}
