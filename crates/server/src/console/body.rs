//! JSON bodies for people: exactly, as a table to read, as a text to edit, and as a difference.
//!
//! Only [`exact`] shows what is hashed and sent; the others are derived from it and say so where they are used. A body
//! that the strict parser does not take is still shown exactly, without a table. Numbers stay as written (C-35).

use super::text::{brief, shown};
use api::Json;
use maud::{Markup, html};
use protocol::json::{Bounds, Value, canonicalize_within};
use protocol::text::{Piece, pieces};
use std::fmt::Write as _;

/// Levels of a body that the table opens; what lies deeper is shown as JSON.
const OPENED: usize = 6;
/// Rows of one object or list that the table opens; the rest is in the exact text.
const ROWS: usize = 200;

/// The tree of a body, where it is strict JSON.
pub(super) fn value(json: &Json) -> Option<Value> {
    Some(canonicalize_within(json.as_str().as_bytes(), &Bounds::RECORD).ok()?.value())
}

/// The bytes themselves, whole, in the order in which they are stored, with marks for what is not seen (C-140).
pub(super) fn exact(json: &Json) -> Markup {
    html! { pre.exact tabindex="0" { (shown(json.as_str())) } }
}

/// A body to read: short ones in one line, objects as keys and values.
pub(super) fn readable(json: &Json) -> Markup {
    html! {
        @match value(json) {
            Some(value) => (cell(&value, 0)),
            None => (exact(json)),
        }
    }
}

/// As [`readable`], without members that are shown apart.
pub(super) fn readable_but(json: &Json, apart: &[&str]) -> Markup {
    match value(json) {
        Some(Value::Object(object)) => {
            let members: Vec<_> = object.iter().filter(|(key, _)| !apart.contains(key)).collect();
            rows(members.into_iter().map(|(key, value)| (key.to_owned(), value)), 0)
        }
        _ => readable(json),
    }
}

fn cell(value: &Value, depth: usize) -> Markup {
    html! {
        @match value {
            Value::Null => span.soft { "null" },
            Value::Bool(true) => code { "true" },
            Value::Bool(false) => code { "false" },
            Value::Number(number) => code.number { (number.as_str()) },
            Value::String(text) if text.is_empty() => span.soft { "empty text" },
            Value::String(text) => span.value { bdi { (shown(text)) } },
            Value::Array(items) if items.is_empty() => span.soft { "empty list" },
            Value::Object(object) if object.is_empty() => span.soft { "empty object" },
            _ if depth >= OPENED => code.value { (shown(&compact(value))) },
            Value::Array(items) => (rows(items.iter().enumerate().map(|(at, item)| (at.to_string(), item)), depth)),
            Value::Object(object) => (rows(object.iter().map(|(key, value)| (key.to_owned(), value)), depth)),
        }
    }
}

/// A part of a body as JSON.
fn compact(value: &Value) -> String {
    value.canonical().expect("a part of strict JSON is strict JSON").as_str().to_owned()
}

fn rows<'a>(members: impl ExactSizeIterator<Item = (String, &'a Value)>, depth: usize) -> Markup {
    let more = members.len().saturating_sub(ROWS);
    html! {
        dl.body {
            @for (key, value) in members.take(ROWS) {
                div { dt { (shown(&key)) } dd { (cell(value, depth + 1)) } }
            }
        }
        @if more > 0 { p.soft { (more) " more; they are in the exact text" } }
    }
}

/// One line that reminds a reader of the body, for lists; of one that is withheld it says so (C-282).
///
/// Members that are shown apart are left out.
pub(super) fn summary(json: Option<&Json>, apart: &[&str]) -> Markup {
    let Some(json) = json else { return html! { span.soft { "arguments withheld" } } };
    let text = match value(json) {
        Some(Value::Object(object)) => {
            let part = |(key, value): (&str, &Value)| match value.as_str() {
                Some(text) => format!("{key} {text}"),
                None => format!("{key} {}", compact(value)),
            };
            object.iter().filter(|(key, _)| !apart.contains(key)).take(12).map(part).collect::<Vec<_>>().join("  ·  ")
        }
        _ => json.as_str().to_owned(),
    };
    html! { bdi { (brief(&text, 160)) } }
}

/// The body as a text to edit: indented, and with an escape for every character that a text field would not show.
pub(super) fn editable(json: &Json) -> String {
    match value(json) {
        Some(value) => {
            let mut text = String::new();
            write(&mut text, &value, 0);
            text
        }
        None => json.as_str().to_owned(),
    }
}

fn write(out: &mut String, value: &Value, depth: usize) {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                out.push(if at == 0 { '[' } else { ',' });
                line(out, depth + 1);
                write(out, item, depth + 1);
            }
            line(out, depth);
            out.push(']');
        }
        Value::Object(object) if !object.is_empty() => {
            for (at, (key, member)) in object.iter().enumerate() {
                out.push(if at == 0 { '{' } else { ',' });
                line(out, depth + 1);
                escaped(out, &compact(&Value::String(key.to_owned())));
                out.push_str(": ");
                write(out, member, depth + 1);
            }
            line(out, depth);
            out.push('}');
        }
        scalar => escaped(out, &compact(scalar)),
    }
}

/// Hidden characters stand only inside strings, where an escape means the same.
fn escaped(out: &mut String, token: &str) {
    for piece in pieces(token) {
        match piece {
            Piece::Plain(plain) => out.push_str(plain),
            Piece::Hidden(hidden) => {
                for unit in hidden.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
}

/// One place in which two bodies differ.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// JSON Pointer.
    pub at: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Every place in which `after` differs from `before`, in the order of the keys.
pub(super) fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(&mut found, String::new(), Some(before), Some(after));
    found
}

fn compare(found: &mut Vec<Change>, at: String, before: Option<&Value>, after: Option<&Value>) {
    let child = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
    match (before, after) {
        (Some(before), Some(after)) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let mut keys: Vec<&str> = before.iter().chain(after.iter()).map(|(key, _)| key).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                compare(found, child(key), before.get(key), after.get(key));
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for at in 0..before.len().max(after.len()) {
                compare(found, child(&at.to_string()), before.get(at), after.get(at));
            }
        }
        (before, after) => found.push(Change { at, before: before.cloned(), after: after.cloned() }),
    }
}

/// The difference as a table: where, what was asked, what it is now.
pub(super) fn difference(before: &Json, after: &Json) -> Markup {
    let changed = match (value(before), value(after)) {
        (Some(before), Some(after)) => changes(&before, &after),
        _ => Vec::new(),
    };
    let side = |value: &Option<Value>| {
        html! {
            @match value { Some(value) => (cell(value, OPENED - 1)), None => span.soft { "not there" } }
        }
    };
    html! {
        table.difference {
            thead { tr { th scope="col" { "Where" } th scope="col" { "Asked for" } th scope="col" { "Now" } } }
            tbody {
                @for change in &changed {
                    tr {
                        th scope="row" { code { (shown(if change.at.is_empty() { "(all of it)" } else { &change.at })) } }
                        td { del { (side(&change.before)) } }
                        td { ins { (side(&change.after)) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::read_back;
    use super::*;
    use protocol::digest::Digest;
    use protocol::json::canonicalize;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn the_exact_text_reads_back_to_the_bytes_that_are_hashed() {
        let text = canonicalize("{\"to\":\"<img src=x> \u{202e}evil\u{200b}\",\"n\":1.00,\"m\":\"&amp;\"}".as_bytes())
            .unwrap();
        let page = exact(&json(text.as_str())).into_string();
        let inner = page.split_once('>').unwrap().1.strip_suffix("</pre>").unwrap();
        assert!(!inner.contains("<img"), "{inner}"); // I-52
        assert_eq!(Digest::of(read_back(inner).as_bytes()), text.digest()); // C-285, C-140
    }

    #[test]
    fn the_table_escapes_keys_and_values_and_keeps_numbers() {
        let page = readable(&json("{\"<i>\":\"</dd><script>\",\"n\":[1.0,1e0,{}],\"e\":\"\",\"b\":\"\u{2066}x\"}"))
            .into_string();
        assert!(!page.contains("<script>") && !page.contains("<i>"), "{page}"); // I-52
        assert!(page.contains("1.0") && page.contains("1e0") && page.contains("U+2066"), "{page}"); // C-140
    }

    #[test]
    fn what_is_edited_is_the_same_body() {
        let body =
            canonicalize("{\"a\":[1.0,{},[]],\"b\":\"x\u{200b}\u{e0041}\\n\",\"c\":{\"d\":-0}}".as_bytes()).unwrap();
        let text = editable(&json(body.as_str()));
        assert!(text.contains("\\u200b") && text.contains("\n  \"b\": "), "{text}"); // C-140
        assert_eq!(canonicalize(text.as_bytes()).unwrap(), body);
    }

    #[test]
    fn a_difference_names_each_place_once() {
        let tree = |text: &str| value(&json(text)).unwrap();
        let before = tree(r#"{"a":1,"b":{"x/y":[1,2]},"gone":true,"same":"s"}"#);
        let after = tree(r#"{"a":1.0,"b":{"x/y":[1,3,4]},"new":null,"same":"s"}"#);
        let places: Vec<_> = changes(&before, &after).into_iter().map(|change| change.at).collect();
        assert_eq!(places, ["/a", "/b/x~1y/1", "/b/x~1y/2", "/gone", "/new"]);
        assert_eq!(changes(&before, &before), []);
        let page = difference(&json(r#"{"a":"<b>"}"#), &json(r#"{"a":2}"#)).into_string();
        assert!(page.contains("&lt;b&gt;") && page.contains("<ins>"), "{page}"); // C-186
    }
}
