//! Writes the canonical JSON of this project's own records straight, without a tree or a parse.
//!
//! A [`Record`]'s members are written in the order of their keys, as canonical JSON wants them (C-34); a key out of order
//! is a bug of the caller and panics in debug builds. Values are texts, numbers, flags and canonical JSON. What no
//! canonical string can hold (C-29) is written as U+FFFD, so a record can always be read back.

use std::fmt::{self, Display, Write as _};

use super::{Canonical, text};
use crate::digest::Digest;

/// What is written as a string: the inside of it, escaped where that is needed. Records are full of digests and ids, which
/// write their own text faster than a formatter would.
pub(crate) trait Text {
    fn write(&self, out: &mut Vec<u8>);
}

impl Text for str {
    fn write(&self, out: &mut Vec<u8>) {
        write_escaped(self, out);
    }
}

impl Text for String {
    fn write(&self, out: &mut Vec<u8>) {
        write_escaped(self, out);
    }
}

impl<T: Text + ?Sized> Text for &T {
    fn write(&self, out: &mut Vec<u8>) {
        (**self).write(out);
    }
}

/// An object that is being written.
pub(crate) struct Record {
    text: Vec<u8>,
    last: &'static str,
}

impl Record {
    pub(crate) fn new() -> Record {
        let mut text = Vec::with_capacity(1024);
        text.push(b'{');
        Record { text, last: "" }
    }

    /// A text: an id, a digest, a time, a word.
    pub(crate) fn text(&mut self, key: &'static str, value: impl Text) -> &mut Record {
        self.key(key);
        self.text.push(b'"');
        value.write(&mut self.text);
        self.text.push(b'"');
        self
    }

    /// A text, or `null`.
    pub(crate) fn maybe(&mut self, key: &'static str, value: Option<impl Text>) -> &mut Record {
        match value {
            Some(value) => self.text(key, value),
            None => self.raw(key, b"null"),
        }
    }

    pub(crate) fn number(&mut self, key: &'static str, value: impl Into<u64>) -> &mut Record {
        self.key(key);
        write_number(&mut self.text, value.into());
        self
    }

    /// A number, or `null`.
    pub(crate) fn maybe_number(&mut self, key: &'static str, value: Option<u64>) -> &mut Record {
        match value {
            Some(value) => self.number(key, value),
            None => self.raw(key, b"null"),
        }
    }

    pub(crate) fn flag(&mut self, key: &'static str, value: bool) -> &mut Record {
        self.raw(key, if value { b"true" } else { b"false" })
    }

    pub(crate) fn texts(&mut self, key: &'static str, values: &[String]) -> &mut Record {
        self.key(key);
        self.text.push(b'[');
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.text.push(b',');
            }
            write_text(&mut self.text, value);
        }
        self.text.push(b']');
        self
    }

    /// Any other value, already canonical.
    pub(crate) fn value(&mut self, key: &'static str, value: &Canonical) -> &mut Record {
        self.raw(key, value.as_bytes())
    }

    /// The digest of the record (C-5).
    pub(crate) fn digest(&mut self) -> Digest {
        self.text.push(b'}');
        let digest = Digest::of(&self.text);
        self.text.pop();
        digest
    }

    /// Where the next member will be written.
    pub(crate) fn place(&self) -> usize {
        self.text.len()
    }

    /// Writes a text among the members that are there: at a place where others stand before and after it.
    pub(crate) fn insert(&mut self, place: usize, key: &'static str, value: impl Text) {
        let mut member = format!(",\"{key}\":\"").into_bytes();
        value.write(&mut member);
        member.push(b'"');
        self.text.splice(place..place, member);
    }

    pub(crate) fn done(mut self) -> Canonical {
        self.text.push(b'}');
        canonical(self.text)
    }

    fn raw(&mut self, key: &'static str, value: &[u8]) -> &mut Record {
        self.key(key);
        self.text.extend_from_slice(value);
        self
    }

    fn key(&mut self, key: &'static str) {
        debug_assert!(self.last < key, "`{key}` is written after `{}`", self.last);
        if !self.last.is_empty() {
            self.text.push(b',');
        }
        self.last = key;
        self.text.push(b'"');
        self.text.extend_from_slice(key.as_bytes());
        self.text.extend_from_slice(b"\":");
    }
}

/// Takes a text that was written by the functions of this module.
pub(crate) fn canonical(text: Vec<u8>) -> Canonical {
    Canonical(String::from_utf8(text).expect("made of whole texts").into())
}

/// Writes a string with its quotes.
pub(crate) fn write_text(out: &mut Vec<u8>, value: impl Display) {
    out.push(b'"');
    write!(Escaped(out), "{value}").expect("writing to memory cannot fail");
    out.push(b'"');
}

pub(crate) fn write_number(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Escapes what is written through it.
struct Escaped<'a>(&'a mut Vec<u8>);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_escaped(text, self.0);
        Ok(())
    }
}

fn write_escaped(text: &str, out: &mut Vec<u8>) {
    if text::stands_for_itself(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        text.chars().for_each(|character| text::write_char(text::allowed(character), out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use proptest::prelude::*;

    #[test]
    fn a_record_is_written_as_the_parser_would_write_it() {
        let mut record = Record::new();
        record.text("a", "\u{1f}\"\\/\u{7f}é\u{2028}").maybe("b", None::<&str>).number("c", 0u8).number("d", u64::MAX);
        record.maybe_number("e", None).value("f", &Canonical::empty_object());
        let digest = record.digest();
        let text = record.done();
        let other = json::to_canonical(&serde_json::json!({
            "f": {}, "e": null, "d": u64::MAX, "c": 0, "b": null, "a": "\u{1f}\"\\/\u{7f}é\u{2028}",
        }));
        assert_eq!(text, other.unwrap()); // C-34
        assert_eq!(digest, text.digest()); // C-5
    }

    #[test]
    fn what_no_string_may_hold_is_replaced() {
        let mut record = Record::new();
        record.text("a", "x\0\u{fdd0}\u{1ffff}y");
        assert_eq!(record.done().as_str(), "{\"a\":\"x\u{fffd}\u{fffd}\u{fffd}y\"}"); // C-29
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "`a` is written after `b`")]
    fn keys_out_of_order_are_a_bug() {
        Record::new().number("b", 1u8).number("a", 1u8);
    }

    proptest! {
        #[test]
        fn any_text_and_number_are_canonical(word: String, number: u64) {
            let mut record = Record::new();
            record.number("n", number).text("t", &word);
            let text = record.done();
            prop_assert_eq!(Canonical::from_stored(text.as_bytes()), Some(text.clone())); // C-34
            if let Ok(parsed) = json::to_canonical(&serde_json::json!({"n": number, "t": word})) {
                prop_assert_eq!(text, parsed);
            }
        }
    }
}
