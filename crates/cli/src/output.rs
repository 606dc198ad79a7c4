//! Where results go and in which form (I-15, I-16).
//!
//! Results go to stdout, and with json nothing else does; everything said on the way goes to stderr. Objects are
//! written from their own bytes, so that numbers stay as written (I-40).

use crate::failure::Failure;
use api::{Page, Tail};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// The form of a result. (Doc comments on the variants would go into every `--help`.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Format {
    // For people.
    Table,
    // One JSON object.
    Json,
    // One JSON object a line: of a list, each item.
    Ndjson,
}

impl Format {
    /// Table on a terminal, json elsewhere (I-15).
    pub(crate) fn or_default(chosen: Option<Format>, stdout_is_terminal: bool) -> Format {
        chosen.unwrap_or(if stdout_is_terminal { Format::Table } else { Format::Json })
    }

    pub(crate) fn is_table(self) -> bool {
        self == Format::Table
    }
}

/// Writes results and what is said on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) format: Format,
    pub(crate) quiet: bool,
}

impl Out {
    pub(crate) fn new(chosen: Option<Format>, quiet: bool) -> Out {
        Out { format: Format::or_default(chosen, io::stdout().is_terminal()), quiet }
    }

    /// One object.
    pub(crate) fn object<T: Serialize>(&self, object: &T, table: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        match self.format {
            Format::Table => write(&table(object)),
            Format::Json | Format::Ndjson => write(&line(object)),
        }
    }

    /// A list that has pages.
    pub(crate) fn page<T: Serialize>(&self, page: &Page<T>, table: impl FnOnce(&[T]) -> String) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                write(&table(&page.items))?;
                if let Some(cursor) = &page.next_cursor {
                    self.say(&format!("more: --cursor {cursor}"));
                }
            }
            Format::Json => write(&line(page))?,
            Format::Ndjson => write(&page.items.iter().map(line).collect::<String>())?,
        }
        if page.unreadable > 0 {
            self.warn_of_unreadable(page.unreadable);
        }
        Ok(())
    }

    /// A list that grows at one end.
    pub(crate) fn tail<T: Serialize>(&self, tail: &Tail<T>, table: impl FnOnce(&[T]) -> String) -> Result<(), Failure> {
        match self.format {
            Format::Table => write(&table(&tail.items)),
            Format::Json => write(&line(tail)),
            Format::Ndjson => write(&tail.items.iter().map(line).collect::<String>()),
        }
    }

    /// One of many lines that come as they come: `json` is `ndjson` here.
    pub(crate) fn streamed<T: Serialize>(&self, item: &T, table: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        match self.format {
            Format::Table => write(&table(item)),
            Format::Json | Format::Ndjson => write(&line(item)),
        }
    }

    /// Text that is a result whatever the form (completions, an example file).
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        write(text)
    }

    /// What is missing from a page is said with `--quiet` too: a list that looks whole and is not misleads.
    fn warn_of_unreadable(&self, rows: u64) {
        let what = if rows == 1 { "a row of this page cannot be read" } else { "rows of this page cannot be read" };
        let count = if rows == 1 { String::new() } else { format!("{rows} ") };
        let _ = writeln!(io::stderr(), "warning: {count}{what}; `stasis audit verify` names what is damaged");
    }

    /// Progress, to stderr.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            // A closed stderr is no reason to stop the work.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

fn line(object: &impl Serialize) -> String {
    serde_json::to_string(object).expect("wire types have text keys only") + "\n"
}

/// A reader that has left (`| head`) has seen what it wanted.
fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::reader_left()),
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_terminal_unless_told() {
        assert_eq!(Format::or_default(None, true), Format::Table); // I-15
        assert_eq!(Format::or_default(None, false), Format::Json); // I-15
        assert_eq!(Format::or_default(Some(Format::Ndjson), true), Format::Ndjson); // I-15
    }
}
