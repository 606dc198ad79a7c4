//! Letting a turn run out: nothing of it starts any more, and what has started is waited for.
//!
//! Invariant: what came of a handler is stored, unless the claim is lost; then nothing is.

use super::drive::{Done, Drive};
use super::end;
use super::gate;
use super::line::{self, Errand};
use super::settle;
use super::state::{Hop, Out};
use super::stop;
use crate::tools::Slot;
use crate::worker::Stop;
use futures_util::StreamExt as _;
use protocol::id::CallId;
use protocol::run::Failure;

/// The failure is stored first and stays what it is; then the hop waits for its calls within their limits, and stores what
/// came of them. It has still to acknowledge.
pub(super) async fn fail_beside_calls(hop: &mut Hop, drive: &mut Drive, failure: Failure) -> Out {
    match end::fail(hop, failure).await {
        Ok(()) => finish_work(hop, drive, Stop::Stopping).await.err().unwrap_or(Out::Stopping),
        Err(out) => out,
    }
}

/// What runs may end: a lost claim drops it, anything else waits for it and stores what came. Nothing
/// starts any more, but what asks the other side to stop, and the lookups of a run that stops (C-234).
pub(super) async fn finish_work(hop: &mut Hop, drive: &mut Drive, stop: Stop) -> Result<(), Out> {
    drive.line.clear();
    drive.holding.drop_all();
    drive.reading.cancel();
    if stop == Stop::Lost {
        return Ok(());
    }
    if stop == Stop::Stopping {
        end::keep_outcomes(hop).await?;
        gate::cut_short(hop, drive);
        stop::ask(hop, drive).await?;
    }
    loop {
        while let Some(ended) = next(hop, drive).await? {
            match ended {
                Ended::Work(id, done) => worked(hop, drive, id, done).await?,
                Ended::Line(id, errand, slot) => line::served(hop, drive, id, errand, slot).await?,
            }
        }
        if stop != Stop::Stopping || !settle::look_last(hop, drive).await? {
            return Ok(());
        }
    }
}

/// What came of a piece of work is stored; a pause that is over, or content that was read, begins nothing any more.
async fn worked(hop: &mut Hop, drive: &mut Drive, id: CallId, done: Done) -> Result<(), Out> {
    drive.busy.remove(&id);
    match done {
        Done::Handled(_) | Done::Looked { .. } => settle::done(hop, drive, id, done).await,
        Done::Read(_) | Done::AttemptDue => Ok(()),
    }
}

/// What a draining turn waits for.
enum Ended {
    Work(CallId, Done),
    Line(CallId, Errand, Slot),
}

/// The next piece of work that ends, or place that is there; a hop that loses its claim waits for none.
async fn next(hop: &Hop, drive: &mut Drive) -> Result<Option<Ended>, Out> {
    loop {
        if hop.live.stopped() == Some(Stop::Lost) {
            return Err(Out::Lost);
        }
        tokio::select! {
            Some((id, done)) = drive.work.next() => return Ok(Some(Ended::Work(id, done))),
            Some((id, errand, slot)) = drive.line.next() => return Ok(Some(Ended::Line(id, errand, slot))),
            () = hop.live.bell.notified(), if !drive.work.is_empty() || !drive.line.is_empty() => {}
            else => return Ok(None),
        }
    }
}
