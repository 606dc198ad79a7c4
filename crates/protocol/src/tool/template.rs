//! How the engine builds the arguments of a call about another call: lookup, cancel and compensation tools (C-8).
//!
//! A template is JSON in which an object with the one member `$arguments` or `$result` (a JSON Pointer), `$key` (`true`)
//! or `$literal` stands for a value of the call in question.

use serde::{Serialize, Serializer};

use crate::fields::{self, Wrong};
use crate::json::{Canonical, Object, Value};

/// A checked template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Value);

/// What a template is filled from.
#[derive(Debug, Clone, Copy)]
pub struct TemplateInput<'a> {
    pub arguments: &'a Value,
    pub result: Option<&'a Value>,
    /// The idempotency key of the call.
    pub key: &'a str,
}

/// A template could not be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateFault {
    #[error("nothing stands at `{0}` of the arguments")]
    NoArgument(String),
    #[error("nothing stands at `{0}` of the result")]
    NoResult(String),
    /// The filled template is too large or too deep.
    #[error("the built arguments are refused: {0}")]
    Strict(#[from] crate::json::Fault),
}

/// A part of a template that stands for a value.
enum Hole<'a> {
    Arguments(&'a str),
    Result(&'a str),
    Key,
    Literal(&'a Value),
}

impl Template {
    /// Checks a template: an object whose holes are well formed.
    pub(crate) fn parse(value: &Value) -> Result<Self, Wrong> {
        if value.as_object().is_none_or(|object| hole(object).is_ok_and(|hole| hole.is_some())) {
            return Err("expected an object that builds arguments".to_owned());
        }
        check(value)?;
        Ok(Self(value.clone()))
    }

    /// Whether the template needs the result of the call.
    pub fn needs_result(&self) -> bool {
        fn needs(value: &Value) -> bool {
            match value {
                Value::Object(object) => match hole(object) {
                    Ok(Some(found)) => matches!(found, Hole::Result(_)),
                    _ => object.iter().any(|(_, value)| needs(value)),
                },
                Value::Array(items) => items.iter().any(needs),
                _ => false,
            }
        }
        needs(&self.0)
    }

    /// Builds the arguments.
    pub fn fill(&self, input: &TemplateInput<'_>) -> Result<Canonical, TemplateFault> {
        Ok(fill(&self.0, input)?.canonical()?)
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The hole that an object is, if it is one.
fn hole(object: &Object) -> Result<Option<Hole<'_>>, Wrong> {
    let Some((name, value)) = object.iter().find(|(name, _)| name.starts_with('$')) else {
        return Ok(None);
    };
    if object.len() > 1 {
        return Err(format!("`{name}` stands alone in its object"));
    }
    let pointer = |value| fields::pointer(value).and(fields::text(value));
    match name {
        "$arguments" => pointer(value).map(|pointer| Some(Hole::Arguments(pointer))),
        "$result" => pointer(value).map(|pointer| Some(Hole::Result(pointer))),
        "$key" if value.as_bool() == Some(true) => Ok(Some(Hole::Key)),
        "$key" => Err("`$key` needs true".to_owned()),
        "$literal" => Ok(Some(Hole::Literal(value))),
        _ => Err(format!("`{name}` is none of $arguments, $result, $key, $literal")),
    }
}

fn check(value: &Value) -> Result<(), Wrong> {
    match value {
        Value::Object(object) => match hole(object)? {
            Some(_) => Ok(()),
            None => object.iter().try_for_each(|(_, value)| check(value)),
        },
        Value::Array(items) => items.iter().try_for_each(check),
        _ => Ok(()),
    }
}

fn fill(value: &Value, input: &TemplateInput<'_>) -> Result<Value, TemplateFault> {
    match value {
        Value::Object(object) => match hole(object).expect("checked when it was parsed") {
            Some(Hole::Arguments(pointer)) => {
                input.arguments.pointer(pointer).cloned().ok_or_else(|| TemplateFault::NoArgument(pointer.to_owned()))
            }
            Some(Hole::Result(pointer)) => {
                let found = input.result.and_then(|result| result.pointer(pointer));
                found.cloned().ok_or_else(|| TemplateFault::NoResult(pointer.to_owned()))
            }
            Some(Hole::Key) => Ok(Value::String(input.key.to_owned())),
            Some(Hole::Literal(value)) => Ok(value.clone()),
            None => {
                let member = |(key, value): (&str, &Value)| Ok((key.to_owned(), fill(value, input)?));
                object.iter().map(member).collect::<Result<Object, _>>().map(Value::Object)
            }
        },
        Value::Array(items) => items.iter().map(|item| fill(item, input)).collect::<Result<_, _>>().map(Value::Array),
        _ => Ok(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        text.parse::<Canonical>().unwrap().value()
    }

    #[test]
    fn holes_are_filled_from_arguments_result_and_key() {
        let template =
            r#"{"id":{"$arguments":"/order/0"},"k":{"$key":true},"all":[{"$result":""}],"x":{"$literal":{"$key":1}}}"#;
        let template = Template::parse(&value(template)).unwrap();
        let (arguments, result) = (value(r#"{"order":["o-7"]}"#), value("1.0"));
        let filled = template.fill(&TemplateInput { arguments: &arguments, result: Some(&result), key: "stasis-1" });
        assert_eq!(filled.unwrap().as_str(), r#"{"all":[1.0],"id":"o-7","k":"stasis-1","x":{"$key":1}}"#);
        assert!(template.needs_result());
        let empty = template.fill(&TemplateInput { arguments: &value("{}"), result: Some(&result), key: "" });
        assert_eq!(empty, Err(TemplateFault::NoArgument("/order/0".to_owned())));
    }

    #[test]
    fn ill_formed_holes_are_refused() {
        for text in [
            r#"[]"#,
            r#"{"$key":true}"#,
            r#"{"a":{"$arguments":"x"}}"#,
            r#"{"a":{"$key":1}}"#,
            r#"{"a":{"$other":1}}"#,
            r#"{"a":{"$key":true,"b":1}}"#,
        ] {
            assert!(Template::parse(&value(text)).is_err(), "{text}");
        }
    }
}
