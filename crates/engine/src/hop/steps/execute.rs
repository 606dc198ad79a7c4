//! One execution of a step: it is polled, its requests are served, and what it answers is read.
//!
//! Invariant: a step is polled only while none of its calls is at work, so that whatever ends it, a panic as well, leaves no
//! handler behind.

use super::super::outcome;
use super::super::state::{Hop, Out};
use super::requests::{self, Given};
use super::{Made, Stay};
use crate::clock::monotonic;
use crate::worker::Stop;
use crate::workflow::{Ambiguous, Desk, Signal, StepError, Went};
use futures_util::FutureExt as _;
use protocol::call::State;
use protocol::code::Code;
use protocol::id::CallId;
use protocol::json::Canonical;
use protocol::run::Failure;
use protocol::wait::Owner;
use std::panic::AssertUnwindSafe;

/// What came of an execution.
pub(super) enum Ran {
    /// The stay is over.
    Next,
    End(Canonical),
    /// Exactly one signal.
    Waits(Signal),
    Failed(Failure),
}

pub(super) async fn step(hop: &mut Hop, stay: &mut Stay) -> Result<Ran, Out> {
    let Stay { stand, made } = stay;
    let (cx, mut desk) = Desk::open(hop.run.id);
    let mut given = Given::default();
    let answered = {
        let mut step = std::pin::pin!(AssertUnwindSafe(stand.step(&cx)).catch_unwind());
        loop {
            let began = monotonic();
            let asked = tokio::select! {
                biased;
                // A step that gives way does so where it stands; one whose run ends is dropped where it waits.
                stop = cut(hop) => return Err(Out::of(stop)),
                answered = &mut step => Err(answered),
                asked = desk.asked() => Ok(asked),
            };
            hop.charge(hop.charged_us + (monotonic() - began).as_micros() as u64);
            match asked {
                Err(answered) => break answered,
                Ok(asked) => requests::serve(hop, made, &mut given, asked).await?,
            }
        }
    };
    given.leases.clear();
    let ran = match answered {
        Err(_) => {
            tracing::error!(run = %hop.run.id, "a step panicked; its run fails");
            // Its text may hold anything; the log has it.
            Ran::Failed(failure(Code::StepFailed, "the step panicked"))
        }
        Ok(Ok(Went::Next)) => Ran::Next,
        Ok(Ok(Went::End(result))) => Ran::End(result),
        Ok(Err(error)) => wait_or_failure(hop, &given, &error),
    };
    match ran {
        Ran::Next | Ran::End(_) => give_up(hop, made),
        // No wait is made for a step that failed.
        Ran::Failed(_) => forget_waits(hop, None),
        Ran::Waits(_) => {}
    }
    Ok(ran)
}

/// Resolves when the run of this hop is to end, or is somebody else's.
async fn cut(hop: &Hop) -> Stop {
    loop {
        match hop.live.stopped() {
            Some(stop) if !stop.gives_way() => return stop,
            _ => hop.live.bell.notified().await,
        }
    }
}

fn failure(code: Code, message: &str) -> Failure {
    Failure { code, message: message.to_owned(), detail: None }
}

/// The wait that an error leads to, or the failure that it is.
fn wait_or_failure(hop: &Hop, given: &Given, error: &StepError) -> Ran {
    match error.waits() {
        Ok(Some(waits)) if given.gave(&waits) => Ran::Waits(waits.signal().clone()),
        // A signal of another step says nothing of this one.
        Ok(Some(_)) | Err(Ambiguous) => Ran::Failed(failure(Code::AmbiguousWait, "ambiguous wait signal")),
        Ok(None) => Ran::Failed(step_failed(hop, error)),
    }
}

/// the step's own text, or how a job ended.
fn step_failed(hop: &Hop, error: &StepError) -> Failure {
    if let Some(ended) = error.ended().filter(|ended| ended.code == Code::JobEnded) {
        return failure(Code::JobEnded, &ended.message);
    }
    let mut message = error.error().to_string();
    message.truncate(message.floor_char_boundary(hop.inner.limits.failure_bytes as usize));
    failure(Code::StepFailed, &message)
}

/// Calls that the step went on without end as never run, and their waits with them. What may have happened, and what
/// an agent has in hand, is waited for at the end.
fn give_up(hop: &mut Hop, made: &[Made]) {
    for id in made.iter().map(|made| made.call) {
        let handed_over = hop.waits.iter().any(|wait| wait.call == id && matches!(wait.owner, Owner::Job(_)));
        if handed_over || !matches!(hop.call(id).state, State::Entered | State::Asked) {
            continue;
        }
        forget_waits(hop, Some(id));
        let why = "the step went on without it";
        outcome::deny(hop, id, Code::CancelledBeforeDispatch, why, None::<()>);
    }
}

/// Waits that are not stored are not opened: those of one call, or all.
fn forget_waits(hop: &mut Hop, call: Option<CallId>) {
    let stays = |of: CallId| call.is_some_and(|call| call != of);
    let pending = &mut hop.pending;
    pending.asks.retain(|ask| stays(ask.call));
    pending.timers.retain(|timer| stays(timer.call));
    pending.signals.retain(|signal| stays(signal.call));
    pending.jobs.retain(|job| stays(job.call));
}
