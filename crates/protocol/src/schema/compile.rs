//! Compiling: what is refused at registration, and the options of the validator.

use jsonschema::{Draft, PatternOptions, Validator};

use super::node::Written;
use super::numeric::{self, Kind};
use super::{SchemaFault, in_place, references};
use crate::json::{Canonical, Number, Value, push_token};
use crate::limits;

pub(super) fn compile(schema: &Canonical, document: &Value) -> Result<Validator<Written>, SchemaFault> {
    if schema.len() > limits::SCHEMA_BYTES {
        return Err(SchemaFault::Size { bytes: schema.len(), most: limits::SCHEMA_BYTES });
    }
    in_place::check(document, &references::places(document)?)?;
    let document = exact(document, &mut String::new())?;
    let mut options = jsonschema::options_for::<Written>()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(true)
        .should_ignore_unknown_formats(false)
        .with_pattern_options(
            PatternOptions::regex().size_limit(limits::PATTERN_BYTES).dfa_size_limit(limits::PATTERN_BYTES),
        )
        .offline();
    for kind in Kind::ALL {
        options = options.with_keyword(kind.name(), move |_, limit, location| numeric::keyword(kind, limit, location));
    }
    options.build(&document).map_err(|error| SchemaFault::Invalid {
        pointer: error.instance_path().as_str().to_owned(),
        message: error.masked().to_string(),
    })
}

/// The document for the validator, whose own numbers round: one that would is refused, wherever it stands.
fn exact(value: &Value, pointer: &mut String) -> Result<serde_json::Value, SchemaFault> {
    let len = pointer.len();
    let result = match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => serde_json::Value::Bool(*value),
        Value::String(text) => serde_json::Value::String(text.clone()),
        Value::Number(literal) if literal.is_exact() => serde_json::Value::Number(number(literal)),
        Value::Number(literal) => {
            return Err(SchemaFault::Inexact { pointer: pointer.clone(), literal: literal.to_string() });
        }
        Value::Array(items) => {
            let mut list = Vec::with_capacity(items.len());
            for (at, item) in items.iter().enumerate() {
                push_token(pointer, &at.to_string());
                list.push(exact(item, pointer)?);
                pointer.truncate(len);
            }
            serde_json::Value::Array(list)
        }
        Value::Object(object) => {
            let mut map = serde_json::Map::new();
            for (key, value) in object.iter() {
                push_token(pointer, key);
                map.insert(key.to_owned(), exact(value, pointer)?);
                pointer.truncate(len);
            }
            serde_json::Value::Object(map)
        }
    };
    Ok(result)
}

/// The number as `serde_json` has it, equal in value if the literal is exact.
pub(super) fn number(literal: &Number) -> serde_json::Number {
    let whole = literal.whole().and_then(serde_json::Number::from_i128);
    let float = || serde_json::Number::from_f64(literal.as_f64()).expect("literals are finite");
    whole.unwrap_or_else(float)
}
