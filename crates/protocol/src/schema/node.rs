//! Shows the validator our own tree, so that it sees numbers as they are written.
//!
//! A number that is not exact is not a number (`NaN`) to whatever compares it as binary64, and so equals and satisfies
//! nothing there. What an error would quote of a value is left out: it may be large or private.

use std::borrow::Cow;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, JsonNumber, Node, NodeIdentity, Object};

use super::meter;
use crate::json::{self, Number, Value};

/// The representation: [`Value`], whose numbers keep their literals.
pub(super) struct Written;

impl Json for Written {
    type Node<'a> = &'a Value;
    type PreparedKey = String;
    type StringBuffer = ();

    // Members are sorted, so a lookup compares a handful of keys.
    const KEYS_PER_LOOKUP: usize = 2;
    const ACYCLIC: bool = true;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>((): &mut (), string: &str, f: impl FnOnce(&Value) -> T) -> T {
        f(&Value::String(string.to_owned()))
    }
}

impl<'a> Node<'a, Written> for &'a Value {
    type Object = &'a json::Object;
    type Array = &'a [Value];
    type Number = &'a Number;

    fn as_object(&self) -> Option<&'a json::Object> {
        Value::as_object(self).filter(|_| meter::spend(1))
    }

    fn as_array(&self) -> Option<&'a [Value]> {
        Value::as_array(self).filter(|_| meter::spend(1))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        Value::as_str(self).map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        Value::as_number(self)
    }

    fn as_boolean(&self) -> Option<bool> {
        Value::as_bool(self)
    }

    fn is_null(&self) -> bool {
        Value::is_null(self)
    }

    fn json_type(&self) -> JsonType {
        match self {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Number(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &serde_json::Value) -> bool {
        equals(self, expected)
    }

    /// Asked for by every error that is made, which costs far more than a step.
    fn to_value(&self) -> Cow<'a, serde_json::Value> {
        meter::spend(meter::ERROR);
        Cow::Owned(serde_json::Value::Null)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref::<Value>(self) as usize))
    }
}

impl<'a> Object<'a, Written> for &'a json::Object {
    type Node = &'a Value;
    type MemberName = &'a str;
    type MembersIter = Box<dyn Iterator<Item = (&'a str, &'a Value)> + 'a>;

    fn len(&self) -> usize {
        json::Object::len(self)
    }

    fn get(&self, key: &String) -> Option<&'a Value> {
        json::Object::get(self, key)
    }

    fn members(&self) -> Self::MembersIter {
        Box::new(json::Object::iter(self))
    }
}

impl<'a> Array<'a, Written> for &'a [Value] {
    type Node = &'a Value;
    type ElementsIter = std::slice::Iter<'a, Value>;

    fn len(&self) -> usize {
        <[Value]>::len(self)
    }

    fn elements(&self) -> Self::ElementsIter {
        (*self).iter()
    }

    fn is_unique(&self) -> bool {
        let mut items: Vec<&Value> = self.iter().collect();
        items.sort_unstable_by(|a, b| a.compare(b));
        items.windows(2).all(|pair| pair[0].compare(pair[1]).is_ne())
    }
}

impl JsonNumber for &Number {
    fn as_u64(&self) -> Option<u64> {
        self.whole().and_then(|value| value.try_into().ok())
    }

    fn as_i64(&self) -> Option<i64> {
        self.whole().and_then(|value| value.try_into().ok())
    }

    fn as_f64(&self) -> Option<f64> {
        Some(if self.is_exact() { Number::as_f64(self) } else { f64::NAN })
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Borrowed(Number::as_str(self))
    }

    fn to_number(&self) -> Cow<'_, serde_json::Number> {
        Cow::Owned(super::compile::number(self))
    }

    fn is_integer(&self) -> bool {
        Number::is_integer(self)
    }

    fn is_written_as_integer(&self) -> bool {
        !Number::as_str(self).contains(['.', 'e', 'E'])
    }
}

/// Whether a value equals one of the schema's, numbers by value. The schema's numbers are exact.
fn equals(value: &Value, expected: &serde_json::Value) -> bool {
    match (value, expected) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(a), serde_json::Value::Bool(b)) => a == b,
        (Value::String(a), serde_json::Value::String(b)) => a == b,
        (Value::Number(a), serde_json::Value::Number(b)) => a.compare(&Number::from(b)).is_eq(),
        (Value::Array(a), serde_json::Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equals(a, b))
        }
        (Value::Object(a), serde_json::Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equals(a, b)))
        }
        _ => false,
    }
}
