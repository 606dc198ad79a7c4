//! How a command fails: one problem object, one exit code (I-16).
//!
//! Every failure, of the server or of our own, becomes a [`Problem`]; so a script reads one shape whatever went wrong.

use api::{ClientError, Problem};
use protocol::code::Code;
use protocol::run::Status;
use std::fmt::Write as _;

/// The exit codes of I-16 and I-2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    Fine,
    Failed,
    /// Wrong usage or refused input.
    Refused,
    /// The run stopped without an end.
    Stopped,
    RunFailed,
    RunCancelled,
    NotPermitted,
    NotFound,
    Conflict,
    Interrupted,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Failed => 1,
            Exit::Refused => 2,
            Exit::Stopped => 3,
            Exit::RunFailed => 4,
            Exit::RunCancelled => 5,
            Exit::NotPermitted => 6,
            Exit::NotFound => 7,
            Exit::Conflict => 8,
            Exit::Interrupted => 130,
        }
    }

    /// The exit of a command that ends with a refusal of this HTTP status.
    pub(crate) const fn of_status(status: u16) -> Exit {
        match status {
            400 | 413 | 422 => Exit::Refused,
            401 | 403 => Exit::NotPermitted,
            404 => Exit::NotFound,
            409 | 410 => Exit::Conflict,
            _ => Exit::Failed,
        }
    }

    /// The exit of a command that ends with a run.
    pub(crate) const fn of_run(status: Status) -> Exit {
        match status {
            Status::Done => Exit::Fine,
            Status::Failed => Exit::RunFailed,
            Status::Cancelled => Exit::RunCancelled,
            _ => Exit::Stopped,
        }
    }
}

/// Why a command ended without doing what it was asked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// `None` where there is nothing to say: after an interrupt, or to a reader who has left.
    pub(crate) problem: Option<Box<Problem>>,
    /// Whether no answer came, so that what was asked may stand all the same (R-7).
    pub(crate) unanswered: bool,
}

impl Failure {
    pub(crate) fn of(problem: Problem) -> Failure {
        Failure { exit: Exit::of_status(problem.status), problem: Some(Box::new(problem)), unanswered: false }
    }

    pub(crate) fn exit(self, exit: Exit) -> Failure {
        Failure { exit, ..self }
    }

    /// Wrong usage, or a value that we refuse before anybody is asked.
    pub(crate) fn usage(detail: impl Into<String>) -> Failure {
        Failure::of(Problem::of(Code::InvalidRequest, detail))
    }

    pub(crate) fn usage_with_hint(detail: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::of(Problem::of(Code::InvalidRequest, detail).hint(hint))
    }

    /// FILE, `@file` or stdin cannot be read, or is no JSON (I-47).
    pub(crate) fn unreadable(detail: impl Into<String>) -> Failure {
        Failure::of(Problem::of(Code::InputUnreadable, detail).status(400))
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.problem = self.problem.map(|problem| Box::new(problem.hint(hint)));
        self
    }

    pub(crate) fn interrupted() -> Failure {
        Failure { exit: Exit::Interrupted, problem: None, unanswered: false }
    }

    /// Nobody reads the result any more (`| head`): whoever did has seen what they wanted.
    pub(crate) fn reader_left() -> Failure {
        Failure { exit: Exit::Fine, problem: None, unanswered: false }
    }

    /// A bug or a broken machine: what should not happen.
    pub(crate) fn internal(detail: impl Into<String>) -> Failure {
        Failure::of(Problem::of(Code::Internal, detail))
    }

    /// What goes to stderr: `error: <what>`, `hint: <what to do>`; with json the problem object on one line.
    pub(crate) fn render(&self, json: bool) -> String {
        let Some(problem) = &self.problem else { return String::new() };
        if json {
            let line = serde_json::to_string(problem).expect("a problem has text keys only");
            return line + "\n";
        }
        let mut text = format!("error: {}\n", one_line(&problem.detail));
        for fault in &problem.errors {
            let place = match (&fault.file, fault.line, fault.column) {
                (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}: "),
                (Some(file), Some(line), None) => format!("{file}:{line}: "),
                (Some(file), None, _) => format!("{file}: "),
                (None, Some(line), _) => format!("line {line}: "),
                (None, None, _) => String::new(),
            };
            let key = fault.key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default();
            let hint = fault.suggestion.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            let _ = writeln!(text, "  {place}{key}{}{hint}", fault.message);
        }
        if let Some(hint) = &problem.hint {
            let _ = writeln!(text, "hint: {}", one_line(hint));
        }
        text
    }
}

/// Its lines as one, joined by semicolons but after a colon.
fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).fold(String::new(), |mut whole, line| {
        if !whole.is_empty() {
            whole.push_str(if whole.ends_with(':') { " " } else { "; " });
        }
        whole.push_str(line);
        whole
    })
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Problem(problem) => Failure::of(*problem),
            ClientError::Unreachable { .. } => {
                let problem = Problem::of(Code::ServerUnreachable, error.to_string()).status(503);
                let problem = problem.hint("check --server and that `stasis serve` runs there");
                Failure { unanswered: true, ..Failure::of(problem) }
            }
            ClientError::Protocol { .. } => {
                let problem = Problem::of(Code::ServerUnreachable, error.to_string()).status(502);
                Failure::of(Problem { retryable: false, ..problem })
            }
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::internal(format!("cannot write the output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Fault;
    use expect_test::expect;

    #[test]
    fn exit_codes_follow_status_and_run() {
        let statuses = [
            (400, 2),
            (413, 2),
            (422, 2),
            (401, 6),
            (403, 6),
            (404, 7),
            (409, 8),
            (410, 8),
            (429, 1),
            (500, 1),
            (503, 1),
        ];
        for (status, code) in statuses {
            assert_eq!(Exit::of_status(status).code(), code, "{status}"); // I-16
        }
        for status in Status::ALL {
            let code = match status.as_str() {
                "done" => 0,
                "failed" => 4,
                "cancelled" => 5,
                _ => 3,
            };
            assert_eq!(Exit::of_run(status).code(), code, "{status}"); // I-2
        }
        assert_eq!(Failure::interrupted().exit.code(), 130); // I-16
    }

    #[test]
    fn a_failure_is_two_lines_for_people_and_one_object_for_scripts() {
        let mut problem = Problem::of(Code::ConfigInvalid, "stasis.toml is not\nvalid.").hint("stasis config check");
        problem.errors.push(Fault {
            message: "unknown key".into(),
            file: Some("stasis.toml".into()),
            line: Some(3),
            key: Some("server.listn".into()),
            suggestion: Some("did you mean `listen`?".into()),
            ..Fault::default()
        });
        let failure = Failure::of(problem);
        expect![[r#"
            error: stasis.toml is not; valid.
              stasis.toml:3: server.listn: unknown key (did you mean `listen`?)
            hint: stasis config check
        "#]]
        .assert_eq(&failure.render(false)); // I-16
        let line = failure.render(true);
        assert_eq!(line.lines().count(), 1); // I-16
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["code"], "config_invalid"); // I-16
        assert_eq!(object["errors"][0]["line"], 3);
    }

    #[test]
    fn an_unanswered_request_says_so() {
        let lost = ClientError::Unreachable { target: "http://x:1".into(), cause: "connection refused".into() };
        let failure = Failure::from(lost);
        assert!(failure.unanswered);
        assert_eq!(failure.exit, Exit::Failed);
        assert!(failure.render(false).starts_with("error: no answer from http://x:1: connection refused\n"));
    }
}
