//! JSON that must stand byte for byte.
//!
//! Owns [`Json`], one JSON text kept as it was written: `1`, `1.0` and `1e0` stay apart, and a number beyond binary64
//! keeps its digits (I-40, C-35). It never parses a number and never orders keys; the strict parser of `protocol` does.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// One JSON value as text. Two are equal when their texts are.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Takes a text as it is, if it is one JSON value. White space around the value is dropped.
    ///
    /// # Errors
    /// The syntax error, with line and column.
    pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
        serde_json::from_str::<Json>(text)
    }

    /// The JSON of a value of ours.
    ///
    /// # Errors
    /// What `serde` refuses: a map whose keys are no strings, or the value's own error.
    pub fn of(value: &impl Serialize) -> Result<Json, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Json)
    }

    /// The JSON `null`.
    pub fn null() -> Json {
        Json(RawValue::NULL.to_owned())
    }

    /// The text, exactly.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// A parsed copy, for looking inside. Numbers are binary64 here: never send or show what comes out of it.
    pub fn peek(&self) -> serde_json::Value {
        serde_json::from_str(self.as_str()).unwrap_or(serde_json::Value::Null)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Json {
        Json(raw)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Json)
    }
}

impl utoipa::PartialSchema for Json {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::SchemaType::AnyValue)
            .description(Some("Any JSON value, byte for byte as stored."))
            .into()
    }
}

impl utoipa::ToSchema for Json {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_as_written() {
        for text in [r#"{"b":1.0,"a":1e0}"#, "9007199254740993", "[-0,1E+2,0.10]", "\"\\u00e9\""] {
            let json = Json::parse(text).unwrap();
            assert_eq!(json.as_str(), text); // I-40
            assert_eq!(serde_json::to_string(&json).unwrap(), text); // I-40
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "{} {}", "nul"] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
    }
}
