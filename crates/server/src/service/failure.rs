//! The engine's failures and the store's, as problems: one exhaustive match each.

use super::problem::{internal, problem, refused, with_hint};
use api::{Fault, Problem};
use engine::Failure;
use protocol::code::Code;
use protocol::command::Caller;
use store::ReadError;

/// What to do where no guest image is found (I-69).
pub(crate) const NO_IMAGE: &str = "set `[guest] image` in stasis.toml to a guest image, or put one into the cache; `stasis doctor` says where it looks";

/// A failure of the engine as it is told.
pub(super) fn told(failure: Failure, by: &Caller) -> Box<Problem> {
    match failure {
        Failure::Refused(refusal) => refused(&refusal),
        Failure::Source(fault) => {
            let mut problem = with_hint(
                Code::SourceInvalid,
                format!("line {}: {}", fault.line, fault.text),
                "mend the program and run or register it again",
            );
            problem.errors.push(Fault {
                code: Some(Code::SourceInvalid.as_str().to_owned()),
                message: fault.text,
                line: Some(u64::from(fault.line)),
                column: Some(u64::from(fault.column)),
                ..Fault::default()
            });
            problem
        }
        Failure::Image(why) => with_hint(Code::ImageUnavailable, why, NO_IMAGE),
        Failure::Unavailable(why) => with_hint(
            Code::StoreUnavailable,
            format!("Nothing was changed: the store takes no commands now ({why})."),
            "`stasis doctor` checks the store; after a failed sync the process has to be started again",
        ),
        Failure::Unknown => with_hint(
            Code::StoreUnavailable,
            "Whether this was committed is not known; it may stand.",
            "read the run or the approval before you repeat the request",
        ),
        Failure::Corrupt(why) | Failure::Internal(why) => internal(&why, by.request),
    }
}

/// A read that has no answer, as it is told.
pub(super) fn unread(error: ReadError, by: &Caller) -> Box<Problem> {
    match error {
        ReadError::Cursor(_) => {
            problem(Code::InvalidRequest, "query parameter `cursor`: this is no cursor of this list")
        }
        ReadError::Unavailable { reason } => {
            problem(Code::StoreUnavailable, format!("The store cannot be read now ({reason})."))
        }
        ReadError::Corrupt(corrupt) => internal(&corrupt, by.request),
    }
}
