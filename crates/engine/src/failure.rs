//! Why a request to the engine failed.
//!
//! Owns: the one error type of the façade. A refusal is expected and typed; everything else is the outside world or a
//! bug, and is never turned into a refusal.

use protocol::code::Code;
use protocol::refusal::Refusal;
use sandbox::SourceFault;
use store::{ReadError, TransactError};

/// What a request to the engine ends in, if not in its answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Nothing changed, for a reason a caller can act on.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A program that does not compile (W-152).
    #[error("line {}, column {}: {}", .0.line, .0.column, .0.text)]
    Source(SourceFault),
    /// Several faults of one request, each a refusal or a fault of its source.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Failure>),
    /// No guest image is here, or no guest can be made (I-69).
    #[error("{0}")]
    Image(String),
    /// The key or the export of anchors cannot be used; runs go on.
    #[error("anchors cannot be made or read: {0}")]
    Audit(String),
    /// Nothing was committed; the store cannot take commands now.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The commit's answer was lost: read before repeating.
    #[error("the outcome of the commit is unknown; read before repeating")]
    Unknown,
    /// Rows of one run that cannot be read.
    #[error("stored rows cannot be read: {0}")]
    Corrupt(String),
    /// A bug: nothing of the command was committed.
    #[error("internal: {0}")]
    Internal(String),
}

impl Failure {
    /// One fault is told as what it is.
    pub(crate) fn of_several(mut faults: Vec<Failure>) -> Failure {
        if faults.len() == 1 { faults.remove(0) } else { Failure::Several(faults) }
    }

    pub(crate) fn refused(code: Code, detail: impl Into<String>) -> Failure {
        Failure::Refused(Refusal::new(code, detail))
    }
}

impl From<TransactError> for Failure {
    fn from(error: TransactError) -> Failure {
        match error {
            TransactError::Refused(refusal) => Failure::Refused(*refusal),
            TransactError::Unavailable { reason } => Failure::Unavailable(reason),
            TransactError::Unknown { .. } => Failure::Unknown,
            TransactError::Corrupt(corrupt) => Failure::Corrupt(corrupt.to_string()),
            TransactError::Internal { detail } => Failure::Internal(detail),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        match error {
            ReadError::Corrupt(corrupt) => Failure::Corrupt(corrupt.to_string()),
            ReadError::Unavailable { reason } => Failure::Unavailable(reason),
            ReadError::Cursor(text) => {
                Failure::refused(Code::InvalidRequest, format!("`{text}` is no cursor of this list"))
            }
        }
    }
}
