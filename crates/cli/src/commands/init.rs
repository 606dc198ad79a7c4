//! `stasis init`: a first configuration and a first program that runs as it is (I-14a).
//!
//! Never overwrites: what is there already is kept and named.

use crate::app::App;
use crate::failure::{Exit, Failure};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const FILES: [(&str, &str); 2] =
    [("stasis.toml", include_str!("../../first/stasis.toml")), ("hello.py", include_str!("../../first/hello.py"))];

#[derive(Serialize, Default, PartialEq, Debug)]
struct Written {
    dir: PathBuf,
    written: Vec<PathBuf>,
    kept: Vec<PathBuf>,
}

pub(crate) fn init(app: &App, dir: &Path) -> Result<Exit, Failure> {
    let written = write(dir)?;
    app.out.object(&written, |written| {
        let line = |word: &str, paths: &[PathBuf]| -> String {
            paths.iter().map(|path| format!("{word} {}\n", path.display())).collect()
        };
        line("wrote", &written.written) + &line("kept ", &written.kept)
    })?;
    let go = if dir == Path::new(".") { String::new() } else { format!("cd {} && ", dir.display()) };
    app.out.say(&format!("now: {go}stasis run hello.py"));
    Ok(Exit::Fine)
}

fn write(dir: &Path) -> Result<Written, Failure> {
    let failed =
        |path: &Path, error: &std::io::Error| Failure::internal(format!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    let mut written = Written { dir: dir.to_owned(), ..Written::default() };
    for (name, text) in FILES {
        let path = dir.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).map_err(|error| failed(&path, &error))?;
                written.written.push(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => written.kept.push(path),
            Err(error) => return Err(failed(&path, &error)),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let first = write(&dir.path().join("new")).unwrap();
        assert_eq!(first.written.len(), 2); // I-14a
        let program = dir.path().join("new/hello.py");
        std::fs::write(&program, "mine").unwrap();
        let second = write(&dir.path().join("new")).unwrap();
        assert_eq!((second.written.len(), second.kept.len()), (0, 2));
        assert_eq!(std::fs::read_to_string(&program).unwrap(), "mine");
    }
}
