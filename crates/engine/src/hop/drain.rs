//! Letting a turn run out: nothing of it starts any more, and what has started is waited for.
//!
//! Invariant: what came of a handler is stored, unless the claim is lost; then nothing is.

use super::drive::{Done, Drive};
use super::end;
use super::gate;
use super::line;
use super::settle;
use super::state::{Hop, Out};
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
/// starts any more.
pub(super) async fn finish_work(hop: &mut Hop, drive: &mut Drive, stop: Stop) -> Result<(), Out> {
    drive.line.clear();
    drive.holding.drop_all();
    drive.reading.cancel();
    if stop == Stop::Lost {
        return Ok(());
    }
    if stop == Stop::Stopping {
        gate::cut_short(hop, drive);
    }
    loop {
        while let Some((id, done)) = work_or_loss(hop, drive).await? {
            drive.busy.remove(&id);
            if matches!(done, Done::Handled(_) | Done::Looked { .. }) {
                settle::done(hop, drive, id, done).await?;
            }
        }
        if stop != Stop::Stopping || !settle::look_last(hop, drive).await? {
            return Ok(());
        }
        while let Some((id, errand, slot)) = drive.line.next().await {
            drive.busy.remove(&id);
            line::served(hop, drive, id, errand, slot).await?;
        }
    }
}

/// The next piece of work that ends; a hop that loses its claim waits for none.
async fn work_or_loss(hop: &Hop, drive: &mut Drive) -> Result<Option<(CallId, Done)>, Out> {
    loop {
        if hop.live.stopped() == Some(Stop::Lost) {
            return Err(Out::Lost);
        }
        tokio::select! {
            done = drive.work.next() => return Ok(done),
            () = hop.live.bell.notified() => {}
        }
    }
}
