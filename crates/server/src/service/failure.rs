//! The engine's failures and the store's, as problems: one exhaustive match each.

use super::problem::{internal, problem, refused, with_hint};
use api::{Fault, Problem};
use engine::Failure;
use protocol::code::Code;
use protocol::command::Caller;
use store::ReadError;

/// What to do where no guest image is found (I-69).
pub(crate) const NO_IMAGE: &str = "set `[guest] image` in stasis.toml to a guest image, or put one into the cache; `stasis doctor` says where it looks";

/// What to do where the ledger is older than its export.
pub(crate) const RESTORED: &str = "effects after that copy may have happened: look at what the other side has, then `stasis audit accept --reason ...` goes on from the copy";

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
        // The first fault leads; each is among the errors.
        Failure::Several(faults) => {
            let mut all = faults.into_iter().map(|fault| *told(fault, by));
            let Some(mut first) = all.next() else { return internal(&"no fault", by.request) };
            first.errors = listed(&first);
            first.errors.extend(all.flat_map(|problem| listed(&problem)));
            Box::new(first)
        }
        Failure::Image(why) => with_hint(Code::ImageUnavailable, why, NO_IMAGE),
        Failure::Audit(why) => with_hint(
            Code::StoreUnavailable,
            format!("Anchors cannot be made or read: {why}."),
            "mend that file, or name others in `[audit]` of stasis.toml (docs/audit.md); runs go on",
        ),
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
        Failure::Corrupt(why) => damaged(&why, by),
        Failure::Internal(why) => internal(&why, by.request),
    }
}

/// Rows or bodies that are not as they were written. The log has which they are, under the request id.
fn damaged(what: &dyn std::fmt::Display, by: &Caller) -> Box<Problem> {
    let mut problem = internal(what, by.request);
    problem.detail = "What is stored of this is damaged and was left as it is; other runs go on.".to_owned();
    problem.hint = Some(format!(
        "`stasis audit verify` says what is damaged; keep a copy, then restore the last backup; the log has request {}",
        by.request
    ));
    problem
}

/// The faults of a problem; one that has none of its own is a fault itself.
fn listed(problem: &Problem) -> Vec<Fault> {
    if !problem.errors.is_empty() {
        return problem.errors.clone();
    }
    let code = Some(problem.code.clone());
    vec![Fault { code, message: problem.detail.clone(), suggestion: problem.hint.clone(), ..Fault::default() }]
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
        ReadError::Corrupt(corrupt) => damaged(&corrupt, by),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::approval::Method;
    use protocol::id::RequestId;
    use protocol::policy::Strength;
    use protocol::principal::Principal;
    use protocol::refusal::Refusal;
    use protocol::time::Time;

    #[test]
    fn several_faults_are_one_problem_that_lists_each() {
        let request = RequestId::mint(Time::from_millis(1), 0, 1);
        let by = Caller { principal: Principal::local(), method: Method::Api, strength: Strength::Session, request };
        let source = sandbox::SourceFault { line: 3, column: 1, text: "invalid syntax".to_owned() };
        let source = Failure::Source(source);
        let tool = Failure::Refused(Refusal::new(Code::ToolInvalid, "there is no tool a.b").hint("known: c.d"));
        let problem = told(Failure::Several(vec![source, tool]), &by);
        assert_eq!((problem.code.as_str(), problem.status), ("source_invalid", 422));
        let codes: Vec<_> = problem.errors.iter().map(|fault| fault.code.as_deref()).collect();
        assert_eq!(codes, [Some("source_invalid"), Some("tool_invalid")]);
        assert_eq!(problem.errors[0].line, Some(3));
        assert_eq!(problem.errors[1].suggestion.as_deref(), Some("known: c.d"));
    }
}
