//! The last step of `cargo xtask guest`: bakes a linked module and a library folder into a guest image.
//!
//! A program of its own so that the project's chores do not have to compile a WASM engine.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use sandbox::cache::image_name;
use sandbox::image::bake::{Tree, bake};

const USAGE: &str = "usage: stasis-bake MODULE LIB OWN OUT-FOLDER
  MODULE      the linked and asyncified module
  LIB         CPython's Lib folder
  OWN         the folder with the boot module, the package stasis and omit.txt
  OUT-FOLDER  where the image is written, named by its digest
Prints the name of the image.";

/// What zoneinfo asks for, which CPython's own build would have made.
const SYSCONFIG: (&str, &str) = ("_sysconfigdata__wasi_wasm32-wasi.py", "build_time_vars = {\"TZPATH\": \"\"}\n");

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let done = match arguments.as_slice() {
        [module, lib, own, out] => make(module, lib, own, out),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(line) => {
            #[expect(clippy::print_stdout, reason = "the image's name is this program's output")]
            {
                println!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn make(module: &Path, lib: &Path, own: &Path, out: &Path) -> Result<String, String> {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let omit = String::from_utf8(read(&own.join("omit.txt"))?).map_err(|error| error.to_string())?;
    let omit: HashSet<&str> = omit.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let left_out = |path: &str| omit.contains(path) || path.ends_with("__pycache__");
    let not_python = |path: &str| Path::new(path).extension().is_some_and(|kind| kind != "py") || left_out(path);

    let mut library = Tree::default();
    library.add_folder(lib, "", &left_out).map_err(|error| format!("{}: {error}", lib.display()))?;
    library.add_folder(own, "", &not_python).map_err(|error| format!("{}: {error}", own.display()))?;
    library.add_file(SYSCONFIG.0, SYSCONFIG.1.into());

    let baked = bake(&read(module)?, library).map_err(|error| error.to_string())?;
    if !baked.words.is_empty() {
        eprintln!("{}", baked.words);
    }
    let name = image_name(protocol::digest::Digest::of(&baked.wasm));
    // Whole or not at all: a name with a digest must not stand for half an image.
    let part = out.join(format!("{name}.part"));
    fs::write(&part, &baked.wasm)
        .and_then(|()| fs::rename(&part, out.join(&name)))
        .map_err(|error| format!("{}: {error}", out.display()))?;
    Ok(name)
}
