//! Carrying one claimed hop to its next stop (runs.md section 5, workflows.md sections 1 and 3).
//!
//! Invariant: every write of a hop carries its token, and whatever the hop holds in memory is only a copy of what the
//! ledger says plus what rides with the next commit. A hop that lost its claim writes nothing more.

mod answer;
mod ask;
mod checkpoint;
mod drain;
mod drive;
mod end;
mod find;
mod gate;
mod hold;
mod jobs;
mod line;
mod open;
mod outcome;
mod prove;
mod replay;
mod script;
mod settle;
mod state;
mod steps;
mod stop;
mod turn;
mod waits;

pub(crate) use answer::{Answer, Tally};
pub(crate) use find::find;
pub(crate) use prove::prove;
pub(crate) use state::{Hop, Out};

use crate::inner::Inner;
use crate::worker::Live;
use protocol::command::Act;
use protocol::run::{Kind, Run, Status};
use std::sync::Arc;

/// What came of a hop.
#[derive(Debug)]
pub(crate) enum Next {
    /// Parked, ended, handed back, acknowledged: somebody else's move.
    Done,
    /// A commit of this hop returned the run and claimed it for this worker again.
    Claimed(Box<Run>),
    /// Nothing more is known or done here; the claim lapses or is somebody else's already.
    Dropped,
}

/// Carries a hop. It never fails: whatever goes wrong ends the run, hands it back, or lets the claim lapse.
pub(crate) async fn carry(inner: Arc<Inner>, live: Arc<Live>, run: Run) -> (Next, Answer) {
    let at = run.status();
    let mut hop = match Hop::open(inner, live, run).await {
        Ok(hop) => hop,
        Err(open::Closed::Next(next)) => return answered(next, at),
        Err(open::Closed::Failed(mut hop, failure)) => {
            let next = match hop.commit(Act::Fail(failure)).await {
                Ok(_) => Next::Done,
                // A run that is cancelled while its hop opens has rows that do not fit together for it.
                Err(out) => end::leave(&mut hop, out).await,
            };
            return answered(next, hop.run.status());
        }
    };
    let carried = match hop.run.kind {
        Kind::Rust => steps::carry(&mut hop).await,
        Kind::Script | Kind::Graph | Kind::Agent => script::carry(&mut hop).await,
    };
    let next = match carried {
        Ok(next) => next,
        Err(out) => end::leave(&mut hop, out).await,
    };
    answered(next, hop.run.status())
}

fn answered(next: Next, status: Status) -> (Next, Answer) {
    let answer = Answer::of(&next, status);
    (next, answer)
}

fn dropped(hop: &Hop, out: &Out) -> Next {
    tracing::info!(run = %hop.run.id, hop = hop.run.seq, ?out, "hop dropped");
    Next::Dropped
}
