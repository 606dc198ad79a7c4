//! Small parts that every page shares: states in words with their colour, times, digests, counts.
//!
//! A colour never stands alone: each state has its word and its shape too (I-51). Times are written by the server for
//! readers without script, and kept current by the script where there is one.

use api::Approval;
use api::approval::{ApprovalKind, ApprovalStatus};
use api::run::CallOutcome;
use maud::{Markup, html};
use protocol::digest::Digest;
use protocol::run::{Class, Status};
use protocol::time::Time;
use std::time::Duration;

/// How a state looks: the class of its colour and the shape before its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hue {
    Idle,
    Busy,
    Waiting,
    Stopping,
    Good,
    Bad,
    Ended,
}

impl Hue {
    pub(super) const fn class(self) -> &'static str {
        match self {
            Hue::Idle => "idle",
            Hue::Busy => "busy",
            Hue::Waiting => "waiting",
            Hue::Stopping => "stopping",
            Hue::Good => "good",
            Hue::Bad => "bad",
            Hue::Ended => "ended",
        }
    }

    /// The outline of the shape in a box of 10 by 10.
    const fn shape(self) -> &'static str {
        match self {
            Hue::Idle => "M5 1.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 1 0 0-7Zm0 1.5a2 2 0 1 1 0 4 2 2 0 1 1 0-4Z",
            Hue::Busy => "M2.5 1.2 8.8 5 2.5 8.8Z",
            Hue::Waiting => "M2 1.5h2.2v7H2Zm3.8 0H8v7H5.8Z",
            Hue::Stopping => "M2 2h6v6H2Z",
            Hue::Good => "M1.2 5.4 2.4 4.2 4.1 5.9 7.8 2.2 9 3.4 4.1 8.3Z",
            Hue::Bad => "M2.4 1.2 5 3.8 7.6 1.2 8.8 2.4 6.2 5 8.8 7.6 7.6 8.8 5 6.2 2.4 8.8 1.2 7.6 3.8 5 1.2 2.4Z",
            Hue::Ended => "M1.5 4.1h7v1.8h-7Z",
        }
    }
}

/// A word in its colour, behind its shape.
pub(super) fn state(hue: Hue, word: &str) -> Markup {
    html! {
        span.state.(hue.class()) {
            svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true" { path d=(hue.shape()) {} }
            (word)
        }
    }
}

pub(super) fn run_hue(status: Status) -> Hue {
    match status.class() {
        Class::Ready => Hue::Idle,
        Class::Active if status == Status::AwaitingHardware => Hue::Waiting,
        Class::Active => Hue::Busy,
        Class::Parked => Hue::Waiting,
        Class::Stopping => Hue::Stopping,
        Class::Final => match status {
            Status::Done => Hue::Good,
            Status::Failed => Hue::Bad,
            _ => Hue::Ended,
        },
    }
}

/// A run's status in words.
pub(super) fn run_status(status: Status) -> Markup {
    state(run_hue(status), &words(status.as_str()))
}

pub(super) fn approval_status(status: ApprovalStatus) -> Markup {
    let hue = match status {
        ApprovalStatus::Pending => Hue::Waiting,
        ApprovalStatus::Approved => Hue::Good,
        ApprovalStatus::Rejected => Hue::Bad,
        ApprovalStatus::Expired | ApprovalStatus::Cancelled => Hue::Ended,
    };
    state(hue, status.as_str())
}

/// Where an approval stands; of a question what became of a call, what was answered.
pub(super) fn standing(approval: &Approval) -> Markup {
    match (approval.kind, approval.status) {
        (ApprovalKind::Settle, ApprovalStatus::Approved) => state(Hue::Good, "it happened"),
        (ApprovalKind::Settle, ApprovalStatus::Rejected) => state(Hue::Ended, "it did not happen"),
        (ApprovalKind::Settle, ApprovalStatus::Cancelled) => state(Hue::Bad, "given up"),
        (_, status) => approval_status(status),
    }
}

pub(super) const fn outcome_hue(outcome: CallOutcome) -> Hue {
    match outcome {
        CallOutcome::Ok => Hue::Good,
        CallOutcome::Error => Hue::Bad,
        CallOutcome::Denied => Hue::Ended,
        CallOutcome::Ambiguous => Hue::Stopping,
    }
}

/// What an approval asks.
pub(super) const fn question(kind: ApprovalKind) -> &'static str {
    match kind {
        ApprovalKind::Call => "May this call go ahead?",
        ApprovalKind::Gate => "The program asks",
        ApprovalKind::Settle => "Did this call happen?",
    }
}

/// `awaiting_consent` as `awaiting consent`.
pub(super) fn words(word: &str) -> String {
    word.replace('_', " ")
}

/// `3m ago` or `in 23h`, with the exact time in the title; the script keeps it current.
pub(super) fn ago(at: Time, now: Time) -> Markup {
    html! { time datetime=(at) title=(at) data-relative { (relative(at, now)) } }
}

/// How long it has lasted since `at`; the script keeps it current.
pub(super) fn lasting(at: Time, now: Time) -> Markup {
    html! { time datetime=(at) title=(at) data-lasting { (span(now.since(at))) } }
}

/// The end of a lease is near in its last tenth, and in no more than its last ten minutes.
fn alarm(from: Time, at: Time) -> Duration {
    (at.since(from) / 10).min(Duration::from_secs(600))
}

/// What is left until `at` of the time since `from`, to the second; the script counts it down.
pub(super) fn countdown(from: Time, at: Time, now: Time) -> Markup {
    let (left, alarm) = (at.since(now), alarm(from, at));
    html! {
        time.countdown datetime=(at) title=(at) data-countdown=(alarm.as_millis()) data-soon[left < alarm] {
            @if left.is_zero() { "expired" } @else { (span_fine(left)) }
        }
    }
}

/// The time itself, for records.
pub(super) fn stamp(at: Time) -> Markup {
    html! { time.stamp datetime=(at) title=(at) { (short_stamp(at)) } }
}

/// `2026-11-30 09:30:00 UTC`.
fn short_stamp(at: Time) -> String {
    let text = at.to_string();
    let to = text.find(['.', 'Z']).unwrap_or(text.len());
    format!("{} UTC", text[..to].replace('T', " "))
}

/// How long ago, or how far ahead, in one unit.
pub(super) fn relative(at: Time, now: Time) -> String {
    if at > now { format!("in {}", span(at.since(now))) } else { format!("{} ago", span(now.since(at))) }
}

/// A span in its largest whole unit.
pub(super) fn span(span: Duration) -> String {
    match span.as_millis() {
        ms @ 0..1_000 => format!("{ms} ms"),
        ms @ 1_000..60_000 => format!("{} s", ms / 1_000),
        ms @ 60_000..3_600_000 => format!("{} min", ms / 60_000),
        ms @ 3_600_000..172_800_000 => format!("{} h", ms / 3_600_000),
        ms => format!("{} d", ms / 86_400_000),
    }
}

/// A span in its two largest units: `23 h 12 min`.
pub(super) fn span_fine(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours, minutes, rest) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest:02} s"),
        (0, _, _) => format!("{hours} h {minutes:02} min"),
        _ => format!("{days} d {hours:02} h"),
    }
}

/// Says that a list is not whole.
pub(super) fn unreadable(rows: u64) -> Markup {
    html! {
        @if rows > 0 {
            p.notice.bad {
                @if rows == 1 { "A row of this list cannot be read; " } @else { (rows) " rows of this list cannot be read; " }
                code { "stasis audit verify" } " names what is damaged."
            }
        }
    }
}

/// A digest, short to read and whole in its title and when copied.
pub(super) fn digest(digest: Digest) -> Markup {
    let text = digest.to_string();
    html! { code.digest title=(text) data-copy=(text) { (&text[.."sha256:".len() + 12]) "…" } }
}

/// A row of a list of facts.
pub(super) fn fact(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_word_and_its_shape() {
        for status in Status::ALL {
            let page = run_status(status).into_string();
            assert!(page.contains(&words(status.as_str())) && page.contains("<path"), "{page}"); // I-51
        }
    }

    #[test]
    fn spans_are_short_and_countdowns_fine() {
        let text = |ms: u64| (span(Duration::from_millis(ms)), span_fine(Duration::from_millis(ms)));
        assert_eq!(text(950), ("950 ms".into(), "0 s".into()));
        assert_eq!(text(61_000), ("1 min".into(), "1 min 01 s".into()));
        assert_eq!(text(86_399_000), ("23 h".into(), "23 h 59 min".into()));
        assert_eq!(text(3 * 86_400_000 + 3_600_000), ("3 d".into(), "3 d 01 h".into()));
        let (early, late) = (Time::from_millis(0), Time::from_millis(120_000));
        assert_eq!((relative(early, late), relative(late, early)), ("2 min ago".into(), "in 2 min".into()));
        let hours = |h: u64| Time::from_millis(i64::try_from(h * 3_600_000).unwrap());
        assert_eq!(alarm(hours(0), hours(24)), Duration::from_secs(600));
        assert_eq!(alarm(hours(0), hours(1)), Duration::from_secs(360));
        assert_eq!(short_stamp(Time::from_millis(1_500)), "1970-01-01 00:00:01 UTC");
    }
}
