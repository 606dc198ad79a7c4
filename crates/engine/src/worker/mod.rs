//! The worker: claims hops and carries each to its next stop (runs.md section 5).
//!
//! Owns: which hops this process has, and their claims. Renewals and guest stops run on an OS thread of their own, so a
//! busy guest can neither hold up its renewal nor its stop.

mod crew;
mod renew;

pub(crate) use crew::{Crew, Live, Stop, Waiting};
pub(crate) use renew::Renewer;

use crate::failpoint;
use crate::hop;
use crate::inner::Inner;
use crate::maintenance;
use futures_util::FutureExt as _;
use protocol::code::Code;
use protocol::command::{Act, Answer, Claim, Command, Hop, Progress};
use protocol::id::RunId;
use protocol::run::{Failure, Phase, Run, Status};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use store::TransactError;

/// Claims what is claimable, for as long as the engine runs. Hints shorten the wait; with every hint lost a scan finds
/// work within `scan_every`.
pub(crate) async fn claim_loop(inner: Arc<Inner>) {
    let mut hints = inner.ledger.subscribe();
    loop {
        if let Err(error) = claim_some(&inner).await {
            tracing::warn!(%error, "claiming failed; trying again");
        }
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = inner.crew.room() => {}
            hint = hints.recv() => drop(hint),
            () = tokio::time::sleep(inner.settings.scan_every) => {}
        }
    }
}

/// Claims page after page while there is room. What could not be claimed is stepped over, so that it holds up nothing
/// behind it.
async fn claim_some(inner: &Arc<Inner>) -> Result<(), store::ReadError> {
    let mut skip = 0;
    let able = inner.able_patterns();
    loop {
        let room = inner.crew.free();
        if room == 0 || inner.stopping.is_cancelled() {
            return Ok(());
        }
        let (claimable, faults) = inner.ledger.claimable(skip, room).await?;
        let full = claimable.len() + faults.len() >= room;
        skip += faults.len();
        for fault in faults {
            tracing::warn!(%fault, "a queued run cannot be read");
            inner.health.corrupt(&fault.key, fault.to_string(), inner.now());
        }
        for found in claimable {
            // The passes tell of it.
            if !able.contains(&found.pattern.digest) {
                skip += 1;
                continue;
            }
            let Some(taker) = inner.crew.taker(inner) else { return Ok(()) };
            let claim = Claim { run: found.run, seq: found.seq, taker };
            failpoint::hit("claim.before");
            let answer = inner.ledger.transact(Command::Claim(claim)).await;
            failpoint::hit("claim.after");
            match answer {
                Ok(Answer::Claimed { run }) => {
                    inner.health.fine(run.id);
                    adopt(inner, &run);
                }
                Ok(other) => unreachable!("a claim is answered with its run: {other:?}"),
                // Somebody was faster, or the run may not be claimed now.
                Err(TransactError::Refused(refusal)) => {
                    skip += 1;
                    let not_now = refusal.code == Code::NotNow;
                    inner.hops.count(if not_now { hop::Answer::NotNow } else { hop::Answer::Skipped });
                    if not_now {
                        maintenance::not_claimed(inner, found.run).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, run = %found.run, "a claim failed");
                    inner.health.failing(found.run, error.to_string(), inner.now());
                    skip += 1;
                }
            }
        }
        if !full {
            return Ok(());
        }
    }
}

/// Starts the hop of a run that a commit gave to this worker. A run that is not ours, or that runs here already, is left
/// alone.
pub(crate) fn adopt(inner: &Arc<Inner>, run: &Run) {
    let Phase::Active { claim, .. } = &run.phase else { return };
    if claim.worker != inner.worker {
        return;
    }
    let Some(live) = inner.crew.enter(inner, run.id, claim.token) else { return };
    let (inner, run) = (inner.clone(), run.clone());
    let tasks = inner.tasks.clone();
    tasks.spawn(async move {
        let id = run.id;
        let (next, answer) = carried(&inner, &live, Box::pin(hop::carry(inner.clone(), live.clone(), run))).await;
        inner.hops.count(answer);
        inner.crew.leave(&live);
        tracing::debug!(run = %id, answer = answer.as_str(), "hop ended");
        if let hop::Next::Claimed(run) = next {
            adopt(&inner, &run);
        }
    });
}

/// Carries a hop; a panic in it is a failure of its run alone.
async fn carried(
    inner: &Arc<Inner>,
    live: &Live,
    hop: impl Future<Output = (hop::Next, hop::Answer)>,
) -> (hop::Next, hop::Answer) {
    if let Ok(next) = AssertUnwindSafe(hop).catch_unwind().await {
        return next;
    }
    tracing::error!(run = %live.run, "a hop panicked; its run fails");
    // Its text may hold anything; the log has it.
    let failure = Failure { code: Code::StepFailed, message: "the step panicked".to_owned(), detail: None };
    let mut told = write(inner, live, Act::Fail(failure)).await;
    let stopping = match &told {
        Ok(answer) => answer.status().is_some_and(Status::is_stopping),
        Err(TransactError::Refused(refusal)) => refusal.code == Code::RunStopping,
        Err(_) => false,
    };
    let answer = if told.is_ok() { hop::Answer::Failed } else { hop::Answer::Stopped };
    // Nothing of the hop runs any more. Its calls were cut with it; what became of them is found out as after a crash.
    if stopping {
        told = write(inner, live, Act::Acknowledge).await;
    }
    match told {
        Ok(_) => (hop::Next::Done, answer),
        Err(error) => {
            tracing::warn!(run = %live.run, %error, "the failure could not be stored; the claim lapses");
            (hop::Next::Dropped, hop::Answer::Stopped)
        }
    }
}

async fn write(inner: &Inner, live: &Live, act: Act) -> Result<Answer, TransactError> {
    let hop = Hop { run: live.run, token: live.token, progress: Progress::default(), act };
    inner.ledger.transact(Command::Hop(Box::new(hop))).await
}

/// The worker learns of cancels and takeovers by hint, before its next renewal.
pub(crate) async fn watch_loop(inner: Arc<Inner>) {
    let mut hints = inner.ledger.subscribe();
    loop {
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            hint = hints.recv() => match hint {
                Ok(hint) if hint.status.is_stopping() => inner.crew.stop(hint.run, Stop::Stopping),
                Ok(hint) => inner.crew.wake(hint.run),
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => inner.crew.wake_all(),
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    }
}

/// Tells the hops of this worker over which a pause lies now, however many runs it was set for; a renewal tells them too.
pub(crate) async fn heed_pauses(inner: &Inner) {
    let registry = inner.ledger.registry();
    for live in inner.crew.list() {
        match inner.ledger.run(live.run).await {
            Ok(Some(run)) if protocol::pause::is_paused(&run, &registry) => live.stop(Stop::Paused),
            Ok(_) => {}
            Err(error) => tracing::warn!(run = %live.run, %error, "whether it is paused could not be read"),
        }
    }
}

/// Whether this worker carries the run now.
pub(crate) fn carries(inner: &Inner, run: RunId) -> bool {
    inner.crew.has(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use protocol::limits::WorkerSettings;

    #[tokio::test]
    async fn a_panic_in_a_hop_is_a_failure_of_its_run_alone() {
        let bench = Bench::with(WorkerSettings::default()).await;
        let (bad, good) = (bench.world.running().await, bench.world.running().await);
        let live = bench.inner.crew.enter(&bench.inner, bad.id, bad.fence).expect("a free place");
        let (next, answer) = carried(&bench.inner, &live, async { panic!("a bug with a secret in it") }).await;
        assert!(matches!((next, answer), (hop::Next::Done, hop::Answer::Failed)));
        let failed = bench.world.ledger.run(bad.id).await.expect("read").expect("there");
        assert_eq!(failed.status(), Status::Failed);
        let told = failed.failure().map(|failure| (failure.code, failure.message.as_str()));
        assert_eq!(told, Some((Code::StepFailed, "the step panicked"))); // R-258 R-260
        let other = bench.world.ledger.run(good.id).await.expect("read").expect("there");
        assert_eq!(other.status(), Status::Running);
        // Whoever lost the run to a pass cannot fail it any more.
        let lost = bench.inner.crew.enter(&bench.inner, good.id, good.fence).expect("a free place");
        bench.world.pass(std::time::Duration::from_secs(60));
        bench.world.recover(good.id, protocol::command::Reach::Lapsed).await;
        let (next, answer) = carried(&bench.inner, &lost, async { panic!("too late") }).await;
        assert!(matches!((next, answer), (hop::Next::Dropped, hop::Answer::Stopped))); // R-93 R-252
        let other = bench.world.ledger.run(good.id).await.expect("read").expect("there");
        assert_eq!(other.status(), Status::Queued);
    }

    #[tokio::test]
    async fn a_hop_that_cannot_be_opened_and_whose_run_is_cancelled_lets_go_of_it() {
        let bench = Bench::with(WorkerSettings::default()).await;
        let run = bench.world.running().await;
        let live = bench.inner.crew.enter(&bench.inner, run.id, run.fence).expect("a free place");
        bench.world.cancel(run.id).await.expect("cancelled");
        // The bench has no guest image, so the hop wants to fail its run.
        let (next, answer) = hop::carry(bench.inner.clone(), live, run.clone()).await;
        assert!(matches!((next, answer), (hop::Next::Done, hop::Answer::Stopped)));
        let run = bench.world.ledger.run(run.id).await.expect("read").expect("there");
        assert_eq!((run.status(), run.claim()), (Status::Cancelled, None)); // R-265 R-266
    }

    #[tokio::test]
    async fn a_panic_beside_a_call_leaves_no_hop_to_wait_for() {
        let bench = Bench::with(WorkerSettings::default()).await;
        for cancelled in [false, true] {
            let (run, asked) = bench.world.dispatched().await;
            let live = bench.inner.crew.enter(&bench.inner, run.id, run.fence).expect("a free place");
            if cancelled {
                bench.world.cancel(run.id).await.expect("cancelled");
            }
            let (next, answer) = carried(&bench.inner, &live, async { panic!("a bug") }).await;
            let word = if cancelled { hop::Answer::Stopped } else { hop::Answer::Failed };
            assert!(matches!(next, hop::Next::Done));
            assert_eq!(answer, word);
            let rows = bench.world.ledger.rows(run.id).await.expect("read").expect("there");
            let status = if cancelled { Status::Cancelling } else { Status::Failing };
            assert_eq!((rows.run.status(), rows.run.claim()), (status, None)); // no claim that has to lapse
            let open: Vec<_> = rows.obligations.iter().filter(|o| o.is_open()).map(|o| o.subject).collect();
            assert_eq!(open, [protocol::obligation::Subject::Call(asked.call)]);
        }
    }
}
