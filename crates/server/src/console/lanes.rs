//! The lanes of a run's timeline: what happened to the run, in its hops, in its holds and to each call, as stretches of time.
//!
//! Pure: made from what the events and calls say. Where an event is gone its stretch is, too; nothing is guessed.

use super::widgets::{Hue, outcome_hue, run_hue, span, words};
use api::{Call, Event, Run};
use protocol::run::Status;
use protocol::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// A stretch of one state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub from: Time,
    pub to: Time,
    pub hue: Hue,
    pub what: String,
}

impl Span {
    pub(super) fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    /// What it was, and how long.
    pub(super) fn told(&self) -> String {
        format!("{}, {}", self.what, span(self.length()))
    }
}

/// What happened to one thing, from left to right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Lane {
    pub name: String,
    pub note: String,
    /// Where the text version is, on the same page.
    pub anchor: Option<String>,
    pub spans: Vec<Span>,
    /// Its bars stand around what happened in them, and are drawn as outlines.
    pub frame: bool,
}

/// Every lane, from the run's statuses down to its last call.
pub(super) fn of(run: &Run, events: &[Event], calls: &[Call], to: Time) -> Vec<Lane> {
    let mut lanes = vec![run_lane(run, events, to)];
    lanes.extend(hop_lane(events, to));
    lanes.extend(hold_lanes(events, to));
    let waited = waited(events);
    let waited = |call: &Call| waited.get(&call.id.to_string()).copied();
    lanes.extend(calls.iter().map(|call| call_lane(call, waited(call), to)));
    lanes
}

/// The statuses as the events tell them. Where they are gone, the present status since it began.
fn run_lane(run: &Run, events: &[Event], to: Time) -> Lane {
    let status = |event: &Event| event.kind.strip_prefix("run.").and_then(Status::parse);
    let mut starts: Vec<(Time, Status)> = events.iter().filter_map(|event| Some((event.at, status(event)?))).collect();
    if starts.is_empty() {
        starts.push((run.since_at, run.status));
    }
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([to]);
    let spans = starts.iter().zip(ends).filter(|((_, status), _)| !status.is_final());
    let spans = spans.map(|((from, status), end)| Span {
        from: *from,
        to: end,
        hue: run_hue(*status),
        what: words(status.as_str()),
    });
    let note = format!("{} {}", words(run.status.as_str()), span(to.since(run.created_at)));
    Lane { name: "Run".into(), note, anchor: None, spans: spans.collect(), frame: false }
}

/// Each hop from its claim to where it ended; a hold stays in its hop. None where the events of them are gone.
fn hop_lane(events: &[Event], to: Time) -> Option<Lane> {
    let mut spans: Vec<Span> = Vec::new();
    let mut open: Option<Span> = None;
    for event in events.iter().filter(|event| event.kind.starts_with("run.")) {
        let hop = match event.kind.as_str() {
            "run.awaiting_hardware" => continue,
            // Without the number of a hop: the present one goes on after its hold.
            "run.running" => match event.facts.peek()["hop"].as_u64() {
                None => continue,
                hop => hop,
            },
            _ => None,
        };
        spans.extend(open.take().map(|before| Span { to: event.at, ..before }));
        let begins = |hop| Span { from: event.at, to, hue: Hue::Busy, what: format!("hop {hop}") };
        open = hop.map(begins);
    }
    spans.extend(open);
    let note = match spans.len() {
        0 => return None,
        1 => "claimed once".to_owned(),
        n => format!("claimed {n} times"),
    };
    Some(Lane { name: "Hops".into(), note, anchor: None, spans, frame: true })
}

/// A lane for each resource that the run waited for in its worker.
fn hold_lanes(events: &[Event], to: Time) -> Vec<Lane> {
    let statuses: Vec<&Event> = events.iter().filter(|event| event.kind.starts_with("run.")).collect();
    let mut lanes = BTreeMap::<String, Vec<Span>>::new();
    for (n, event) in statuses.iter().enumerate().filter(|(_, event)| event.kind == "run.awaiting_hardware") {
        let resource = event.facts.peek()["resource"].as_str().unwrap_or("hardware").to_owned();
        let end = statuses.get(n + 1).map_or(to, |next| next.at);
        let hold = Span { from: event.at, to: end, hue: Hue::Waiting, what: "waited for it to be warm".to_owned() };
        lanes.entry(resource).or_default().push(hold);
    }
    let lane = |(name, spans): (String, Vec<Span>)| {
        let all = span(spans.iter().map(Span::length).sum());
        let note =
            if spans.len() == 1 { format!("waited {all}") } else { format!("waited {} times, {all}", spans.len()) };
        Lane { name, note, anchor: None, spans, frame: false }
    };
    lanes.into_iter().map(lane).collect()
}

/// What a call waited for, other than a person, as the events tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waited {
    /// For an agent outside, which took its job at that time.
    Agent(Option<Time>),
    Signal,
    Timer,
}

fn waited(events: &[Event]) -> BTreeMap<String, Waited> {
    let mut jobs = BTreeMap::<String, String>::new();
    let mut calls = BTreeMap::<String, Waited>::new();
    for event in events {
        let facts = event.facts.peek();
        let text = |key: &str| facts[key].as_str().unwrap_or_default().to_owned();
        match event.kind.as_str() {
            "wait.opened" if facts["name"].is_string() => drop(calls.insert(text("call"), Waited::Signal)),
            // A signal that is waited for until some time has both.
            "wait.opened" => drop(calls.entry(text("call")).or_insert(Waited::Timer)),
            "job.queued" => {
                calls.insert(text("call"), Waited::Agent(None));
                jobs.insert(text("job"), text("call"));
            }
            "job.running" => {
                let call = jobs.get(&text("job")).and_then(|call| calls.get_mut(call));
                if let Some(Waited::Agent(claimed)) = call {
                    claimed.get_or_insert(event.at);
                }
            }
            _ => {}
        }
    }
    calls
}

/// A call: what it waited for, then how long it took.
fn call_lane(call: &Call, waited: Option<Waited>, to: Time) -> Lane {
    let end = call.completed_at.unwrap_or(to);
    let (sent, why) = match (call.approval, waited) {
        (Some(_), _) => (call.gate_at, Some("waited for a person")),
        (None, Some(Waited::Agent(claimed))) => (claimed, Some("waited for an agent")),
        // Waiting is all that there is to such a call.
        (None, Some(Waited::Signal)) => (None, Some("waited for a signal")),
        (None, Some(Waited::Timer)) => (None, Some("waited for its time")),
        (None, None) => (call.gate_at, None),
    };
    let before = sent.unwrap_or(end).min(end);
    let (name, anchor) = (call.tool.clone(), Some(call.id.to_string()));
    let mut lane = Lane { name, note: String::new(), anchor, spans: Vec::new(), frame: false };
    let mut note = Vec::new();
    if before > call.created_at || sent.is_none() {
        let hue = if why.is_some() { Hue::Waiting } else { Hue::Idle };
        let what = why.unwrap_or("waited to be sent").to_owned();
        let wait = Span { from: call.created_at, to: before, hue, what };
        note.extend(why.map(|_| format!("waited {}", span(wait.length()))));
        lane.spans.push(wait);
    }
    if sent.is_some() {
        let hue = call.outcome.map_or(Hue::Busy, outcome_hue);
        let what = call.outcome.map_or("under way", |outcome| outcome.as_str()).to_owned();
        let work = Span { from: before, to: end, hue, what };
        note.push(span(work.length()));
        lane.spans.push(work);
    }
    note.extend(call.outcome.map(|outcome| outcome.as_str().to_owned()));
    lane.note = note.join(" · ");
    lane
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::super::timeline::{Timeline, drawn};
    use super::*;

    #[test]
    fn the_first_lane_follows_the_statuses_and_calls_show_wait_and_work() {
        let timeline = samples::timeline();
        let hues: Vec<Hue> = timeline.lanes[0].spans.iter().map(|span| span.hue).collect();
        assert_eq!(hues, [Hue::Idle, Hue::Busy, Hue::Waiting, Hue::Idle, Hue::Busy]); // I-50
        assert!(timeline.lanes[0].spans.windows(2).all(|pair| pair[0].to == pair[1].from));
        let refund = timeline.lanes.iter().find(|lane| lane.name == "payments.refund").unwrap();
        assert_eq!(refund.spans.iter().map(|span| span.hue).collect::<Vec<_>>(), [Hue::Waiting, Hue::Good]); // I-50
    }

    #[test]
    fn hops_holds_and_waits_lie_beside_the_calls() {
        let kinds = [
            (0, "run.queued", "{}"),
            (10, "run.running", r#"{"hop":0}"#),
            (100, "run.awaiting_hardware", r#"{"resource":"chat:small"}"#),
            (400, "run.running", "{}"),
            (450, "job.queued", r#"{"call":"call_01m8nwmc7be00865rzyjka7901","job":"job_1"}"#),
            (500, "run.awaiting_delegate", "{}"),
            (700, "job.running", r#"{"job":"job_1"}"#),
            (900, "run.queued", "{}"),
            (910, "run.running", r#"{"hop":1}"#),
            (1_000, "run.done", "{}"),
        ];
        let at = |ms: u64| samples::START + Duration::from_millis(ms);
        let sample = samples::events().remove(0);
        let event = |(ms, kind, facts): (u64, &str, &str)| Event {
            kind: kind.into(),
            at: at(ms),
            facts: samples::json(facts),
            ..sample.clone()
        };
        let events: Vec<Event> = kinds.into_iter().map(event).collect();
        let mut call = samples::calls().remove(0);
        (call.created_at, call.gate_at, call.completed_at) = (at(450), None, Some(at(900)));
        let lanes = of(&samples::run(), &events, &[call], at(1_000));
        let bars = |name: &str| -> Vec<(Time, Time)> {
            let lane = lanes.iter().find(|lane| lane.name == name).expect(name);
            lane.spans.iter().map(|span| (span.from, span.to)).collect()
        };
        assert_eq!(bars("Hops"), [(at(10), at(500)), (at(910), at(1_000))]); // I-50: a hold stays in its hop
        assert_eq!(bars("chat:small"), [(at(100), at(400))]); // I-50
        assert_eq!(bars("payments.order"), [(at(450), at(700)), (at(700), at(900))]); // I-50: for an agent, then with it
        let timeline = Timeline { from: at(0), to: at(1_000), lanes, left_out: 0 };
        let page = drawn(&timeline).into_string();
        assert!(page.contains("<td>waited for an agent</td><td>+450 ms</td><td>250 ms</td>"), "{page}"); // I-51
    }
}
