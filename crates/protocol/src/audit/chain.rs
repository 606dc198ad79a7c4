//! A run's chains against themselves: its events, its receipts and its journal, and the heads in its row (C-127, C-278).
//!
//! An event's digest covers its number and the digest before it, so an event tells its own place: what is broken is told by
//! finding the place that an event was written for.

use super::{Break, BreakKind, Link};
use crate::call::Receipt;
use crate::digest::Digest;
use crate::event::Event;
use crate::id::{ApprovalId, RunId};
use crate::journal::{self, Entry};
use crate::json::Value;
use crate::run::{Head, Run};

/// What the ledger has of one run, of one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Chain {
    pub run: Run,
    /// In order of their numbers, as stored.
    pub events: Vec<Event>,
    pub receipts: Vec<Receipt>,
    pub journal: Vec<Entry>,
    /// What the rows name and is not there: bodies by their digests, and questions by their ids. Bodies that are there were
    /// read, and are those of their digests.
    pub missing: Vec<Missing>,
}

/// Something that a row of a run names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    Body(Digest),
    Approval(ApprovalId),
}

/// Recomputes every digest of a run.
///
/// # Errors
/// The first link that is broken.
pub fn check(chain: &Chain) -> Result<(), Break> {
    let run = &chain.run;
    if let Some(missing) = chain.missing.first() {
        let (field, expected) = match missing {
            Missing::Body(digest) => ("body", digest.to_string()),
            Missing::Approval(id) => ("approval", id.to_string()),
        };
        let at = Link::Run { run: run.id, seq: None };
        return Err(Break { at, kind: BreakKind::Missing, field, expected, found: "nothing".to_owned() });
    }
    events(run.id, Event::origin(run.id, run.admitted_with()), &chain.events, run.events)?;
    receipts(run, &chain.receipts)?;
    if !journal::verify(&chain.journal, run.journal) {
        let found = chain.journal.iter().fold(Head::default(), |head, entry| entry.extend(head));
        let (field, kind) = match found.len.cmp(&run.journal.len) {
            std::cmp::Ordering::Less => ("journal length", BreakKind::Missing),
            std::cmp::Ordering::Greater => ("journal length", BreakKind::Inserted),
            std::cmp::Ordering::Equal => ("journal digest", BreakKind::Altered),
        };
        let told = |head: Head| match field {
            "journal length" => head.len.to_string(),
            _ => head.digest.to_string(),
        };
        let at = Link::Run { run: run.id, seq: None };
        return Err(Break { at, kind, field, expected: told(run.journal), found: told(found) });
    }
    Ok(())
}

fn events(run: RunId, origin: Digest, events: &[Event], head: Head) -> Result<(), Break> {
    let mut last = origin;
    for (seq, event) in (0..).zip(events) {
        let broken = |kind, field, expected: String, found: String| {
            Err(Break { at: Link::Run { run, seq: Some(seq) }, kind, field, expected, found })
        };
        let computed = event.computed();
        if computed != event.digest {
            // Its digest tells which number it was written with.
            return match written_for(event, events.len()) {
                Some(other) => {
                    let elsewhere = events.iter().any(|event| written_for(event, events.len()) == Some(seq));
                    let kind = match (elsewhere, other > seq) {
                        (true, _) => BreakKind::Reordered,
                        (false, true) => BreakKind::Missing,
                        (false, false) => BreakKind::Inserted,
                    };
                    broken(kind, "event seq", other.to_string(), event.seq.to_string())
                }
                None => broken(BreakKind::Altered, "event digest", event.digest.to_string(), computed.to_string()),
            };
        }
        if event.seq != seq {
            let kind = if event.seq > seq { BreakKind::Missing } else { BreakKind::Inserted };
            return broken(kind, "event seq", seq.to_string(), event.seq.to_string());
        }
        if event.prev != last {
            return broken(BreakKind::Altered, "event prev", event.prev.to_string(), last.to_string());
        }
        last = event.digest;
    }
    let found = events.len() as u32;
    let broken = |kind, field, expected: String, found: String| {
        let at = Link::Run { run, seq: Some(head.len.min(events.len() as u32)) };
        Err(Break { at, kind, field, expected, found })
    };
    match found.cmp(&head.len) {
        std::cmp::Ordering::Less => broken(BreakKind::Missing, "events", head.len.to_string(), found.to_string()),
        std::cmp::Ordering::Greater => broken(BreakKind::Inserted, "events", head.len.to_string(), found.to_string()),
        std::cmp::Ordering::Equal if last != head.digest => {
            broken(BreakKind::Altered, "run head", head.digest.to_string(), last.to_string())
        }
        std::cmp::Ordering::Equal => Ok(()),
    }
}

/// The number that an event had when its digest was made, if it is as it was then. It is looked for only where something
/// is wrong.
fn written_for(event: &Event, events: usize) -> Option<u32> {
    // As many as were there, and some that are gone.
    let most = u32::try_from(events).unwrap_or(u32::MAX).saturating_add(64);
    (0..most).find(|seq| Event { seq: *seq, ..event.clone() }.computed() == event.digest)
}

fn receipts(run: &Run, receipts: &[Receipt]) -> Result<(), Break> {
    let mut last: Option<Digest> = None;
    for (n, receipt) in (0..).zip(receipts) {
        let broken = |kind, field, expected: String, found: String| {
            Err(Break { at: Link::Run { run: run.id, seq: Some(n) }, kind, field, expected, found })
        };
        let Receipted { digest, prev, said } = Receipted::of(receipt);
        if digest != receipt.digest || said.as_deref() != Some(receipt.digest.to_string().as_str()) {
            return broken(BreakKind::Altered, "receipt digest", receipt.digest.to_string(), digest.to_string());
        }
        if receipt.n != n {
            let kind = if receipt.n > n { BreakKind::Missing } else { BreakKind::Reordered };
            return broken(kind, "receipt number", n.to_string(), receipt.n.to_string());
        }
        let before = last.map(|digest| digest.to_string());
        if prev != before {
            let told = |digest: Option<String>| digest.unwrap_or_else(|| "null".to_owned());
            return broken(BreakKind::Altered, "receipt prev", told(prev), told(before));
        }
        last = Some(receipt.digest);
    }
    let (found, head) = (receipts.len() as u32, run.receipts);
    let kind = match found.cmp(&head.len) {
        std::cmp::Ordering::Less => BreakKind::Missing,
        std::cmp::Ordering::Greater => BreakKind::Inserted,
        std::cmp::Ordering::Equal if last.unwrap_or(Digest::ZERO) != head.digest => BreakKind::Altered,
        std::cmp::Ordering::Equal => return Ok(()),
    };
    let at = Link::Run { run: run.id, seq: Some(head.len.min(found)) };
    let (expected, found) = match kind {
        BreakKind::Altered => (head.digest.to_string(), last.unwrap_or(Digest::ZERO).to_string()),
        _ => (head.len.to_string(), found.to_string()),
    };
    Err(Break { at, kind, field: "receipts", expected, found })
}

/// What a receipt's record says of itself.
struct Receipted {
    /// Of the record without `receipt_digest`.
    digest: Digest,
    prev: Option<String>,
    /// Its `receipt_digest`.
    said: Option<String>,
}

impl Receipted {
    fn of(receipt: &Receipt) -> Receipted {
        let mut value = receipt.record.value();
        let take = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let (prev, said) = (take(&value, "prev"), take(&value, "receipt_digest"));
        if let Value::Object(members) = &mut value {
            members.remove("receipt_digest");
        }
        let digest = value.canonical().expect("it was canonical with one more member").digest();
        Receipted { digest, prev, said }
    }
}
