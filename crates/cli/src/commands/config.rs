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
    let settings = config.settings.into_iter().map(|setting| Setting {
        key: setting.key,
        value: setting.value,
        source: match setting.source {
            Source::Default => "default".to_owned(),
            Source::File { file, line } => format!("{file}:{line}"),
            Source::Environment(name) => name,
        },
    });
    app.out.object(&Checked { ok: true, file, settings: settings.collect() }, text)
}

fn text(checked: &Checked) -> String {
    let rows = checked.settings.iter();
    let rows = rows.map(|s| vec![s.key.clone(), render::short(&s.value, 60), s.source.clone()]).collect();
    let file =
        checked.file.as_ref().map_or_else(|| "no file: the defaults".to_owned(), |file| file.display().to_string());
    render::table(&["KEY", "VALUE", "SOURCE"], rows) + &format!("\n{file}: valid\n")
}
