//! Opening a claimed hop, in the order of R-109: pin, checkpoint, authority, waits; then it thaws, replays or starts.

use super::state::{Hop, Out};
use super::turn;
use super::{Next, checkpoint};
use crate::inner::Inner;
use crate::pinned::{self, PinError, Pinned};
use crate::worker::Live;
use protocol::code::Code;
use protocol::journal;
use protocol::run::{Failure, Run};
use std::sync::Arc;

/// Why a hop was not opened.
pub(super) enum Closed {
    Next(Next),
    /// The run ends, with this failure; no guest was made.
    Failed(Box<Hop>, Failure),
}

impl Hop {
    /// Checks everything that has to hold before a guest is made. A check that fails ends the run; an error in reading
    /// is no failure of the run, the claim lapses and another hop tries.
    pub(super) async fn open(inner: Arc<Inner>, live: Arc<Live>, run: Run) -> Result<Hop, Closed> {
        let dropped = |error: &dyn std::fmt::Display| {
            tracing::warn!(run = %run.id, %error, "a hop could not be opened");
            Closed::Next(Next::Dropped)
        };
        let pinned = match pinned::of_run(&inner, &run).await {
            Ok(pinned) => pinned,
            Err(PinError::Store(error)) => return Err(dropped(&error)),
            Err(PinError::Unavailable(why)) => {
                tracing::warn!(run = %run.id, why, "pinned pattern unavailable");
                let hop = Hop::new(inner, live, run, Arc::new(Pinned::none()), Vec::new(), None);
                let failure = unavailable(&hop.run, &why);
                return Err(Closed::Failed(Box::new(hop), failure));
            }
        };
        let rows = match inner.ledger.rows(run.id).await {
            Ok(Some(rows)) => rows,
            Ok(None) => return Err(Closed::Next(Next::Dropped)),
            Err(error) => return Err(dropped(&error)),
        };
        let entries = match inner.ledger.journal(run.id).await {
            Ok(entries) => entries.unwrap_or_default(),
            Err(error) => return Err(dropped(&error)),
        };
        let sound = journal::verify(&entries, run.journal);
        let told = turn::read(entries).filter(|_| sound);
        let mut hop = match told {
            Some(told) => {
                let mut hop = Hop::new(inner, live, run, pinned, told.turns, Some(rows));
                for call in told.calls {
                    hop.calls.insert(call.id, call);
                }
                hop.told = told.start.map_or(hop.run.created_at, |start| start.now);
                hop
            }
            None => {
                let hop = Hop::new(inner, live, run, pinned, Vec::new(), Some(rows));
                let failure = invalid("journal");
                return Err(Closed::Failed(Box::new(hop), failure));
            }
        };
        if let Err(out) = checkpoint::load(&mut hop).await {
            return Err(closed(hop, out));
        }
        if let Err(out) = authority(&hop) {
            return Err(closed(hop, out));
        }
        Ok(hop)
    }
}

fn closed(hop: Hop, out: Out) -> Closed {
    match out {
        Out::Fail(failure) => Closed::Failed(Box::new(hop), *failure),
        Out::Lost | Out::Stopping | Out::Shutdown => Closed::Next(Next::Dropped),
    }
}

/// the exact text; a newer revision is never used instead (W-6).
fn unavailable(run: &Run, why: &str) -> Failure {
    #[derive(serde::Serialize)]
    struct Detail<'a> {
        why: &'a str,
    }
    Failure {
        code: Code::PinnedPatternUnavailable,
        message: format!("pinned Pattern unavailable: {}@{}", run.pattern.key, run.pattern.revision),
        detail: protocol::json::to_canonical(&Detail { why }).ok(),
    }
}

pub(super) fn invalid(why: &str) -> Failure {
    Failure { code: Code::CheckpointInvalid, message: format!("checkpoint invalid: {why}"), detail: None }
}

/// the plan has not ended. A revoked grant meets the calls that need it, not the run (W-96).
fn authority(hop: &Hop) -> Result<(), Out> {
    match hop.run.settings.not_after {
        Some(end) if hop.inner.now() >= end => {
            Err(Out::fail(Code::AuthorityUnavailable, "authority unavailable: expired"))
        }
        _ => Ok(()),
    }
}
