//! From the process's arguments to a command: parsing, what `--help` and `--version` say, and the log.

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::output::Format;
use clap::Parser;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// The command, or the exit code of a process that has nothing to do.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, ExitCode> {
    let words: Vec<OsString> = words.into_iter().collect();
    let error = match Cli::try_parse_from(&words) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let help = error.kind() == ErrorKind::DisplayHelp;
            let _ = error.print();
            Err(if help { ExitCode::SUCCESS } else { ExitCode::from(2) })
        }
        ErrorKind::DisplayVersion => {
            let _ = writeln!(std::io::stdout(), "{}", version());
            Err(ExitCode::SUCCESS)
        }
        _ => {
            let json = !Format::or_default(chosen(&words), std::io::stdout().is_terminal()).is_table();
            let failure = usage(&error);
            let _ = std::io::stderr().write_all(failure.render(json).as_bytes());
            Err(ExitCode::from(failure.exit.code()))
        }
    }
}

/// Clap's message in our two lines: what is wrong, and how the command is used.
fn usage(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let (what, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
    let what = what.strip_prefix("error: ").unwrap_or(what);
    let help = rest.lines().map(str::trim).filter(|line| !line.is_empty());
    let hint: Vec<&str> = help.collect();
    if what.contains("'--json'") {
        return Failure::usage_with_hint(what, "the form of the result is --output json (or ndjson, table)");
    }
    Failure::usage_with_hint(what, hint.join("; "))
}

/// `--output` as written, for a command line that could not be parsed.
fn chosen(words: &[OsString]) -> Option<Format> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let value = words.iter().enumerate().find_map(|(i, word)| match word.strip_prefix("--output") {
        Some("") => words.get(i + 1).map(|next| next.to_string()),
        Some(rest) => rest.strip_prefix('=').map(str::to_owned),
        None => None,
    })?;
    <Format as clap::ValueEnum>::from_str(&value, false).ok()
}

/// `stasis 0.1.0 (guest image sha256:...)` (I-17).
fn version() -> String {
    let image = match server::image_digest() {
        Some(digest) => format!("guest image {digest}"),
        None => "no guest image here".to_owned(),
    };
    format!("stasis {} ({image})", env!("CARGO_PKG_VERSION"))
}

/// The log of the server inside, on stderr: `STASIS_LOG` is a level or filter, or `json` (I-14a). Commands that are no
/// server log nothing unless told, since stderr is for their own two lines.
pub(crate) fn log(command: &Command) {
    let usual = match command {
        Command::Dev(_) | Command::Serve(_) => "info",
        _ => "off",
    };
    let told = std::env::var("STASIS_LOG").ok().filter(|told| !told.is_empty());
    let json = told.as_deref() == Some("json");
    let filter = told.filter(|_| !json).unwrap_or_else(|| if json { "info" } else { usual }.to_owned());
    let filter = EnvFilter::try_new(&filter).unwrap_or_else(|_| EnvFilter::new("info"));
    // Where nobody takes the log any more, it is lost: saying so would be one more line for nobody, and a panic.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    // A subscriber that is already there is another's; then that one keeps the log.
    let _ = if json { log.json().try_init() } else { log.with_ansi(false).try_init() };
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn refused(words: &[&str]) -> Failure {
        usage(&Cli::try_parse_from(words).unwrap_err())
    }

    #[test]
    fn wrong_usage_is_a_problem_with_exit_2() {
        let failure = refused(&["stasis", "run", "show", "run_nonsense"]);
        assert_eq!(failure.exit.code(), 2); // I-16
        let problem = failure.problem.unwrap();
        assert_eq!(problem.code, "invalid_request");
        assert!(problem.detail.contains("run_nonsense"), "{}", problem.detail);
        let json = refused(&["stasis", "run", "list", "--json"]).problem.unwrap();
        assert!(json.hint.unwrap().contains("--output json")); // I-15
    }

    #[test]
    fn the_form_is_known_even_where_the_rest_is_not() {
        let words = |words: &[&str]| -> Vec<OsString> { words.iter().map(OsString::from).collect() };
        assert_eq!(chosen(&words(&["stasis", "nonsense", "--output", "json"])), Some(Format::Json));
        assert_eq!(chosen(&words(&["stasis", "--output=ndjson", "x"])), Some(Format::Ndjson));
        assert_eq!(chosen(&words(&["stasis", "x"])), None);
    }

    #[test]
    fn every_command_has_help_with_examples() {
        fn leaves(command: &clap::Command, path: &str, missing: &mut Vec<String>) {
            let example = command.get_after_help().is_some_and(|help| help.to_string().contains("Example"));
            if !example {
                missing.push(path.to_owned());
            }
            for sub in command.get_subcommands() {
                leaves(sub, &format!("{path} {}", sub.get_name()), missing);
            }
        }
        Cli::command().debug_assert();
        let mut missing = Vec::new();
        leaves(&Cli::command(), "stasis", &mut missing);
        assert!(missing.is_empty(), "without examples: {missing:?}"); // I-17
    }

    #[test]
    fn flags_of_every_command_stand_before_or_after_its_words() {
        for words in [
            ["stasis", "--data", "d", "--output", "json", "run", "list"],
            ["stasis", "run", "--data", "d", "--output", "json", "list"],
            ["stasis", "run", "list", "--data", "d", "--output", "json"],
        ] {
            let cli = Cli::try_parse_from(words).unwrap();
            assert_eq!(cli.globals.data.to_str(), Some("d"), "{words:?}"); // I-15
            assert_eq!(cli.globals.output, Some(Format::Json), "{words:?}"); // I-15
            let Command::Run(run) = cli.command else { panic!("{words:?}") };
            assert!(matches!(run.verb, Some(crate::args::run::RunVerb::List(_))), "{words:?}");
        }
    }

    #[test]
    fn a_first_word_that_is_a_verb_is_that_verb() {
        let parse = |words: &[&str]| match Cli::try_parse_from(words).unwrap().command {
            Command::Run(run) => (run.verb.is_some(), run.file),
            other => panic!("{other:?}"),
        };
        let id = "run_01m8nwmbe0e00bsaekf59edd1r";
        assert_eq!(parse(&["stasis", "run", "show", id]), (true, None)); // I-2
        assert_eq!(parse(&["stasis", "run", "./show"]), (false, Some("./show".into()))); // I-2
        assert_eq!(parse(&["stasis", "run", "a.py", "--input", "{}"]), (false, Some("a.py".into())));
    }
}
