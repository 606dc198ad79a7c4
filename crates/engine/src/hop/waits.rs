//! Calls that wait for a signal, a time or a job: opening their waits, and what their program gets (W-121 to W-124, W-134).
//!
//! Invariant: all waits of one call open in one commit, and the one that ends first closed the others in its own.

use super::jobs;
use super::outcome::{deny, succeed};
use super::state::{Hop, Out};
use crate::broker::{Awaits, room_for_waits, wanted};
use protocol::builtin;
use protocol::call::{Applied, State};
use protocol::code::Code;
use protocol::command::{AwaitSignal, Due, Timer};
use protocol::id::CallId;
use protocol::json::Canonical;
use protocol::time::Time;
use protocol::wait::{Owner, Wait};
use serde::Serialize;
use std::time::Duration;

/// Makes the waits of a call; they are opened with the next commit. A call for which there is no room is denied.
pub(super) fn open(hop: &mut Hop, call: CallId, wants: Vec<Awaits>) {
    let limits = wants.iter().filter(|want| matches!(want, Awaits::Signal(_, Some(_)))).count();
    if let Err(full) = room_for_waits(hop, wants.len() + limits) {
        deny(hop, call, Code::LimitExceeded, &full, None::<()>);
        return;
    }
    for want in wants {
        let due = match want {
            Awaits::Timer(due) => Some(due),
            Awaits::Signal(awaited, limit) => {
                let wait = hop.ids.mint();
                hop.pending.signals.push(AwaitSignal { wait, call, awaited });
                limit.map(Due::In)
            }
        };
        if let Some(due) = due {
            let wait = hop.ids.mint();
            hop.pending.timers.push(Timer { wait, call, due });
        }
    }
    hop.call_mut(call).state = State::Asked;
}

/// What the call got: of its waits the one that ended is left.
enum Got {
    Payload(Canonical),
    /// Its time has come.
    Time,
    /// No signal came within its limit.
    Late,
}

/// Ends a call one of whose waits has ended.
pub(super) async fn ended(hop: &mut Hop, id: CallId) -> Result<(), Out> {
    let Some(wait) = hop.waits.iter().find(|wait| wait.call == id && wait.is_ended()).cloned() else { return Ok(()) };
    let tool = hop.call(id).tool.name.clone();
    let arguments = super::drive::arguments(hop, id).await?.value();
    let wants = wanted(&tool, &arguments).and_then(Result::ok).unwrap_or_default();
    let (index, got) = match &wait.owner {
        Owner::Signal(awaited) => {
            let of = |want: &Awaits| matches!(want, Awaits::Signal(wanted, _) if wanted == awaited);
            (wants.iter().position(of), Got::Payload(payload(hop, &wait).await?))
        }
        Owner::Timer(_) => which(&wants, &wait),
        Owner::Job(job) => return jobs::ended(hop, id, *job).await,
        Owner::Approval(_) => return Ok(()),
    };
    if tool == builtin::FIRST {
        let result = Winner::of(index.unwrap_or_default(), got);
        let result = protocol::json::to_canonical(&result).expect("a winner is texts and a payload");
        succeed(hop, id, &result, Applied::No, None);
        return Ok(());
    }
    match got {
        Got::Payload(payload) => succeed(hop, id, &payload, Applied::No, None),
        Got::Time => succeed(hop, id, &Canonical::null(), Applied::No, None),
        Got::Late => deny(hop, id, Code::WaitExpired, LATE, None::<()>),
    }
    Ok(())
}

const LATE: &str = "no signal came in time";

/// The timer that ended, by the time at which it was due.
fn which(wants: &[Awaits], wait: &Wait) -> (Option<usize>, Got) {
    let due = |due: &Due| match due {
        Due::In(span) => wait.since + *span,
        Due::At(at) => *at,
    };
    let at = |span: &Duration| -> Time { wait.since + *span };
    let index = wants.iter().position(|want| match want {
        Awaits::Timer(of) => Some(due(of)) == wait.due_at,
        Awaits::Signal(_, limit) => limit.as_ref().map(at) == wait.due_at,
    });
    let late = index.is_some_and(|index| matches!(wants[index], Awaits::Signal(..)));
    (index, if late { Got::Late } else { Got::Time })
}

async fn payload(hop: &mut Hop, wait: &Wait) -> Result<Canonical, Out> {
    let protocol::wait::State::Ended { outcome } = wait.state else { return Ok(Canonical::null()) };
    let bytes = hop.body(outcome).await?;
    Canonical::from_stored(&bytes)
        .ok_or_else(|| Out::fail(Code::CheckpointInvalid, "checkpoint invalid: a payload is no canonical JSON"))
}

/// What `stasis.first` tells its program (W-124).
#[derive(Serialize)]
struct Winner {
    index: usize,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Canonical>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Lost>,
}

#[derive(Serialize)]
struct Lost {
    code: &'static str,
    message: &'static str,
    detail: Option<()>,
    applied: bool,
}

impl Winner {
    fn of(index: usize, got: Got) -> Winner {
        let (status, result, error) = match got {
            Got::Payload(payload) => ("ok", Some(payload), None),
            Got::Time => ("ok", Some(Canonical::null()), None),
            Got::Late => {
                let lost = Lost { code: Code::WaitExpired.as_str(), message: LATE, detail: None, applied: false };
                ("denied", None, Some(lost))
            }
        };
        Winner { index, status, result, error }
    }
}
