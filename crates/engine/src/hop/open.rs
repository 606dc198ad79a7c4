//! Opening a claimed hop, in the order of R-109: pin, checkpoint, authority, waits; then it thaws, replays or starts.

use super::Next;
use super::checkpoint::{self, Stored};
use super::state::Hop;
use super::turn::{self, Told};
use crate::inner::Inner;
use crate::pinned::{self, PinError, Pinned};
use crate::reading::{self, Unread};
use crate::worker::Live;
use protocol::code::Code;
use protocol::journal::{self, Entry, Other};
use protocol::run::{Failure, Run};
use std::sync::Arc;
use store::Shown;

/// Why a hop was not opened.
pub(super) enum Closed {
    Next(Next),
    /// The run ends, with this failure; no guest was made.
    Failed(Box<Hop>, Failure),
}

/// Why a run cannot go on as it is.
enum Bar {
    /// Nothing can be said of it now.
    Unread(String),
    Fails(Failure),
}

impl Hop {
    /// Checks everything that has to hold before a guest is made. A check that fails ends the run; an error in reading
    /// is no failure of the run, the claim lapses and another hop tries.
    pub(super) async fn open(inner: Arc<Inner>, live: Arc<Live>, run: Run) -> Result<Hop, Closed> {
        let (pinned, bar) = match pin(&inner, &run).await {
            Ok(pinned) => (pinned, None),
            Err(bar) => (Arc::new(Pinned::none()), Some(bar)),
        };
        let mut hop = Hop::new(inner, live, run, pinned);
        let checked = match bar {
            None => check(&mut hop).await,
            Some(bar) => Err(bar),
        };
        match checked {
            Ok(()) => Ok(hop),
            Err(Bar::Fails(failure)) => Err(Closed::Failed(Box::new(hop), failure)),
            Err(Bar::Unread(why)) => {
                tracing::warn!(run = %hop.run.id, why, "a hop could not be opened");
                Err(Closed::Next(Next::Dropped))
            }
        }
    }
}

/// everything that the run is pinned to is here, and its checkpoint is of the schema that is written here, or of one
/// from which migrators lead to it.
async fn pin(inner: &Inner, run: &Run) -> Result<Arc<Pinned>, Bar> {
    let unavailable = |why: String| {
        tracing::warn!(run = %run.id, why, "pinned pattern unavailable");
        Bar::Fails(Failure::unavailable(&run.pattern, &why))
    };
    let pinned = pinned::of_run(inner, run).await.map_err(|error| match error {
        PinError::Unavailable(why) => unavailable(why),
        PinError::Unread(why) => Bar::Unread(why),
    })?;
    match run.checkpoint.as_ref().map(|header| header.schema.as_str()) {
        Some(schema) if inner.migrators.chain(schema, pinned.schema).is_none() => {
            Err(unavailable(format!("no migrator leads here from its checkpoint schema {schema}")))
        }
        _ => Ok(pinned),
    }
}

/// Presence comes before validity, and validity before authority.
async fn check(hop: &mut Hop) -> Result<(), Bar> {
    let stored = checkpoint::read(hop).await.map_err(|error| bar(error, |why| why))?;
    if let Stored::Lost = stored {
        return Err(Bar::Fails(failure(Code::StasisLost, "stasis lost")));
    }
    // Rows that are not what they must be are a broken journal.
    let broken = |error| bar(error, |_| "journal".to_owned());
    let rows = reading::read(|| hop.inner.ledger.rows(hop.run.id)).await.map_err(broken)?;
    let Some(rows) = rows else { return Err(Bar::Unread("the run is not there".to_owned())) };
    let entries = reading::read(|| hop.inner.ledger.journal(hop.run.id)).await.map_err(broken)?.unwrap_or_default();
    let told = told(hop, entries).ok_or_else(|| Bar::Fails(invalid("journal")))?;
    take(hop, rows, told);
    if let Stored::Here(bytes) = stored {
        hop.place = checkpoint::validate(&bytes, hop).map_err(|why| Bar::Fails(invalid(&why)))?;
    }
    authority(hop)
}

fn bar(error: Unread, what: impl FnOnce(String) -> String) -> Bar {
    match error {
        Unread::Unavailable(why) => Bar::Unread(why),
        Unread::Damaged(why) => {
            tracing::warn!(why, "stored rows of a run cannot be used");
            Bar::Fails(invalid(&what(why)))
        }
    }
}

/// The journal as turns, if it is whole and of this very run: its pattern and its input. Of Rust code there
/// are its calls, and nothing that would be told again.
fn told(hop: &Hop, entries: Vec<Entry>) -> Option<Told> {
    if !hop.run.kind.is_journaled() {
        return journal::verify(&entries, hop.run.journal).then(|| turn::calls(entries)).flatten();
    }
    let of_this_run = match entries.first() {
        None => true,
        Some(Entry::Other(Other::Start { pattern, input, .. })) => {
            *pattern == hop.run.admitted_with() && *input == hop.run.input.digest
        }
        Some(_) => false,
    };
    (of_this_run && journal::verify(&entries, hop.run.journal)).then(|| turn::read(entries)).flatten()
}

fn take(hop: &mut Hop, rows: Shown, told: Told) {
    hop.take_rows(rows);
    hop.engine_calls = hop.calls.values().filter(|call| call.position.is_none()).count() as u32;
    hop.told = told.start.map_or(hop.run.created_at, |start| start.now);
    hop.start = told.start;
    hop.turns = told.turns;
    hop.calls.extend(told.calls.into_iter().map(|call| (call.id, call)));
}

fn failure(code: Code, message: impl Into<String>) -> Failure {
    Failure { code, message: message.into(), detail: None }
}

fn invalid(why: &str) -> Failure {
    failure(Code::CheckpointInvalid, format!("checkpoint invalid: {why}"))
}

/// the plan has not ended. A revoked grant meets the calls that need it, not the run (W-96).
fn authority(hop: &Hop) -> Result<(), Bar> {
    match hop.run.settings.not_after {
        Some(end) if hop.inner.now() >= end => {
            Err(Bar::Fails(failure(Code::AuthorityUnavailable, "authority unavailable: expired")))
        }
        _ => Ok(()),
    }
}
