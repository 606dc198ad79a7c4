//! What a command is given: `JSON`, `@file` or `-` (I-2).
//!
//! The bytes pass as they are: nothing here parses a number or orders a key. The server's strict parser judges them;
//! only what is no JSON at all is refused here, since it could not be sent.

use crate::failure::Failure;
use api::{Json, Problem};
use protocol::code::Code;
use protocol::limits::BODY_BYTES;
use std::io::Read;
use std::path::Path;

/// An input longer than this cannot be accepted (runs.md section 20: 1 MiB); it is not even read to its end.
const MAX_BYTES: u64 = 4 << 20;

/// Reads an argument that is JSON text, `@file`, or `-` for stdin.
pub(crate) fn json(argument: &str, stdin: &mut dyn Read) -> Result<Json, Failure> {
    let (text, what) = match argument.strip_prefix('@') {
        Some(path) => (file(Path::new(path))?, path.to_owned()),
        None if argument == "-" => (bounded(stdin, "stdin")?, "stdin".to_owned()),
        None => (argument.to_owned(), "the argument".to_owned()),
    };
    Json::parse(&text)
        .map_err(|error| Failure::unreadable(format!("{what} is no JSON: {error}")).hint("JSON, @FILE, or - for stdin"))
}

/// Refuses what no run can take before anything is registered for it.
pub(crate) fn fits(input: &Json) -> Result<(), Failure> {
    let (len, most) = (input.as_str().len(), BODY_BYTES);
    if len <= most {
        return Ok(());
    }
    let problem = Problem::of(Code::LimitExceeded, format!("input exceeded: {len} > {most}")).status(413);
    Err(Failure::of(problem).hint("leave large content where it is, and give the program its name"))
}

/// Reads a whole text file.
pub(crate) fn file(path: &Path) -> Result<String, Failure> {
    let open = std::fs::File::open(path);
    let mut open = open.map_err(|error| {
        let here = std::env::current_dir().map(|dir| format!("paths start at {}", dir.display())).unwrap_or_default();
        Failure::unreadable(format!("cannot read {}: {error}", path.display())).hint(here)
    })?;
    bounded(&mut open, &path.display().to_string())
}

fn bounded(from: &mut dyn Read, what: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::unreadable(format!("cannot read {what}: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        let failure = Failure::unreadable(format!("{what} is larger than {MAX_BYTES} bytes"));
        return Err(failure.hint("leave large content where it is, and give the program its name"));
    }
    // No text of the ledger holds one (C-29), and a server could only say that the request is malformed.
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(Failure::unreadable(format!("{what} is no text: there is a NUL byte at {at}")));
    }
    String::from_utf8(bytes).map_err(|_| Failure::unreadable(format!("{what} is no UTF-8 text")))
}

/// `K=V`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_passes_as_written_from_argument_file_and_stdin() {
        let text = r#"{"b":1.0,"a":12345678901234567890}"#;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.json");
        std::fs::write(&path, format!("\n{text}\n")).unwrap();
        let by_argument = json(text, &mut std::io::empty()).unwrap();
        let by_file = json(&format!("@{}", path.display()), &mut std::io::empty()).unwrap();
        let by_stdin = json("-", &mut text.as_bytes()).unwrap();
        for got in [by_argument, by_file, by_stdin] {
            assert_eq!(got.as_str(), text); // I-2
        }
    }

    #[test]
    fn what_cannot_be_read_is_input_unreadable_and_exit_2() {
        let endless = &mut std::io::repeat(b' ');
        let failures = [
            json("@/does/not/exist.json", &mut std::io::empty()).unwrap_err(),
            json("{", &mut std::io::empty()).unwrap_err(),
            json("-", &mut std::io::empty()).unwrap_err(),
            json("-", endless).unwrap_err(),
            json("-", &mut [0xff_u8].as_slice()).unwrap_err(),
            json("-", &mut b"\"a\0\"".as_slice()).unwrap_err(),
        ];
        for failure in failures {
            assert_eq!(failure.problem.as_ref().map(|p| p.code.as_str()), Some("input_unreadable")); // I-47
            assert_eq!(failure.exit.code(), 2); // I-47
        }
    }

    #[test]
    fn labels_are_key_and_value() {
        assert_eq!(label("team=a=b"), Ok(("team".into(), "a=b".into())));
        assert!(label("team").is_err() && label("=x").is_err());
    }
}
