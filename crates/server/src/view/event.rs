//! Events and log lines as the wire shows them (I-45).

use super::json;
use api::{Event, LogLine};
use protocol::event;
use protocol::rows;

/// The record of R-359 with its own digest.
pub(crate) fn event(row: &event::Event) -> Event {
    Event {
        schema: event::Event::SCHEMA.to_owned(),
        run: row.run,
        seq: u64::from(row.seq),
        kind: row.kind.as_str().to_owned(),
        at: row.at,
        facts: json(&row.facts.canonical()),
        prev: row.prev,
        digest: row.digest,
    }
}

pub(crate) fn log_line(row: &rows::LogLine) -> LogLine {
    LogLine { n: u64::from(row.n), at: row.at, text: row.text.clone() }
}
