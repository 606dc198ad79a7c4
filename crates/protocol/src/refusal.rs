//! Why a command changes nothing.
//!
//! Owns: the one refusal type of all decisions. A refusal is expected and typed; late and double messages are
//! ordinary. It is neither a failure of the outside world nor a bug.

use crate::code::Code;
use crate::json::Canonical;

/// A refused command: the wire code, a sentence with the facts, what to do about it, and the truth where one won.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    pub code: Code,
    pub detail: String,
    pub hint: Option<String>,
    /// What stands instead, as the wire shows it (`truth` of I-46).
    pub truth: Option<Canonical>,
    /// When a retry could help, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Whether the attempt is recorded as an event all the same (R-2, C-176).
    pub recorded: bool,
}

impl Refusal {
    pub fn new(code: Code, detail: impl Into<String>) -> Refusal {
        Refusal { code, detail: detail.into(), hint: None, truth: None, retry_after_ms: None, recorded: false }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    pub fn truth(mut self, truth: &impl serde::Serialize) -> Refusal {
        self.truth = crate::json::to_canonical(truth).ok();
        self
    }

    pub fn recorded(mut self) -> Refusal {
        self.recorded = true;
        self
    }
}
