//! Where the schemas of a document stand, and that no reference leads out of it (C-14).

use super::SchemaFault;
use crate::json::{Value, push_token};

/// The one dialect that `$schema` may name.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// One schema of a document: its place, and itself.
pub(super) type Place<'v> = (String, &'v Value);

/// All schemas of a document, or the first reference out of it.
pub(super) fn places(document: &Value) -> Result<Vec<Place<'_>>, SchemaFault> {
    let mut places = Vec::new();
    walk(document, &mut String::new(), &mut places)?;
    Ok(places)
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

fn walk<'v>(schema: &'v Value, pointer: &mut String, places: &mut Vec<Place<'v>>) -> Result<(), SchemaFault> {
    let len = pointer.len();
    match schema {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                push_token(pointer, &at.to_string());
                walk(item, pointer, places)?;
                pointer.truncate(len);
            }
        }
        Value::Object(object) => {
            places.push((pointer.clone(), schema));
            for (keyword, value) in object.iter() {
                push_token(pointer, keyword);
                check_keyword(keyword, value, pointer, len == 0)?;
                match (under(keyword), value) {
                    (Under::Data, _) => {}
                    (Under::Named, Value::Object(named)) => walk_named(named, pointer, places)?,
                    (Under::Named | Under::Schemas, _) => walk(value, pointer, places)?,
                }
                pointer.truncate(len);
            }
        }
        _ => {}
    }
    Ok(())
}

fn walk_named<'v>(
    named: &'v crate::json::Object,
    pointer: &mut String,
    places: &mut Vec<Place<'v>>,
) -> Result<(), SchemaFault> {
    let len = pointer.len();
    for (name, schema) in named.iter() {
        push_token(pointer, name);
        walk(schema, pointer, places)?;
        pointer.truncate(len);
    }
    Ok(())
}

/// Refuses a keyword that leads out of the document, or changes what leads where.
fn check_keyword(keyword: &str, value: &Value, pointer: &str, at_root: bool) -> Result<(), SchemaFault> {
    let Some(target) = value.as_str() else { return Ok(()) };
    let leaves = |keyword| SchemaFault::ExternalRef { pointer: pointer.to_owned(), keyword, target: target.to_owned() };
    match keyword {
        "$ref" if !target.starts_with('#') => Err(leaves("$ref")),
        "$dynamicRef" if !target.starts_with('#') => Err(leaves("$dynamicRef")),
        "$schema" if target.trim_end_matches('#') != DIALECT => Err(leaves("$schema")),
        // An embedded resource would have an inside of its own for `#` to mean.
        "$id" if !at_root => {
            let message = "`$id` may stand at the root only".to_owned();
            Err(SchemaFault::Invalid { pointer: pointer.to_owned(), message })
        }
        _ => Ok(()),
    }
}
