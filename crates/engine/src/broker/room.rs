//! Room for one more approval (step 12): what one run, one minute and one namespace may ask (C-143, C-144); and for one more
//! wait of any kind.
//!
//! Past a limit nothing is published and nobody is asked: the call is denied. A store that cannot be read has no room.

use crate::hop::Hop;
use crate::inner::Inner;
use protocol::approval::Kind;
use protocol::limits::APPROVALS_A_MINUTE;
use protocol::time::Time;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Why there is no room.
#[derive(Debug)]
pub(crate) struct Full {
    pub(crate) message: String,
    pub(crate) detail: Retry,
}

/// When it is worth asking again, where that is known.
#[derive(Debug, Serialize)]
pub(crate) struct Retry {
    retry_after_ms: Option<u64>,
}

/// Whether the run may have so many waits more; else why not. Those that wait to be opened count.
pub(crate) fn room_for_waits(hop: &Hop, more: usize) -> Result<(), String> {
    let pending = hop.pending.opens().count();
    let (open, most) = (hop.waits.len() + pending + more, hop.inner.limits.open_waits as usize);
    if open > most { Err(format!("open waits exceeded: {open} > {most}")) } else { Ok(()) }
}

/// Whether the run may ask once more. Questions that wait to be published count.
pub(crate) async fn room(hop: &Hop) -> Result<(), Full> {
    let waiting = hop.pending.asks.len();
    let questions = || hop.approvals.values().filter(|approval| approval.kind() != Kind::Settle);
    let open = questions().filter(|approval| approval.is_pending()).count() + waiting;
    let most = hop.inner.limits.open_approvals as usize;
    if open >= most {
        return Err(full(format!("open approvals of this run exceeded: {} > {most}", open + 1), None));
    }
    room_for_waits(hop, 1).map_err(|message| full(message, None))?;
    let now = hop.inner.now();
    let asked: Vec<Time> = questions().map(|a| a.binding.created_at).filter(|at| now.since(*at) < MINUTE).collect();
    if asked.len() + waiting >= APPROVALS_A_MINUTE as usize {
        let first = asked.iter().min().copied().unwrap_or(now);
        let message = format!("approvals of this run in a minute exceeded: more than {APPROVALS_A_MINUTE}");
        return Err(full(message, Some((first + MINUTE).since(now))));
    }
    match room_of_namespace(hop, waiting as u64).await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let most = hop.inner.settings.pending_approvals;
            Err(full(format!("pending approvals of this namespace exceeded: more than {most}"), None))
        }
        Err(error) => Err(full(format!("the pending approvals could not be counted: {error}"), None)),
    }
}

/// Whether one more question fits its namespace. All namespaces together are counted first: where they have room, so has
/// each of them.
async fn room_of_namespace(hop: &Hop, waiting: u64) -> Result<bool, store::ReadError> {
    let Inner { ledger, settings, unasked, .. } = &*hop.inner;
    if unasked.take() {
        return Ok(true);
    }
    let more = |pending: u64| settings.pending_approvals.saturating_sub(pending + waiting);
    let left = more(ledger.pending_count().await?);
    // Others ask meanwhile, and recovery asks without a word: half of the room is looked at again.
    unasked.set(left.saturating_sub(1) / 2);
    Ok(left > 0 || more(ledger.pending_count_of(&hop.run.namespace).await?) > 0)
}

/// Questions that may be asked before those that are pending are counted again: a count costs what is pending, and a
/// question should not.
#[derive(Debug, Default)]
pub(crate) struct Unasked(AtomicU64);

impl Unasked {
    fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn set(&self, questions: u64) {
        self.0.store(questions, Ordering::Relaxed);
    }
}

fn full(message: String, retry: Option<Duration>) -> Full {
    let retry_after_ms = retry.map(|span| span.as_millis() as u64);
    Full { message, detail: Retry { retry_after_ms } }
}
