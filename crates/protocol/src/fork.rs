//! A fork: a new run that takes over what another one had come to at an event.
//!
//! What is taken is the journal up to there: an ended call is a fact and never changes, so that nothing of the other run has
//! to be held still while it is copied. Invariant: no effect that the other run had begun by that event is left to be done
//! again; where that cannot be said, there is no fork.

use crate::call::{Call, State};
use crate::code::Code;
use crate::digest::Digest;
use crate::event::{Event, Kind};
use crate::id::CallId;
use crate::journal::{Entry, Other};
use crate::json::Value;
use crate::refusal::Refusal;
use crate::rows::NewBody;
use crate::run::{Budget, Forked, Head, Run};
use crate::tool::Effect;
use std::collections::BTreeMap;

/// What a new run begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fork {
    pub from: Forked,
    /// The budget of the other run; calls and bodies are counted anew from what is taken.
    pub budget: Budget,
    pub taken: Taken,
    /// The bodies of what is taken, each once.
    pub bodies: Vec<NewBody>,
}

/// A whole stretch of a journal from its start: calls that have ended, with their batches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// As the other run has them.
    pub calls: Vec<Call>,
    /// With their positions.
    pub others: Vec<(u32, Other)>,
    pub head: Head,
}

/// What may be taken of a run at an event: of its journal, the calls and batches that had ended by then.
///
/// # Errors
/// `invalid_request` where the run has no such event or keeps no journal, and where an effect had begun by that event whose
/// outcome is not among what is taken, with the events before and after it where a fork can be.
pub fn taken(source: &Run, seq: u32, events: &[Event], journal: Vec<Entry>) -> Result<Taken, Refusal> {
    if !source.kind.is_journaled() {
        let detail =
            format!("{} is a workflow in Rust, which keeps its last state and no journal to fork from", source.id);
        return Err(Refusal::new(Code::InvalidRequest, detail).hint("start a new run of it"));
    }
    if seq >= source.events.len {
        let detail = format!("{} has no event {seq}: its last is {}", source.id, source.events.len - 1);
        let hint = format!("`stasis run events {}` lists them", source.id);
        return Err(Refusal::new(Code::InvalidRequest, detail).hint(hint));
    }
    let times = Times::of(events);
    let mut taken = Taken::default();
    let mut rest = Vec::new();
    for group in groups(journal) {
        let whole = rest.is_empty() && group.iter().all(|(_, entry)| is_told(entry, seq, &times));
        match whole {
            true => taken.extend(group, source.pattern.digest),
            false => rest.extend(group),
        }
    }
    taken.cut_after_the_last_call();
    if taken.calls.is_empty() {
        // Nothing was told yet: the new run starts at its own time.
        taken = Taken::default();
    }
    match rest.iter().filter_map(|(_, entry)| begun(entry, seq, &times)).next() {
        Some(call) => Err(half_done(source, seq, call, &times)),
        None => Ok(taken),
    }
}

/// When each call began to be carried out, and when it ended, by the numbers of events.
#[derive(Default)]
struct Times {
    begun: BTreeMap<String, u32>,
    ended: BTreeMap<String, u32>,
}

impl Times {
    fn of(events: &[Event]) -> Times {
        let mut times = Times::default();
        for event in events {
            let to = match event.kind {
                Kind::CallDispatched => &mut times.begun,
                Kind::CallEnded | Kind::CallSettled => &mut times.ended,
                _ => continue,
            };
            let facts = event.facts.value();
            if let Some(call) = facts.get("call").and_then(Value::as_str) {
                to.entry(call.to_owned()).or_insert(event.seq);
            }
        }
        times
    }

    fn begun(&self, call: CallId) -> Option<u32> {
        self.begun.get(&call.to_string()).copied()
    }

    fn ended(&self, call: CallId) -> Option<u32> {
        self.ended.get(&call.to_string()).copied()
    }
}

type Placed = (u32, Entry);

/// Each call alone, each batch with its calls, anything else alone.
fn groups(journal: Vec<Entry>) -> Vec<Vec<Placed>> {
    let mut groups: Vec<Vec<Placed>> = Vec::new();
    let mut left = 0;
    for (position, entry) in (0..).zip(journal) {
        match &entry {
            Entry::Call(_) if left > 0 => {
                left -= 1;
                groups.last_mut().expect("a batch is before its calls").push((position, entry));
                continue;
            }
            Entry::Other(Other::Batch { size }) => left = *size,
            _ => {}
        }
        groups.push(vec![(position, entry)]);
    }
    groups
}

/// Whether the guest was told of it by that event, or it comes with what it was told.
fn is_told(entry: &Entry, seq: u32, times: &Times) -> bool {
    match entry {
        Entry::Call(call) => {
            call.is_ended() && (call.from.is_some() || times.ended(call.id).is_some_and(|at| at <= seq))
        }
        Entry::Other(Other::Start { .. } | Other::Batch { .. } | Other::Hop { .. }) => true,
        Entry::Other(Other::End { .. }) => false,
    }
}

/// A write that may have reached the world by that event.
fn begun<'e>(entry: &'e Entry, seq: u32, times: &Times) -> Option<&'e Call> {
    match entry {
        Entry::Call(call) if call.effect == Effect::Write => {
            let dispatched = times.begun(call.id).is_some_and(|at| at <= seq);
            (dispatched && !matches!(call.state, State::Entered | State::Asked)).then_some(call)
        }
        _ => None,
    }
}

fn half_done(source: &Run, seq: u32, call: &Call, times: &Times) -> Refusal {
    let tool = &call.tool.name;
    let detail = format!(
        "at event {seq} of {} the effect of {tool} ({}) had begun, and a fork there would do it again",
        source.id, call.id
    );
    let before = times.begun(call.id).and_then(|at| at.checked_sub(1));
    let after = times.ended(call.id);
    let place = |at: Option<u32>| at.map(|at| format!("`--from {at}`"));
    let places: Vec<String> = [place(before), place(after)].into_iter().flatten().collect();
    Refusal::new(Code::InvalidRequest, detail).hint(format!("fork before it or after its end: {}", places.join(" or ")))
}

impl Taken {
    fn extend(&mut self, group: Vec<Placed>, pattern: Digest) {
        for (position, mut entry) in group {
            if let Entry::Other(Other::Start { pattern: started, .. }) = &mut entry {
                // A run that was moved has the pattern it began with there; the new run begins with what it was moved to.
                *started = pattern;
            }
            self.head = entry.extend(self.head);
            match entry {
                Entry::Call(call) => self.calls.push(*call),
                Entry::Other(other) => self.others.push((position, other)),
            }
        }
    }

    /// The `hop` entry of an answer belongs to the hop that went on from it; the new run goes on in a hop of its own.
    fn cut_after_the_last_call(&mut self) {
        let last = self.calls.last().and_then(|call| call.position);
        let behind = |position: &u32| last.is_some_and(|last| *position > last);
        if self.others.last().is_some_and(|(position, _)| behind(position)) {
            self.others.retain(|(position, _)| !behind(position));
            self.head = self.in_order().iter().fold(Head::default(), |head, entry| entry.extend(head));
        }
    }

    fn in_order(&self) -> Vec<Entry> {
        let calls = self.calls.iter().map(|call| (call.position, Entry::Call(Box::new(call.clone()))));
        let others = self.others.iter().map(|(position, other)| (Some(*position), Entry::Other(other.clone())));
        let mut all: Vec<(Option<u32>, Entry)> = calls.chain(others).collect();
        all.sort_by_key(|(position, _)| *position);
        all.into_iter().map(|(_, entry)| entry).collect()
    }
}
