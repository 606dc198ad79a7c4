//! From the bytes of the other side to a result (C-260).
//!
//! Owns the choice between strict JSON, `{"text"}` and `{"base64"}`, the size limit, and the removal of secrets before
//! anything is hashed or stored (C-271). It never guesses at broken JSON: what claims to be JSON and is not, is refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::call::Applied;
use protocol::code::Code;
use protocol::json::{self, Canonical, Object, Reason, Value};
use protocol::tool::Effect;

use super::outcome::Outcome;
use super::secret::Redactor;

/// What the other side says its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON, and therefore strict JSON.
    Json,
    /// Something else.
    Other,
    /// It says nothing: JSON if they parse, else as [`Form::Other`].
    Unsaid,
}

/// Why there is no result, although the other side is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfit {
    pub(super) code: Code,
    pub(super) message: String,
}

impl Unfit {
    pub(super) fn too_large(limit: u64) -> Self {
        Self { code: Code::ResultTooLarge, message: format!("the result is larger than {limit} bytes") }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self { code: Code::InvalidResult, message: message.into() }
    }

    /// The outcome of a call whose other side reported success: a `write` has happened all the same (C-123).
    pub(super) fn outcome(self, effect: Effect) -> Outcome {
        match effect {
            Effect::Write => {
                let detail = format!("the other side reported success, but {}", self.message);
                Outcome::error(Code::InvalidResult, detail, Applied::Yes)
            }
            Effect::Pure | Effect::Read => Outcome::error(self.code, self.message, Applied::No),
        }
    }
}

/// The result in these bytes. No bytes are `null` (I-64).
pub(super) fn read(bytes: &[u8], form: Form, limit: u64, redactor: &Redactor) -> Result<Canonical, Unfit> {
    if bytes.len() as u64 > limit {
        return Err(Unfit::too_large(limit));
    }
    if bytes.is_empty() {
        return Ok(Canonical::null());
    }
    let result = match (form, json::canonicalize(bytes)) {
        (Form::Json | Form::Unsaid, Ok(body)) => cleaned(body, redactor)?,
        (Form::Unsaid, Err(fault)) if matches!(fault.reason, Reason::Syntax | Reason::Utf8) => {
            wrapped(bytes, redactor)?
        }
        (Form::Json | Form::Unsaid, Err(fault)) => {
            return Err(Unfit::invalid(format!("the result is no strict JSON: {fault}")));
        }
        (Form::Other, _) => wrapped(bytes, redactor)?,
    };
    if result.len() as u64 > limit {
        return Err(Unfit::too_large(limit));
    }
    Ok(result)
}

/// `{"text"}` where the bytes are text that JSON can hold, else `{"base64"}`.
fn wrapped(bytes: &[u8], redactor: &Redactor) -> Result<Canonical, Unfit> {
    let clean = redactor.clean(bytes);
    let (key, text) = match String::from_utf8(clean) {
        Ok(text) if json::to_canonical(&text).is_ok() => ("text", text),
        Ok(text) => ("base64", STANDARD.encode(text)),
        Err(error) => ("base64", STANDARD.encode(error.as_bytes())),
    };
    let object = Object::from_iter([(key.to_owned(), Value::String(text))]);
    checked(&Value::Object(object))
}

/// The body without secrets, in whatever place and spelling they stand.
fn cleaned(body: Canonical, redactor: &Redactor) -> Result<Canonical, Unfit> {
    if redactor.is_empty() {
        return Ok(body);
    }
    let body = checked(&clean_value(body.value(), redactor))?;
    // A secret that spans several values cannot be replaced inside one of them.
    if redactor.leaks(body.as_str()) {
        return Err(Unfit::invalid("the result holds a secret across several values"));
    }
    Ok(body)
}

fn clean_value(value: Value, redactor: &Redactor) -> Value {
    match value {
        Value::String(text) => Value::String(redactor.clean_text(&text)),
        Value::Number(number) if redactor.touches(number.as_str().as_bytes()) => {
            Value::String(redactor.clean_text(number.as_str()))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|item| clean_value(item, redactor)).collect()),
        Value::Object(members) => Value::Object(
            members.into_iter().map(|(key, value)| (redactor.clean_text(&key), clean_value(value, redactor))).collect(),
        ),
        other => other,
    }
}

/// The canonical bytes of a tree we made, by the one strict parser, so that size and rules hold here too.
fn checked(value: &Value) -> Result<Canonical, Unfit> {
    value.canonical().map_err(|fault| match fault.reason {
        Reason::Size => Unfit::too_large(fault.offset as u64),
        _ => Unfit::invalid(format!("the result is no strict JSON: {fault}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], form: Form, limit: u64) -> Result<String, Code> {
        read(bytes, form, limit, &Redactor::default()).map(|body| body.as_str().to_owned()).map_err(|unfit| unfit.code)
    }

    #[test]
    fn json_is_strict_and_everything_else_is_wrapped() {
        let big = 1 << 20;
        // C-260
        assert_eq!(text(br#" {"b":1.0, "a":2} "#, Form::Json, big), Ok(r#"{"a":2,"b":1.0}"#.to_owned()));
        assert_eq!(text(br#"{"a":1,"a":2}"#, Form::Json, big), Err(Code::InvalidResult));
        assert_eq!(text(b"{\"a\":", Form::Json, big), Err(Code::InvalidResult));
        assert_eq!(text(b"hello", Form::Other, big), Ok(r#"{"text":"hello"}"#.to_owned()));
        assert_eq!(text(b"{}", Form::Other, big), Ok(r#"{"text":"{}"}"#.to_owned()));
        assert_eq!(text(b"\xff\x00", Form::Other, big), Ok(r#"{"base64":"/wA="}"#.to_owned()));
        assert_eq!(text(b"a\0b", Form::Other, big), Ok(r#"{"base64":"YQBi"}"#.to_owned()));
        assert_eq!(text(b"hello", Form::Unsaid, big), Ok(r#"{"text":"hello"}"#.to_owned()));
        assert_eq!(text(b"[1]\n", Form::Unsaid, big), Ok("[1]".to_owned()));
        assert_eq!(text(br#"{"a":1,"a":2}"#, Form::Unsaid, big), Err(Code::InvalidResult));
        // I-64
        assert_eq!(text(b"", Form::Json, big), Ok("null".to_owned()));
    }

    #[test]
    fn the_limit_is_inclusive_and_counts_the_wrapped_form_too() {
        assert_eq!(text(b"[10]", Form::Json, 4), Ok("[10]".to_owned()));
        assert_eq!(text(b"[100]", Form::Json, 4), Err(Code::ResultTooLarge));
        assert_eq!(text(b"abcd", Form::Other, 8), Err(Code::ResultTooLarge));
    }

    #[test]
    fn secrets_leave_results_in_every_spelling() {
        let redactor = Redactor::of(&[("TOKEN", "s/\"3"), ("PIN", "4711")]);
        let read = |bytes: &[u8], form| read(bytes, form, 1_000, &redactor).map(|body| body.as_str().to_owned());
        // C-271
        assert_eq!(
            read(br#"{"s\/\"3":["x s\u002f\"3 y",14711]}"#, Form::Json),
            Ok(r#"{"[secret TOKEN]":["x [secret TOKEN] y","1[secret PIN]"]}"#.to_owned())
        );
        assert_eq!(read(b"pin 4711", Form::Other), Ok(r#"{"text":"pin [secret PIN]"}"#.to_owned()));
        assert_eq!(read(b"\xff4711", Form::Other).map(|body| body.contains("NDcxMQ")), Ok(false));
        let spanning = Redactor::of(&[("ODD", "1,2")]);
        assert_eq!(
            super::read(b"[1,2]", Form::Json, 99, &spanning).map_err(|unfit| unfit.code),
            Err(Code::InvalidResult)
        );
    }
}
