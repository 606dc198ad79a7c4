//! `stasis run FILE`: registers the file and runs it once to its next stop (I-2, I-68).

use super::{interactive, runs};
use crate::app::App;
use crate::carry;
use crate::door::Need;
use crate::failure::{Exit, Failure};
use crate::input;
use crate::terminal::Terminal;
use api::run::{Until, WorkflowKind};
use api::{RegisterWorkflow, StartRun};
use protocol::code::Code;
use std::path::Path;

pub(crate) async fn run(app: &App, file: &Path, argument: Option<&str>) -> Result<Exit, Failure> {
    // Both are read before anything is asked of anybody: what cannot be read leaves nothing behind.
    let register = registration(file, None)?;
    let input = runs::input_or_empty(argument)?;
    input::fits(&input)?;
    // A person who may answer at once is worth keeping the guest hot for.
    let terminal = if app.out.format.is_table() && !app.globals.quiet { Terminal::open() } else { None };
    let need = if app.globals.no_run { Need::Change } else { Need::Carry { hot: terminal.is_some() } };
    let door = app.open(need).await?;
    let registered = door.client.register(&register).await;
    let registered = registered.map_err(|error| named(before_a_run(error.into()), file))?;
    let request = StartRun { revision: Some(registered.revision), ..StartRun::of(registered.key, Some(input)) };
    let run = door.client.put_run(app.new_run(), &request).await.map_err(|error| before_a_run(error.into()))?;
    app.works_on(run.id);
    if terminal.is_some() {
        app.out.say(&format!("run {}", run.id));
    }
    // To its next stop with a server too (I-2).
    let run = match terminal {
        _ if app.globals.no_run => run,
        Some(terminal) => interactive::carry(app, &door, run, terminal).await?,
        None => carry::wait(&app.out, &door, run.id, Until::Stopped, None).await?.0,
    };
    runs::concluded(app, &door, run, None).await
}

/// What is refused before a run exists exits 2, whatever refused it (I-2).
fn before_a_run(failure: Failure) -> Failure {
    let refused = failure.problem.as_ref().is_some_and(|problem| (400..500).contains(&problem.status));
    if refused { failure.exit(Exit::Refused) } else { failure }
}

/// A fault of the program is told once, with the name of its file.
pub(crate) fn named(mut failure: Failure, file: &Path) -> Failure {
    if let Some(problem) = failure.problem.as_mut().filter(|problem| problem.is(Code::SourceInvalid)) {
        for fault in problem.errors.iter_mut().filter(|fault| fault.file.is_none()) {
            fault.file = Some(file.display().to_string());
        }
        if !problem.errors.is_empty() {
            problem.detail = format!("{} cannot be run", file.display());
        }
    }
    failure
}

/// The request that registers a file: its stem is the key, its ending says what it is (I-68).
pub(crate) fn registration(file: &Path, active: Option<bool>) -> Result<RegisterWorkflow, Failure> {
    let source = input::file(file)?;
    let key = file.file_stem().and_then(|stem| stem.to_str());
    let key = key.ok_or_else(|| Failure::usage(format!("{} has no name to use as key", file.display())))?;
    let kind = kind(file, &source)?;
    Ok(RegisterWorkflow { key: key.to_owned(), kind, source, manifest: None, active })
}

/// A script ends in `.py`; a `.toml` or `.json` names its `kind`.
fn kind(file: &Path, source: &str) -> Result<WorkflowKind, Failure> {
    let named = match file.extension().and_then(|ending| ending.to_str()) {
        Some("py") => return Ok(WorkflowKind::Script),
        Some("json") => serde_json::from_str::<serde_json::Value>(source)
            .map_err(|error| Failure::unreadable(format!("{} is no JSON: {error}", file.display())))?
            .get("kind")
            .and_then(|kind| kind.as_str())
            .map(str::to_owned),
        Some("toml") => source
            .parse::<toml::Table>()
            .map_err(|error| Failure::unreadable(format!("{} is no TOML: {}", file.display(), error.message())))?
            .get("kind")
            .and_then(|kind| kind.as_str())
            .map(str::to_owned),
        _ => {
            let detail = format!("{} is no program: it ends in neither .py, .toml nor .json", file.display());
            return Err(Failure::usage(detail));
        }
    };
    match named.as_deref() {
        Some("graph") => Ok(WorkflowKind::Graph),
        Some("agent") => Ok(WorkflowKind::Agent),
        _ => Err(Failure::usage_with_hint(
            format!("{} does not say what it is", file.display()),
            "give it a top-level `kind`: graph or agent",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Problem;

    fn register(name: &str, source: &str) -> Result<RegisterWorkflow, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, source).unwrap();
        registration(&path, None)
    }

    #[test]
    fn a_file_is_registered_under_its_stem_as_its_ending_says() {
        let script = register("refund.py", "result = 1\n").unwrap();
        assert_eq!((script.key.as_str(), script.kind), ("refund", WorkflowKind::Script)); // I-68
        assert_eq!(script.source, "result = 1\n");
        assert_eq!(register("a.b.json", r#"{"kind":"graph"}"#).unwrap().kind, WorkflowKind::Graph); // I-68
        assert_eq!(register("x.toml", "kind = \"agent\"\n").unwrap().kind, WorkflowKind::Agent); // I-68
    }

    #[test]
    fn what_is_no_program_is_refused_before_anybody_is_asked() {
        for (name, source) in
            [("x.sh", "echo"), ("x.json", "{}"), ("x.json", "{"), ("x.toml", "kind = 1"), ("x.toml", "=")]
        {
            assert_eq!(register(name, source).unwrap_err().exit.code(), 2, "{name}: {source}"); // I-2
        }
        assert_eq!(registration(Path::new("/does/not/exist.py"), None).unwrap_err().exit.code(), 2); // I-47
    }

    #[test]
    fn a_refusal_before_a_run_exits_2() {
        for (status, code) in [(422, 2), (409, 2), (403, 2), (404, 2), (503, 1), (500, 1)] {
            let failure = before_a_run(Failure::of(Problem::of(Code::Internal, "x").status(status)));
            assert_eq!(failure.exit.code(), code, "{status}"); // I-2
        }
    }
}
