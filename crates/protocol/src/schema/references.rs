//! References stay inside their own document (C-14).

use super::SchemaFault;
use crate::json::{Value, push_token};

/// The one dialect that `$schema` may name.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Finds the first reference out of the document.
pub(super) fn check(schema: &Value) -> Result<(), SchemaFault> {
    walk(schema, &mut String::new())
}

/// What stands under a keyword.
enum Under {
    Schemas,
    /// A map from free names to schemas.
    Named,
    /// Data, in which `$ref` means nothing.
    Data,
}

fn under(keyword: &str) -> Under {
    match keyword {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => Under::Named,
        "const" | "enum" | "default" | "examples" => Under::Data,
        // Keywords that hold no schemas hold nothing that looks like one either.
        _ => Under::Schemas,
    }
}

fn walk(schema: &Value, pointer: &mut String) -> Result<(), SchemaFault> {
    let len = pointer.len();
    match schema {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                push_token(pointer, &at.to_string());
                walk(item, pointer)?;
                pointer.truncate(len);
            }
        }
        Value::Object(object) => {
            for (keyword, value) in object.iter() {
                push_token(pointer, keyword);
                if let Some((keyword, target)) = leaves(keyword, value) {
                    return Err(SchemaFault::ExternalRef {
                        pointer: pointer.clone(),
                        keyword,
                        target: target.to_owned(),
                    });
                }
                match (under(keyword), value) {
                    (Under::Data, _) => {}
                    (Under::Named, Value::Object(named)) => {
                        let len = pointer.len();
                        for (name, schema) in named.iter() {
                            push_token(pointer, name);
                            walk(schema, pointer)?;
                            pointer.truncate(len);
                        }
                    }
                    (Under::Named | Under::Schemas, _) => walk(value, pointer)?,
                }
                pointer.truncate(len);
            }
        }
        _ => {}
    }
    Ok(())
}

/// The reference that leads out of the document, if this keyword is one.
fn leaves<'v>(keyword: &str, value: &'v Value) -> Option<(&'static str, &'v str)> {
    let target = value.as_str()?;
    match keyword {
        "$ref" if !target.starts_with('#') => Some(("$ref", target)),
        "$dynamicRef" if !target.starts_with('#') => Some(("$dynamicRef", target)),
        "$schema" if target.trim_end_matches('#') != DIALECT => Some(("$schema", target)),
        _ => None,
    }
}
