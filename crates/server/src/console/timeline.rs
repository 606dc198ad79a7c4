//! A run drawn to time: its statuses, its hops, what it waited for in its worker, then a lane for each call (I-50).
//!
//! Owns the geometry, which is pure: the lanes of [`lanes`], each placed in parts of the whole stretch of time. The picture has
//! no width of its own, so texts keep their size from 360 px to any width; a span too short to see is still drawn, by
//! its outline. What the picture shows stands in a table below it, too.

use super::lanes::{self, Lane, Span};
use super::text::shown;
use super::widgets::{span, span_fine};
use api::{Call, Event, Run};
use maud::{Markup, html};
use protocol::time::Time;
use std::time::Duration;

/// Calls that get a lane; of more, the latest.
const LANES: usize = 60;
/// Pixels: a lane, the bar in it, the axis below.
const LANE: usize = 38;
const BAR: usize = 10;
const AXIS: usize = 26;
/// What is shorter than this part of the whole is drawn this wide: a rectangle without width is not drawn at all.
const SHORTEST: f64 = 0.000_5;
/// Labels on the axis, at most.
const TICKS: usize = 6;

/// Lanes over a stretch of time that has a length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Timeline {
    pub from: Time,
    pub to: Time,
    pub lanes: Vec<Lane>,
    /// Calls without a lane.
    pub left_out: usize,
}

impl Timeline {
    /// The timeline of a run until its end, or until `now`.
    pub(super) fn of(run: &Run, events: &[Event], calls: &[Call], now: Time) -> Timeline {
        let to = run.finished_at.unwrap_or(now).max(run.created_at + Duration::from_millis(1));
        let left_out = calls.len().saturating_sub(LANES);
        let lanes = lanes::of(run, events, &calls[left_out..], to);
        Timeline { from: run.created_at, to, lanes, left_out }
    }

    /// Where a time lies, from 0 to 1.
    pub(super) fn place(&self, at: Time) -> f64 {
        let whole = self.to.since(self.from).as_secs_f64();
        (at.since(self.from).as_secs_f64() / whole).clamp(0.0, 1.0)
    }

    /// Round distances from the start, few enough to be read.
    pub(super) fn ticks(&self) -> Vec<Duration> {
        const STEPS: [u64; 28] = [
            1,
            2,
            5,
            10,
            20,
            50,
            100,
            200,
            500,
            1_000,
            2_000,
            5_000,
            10_000,
            30_000,
            60_000,
            120_000,
            300_000,
            600_000,
            1_800_000,
            3_600_000,
            7_200_000,
            21_600_000,
            43_200_000,
            86_400_000,
            172_800_000,
            604_800_000,
            1_209_600_000,
            2_592_000_000,
        ];
        let whole = u64::try_from(self.to.since(self.from).as_millis()).unwrap_or(u64::MAX);
        let fits = |step: &&u64| whole / **step < TICKS as u64;
        let last = STEPS[STEPS.len() - 1];
        let step = STEPS.iter().find(fits).copied().unwrap_or_else(|| whole.div_ceil(TICKS as u64).max(last));
        (0..=whole / step).map(|n| Duration::from_millis(n * step)).collect()
    }
}

/// The picture, and the same as a table: for who cannot see it, and for the numbers.
pub(super) fn drawn(timeline: &Timeline) -> Markup {
    html! {
        (picture(timeline))
        details.as-table {
            summary { "The same as a table" }
            table {
                thead { tr { th { "What" } th { "State" } th { "From" } th { "Lasted" } } }
                tbody {
                    @for lane in &timeline.lanes {
                        @for (n, part) in lane.spans.iter().enumerate() {
                            tr {
                                td { @if n == 0 { code { (shown(&lane.name)) } } }
                                td { (part.what) }
                                td { "+" (exact(part.from.since(timeline.from))) }
                                td { (exact(part.length())) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A span for a table: to the millisecond where it is short.
fn exact(length: Duration) -> String {
    match length.as_millis() {
        ms @ 0..1_000 => format!("{ms} ms"),
        ms @ 1_000..60_000 => format!("{}.{:03} s", ms / 1_000, ms % 1_000),
        _ => span_fine(length),
    }
}

/// The picture alone.
fn picture(timeline: &Timeline) -> Markup {
    let height = timeline.lanes.len() * LANE + AXIS;
    let floor = timeline.lanes.len() * LANE + 2;
    let percent = |part: f64| format!("{:.3}%", part * 100.0);
    let ticks = timeline.ticks();
    html! {
        @if timeline.left_out > 0 {
            p.soft { "The first " (timeline.left_out) " calls are not drawn; the table has them." }
        }
        svg.timeline width="100%" height=(height) role="img" aria-label=(in_words(timeline)) {
            @for (n, tick) in ticks.iter().enumerate() {
                @let x = timeline.place(timeline.from + *tick);
                g.tick.odd[n % 2 == 1] {
                    line x1=(percent(x)) x2=(percent(x)) y1="0" y2=(floor) {}
                    text x=(percent(x)) y=(floor + 15) text-anchor=(anchor(x)) { (tick_label(*tick)) }
                }
            }
            @for (n, lane) in timeline.lanes.iter().enumerate() {
                @let top = n * LANE;
                g.lane {
                    @match &lane.anchor {
                        Some(anchor) => a href=(format!("#{anchor}")) { text.name x="0" y=(top + 15) { (shown(&lane.name)) } },
                        None => text.name x="0" y=(top + 15) { (lane.name) },
                    }
                    text.note x="100%" y=(top + 15) text-anchor="end" { (lane.note) }
                    @for span in &lane.spans {
                        @let (from, to) = (timeline.place(span.from), timeline.place(span.to));
                        rect.bar.frame[lane.frame].(span.hue.class()) x=(percent(from)) width=(percent((to - from).max(SHORTEST)))
                            y=(top + 21) height=(BAR) rx="2" { title { (span.told()) } }
                    }
                }
            }
        }
    }
}

/// A distance from the start with what makes it differ from its neighbours: `1 h 30 min`.
fn tick_label(tick: Duration) -> String {
    match tick.as_millis() {
        0 => "0".into(),
        ms @ 1_000..60_000 if ms % 1_000 != 0 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        1..60_000 => span(tick),
        _ => {
            let fine = span_fine(tick);
            ["00 s", "00 min", "00 h"]
                .iter()
                .find_map(|none| fine.strip_suffix(none))
                .unwrap_or(&fine)
                .trim()
                .to_owned()
        }
    }
}

/// Labels at the ends stay inside the picture.
fn anchor(x: f64) -> &'static str {
    match x {
        x if x < 0.02 => "start",
        x if x > 0.93 => "end",
        _ => "middle",
    }
}

/// The picture for somebody who cannot see it.
fn in_words(timeline: &Timeline) -> String {
    let first = &timeline.lanes[0];
    let statuses: Vec<String> = first.spans.iter().map(Span::told).collect();
    let calls = timeline.lanes.iter().filter(|lane| lane.anchor.is_some()).count() + timeline.left_out;
    format!(
        "Timeline of {}: {}. {calls} calls; the tables below have all of it.",
        span(timeline.to.since(timeline.from)),
        statuses.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn at(ms: i64) -> Time {
        samples::START + Duration::from_millis(ms as u64)
    }

    #[test]
    fn spans_lie_where_their_time_is() {
        let timeline = Timeline { from: at(0), to: at(1_000), lanes: Vec::new(), left_out: 0 };
        assert_eq!([at(0), at(250), at(1_000)].map(|t| timeline.place(t)), [0.0, 0.25, 1.0]); // I-50
        assert_eq!(timeline.place(at(5_000)), 1.0);
    }

    #[test]
    fn a_run_without_length_still_has_a_timeline() {
        let run = samples::run();
        let timeline = Timeline::of(&run, &[], &[], run.created_at);
        assert!(timeline.to > timeline.from && timeline.place(timeline.to) == 1.0);
    }

    #[test]
    fn ticks_are_round_and_few_for_every_length() {
        let short = (1..600).map(|n| n * n / 3 + n);
        for ms in short.chain([61_000, 3_600_000, 86_400_000 * 21, 86_400_000 * 4_000]) {
            let timeline = Timeline { from: at(0), to: at(ms), lanes: Vec::new(), left_out: 0 };
            let ticks = timeline.ticks();
            assert!((1..=TICKS + 1).contains(&ticks.len()), "{ms}: {ticks:?}");
            assert!(timeline.from + ticks[ticks.len() - 1] <= timeline.to, "{ms}: {ticks:?}");
            let labels: std::collections::BTreeSet<String> = ticks.iter().map(|tick| tick_label(*tick)).collect();
            assert_eq!(labels.len(), ticks.len(), "{ms}: {labels:?}");
        }
    }

    #[test]
    fn the_picture_has_no_style_of_its_own_and_escapes_names() {
        let mut timeline = samples::timeline();
        timeline.lanes[1].name = "<script>".into();
        let picture = picture(&timeline).into_string();
        assert!(!picture.contains("<script>") && !picture.contains("style=")); // I-52
        assert!(picture.contains("width=\"100%\"")); // I-51
    }
}
