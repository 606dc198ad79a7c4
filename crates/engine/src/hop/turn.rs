//! A turn: one request of the guest, a call or a batch, and its place in the journal.

use protocol::call::Call;
use protocol::id::CallId;
use protocol::journal::{Entropy, Entry, Other};
use protocol::time::Time;

/// One request and what was given with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// In list order; one that is no batch has exactly one.
    pub(crate) calls: Vec<CallId>,
    pub(crate) batch: bool,
    /// The `hop` entry that went with its answer.
    pub(crate) hop: Option<HopEntry>,
}

/// The time and randomness a hop began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HopEntry {
    pub(crate) now: Time,
    pub(crate) entropy: Entropy,
}

/// A journal, read into turns.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The start entry; none if nothing is journaled yet.
    pub(crate) start: Option<HopEntry>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) calls: Vec<Call>,
}

/// Groups a journal's entries into turns. `None`: the entries do not fit together.
pub(crate) fn read(entries: Vec<Entry>) -> Option<Told> {
    let mut told = Told::default();
    let mut batch_left = 0;
    for (position, entry) in entries.into_iter().enumerate() {
        match entry {
            Entry::Other(Other::Start { now, entropy, .. }) if position == 0 => {
                told.start = Some(HopEntry { now, entropy });
            }
            _ if told.start.is_none() => return None,
            Entry::Other(Other::Batch { size }) if batch_left == 0 && size > 0 => {
                batch_left = size;
                told.turns.push(Turn { calls: Vec::new(), batch: true, hop: None });
            }
            Entry::Call(call) if batch_left > 0 => {
                batch_left -= 1;
                told.turns.last_mut()?.calls.push(call.id);
                told.calls.push(*call);
            }
            Entry::Call(call) => {
                told.turns.push(Turn { calls: vec![call.id], batch: false, hop: None });
                told.calls.push(*call);
            }
            Entry::Other(Other::Hop { now, entropy, .. }) if batch_left == 0 => {
                let turn = told.turns.last_mut().filter(|turn| turn.hop.is_none())?;
                turn.hop = Some(HopEntry { now, entropy });
            }
            Entry::Other(Other::End { .. }) if batch_left == 0 => {}
            Entry::Other(_) => return None,
        }
    }
    (batch_left == 0).then_some(told)
}

/// The calls of a journal that has nothing else.
pub(crate) fn calls(entries: Vec<Entry>) -> Option<Told> {
    let call = |entry| match entry {
        Entry::Call(call) => Some(*call),
        Entry::Other(_) => None,
    };
    let calls = entries.into_iter().map(call).collect::<Option<Vec<Call>>>()?;
    Some(Told { calls, ..Told::default() })
}
