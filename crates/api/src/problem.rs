//! Refusals and failures on the wire (I-36, I-46).
//!
//! Owns the shape of `application/problem+json`. Which code goes with which status is decided in `protocol::code`; a
//! client keeps codes as text, so that a code of a newer server passes through it unharmed.

use crate::json::Json;
use protocol::code::Code;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was refused or failed, and what a person can do about it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:stasis:error:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code to script against.
    pub code: String,
    /// What happened, in a sentence.
    pub detail: String,
    /// What to do next; often a command.
    pub hint: Option<String>,
    /// Whether the same request, unchanged, may succeed later.
    pub retryable: bool,
    pub retry_after_ms: Option<u64>,
    pub request_id: Option<String>,
    /// Every single fault, where there can be several (registration, configuration).
    pub errors: Vec<Fault>,
    /// Where another truth won: that truth.
    pub truth: Option<Json>,
}

/// One fault of several, with the place where it is.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    pub code: Option<String>,
    pub message: String,
    /// The file, where one was read.
    pub file: Option<String>,
    pub line: Option<u64>,
    pub column: Option<u64>,
    /// JSON Pointer, configuration key, or field name.
    pub key: Option<String>,
    /// What to do about it, such as the nearest name that is known.
    pub suggestion: Option<String>,
}

impl Problem {
    /// A problem with the code's own type, title, status and retryability, and nothing optional. A code that no server
    /// gives has the status of a failure.
    pub fn of(code: Code, detail: impl Into<String>) -> Problem {
        let retryable = code.retryable();
        let (status, code) = (code.http().unwrap_or(500), code.as_str());
        Problem {
            kind: format!("urn:stasis:error:{code}"),
            title: title(code),
            status,
            code: code.to_owned(),
            detail: detail.into(),
            hint: None,
            retryable,
            retry_after_ms: None,
            request_id: None,
            errors: Vec::new(),
            truth: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// With another status than the code's own, where the same code is told of different things.
    #[must_use]
    pub fn status(mut self, status: u16) -> Problem {
        self.status = status;
        self
    }

    /// Whether it has this code.
    pub fn is(&self, code: Code) -> bool {
        self.code == code.as_str()
    }
}

/// `already_decided` as `Already decided`.
fn title(code: &str) -> String {
    let mut words = code.replace('_', " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_fields_of_the_example_and_leaves_none_out() {
        let problem = Problem::of(Code::AlreadyDecided, "maria rejected this approval.");
        let value = serde_json::to_value(&problem).unwrap();
        assert_eq!(value["type"], "urn:stasis:error:already_decided");
        assert_eq!(value["title"], "Already decided");
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let wanted = [
            "code",
            "detail",
            "errors",
            "hint",
            "request_id",
            "retry_after_ms",
            "retryable",
            "status",
            "title",
            "truth",
            "type",
        ];
        assert_eq!(keys, wanted); // I-40
    }
}
