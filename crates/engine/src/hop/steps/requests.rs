//! Serving what a step asks: its calls by the broker, its leases by the manager of resources.
//!
//! Invariant: in one stay a call is its tool, its arguments as issued, and its key; met again it is the same call, so
//! that no effect is begun twice. A step that was told to wait begins nothing more, and holds no lease.

use super::super::drive::{self, Drive, Driven};
use super::super::replay;
use super::super::script;
use super::super::state::{Hop, Out};
use super::super::turn::Turn;
use super::Made;
use crate::broker::Asked;
use crate::resources::Lease;
use crate::workflow::{CallError, Ended, Intent, Request, Signal, Waits};
use protocol::call::OutcomeStatus;
use protocol::code::Code;
use protocol::id::CallId;
use protocol::json::Canonical;
use protocol::resource::Unleased;

/// What a step was given.
#[derive(Default)]
pub(super) struct Given {
    /// The signal that it waits.
    waits: Option<Waits>,
    pub(super) leases: Vec<Lease>,
}

impl Given {
    /// Whether this is the very signal that the step was given.
    pub(super) fn gave(&self, waits: &Waits) -> bool {
        self.waits.as_ref().is_some_and(|given| given.is(waits))
    }

    /// The step waits; its leases are given back before anything of that is stored.
    fn wait(&mut self, signal: Signal) -> Waits {
        self.leases.clear();
        self.waits.get_or_insert_with(|| Waits::new(signal)).clone()
    }
}

/// One intent, as it is answered.
enum Slot {
    Call(CallId),
    Refused(CallError),
}

pub(super) async fn serve(
    hop: &mut Hop,
    made: &mut Vec<Made>,
    given: &mut Given,
    requests: Vec<Request>,
) -> Result<(), Out> {
    let mut groups = Vec::new();
    let mut every = true;
    for request in requests {
        match request {
            Request::Lease { resource, answer } => {
                let leased = lease(hop, given, resource).await;
                // A step that no longer listens has let go of it; the lease goes with its execution.
                let _ = answer.send(leased);
            }
            Request::Calls { intents, all, answer } => {
                every &= all;
                groups.push((intents, answer));
            }
        }
    }
    if let Some(waits) = &given.waits {
        for (intents, answer) in groups {
            let _ = answer.send(intents.iter().map(|_| Err(CallError::Waits(waits.clone()))).collect());
        }
        return Ok(());
    }
    let mut answers = Vec::new();
    for (intents, answer) in groups {
        let slots: Vec<Slot> = intents.into_iter().map(|intent| enter(hop, made, intent)).collect();
        answers.push((slots, answer));
    }
    let waits = drive(hop, given, &answers, every).await?;
    for (slots, answer) in answers {
        let mut results = Vec::with_capacity(slots.len());
        for slot in slots {
            results.push(result(hop, slot, waits.as_ref()).await?);
        }
        let _ = answer.send(results);
    }
    Ok(())
}

/// The call that the step means: one of its stay, or a new one.
fn enter(hop: &mut Hop, made: &mut Vec<Made>, intent: Intent) -> Slot {
    let Intent { tool, arguments, key } = intent;
    let same = |one: &&Made| {
        let call = hop.call(one.call);
        one.key == key && call.tool.name == tool && call.asked == arguments.digest()
    };
    if let Some(known) = made.iter().find(same) {
        return Slot::Call(known.call);
    }
    let (n, most) = (hop.counted + 1, hop.run.settings.max_calls);
    if n > most {
        let message = format!("calls exceeded: {n} > {most}");
        let code = Code::CallBudgetExceeded;
        return Slot::Refused(CallError::Ended(Ended { tool, code, message, detail: None, applied: None }));
    }
    let call = drive::enter(hop, &Asked { n: u64::from(n), tool, arguments });
    made.push(Made { call, key });
    Slot::Call(call)
}

/// Drives the calls as far as they go; the signal, if some of them wait.
async fn drive<T>(
    hop: &mut Hop,
    given: &mut Given,
    answers: &[(Vec<Slot>, T)],
    all: bool,
) -> Result<Option<Waits>, Out> {
    let mut calls = Vec::new();
    for slot in answers.iter().flat_map(|(slots, _)| slots) {
        if let Slot::Call(id) = slot
            && !hop.call(*id).is_ended()
            && !calls.contains(id)
        {
            calls.push(*id);
        }
    }
    let mut driven = Drive::new(Turn { calls, batch: false, hop: None });
    let signal = match drive::drive(hop, &mut driven).await {
        Ok(Driven::Complete) => None,
        Ok(Driven::Blocked) => Some(Signal::Set { all }),
        Ok(Driven::Cold(resource)) => Some(Signal::Hardware { resource }),
        // What is at work has ended; what has not begun is made when the run goes on.
        Err(Out::GiveWay) => Some(Signal::GivesWay),
        Err(out) => return Err(out),
    };
    script::take_ended_waits(hop);
    Ok(signal.map(|signal| given.wait(signal)))
}

async fn result(hop: &mut Hop, slot: Slot, waits: Option<&Waits>) -> Result<Result<Canonical, CallError>, Out> {
    let id = match slot {
        Slot::Call(id) => id,
        Slot::Refused(error) => return Ok(Err(error)),
    };
    let call = hop.call(id).clone();
    let Some(outcome) = call.outcome() else {
        let waits = waits.expect("a call that has not ended waits");
        return Ok(Err(CallError::Waits(waits.clone())));
    };
    let body = match outcome.body {
        Some(body) => replay::text(hop, body.digest).await?,
        None => "null".to_owned(),
    };
    if outcome.status == OutcomeStatus::Ok {
        let invalid = || Out::fail(Code::CheckpointInvalid, "checkpoint invalid: a result is no canonical JSON");
        return Canonical::from_stored(body.as_bytes()).map(Ok).ok_or_else(invalid);
    }
    let (code, told) = replay::told(&call, &body);
    let applied = match outcome.status {
        OutcomeStatus::Ok | OutcomeStatus::Denied => None,
        OutcomeStatus::Error => replay::applied(outcome),
    };
    let detail = told.detail.and_then(|detail| Canonical::from_stored(detail.get().as_bytes()));
    Ok(Err(CallError::Ended(Ended { tool: call.tool.name, code, message: told.message, detail, applied })))
}

/// A lease for the rest of the step: the one that a hold brought, or another on what is warm.
async fn lease(hop: &mut Hop, given: &mut Given, resource: String) -> Result<(), CallError> {
    if let Some(waits) = &given.waits {
        return Err(CallError::Waits(waits.clone()));
    }
    let warm = hop.warm.take_if(|(name, _)| *name == resource).map(|(_, lease)| lease);
    let leased = match warm {
        Some(lease) => Ok(lease),
        None => hop.inner.resources.lease(&resource, hop.run.id).await,
    };
    match leased {
        Ok(lease) => {
            given.leases.push(lease);
            Ok(())
        }
        Err(Unleased::Refused(refused)) => {
            let failure = refused.failure(&resource);
            let (code, message) = (failure.code, failure.message);
            Err(CallError::Ended(Ended { tool: resource, code, message, detail: None, applied: None }))
        }
        Err(Unleased::Cold | Unleased::Unprobed) => {
            let signal = if hop.live.stopped().is_some() { Signal::GivesWay } else { Signal::Hardware { resource } };
            Err(CallError::Waits(given.wait(signal)))
        }
    }
}
