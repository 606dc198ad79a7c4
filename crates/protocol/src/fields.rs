//! Reading a declared object field by field, so that every bad part is told at once (C-21).
//!
//! Owns how faults are placed and worded, and that an unknown field is always one (I-60). It knows no meaning of a field.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer;

use crate::code::Code;
use crate::json::{Value, push_token};
use crate::time::parse_duration;

/// One bad part of a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct Fault {
    /// A JSON Pointer to the part; a missing one is named by where it would stand.
    pub pointer: String,
    pub code: Code,
    pub message: String,
}

/// The fields of one object, and the faults found so far.
pub(crate) struct Fields<'v, 'f> {
    value: &'v Value,
    pointer: String,
    code: Code,
    known: Vec<&'static str>,
    faults: &'f mut Vec<Fault>,
}

/// What a reader of one value says is wrong with it.
pub(crate) type Wrong = String;

impl<'v, 'f> Fields<'v, 'f> {
    /// Begins at `pointer`; faults get `code`. A value that is no object is one fault and has no fields.
    pub(crate) fn new(value: &'v Value, pointer: String, code: Code, faults: &'f mut Vec<Fault>) -> Self {
        if value.as_object().is_none() {
            let message = format!("expected an object, found {}", value.kind());
            faults.push(Fault { pointer: pointer.clone(), code, message });
        }
        Self { value, pointer, code, known: Vec::new(), faults }
    }

    fn place(&self, key: &str) -> String {
        let mut pointer = self.pointer.clone();
        push_token(&mut pointer, key);
        pointer
    }

    /// Records a fault of a field.
    pub(crate) fn fault(&mut self, key: &str, message: impl Into<String>) {
        let fault = Fault { pointer: self.place(key), code: self.code, message: message.into() };
        self.faults.push(fault);
    }

    /// The value of a field. `null` counts as absent (I-40).
    pub(crate) fn get(&mut self, key: &'static str) -> Option<&'v Value> {
        self.known.push(key);
        self.value.get(key).filter(|value| !value.is_null())
    }

    /// Reads a field, if it is there and good.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        reader: impl FnOnce(&'v Value) -> Result<T, Wrong>,
    ) -> Option<T> {
        match reader(self.get(key)?) {
            Ok(value) => Some(value),
            Err(message) => {
                self.fault(key, message);
                None
            }
        }
    }

    /// Reads a field that must be there.
    pub(crate) fn need<T>(
        &mut self,
        key: &'static str,
        reader: impl FnOnce(&'v Value) -> Result<T, Wrong>,
    ) -> Option<T> {
        if self.get(key).is_none() {
            self.fault(key, "is required");
            return None;
        }
        self.read(key, reader)
    }

    /// Reads a field by a reader that records its own faults, from its pointer on.
    pub(crate) fn within<T>(
        &mut self,
        key: &'static str,
        reader: impl FnOnce(&'v Value, String, &mut Vec<Fault>) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let pointer = self.place(key);
        reader(value, pointer, self.faults)
    }

    /// Ends the object: fields that nothing asked for are faults.
    pub(crate) fn finish(self) {
        let Some(object) = self.value.as_object() else { return };
        for (key, _) in object.iter().filter(|(key, _)| !self.known.contains(key)) {
            let message = match nearest(key, self.known.iter().copied()) {
                Some(known) => format!("unknown field; did you mean `{known}`?"),
                None => "unknown field".to_owned(),
            };
            self.faults.push(Fault { pointer: self.place(key), code: self.code, message });
        }
    }
}

/// The known word that is nearest to `word`, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, nearest) = known.map(|known| (distance(word, known), known)).min()?;
    (distance <= 1 + word.chars().count() / 3).then_some(nearest)
}

/// How many characters must be put in, left out or changed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (line, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, to) in b.chars().enumerate() {
            let changed = diagonal + usize::from(from != to);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[row.len() - 1]
}

/// Any text.
pub(crate) fn text(value: &Value) -> Result<&str, Wrong> {
    value.as_str().ok_or_else(|| format!("expected a text, found {}", value.kind()))
}

/// Any text, owned.
pub(crate) fn owned(value: &Value) -> Result<String, Wrong> {
    text(value).map(str::to_owned)
}

pub(crate) fn boolean(value: &Value) -> Result<bool, Wrong> {
    value.as_bool().ok_or_else(|| format!("expected true or false, found {}", value.kind()))
}

/// A whole number between two bounds, both included.
pub(crate) fn number(least: u64, most: u64) -> impl Fn(&Value) -> Result<u64, Wrong> {
    move |value| match value.as_u64() {
        Some(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from {least} to {most}")),
    }
}

/// As [`number`], in 32 bits.
pub(crate) fn count(least: u32, most: u32) -> impl Fn(&Value) -> Result<u32, Wrong> {
    move |value| {
        number(u64::from(least), u64::from(most))(value).map(|number| u32::try_from(number).expect("bounded by u32"))
    }
}

/// A duration with a unit, between two bounds, both included.
pub(crate) fn duration(least: Duration, most: Duration) -> impl Fn(&Value) -> Result<Duration, Wrong> {
    move |value| {
        let span = parse_duration(text(value)?).map_err(|error| error.to_string())?;
        if (least..=most).contains(&span) {
            return Ok(span);
        }
        let [least, most] = [least, most].map(crate::time::format_duration);
        Err(format!("expected a duration from {least} to {most}"))
    }
}

/// One of the words of an enum.
pub(crate) fn word<T: for<'de> Deserialize<'de>>(value: &Value) -> Result<T, Wrong> {
    let deserializer: serde::de::value::StrDeserializer<'_, serde::de::value::Error> = text(value)?.into_deserializer();
    T::deserialize(deserializer).map_err(|error| error.to_string())
}

/// A list, each item read alike.
pub(crate) fn list<T>(item: impl Fn(&Value) -> Result<T, Wrong>) -> impl Fn(&Value) -> Result<Vec<T>, Wrong> {
    move |value| {
        let items = value.as_array().ok_or_else(|| format!("expected a list, found {}", value.kind()))?;
        items.iter().enumerate().map(|(at, value)| item(value).map_err(|wrong| format!("item {at}: {wrong}"))).collect()
    }
}

/// A JSON Pointer (RFC 6901).
pub(crate) fn pointer(value: &Value) -> Result<String, Wrong> {
    let pointer = text(value)?;
    let tilde = |(at, _)| matches!(pointer.as_bytes().get(at + 1), Some(b'0' | b'1'));
    let good = (pointer.is_empty() || pointer.starts_with('/')) && pointer.match_indices('~').all(tilde);
    if good { Ok(pointer.to_owned()) } else { Err("expected a JSON Pointer, such as /amount".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_named_only_if_it_may_be_meant() {
        let known = ["timeout", "effect", "recovery"];
        assert_eq!(nearest("timout", known.into_iter()), Some("timeout"));
        assert_eq!(nearest("efect", known.into_iter()), Some("effect"));
        assert_eq!(nearest("quorum", known.into_iter()), None);
    }
}
