//! Calls that wait for signals, times, gates and jobs: opening their waits, and what their program gets (W-121 to W-124,
//! W-134).
//!
//! Invariant: all waits of one call open in one commit, and the one that ends first closed the others in its own.

use super::ask::{may_ask, question};
use super::drive::{Answered, answered};
use super::jobs::{self, NoResult};
use super::outcome::{deny, fail_with, succeed};
use super::state::{Hop, Out};
use crate::broker::{Awaits, Judged, Wanted, judge_member, members, room_for_waits, wanted};
use protocol::builtin;
use protocol::call::{Applied, State, ToolRef};
use protocol::code::Code;
use protocol::command::{Ask, AwaitSignal, Due, Member, Timer};
use protocol::id::{ApprovalId, CallId};
use protocol::json::Canonical;
use protocol::time::Time;
use protocol::wait::{Owner, Wait};
use serde::Serialize;
use std::time::Duration;

/// Makes the waits of a call; they are opened with the next commit. A call for which there is no room is denied, and so is
/// `first` if one of its members would be: nobody is asked and nothing handed over for it then.
pub(super) async fn open(hop: &mut Hop, call: CallId, wants: Vec<Awaits>) -> Result<(), Out> {
    let limits = wants.iter().filter(|want| matches!(want, Awaits::Signal(_, Some(_)))).count();
    if let Err(full) = room_for_waits(hop, wants.len() + limits) {
        deny(hop, call, Code::LimitExceeded, &full, None::<()>);
        return Ok(());
    }
    if hop.call(call).tool.name != builtin::FIRST {
        wants.into_iter().for_each(|want| wait(hop, call, want));
        return Ok(());
    }
    let arguments = super::drive::arguments(hop, call).await?.value();
    let (asked, handed_over) = (hop.pending.asks.len(), hop.pending.jobs.len());
    for (place, (tool, arguments)) in (0..).zip(members(&arguments)) {
        if !member(hop, call, place, &tool, &arguments).await {
            hop.pending.asks.truncate(asked);
            hop.pending.jobs.truncate(handed_over);
            hop.pending.signals.retain(|signal| signal.call != call);
            hop.pending.timers.retain(|timer| timer.call != call);
            return Ok(());
        }
    }
    Ok(())
}

/// Waits for a signal or a time. Gates and jobs are members, which come with more than this.
fn wait(hop: &mut Hop, call: CallId, want: Awaits) {
    let due = match want {
        Awaits::Gate(_) | Awaits::Job => None,
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
    hop.call_mut(call).state = State::Asked;
}

/// Begins one of the things that the call waits for, by the rules of a call of its own; false if the call is denied for it.
async fn member(hop: &mut Hop, call: CallId, place: u32, tool: &str, arguments: &Canonical) -> bool {
    let (code, message) = match judge_member(hop, tool, arguments) {
        Judged::Waits(wants) => {
            wants.into_iter().for_each(|want| wait(hop, call, want));
            return true;
        }
        Judged::Delegates(job) => {
            jobs::submit(hop, call, place, *job);
            return true;
        }
        Judged::Ask(question) if tool == builtin::GATE => return ask(hop, call, arguments, *question).await,
        Judged::Ask(_) => (Code::PolicyDenied, format!("a person has to approve {tool} first: call it alone")),
        Judged::Allowed => (Code::InvalidArguments, format!("{tool} waits for nothing")),
        Judged::Denied { code, message } => (code, message),
    };
    deny(hop, call, code, &message, None::<()>);
    false
}

/// Asks one gate of the call; false if the call is denied for it.
async fn ask(hop: &mut Hop, call: CallId, arguments: &Canonical, wanted: Wanted) -> bool {
    if let Err(refused) = may_ask(hop, &wanted).await {
        refused.deny(hop, call);
        return false;
    }
    let spec = builtin::spec(builtin::GATE).expect("built in");
    let tool = ToolRef { name: spec.name.clone(), version: spec.version.clone(), digest: spec.digest() };
    let member = Some(Member { tool, arguments: hop.keep(arguments.as_bytes()) });
    let asked = question(hop, call, wanted);
    hop.pending.asks.push(Ask { member, ..asked });
    hop.call_mut(call).state = State::Asked;
    true
}

/// What the call got: of its waits the one that ended is left.
enum Got {
    /// A signal's payload, what people decided, or the result of a job.
    Value(Canonical),
    /// Its time has come.
    Time,
    /// No signal came within its limit, or people said no.
    No(Lost),
    /// Its job ended otherwise than well.
    Failed(NoResult),
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
            (wants.iter().position(of), Got::Value(payload(hop, &wait).await?))
        }
        Owner::Timer(_) => which(&wants, &wait),
        Owner::Job(job) => {
            let Some(ended) = jobs::ended(hop, *job).await? else { return Ok(()) };
            (Some(ended.place as usize), ended.got.map_or_else(Got::Failed, Got::Value))
        }
        Owner::Approval(approval) => {
            let asked = hop.approvals[approval].arguments.digest;
            let of = |want: &Awaits| matches!(want, Awaits::Gate(arguments) if arguments.digest() == asked);
            let Some(got) = verdict(hop, *approval).await? else { return Ok(()) };
            (wants.iter().position(of), got)
        }
    };
    if tool == builtin::FIRST {
        let result = Winner::of(index.unwrap_or_default(), got);
        let result = protocol::json::to_canonical(&result).expect("a winner is texts and a payload");
        succeed(hop, id, &result, Applied::No, None);
        return Ok(());
    }
    match got {
        Got::Value(payload) => succeed(hop, id, &payload, Applied::No, None),
        Got::Time => succeed(hop, id, &Canonical::null(), Applied::No, None),
        Got::No(lost) => deny(hop, id, Code::WaitExpired, &lost.message, None::<()>),
        Got::Failed(NoResult { message, detail }) => fail_with(hop, id, Code::JobEnded, &message, detail),
    }
    Ok(())
}

/// What people decided of a gate, as a gate of its own would tell it; none while they may still.
async fn verdict(hop: &mut Hop, approval: ApprovalId) -> Result<Option<Got>, Out> {
    let text = |told| protocol::json::to_canonical(&told).expect("a decision is texts");
    Ok(match answered(hop, approval).await? {
        Answered::Open => None,
        Answered::Yes(told) => Some(Got::Value(text(told))),
        Answered::No { code, message, told } => {
            Some(Got::No(Lost { code: code.as_str(), message, detail: told.map(text), applied: false }))
        }
    })
}

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
        Awaits::Gate(_) | Awaits::Job => false,
    });
    let late = index.is_some_and(|index| matches!(wants[index], Awaits::Signal(..)));
    let lost = Lost {
        code: Code::WaitExpired.as_str(),
        message: "no signal came in time".to_owned(),
        detail: None,
        applied: false,
    };
    (index, if late { Got::No(lost) } else { Got::Time })
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
    message: String,
    detail: Option<Canonical>,
    applied: bool,
}

impl Winner {
    fn of(index: usize, got: Got) -> Winner {
        let (status, result, error) = match got {
            Got::Value(value) => ("ok", Some(value), None),
            Got::Time => ("ok", Some(Canonical::null()), None),
            Got::No(lost) => ("denied", None, Some(lost)),
            Got::Failed(NoResult { message, detail }) => {
                let detail = protocol::json::to_canonical(&detail).ok();
                let code = Code::JobEnded.as_str();
                ("error", None, Some(Lost { code, message, detail, applied: false }))
            }
        };
        Winner { index, status, result, error }
    }
}
