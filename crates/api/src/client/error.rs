//! How speaking to a server fails.

use crate::problem::Problem;

/// The three ways.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// The server answered, and refused or failed.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// No answer. A change that was asked for may have been made all the same.
    #[error("no answer from {target}: {cause}")]
    Unreachable { target: String, cause: String },
    /// An answer that is not of this interface.
    #[error("cannot read the answer of {target}: {cause}")]
    Protocol { target: String, cause: String },
}

impl ClientError {
    /// The code, where the server gave one.
    pub fn code(&self) -> Option<&str> {
        match self {
            ClientError::Problem(problem) => Some(&problem.code),
            ClientError::Unreachable { .. } | ClientError::Protocol { .. } => None,
        }
    }

    pub fn is_unreachable(&self) -> bool {
        matches!(self, ClientError::Unreachable { .. })
    }
}
