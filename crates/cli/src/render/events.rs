//! Events and log lines for people.

use super::{short, visible};
use api::{Event, LogLine};
use std::fmt::Write as _;

/// One line: time, number, kind, and the facts that matter.
pub(crate) fn line(event: &Event) -> String {
    let facts = facts(event);
    format!("{}  {:>4}  {:<24}  {facts}", event.at, event.seq, event.kind).trim_end().to_owned() + "\n"
}

/// As [`line`], for somebody who watches: the time of day, and no number.
pub(crate) fn brief(event: &Event) -> String {
    let at = event.at.to_string();
    format!("{}  {}  {}", at.get(11..19).unwrap_or(&at), event.kind, facts(event)).trim_end().to_owned()
}

/// The facts as `key=value`, in their own order.
fn facts(event: &Event) -> String {
    let mut text = String::new();
    for (key, value) in event.facts.peek().as_object().into_iter().flatten() {
        let value = match value {
            serde_json::Value::Null => continue,
            // Enough of a digest to tell it from others; json has all of it.
            serde_json::Value::String(value) if value.starts_with("sha256:") => short(value, 20),
            serde_json::Value::String(value) => value.clone(),
            other => other.to_string(),
        };
        let _ = write!(text, "{key}={} ", short(&value, 72));
    }
    text.trim_end().to_owned()
}

/// What the program printed, nothing else.
pub(crate) fn log(line: &LogLine) -> String {
    visible(&line.text) + "\n"
}
