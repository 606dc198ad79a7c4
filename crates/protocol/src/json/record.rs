//! Writes the canonical JSON of this project's own records straight, without a tree or a parse.
//!
//! A [`Record`]'s members are written in the order of their keys, as canonical JSON wants them (C-34); a key out of order
//! is a bug of the caller and panics in debug builds. Values are texts, numbers, flags and canonical JSON. What no
//! canonical string can hold (C-29) is written as U+FFFD, so a record can always be read back.

use std::marker::PhantomData;

use super::{Canonical, Packed, text};
use crate::digest::Digest;

/// What is written as a string: the inside of it, escaped where that is needed. Records are full of digests and ids, which
/// write their own text faster than a formatter would.
pub trait Text {
    /// Appends it to `out`.
    fn write(&self, out: &mut Vec<u8>);

    /// Appends the string in the form of [`Packed`].
    fn pack(&self, out: &mut Vec<u8>) {
        write_text(out, self);
    }
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

    fn pack(&self, out: &mut Vec<u8>) {
        (**self).pack(out);
    }
}

/// How a record is written.
pub(crate) trait Form: Sized {
    fn key(out: &mut Vec<u8>, key: &'static str);
    fn text(out: &mut Vec<u8>, value: impl Text);
    /// The digest of the text of a whole record.
    fn digest(written: &[u8]) -> Digest;
    fn take(written: Vec<u8>) -> Self;
}

impl Form for Canonical {
    fn key(out: &mut Vec<u8>, key: &'static str) {
        write_key(out, key);
    }

    fn text(out: &mut Vec<u8>, value: impl Text) {
        write_text(out, value);
    }

    fn digest(written: &[u8]) -> Digest {
        Digest::of(written)
    }

    fn take(written: Vec<u8>) -> Canonical {
        canonical(&written)
    }
}

/// An object that is being written.
pub(crate) struct Record<F = Canonical> {
    bytes: Vec<u8>,
    last: &'static str,
    form: PhantomData<F>,
}

impl Record {
    pub(crate) fn new() -> Record {
        Record::open(1024)
    }

    /// Any other value, already canonical.
    pub(crate) fn value(&mut self, key: &'static str, value: &Canonical) -> &mut Record {
        self.raw(key, value.as_bytes())
    }

    /// The text of a packed record.
    pub(crate) fn unpacked(&mut self, key: &'static str, value: &Packed) -> &mut Record {
        self.key(key);
        value.write_text(&mut self.bytes);
        self
    }
}

impl Record<Packed> {
    pub(crate) fn packed() -> Record<Packed> {
        Record::open(512)
    }
}

impl<F: Form> Record<F> {
    fn open(capacity: usize) -> Record<F> {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(b'{');
        Record { bytes, last: "", form: PhantomData }
    }

    /// A text: an id, a digest, a time, a word.
    pub(crate) fn text(&mut self, key: &'static str, value: impl Text) -> &mut Record<F> {
        self.key(key);
        F::text(&mut self.bytes, value);
        self
    }

    /// A text, or `null`.
    pub(crate) fn maybe(&mut self, key: &'static str, value: Option<impl Text>) -> &mut Record<F> {
        match value {
            Some(value) => self.text(key, value),
            None => self.raw(key, b"null"),
        }
    }

    pub(crate) fn number(&mut self, key: &'static str, value: impl Into<u64>) -> &mut Record<F> {
        self.key(key);
        write_number(&mut self.bytes, value.into());
        self
    }

    /// A number, or `null`.
    pub(crate) fn maybe_number(&mut self, key: &'static str, value: Option<u64>) -> &mut Record<F> {
        match value {
            Some(value) => self.number(key, value),
            None => self.raw(key, b"null"),
        }
    }

    pub(crate) fn flag(&mut self, key: &'static str, value: bool) -> &mut Record<F> {
        self.raw(key, if value { b"true" } else { b"false" })
    }

    pub(crate) fn texts(&mut self, key: &'static str, values: &[String]) -> &mut Record<F> {
        self.key(key);
        write_texts::<F>(&mut self.bytes, values);
        self
    }

    /// The digest of the record (C-5).
    pub(crate) fn digest(&mut self) -> Digest {
        self.bytes.push(b'}');
        let digest = F::digest(&self.bytes);
        self.bytes.pop();
        digest
    }

    /// Where the next member will be written.
    pub(crate) fn place(&self) -> usize {
        self.bytes.len()
    }

    /// Writes a text among the members that are there: at a place where others stand before and after it.
    pub(crate) fn insert(&mut self, place: usize, key: &'static str, value: impl Text) {
        let end = self.bytes.len();
        self.bytes.push(b',');
        F::key(&mut self.bytes, key);
        F::text(&mut self.bytes, value);
        let member = self.bytes.len() - end;
        self.bytes[place..].rotate_right(member);
    }

    pub(crate) fn done(mut self) -> F {
        self.bytes.push(b'}');
        F::take(self.bytes)
    }

    fn raw(&mut self, key: &'static str, value: &[u8]) -> &mut Record<F> {
        self.key(key);
        self.bytes.extend_from_slice(value);
        self
    }

    fn key(&mut self, key: &'static str) {
        debug_assert!(self.last < key, "`{key}` is written after `{}`", self.last);
        if !self.last.is_empty() {
            self.bytes.push(b',');
        }
        self.last = key;
        F::key(&mut self.bytes, key);
    }
}

/// Takes a text that was written by the functions of this module.
pub(super) fn canonical(text: &[u8]) -> Canonical {
    Canonical(std::str::from_utf8(text).expect("made of whole texts").into())
}

/// Writes a key with its quotes and colon. Keys are words of this project's and need no escape.
pub(super) fn write_key(out: &mut Vec<u8>, key: &'static str) {
    out.push(b'"');
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Writes a string with its quotes.
pub(super) fn write_text(out: &mut Vec<u8>, value: impl Text) {
    out.push(b'"');
    value.write(out);
    out.push(b'"');
}

/// Writes a list of strings.
pub(crate) fn write_texts<F: Form>(out: &mut Vec<u8>, values: impl IntoIterator<Item = impl Text>) {
    out.push(b'[');
    for (at, value) in values.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        F::text(out, value);
    }
    out.push(b']');
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
