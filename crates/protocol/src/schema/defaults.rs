//! Filling in defaults (C-19).
//!
//! A default counts where the schema applies for certain: in `properties`, `prefixItems`, `items`, `allOf` and behind a
//! `$ref` to a place in the document. Branches that depend on the value (`anyOf`, `oneOf`, `if`) add nothing, so what is
//! added never depends on an order of trying.

use crate::json::Value;

/// References followed for one value; more are a loop.
const HOPS: usize = 64;

/// Adds to `value` the defaults that `schema` has for members that are absent.
pub(super) fn apply(schema: &Value, value: &mut Value) {
    fill(schema, schema, value, HOPS);
}

fn fill(root: &Value, schema: &Value, value: &mut Value, hops: usize) {
    if let (Some(target), true) = (referred(root, schema), hops > 0) {
        fill(root, target, value, hops - 1);
    }
    for branch in schema.get("allOf").and_then(Value::as_array).unwrap_or_default() {
        if hops > 0 {
            fill(root, branch, value, hops - 1);
        }
    }
    match value {
        Value::Object(object) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flat_map(|properties| properties.iter()) {
                if let (false, Some(default)) = (object.contains(name), default(root, schema)) {
                    object.insert(name.to_owned(), default.clone());
                }
                if let Some(member) = object.get_mut(name) {
                    fill(root, schema, member, HOPS);
                }
            }
        }
        Value::Array(items) => {
            let first = schema.get("prefixItems").and_then(Value::as_array).unwrap_or_default();
            let rest = schema.get("items");
            for (at, item) in items.iter_mut().enumerate() {
                if let Some(schema) = first.get(at).or(rest) {
                    fill(root, schema, item, HOPS);
                }
            }
        }
        _ => {}
    }
}

/// The default of a schema, its own or that of what it refers to.
fn default<'s>(root: &'s Value, schema: &'s Value) -> Option<&'s Value> {
    let mut schema = schema;
    for _ in 0..HOPS {
        if let Some(default) = schema.get("default") {
            return Some(default);
        }
        schema = referred(root, schema)?;
    }
    None
}

/// What `$ref` leads to, if it is a pointer into the document.
fn referred<'s>(root: &'s Value, schema: &Value) -> Option<&'s Value> {
    let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(&super::in_place::percent_decode(pointer)?)
}
