//! A tree to read a canonical text with. Numbers stay as they are written.

use std::cmp::Ordering;
use std::fmt;

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Bounds, Canonical, Fault, canonicalize_within, text};

/// One JSON value.
///
/// Equality is that of canonical bytes: `1` and `1.0` differ (C-35).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Value>),
    Object(Object),
}

/// A number literal as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Number(pub(super) Box<str>);

/// The members of an object, sorted by the bytes of their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object(Vec<(String, Value)>);

impl Number {
    /// The literal.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value of an integer literal (no fraction, no exponent) that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// As [`Number::as_i64`].
    pub fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// The nearest binary64. Never decide by it: it rounds (C-18).
    pub fn as_f64(&self) -> f64 {
        self.0.parse().expect("every JSON number is a Rust number")
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(value.to_string().into())
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(value.to_string().into())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Object {
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.find(key).ok().map(|at| &mut self.0[at].1)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.find(key).is_ok()
    }

    /// Sets a member, and returns what was there.
    pub fn insert(&mut self, key: String, value: Value) -> Option<Value> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.find(key).ok().map(|at| self.0.remove(at).1)
    }

    /// The members in canonical order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(key))
    }
}

impl FromIterator<(String, Value)> for Object {
    /// Of a key that comes twice the last value stays.
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(members: I) -> Self {
        let mut object = Self::default();
        for (key, value) in members {
            object.insert(key, value);
        }
        object
    }
}

impl IntoIterator for Object {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Value {
    /// The value a JSON Pointer (RFC 6901) leads to; `""` is the whole.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |value, token| value.member(&unescape_token(token)))
    }

    /// The member of an object, or the item of an array at a decimal index without leading zeros.
    pub fn member(&self, token: &str) -> Option<&Value> {
        match self {
            Self::Object(object) => object.get(token),
            Self::Array(items) => {
                let plain = token == "0" || !token.starts_with(['0', '+']);
                items.get(token.parse::<usize>().ok().filter(|_| plain)?)
            }
            _ => None,
        }
    }

    /// As [`Value::member`] for an object.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(value) = self { Some(value) } else { None }
    }

    pub fn as_number(&self) -> Option<&Number> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    /// The value of an integer literal that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The value of an integer literal that fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    pub fn as_array(&self) -> Option<&[Value]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// A total order in which numbers are equal by value, wherever they stand; `null` comes first, objects last.
    pub fn compare(&self, other: &Self) -> Ordering {
        let rank = |value: &Self| match value {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Number(_) => 2,
            Self::String(_) => 3,
            Self::Array(_) => 4,
            Self::Object(_) => 5,
        };
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => a.compare(b),
            (Self::String(a), Self::String(b)) => a.cmp(b),
            (Self::Array(a), Self::Array(b)) => {
                let items = || a.iter().zip(b).map(|(a, b)| a.compare(b)).find(|order| order.is_ne());
                a.len().cmp(&b.len()).then_with(|| items().unwrap_or(Ordering::Equal))
            }
            (Self::Object(a), Self::Object(b)) => {
                let member =
                    |((key, a), (other, b)): ((&str, &Self), (&str, &Self))| key.cmp(other).then_with(|| a.compare(b));
                let members = || a.iter().zip(b.iter()).map(member).find(|order| order.is_ne());
                a.len().cmp(&b.len()).then_with(|| members().unwrap_or(Ordering::Equal))
            }
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }

    /// The kind of the value, as JSON Schema names it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// The canonical text of this tree, checked like any other: a tree made in Rust may hold what no body may.
    ///
    /// Size, depth and count of values are not bounded here.
    pub fn canonical(&self) -> Result<Canonical, Fault> {
        canonicalize_within(write(self).as_bytes(), &Bounds::RECORD)
    }
}

/// `~1` and `~0` of a JSON Pointer.
fn unescape_token(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Writes a key as a token of a JSON Pointer, with its slash.
pub(crate) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = write(self);
        let raw: &RawValue = serde_json::from_str(&text).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Appends the canonical text. Keys are sorted already; text made in Rust is whole UTF-8.
fn write(value: &Value) -> String {
    let mut out = Vec::new();
    write_value(value, &mut out);
    String::from_utf8(out).expect("made of whole characters")
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => out.extend_from_slice(number.0.as_bytes()),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::Object(object) => {
            out.push(b'{');
            for (at, (key, value)) in object.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                write_value(value, out);
            }
            out.push(b'}');
        }
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for character in text.chars() {
        text::write_char(character, out);
    }
    out.push(b'"');
}

/// Reads a canonical text, whose depth the parser has bounded.
pub(super) fn read(text: &str) -> Value {
    let mut reader = Reader { text, at: 0 };
    reader.value()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.as_bytes()[self.at]
    }

    fn value(&mut self) -> Value {
        match self.peek() {
            b'n' => self.word(4, Value::Null),
            b't' => self.word(4, Value::Bool(true)),
            b'f' => self.word(5, Value::Bool(false)),
            b'"' => Value::String(self.string()),
            b'[' => Value::Array(self.items(|reader| reader.value())),
            b'{' => Value::Object(Object(self.items(|reader| {
                let key = reader.string();
                reader.at += 1;
                (key, reader.value())
            }))),
            _ => {
                let rest = &self.text[self.at..];
                let end = rest.bytes().position(|byte| matches!(byte, b',' | b']' | b'}')).unwrap_or(rest.len());
                self.at += end;
                Value::Number(Number(rest[..end].into()))
            }
        }
    }

    fn word(&mut self, len: usize, value: Value) -> Value {
        self.at += len;
        value
    }

    /// The parts between the bracket here and its match.
    fn items<T>(&mut self, item: impl Fn(&mut Self) -> T) -> Vec<T> {
        let mut items = Vec::new();
        loop {
            self.at += 1;
            if let b']' | b'}' = self.peek() {
                break;
            }
            items.push(item(self));
            if let b']' | b'}' = self.peek() {
                break;
            }
        }
        self.at += 1;
        items
    }

    fn string(&mut self) -> String {
        let inside = &self.text[self.at + 1..];
        let mut end = 0;
        loop {
            let special = inside.as_bytes()[end..].iter().position(|byte| matches!(byte, b'"' | b'\\'));
            end += special.expect("a canonical string is closed");
            match inside.as_bytes()[end] {
                b'"' => break,
                // The byte behind a backslash is part of its escape.
                _ => end += 2,
            }
        }
        self.at += end + 2;
        text::unescape(&inside[..end])
    }
}
