//! Events and log lines as the wire shows them (I-45).

use super::json;
use api::event::LiveLine;
use api::{Event, Json, LogLine};
use protocol::event;
use protocol::id::JobId;
use protocol::json::Canonical;
use protocol::rows;
use protocol::time::Time;

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

/// What an agent told of its job, for whoever listens now.
pub(crate) fn progress(told: &engine::JobProgress, at: Time) -> LiveLine {
    #[derive(serde::Serialize)]
    struct Facts<'a> {
        job: JobId,
        progress: &'a Canonical,
    }
    let facts = Facts { job: told.job, progress: &told.progress };
    LiveLine {
        schema: "stasis.live.v1".to_owned(),
        run: told.run,
        kind: "job.progress".to_owned(),
        at,
        facts: Json::of(&facts).expect("an object with text keys"),
    }
}

pub(crate) fn log_line(row: &rows::LogLine) -> LogLine {
    LogLine { n: u64::from(row.n), at: row.at, text: row.text.clone() }
}
