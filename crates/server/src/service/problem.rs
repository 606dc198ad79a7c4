//! How a refusal or failure becomes the problem that every door gives (I-46).
//!
//! One exhaustive way from codes to HTTP: the status is the code's own, the hint is the decision's, and where a truth won
//! it is carried along (R-381). A failure of the outside world never tells its text to strangers: the request id is the
//! way from the answer to the log.

use api::{Json, Problem};
use protocol::code::Code;
use protocol::refusal::Refusal;

/// What every method of the service answers.
pub type Answer<T> = Result<T, Box<Problem>>;

/// A problem with the code's own status, title and retryability.
pub(crate) fn problem(code: Code, detail: impl Into<String>) -> Box<Problem> {
    Box::new(Problem::of(code, detail))
}

/// As [`problem`], with what to do about it.
pub(crate) fn with_hint(code: Code, detail: impl Into<String>, hint: impl Into<String>) -> Box<Problem> {
    let mut problem = problem(code, detail);
    problem.hint = Some(hint.into());
    problem
}

/// A refused command as it is told: nothing is added but the status of its code.
pub(crate) fn refused(refusal: &Refusal) -> Box<Problem> {
    let mut problem = problem(refusal.code, refusal.detail.clone());
    problem.hint.clone_from(&refusal.hint);
    problem.retry_after_ms = refusal.retry_after_ms;
    problem.truth = refusal.truth.as_ref().and_then(|truth| Json::parse(truth.as_str()).ok());
    problem
}

/// One shape for whatever is not there, whoever it belongs to, and however its id is spelled (C-165, R-12).
pub(crate) fn not_found() -> Box<Problem> {
    problem(Code::NotFound, "There is nothing here under this name that you may see.")
}

/// A bug or a broken machine. The log has the cause under the request id; the answer does not.
pub(crate) fn internal(cause: &dyn std::fmt::Display, request: impl std::fmt::Display) -> Box<Problem> {
    tracing::error!(%request, %cause, "internal failure");
    with_hint(
        Code::Internal,
        "This is a bug or a broken machine, not your request; nothing of the command was committed.",
        format!("look for request {request} in the server's log"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_code_hint_and_truth() {
        let refusal = Refusal::new(Code::AlreadyDecided, "maria rejected it")
            .hint("stasis approval show")
            .truth(&serde_json::json!({"status": "rejected", "n": 1}));
        let problem = refused(&refusal);
        assert_eq!((problem.status, problem.code.as_str()), (409, "already_decided")); // I-36
        assert_eq!(problem.kind, "urn:stasis:error:already_decided"); // I-46
        assert_eq!(problem.title, "Already decided"); // I-46
        assert_eq!(problem.hint.as_deref(), Some("stasis approval show")); // I-46
        assert_eq!(problem.truth.unwrap().as_str(), r#"{"n":1,"status":"rejected"}"#); // I-46
        assert!(!problem.retryable); // I-36
        assert!(super::problem(Code::CapacityClosed, "full").retryable); // I-36
    }

    #[test]
    fn an_internal_failure_tells_the_request_and_not_the_cause() {
        let problem = internal(&"secret path", "01req");
        assert_eq!(problem.status, 500);
        assert!(problem.hint.as_deref().unwrap().contains("01req")); // I-47
        assert!(!format!("{problem:?}").contains("secret path"));
    }
}
