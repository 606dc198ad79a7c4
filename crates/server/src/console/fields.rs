//! The form of a gate as fields of a page, and the JSON that they are once they are filled in.
//!
//! Owns which forms can be drawn so: an object of a few plain members. Any other is answered as JSON. The name of a field
//! says how its text is read, so that the answer can be put together without the form; whether it fits is judged where it
//! is decided, and nowhere else.

use super::body::value;
use super::text::shown;
use api::Json;
use maud::{Markup, html};
use protocol::json::{Object, Value};

/// Members of a form that are still a page.
const MOST: usize = 20;
/// Longest text that gets one line.
const LINE: u64 = 120;
/// What a form may say beside its members without asking for more than fields can tell.
const PLAIN: [&str; 7] = ["$schema", "additionalProperties", "description", "properties", "required", "title", "type"];

/// What a page sends for members: the name of the field, and its text.
pub(super) type Filled = [(String, String)];

/// One member of a form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    key: String,
    title: String,
    about: Option<String>,
    required: bool,
    control: Control,
}

#[derive(Debug, PartialEq, Eq)]
enum Control {
    Line,
    Lines,
    Number,
    /// What is shown, and the JSON that it stands for.
    Choice(Vec<(String, String)>),
}

/// How the text of a field is read; the second part of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// As a text, which is left out where it is empty.
    Text,
    /// As a text, empty ones too.
    NeededText,
    /// As JSON, left out where it is empty.
    Json,
}

impl Reads {
    const ALL: [(Reads, &'static str); 3] =
        [(Reads::Text, "member:text:"), (Reads::NeededText, "member:needed-text:"), (Reads::Json, "member:json:")];

    fn prefix(self) -> &'static str {
        Reads::ALL.iter().find(|(reads, _)| *reads == self).expect("all are listed").1
    }

    fn of(name: &str) -> Option<(Reads, &str)> {
        Reads::ALL.iter().find_map(|(reads, prefix)| Some((*reads, name.strip_prefix(prefix)?)))
    }
}

/// Whether this is the name of a field that stands for a member.
pub(super) fn is_member(name: &str) -> bool {
    Reads::of(name).is_some()
}

/// The fields of a form; `None` where fields cannot tell all of it.
pub(super) fn of(form: &Json) -> Option<Vec<Field>> {
    let form = value(form)?;
    let Value::Object(form) = &form else { return None };
    if form.iter().any(|(key, _)| !PLAIN.contains(&key)) {
        return None;
    }
    let Some(Value::Object(members)) = form.get("properties") else { return None };
    let required: Vec<&str> = match form.get("required") {
        None => Vec::new(),
        Some(Value::Array(keys)) => keys.iter().map(Value::as_str).collect::<Option<_>>()?,
        Some(_) => return None,
    };
    let known = required.iter().all(|key| members.get(key).is_some());
    if !known || !(1..=MOST).contains(&members.len()) {
        return None;
    }
    // Needed ones first, in the order in which the program names them.
    let rest = members.iter().map(|(key, _)| key).filter(|key| !required.contains(key));
    let keys = required.iter().copied().chain(rest);
    keys.map(|key| field(key, members.get(key)?, required.contains(&key))).collect()
}

fn field(key: &str, schema: &Value, required: bool) -> Option<Field> {
    let Value::Object(schema) = schema else { return None };
    let text = |name: &str| schema.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Field {
        key: key.to_owned(),
        title: text("title").unwrap_or_else(|| key.to_owned()),
        about: text("description"),
        required,
        control: control(schema)?,
    })
}

fn control(schema: &Object) -> Option<Control> {
    if let Some(choices) = schema.get("enum") {
        let plain = |choice: &Value| {
            let literal = choice.canonical().ok()?.as_str().to_owned();
            match choice {
                Value::Array(_) | Value::Object(_) => None,
                Value::String(text) => Some((text.clone(), literal)),
                Value::Null | Value::Bool(_) | Value::Number(_) => Some((literal.clone(), literal)),
            }
        };
        return choices.as_array()?.iter().map(plain).collect::<Option<_>>().map(Control::Choice);
    }
    match schema.get("type")?.as_str()? {
        "string" => {
            let short = schema.get("maxLength").and_then(Value::as_u64).is_some_and(|most| most <= LINE);
            Some(if short || schema.get("format").is_some() { Control::Line } else { Control::Lines })
        }
        "integer" | "number" => Some(Control::Number),
        "boolean" => {
            let choices = [("yes", "true"), ("no", "false")];
            Some(Control::Choice(choices.map(|(shown, json)| (shown.to_owned(), json.to_owned())).to_vec()))
        }
        _ => None,
    }
}

/// The fields, with what was typed into them before.
pub(super) fn draw(fields: &[Field], filled: &Filled) -> Markup {
    html! { @for (at, field) in fields.iter().enumerate() { (drawn(at, field, filled)) } }
}

fn drawn(at: usize, field: &Field, filled: &Filled) -> Markup {
    let reads = match field.control {
        Control::Line | Control::Lines if field.required => Reads::NeededText,
        Control::Line | Control::Lines => Reads::Text,
        Control::Number | Control::Choice(_) => Reads::Json,
    };
    let (id, name) = (format!("member-{at}"), format!("{}{}", reads.prefix(), field.key));
    let typed = filled.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
    html! {
        div.field {
            label for=(id) {
                bdi { (shown(&field.title)) } " "
                span.soft { @if field.required { "needed" } @else { "not needed" } }
            }
            @if let Some(about) = &field.about { p.soft { bdi { (shown(about)) } } }
            @match &field.control {
                Control::Line => input type="text" id=(id) name=(name) value=(typed) autocomplete="off";,
                // A browser drops the first line break of a field.
                Control::Lines => textarea id=(id) name=(name) rows="2" { "\n" (typed) },
                Control::Number => input type="text" inputmode="decimal" id=(id) name=(name) value=(typed) autocomplete="off";,
                Control::Choice(choices) => select id=(id) name=(name) {
                    option value="" { "" }
                    @for (text, json) in choices { option value=(json) selected[json == typed] { (shown(text)) } }
                },
            }
        }
    }
}

/// The answer that filled-in fields are; `None` where there are none.
///
/// # Errors
/// A sentence about the field whose text cannot be read.
pub(super) fn answer(filled: &Filled) -> Result<Option<Json>, String> {
    let mut members = Vec::with_capacity(filled.len());
    for (name, text) in filled {
        let Some((reads, key)) = Reads::of(name) else { continue };
        // A browser sends the line breaks of a text as two characters.
        let text = text.replace("\r\n", "\n");
        let literal = match reads {
            Reads::Text if text.is_empty() => continue,
            Reads::Json if text.trim().is_empty() => continue,
            Reads::Text | Reads::NeededText => quoted(&text),
            Reads::Json => match Json::parse(text.trim()) {
                Ok(json) => json.as_str().to_owned(),
                Err(_) => return Err(format!("{key}: `{}` cannot be read as a number.", text.trim())),
            },
        };
        members.push(format!("{}:{literal}", quoted(key)));
    }
    match filled.iter().any(|(name, _)| is_member(name)) {
        false => Ok(None),
        true => Json::parse(&format!("{{{}}}", members.join(","))).map(Some).map_err(|error| error.to_string()),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Option<Vec<Field>> {
        of(&Json::parse(text).unwrap())
    }

    const FORM: &str = r#"{"type":"object","required":["who","n"],"additionalProperties":false,"properties":{
        "n":{"type":"integer"},"who":{"type":"string","title":"For <whom>","maxLength":40},"note":{"type":"string"},
        "sure":{"type":"boolean"},"pick":{"enum":["a",1.50,null]}}}"#;

    fn filled(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_plain_form_is_drawn_as_fields_with_what_was_typed() {
        let fields = form(FORM).expect("it is plain");
        let page = draw(&fields, &filled(&[("member:json:n", "7 apples\"")])).into_string();
        assert!(page.contains("For &lt;whom&gt;") && !page.contains("<whom>"), "{page}"); // I-52
        assert!(page.contains("value=\"7 apples&quot;\""), "{page}");
        assert!(page.contains("<option value=\"1.50\">1.50</option>"), "{page}"); // C-35
        let at = |text: &str| page.find(text).expect("it is drawn");
        assert!(at("name=\"member:needed-text:who\"") < at("name=\"member:json:n\""));
        assert!(at("name=\"member:json:n\"") < at("name=\"member:text:note\""));
    }

    #[test]
    fn what_fields_cannot_tell_is_no_fields() {
        for more in [
            r#"{"type":"object","properties":{"a":{"type":"array"}}}"#,
            r#"{"type":"object","properties":{"a":{"anyOf":[]}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"string"}},"minProperties":1}"#,
            r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}"#,
            r#"{"type":"object","properties":{}}"#,
            r#"{"type":"string"}"#,
            "true",
        ] {
            assert_eq!(form(more), None, "{more}");
        }
    }

    #[test]
    fn filled_in_fields_are_the_answer_as_it_was_typed() {
        let told = filled(&[
            ("member:needed-text:who", ""),
            ("member:text:note", ""),
            ("member:json:n", " 1.0 "),
            ("member:json:sure", "true"),
            ("member:text:a\"b", "x\r\ny\""),
        ]);
        let answer = answer(&told).unwrap().unwrap();
        assert_eq!(answer.as_str(), r#"{"who":"","n":1.0,"sure":true,"a\"b":"x\ny\""}"#); // C-35
        assert_eq!(super::answer(&[]).unwrap(), None);
        let fault = super::answer(&filled(&[("member:json:n", "seven")])).unwrap_err();
        assert!(fault.contains("n: `seven`"), "{fault}");
        assert!(!is_member("principal") && !is_member("member:other:x")); // C-177
    }
}
