//! `stasis config` (I-60): what the file says, without opening anything that it names.

use crate::app::App;
use crate::args::operate::Config as Verb;
use crate::failure::{Exit, Failure};
use crate::render;
use engine::config::{Config, Origin, Source, example, process_environment};
use serde::Serialize;
use server::StartError;
use std::path::PathBuf;

/// What a check found: every value in force and where it comes from.
#[derive(Serialize)]
struct Checked {
    ok: bool,
    file: Option<PathBuf>,
    /// What is valid and probably not what was meant.
    warnings: Vec<Warning>,
    settings: Vec<Setting>,
}

#[derive(Serialize)]
struct Setting {
    key: String,
    /// As TOML.
    value: String,
    /// `default`, `<file>:<line>` or the name of a variable.
    source: String,
}

#[derive(Serialize)]
struct Warning {
    file: String,
    line: Option<u32>,
    column: Option<u32>,
    key: String,
    message: String,
    hint: Option<String>,
    /// All of it, as people read it.
    #[serde(skip)]
    text: String,
}

pub(crate) fn config(app: &App, verb: &Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::Check => check(app)?,
        Verb::Example => app.out.text(example())?,
    }
    Ok(Exit::Fine)
}

fn check(app: &App) -> Result<(), Failure> {
    let file = app.config()?;
    let origin = Origin { file: file.as_deref(), data: &app.globals.data, environment: process_environment() };
    let config = Config::load(&origin).map_err(|faults| Failure::of(StartError::Config(faults).problem()))?;
    let warnings = config.doubts.into_iter().map(|doubt| Warning {
        text: doubt.to_string(),
        file: doubt.file,
        line: doubt.line,
        column: doubt.column,
        key: doubt.key,
        message: doubt.message,
        hint: doubt.hint,
    });
    let warnings = warnings.collect();
    let settings = config.settings.into_iter().map(|setting| Setting {
        key: setting.key,
        value: setting.value,
        source: match setting.source {
            Source::Default => "default".to_owned(),
            Source::File { file, line } => format!("{file}:{line}"),
            Source::Environment(name) => name,
        },
    });
    app.out.object(&Checked { ok: true, file, warnings, settings: settings.collect() }, text)
}

fn text(checked: &Checked) -> String {
    let rows = checked.settings.iter();
    let rows = rows.map(|s| vec![s.key.clone(), render::short(&s.value, 60), s.source.clone()]).collect();
    let file =
        checked.file.as_ref().map_or_else(|| "no file: the defaults".to_owned(), |file| file.display().to_string());
    let mut text = render::table(&["KEY", "VALUE", "SOURCE"], rows) + &format!("\n{file}: valid\n");
    for warning in &checked.warnings {
        text += &format!("warning: {}\n", render::visible(&warning.text));
    }
    text
}
