//! Pausing a run and letting it go on (runs.md section 18). Neither makes an edge: what a pause holds up looks at the row.

use super::{Cx, Decision, admit::not_permitted, step};
use crate::code::Code;
use crate::command::{Answer, PauseRun};
use crate::event::{Facts, Kind};
use crate::pause::Pause;
use crate::principal::Right;
use crate::refusal::Refusal;
use crate::rows::{Change, NewBody, Rows};
use crate::run::Run;

/// The first pause stands; a later one is answered with it.
pub(super) fn pause(command: PauseRun, rows: Box<Rows>, cx: &Cx<'_>) -> Decision {
    if let Err(refusal) = may(&command, &rows.run) {
        return refusal.into();
    }
    if rows.run.pause.is_some() {
        return unchanged(rows);
    }
    let mut change = Change::of(rows, cx.now);
    step::charge_queue(&mut change, cx);
    let pause = Pause { by: command.by.principal.id.clone(), reason: command.reason.clone(), since: cx.now };
    change.rows.run.pause = Some(pause);
    told(change, Kind::PauseSet, command)
}

/// Clears the pause of the run, and no other.
pub(super) fn resume(command: PauseRun, rows: Box<Rows>, cx: &Cx<'_>) -> Decision {
    if let Err(refusal) = may(&command, &rows.run) {
        return refusal.into();
    }
    if rows.run.pause.is_none() {
        return unchanged(rows);
    }
    let mut change = Change::of(rows, cx.now);
    step::charge_queue(&mut change, cx);
    change.rows.run.pause = None;
    told(change, Kind::PauseCleared, command)
}

/// A run that stops or has stopped is not held up by a pause, so it takes none.
fn may(command: &PauseRun, run: &Run) -> Result<(), Refusal> {
    if run.namespace != command.by.principal.namespace {
        return Err(Refusal::new(Code::NotFound, format!("there is no run {}", command.run)));
    }
    if !command.by.principal.rights.has(Right::RunsPause) {
        return Err(not_permitted(&command.by, Right::RunsPause));
    }
    let status = run.status();
    let code = match () {
        () if status.is_final() => Code::RunTerminal,
        () if status.is_stopping() => Code::RunStopping,
        () => return Ok(()),
    };
    Err(Refusal::new(code, format!("{} is {status}", run.id)))
}

fn unchanged(rows: Box<Rows>) -> Decision {
    Decision::stands(Answer::Settled { run: Box::new(rows.run), changed: false, repaired: false })
}

fn told(mut change: Change, kind: Kind, command: PauseRun) -> Decision {
    let mut facts = Facts::new().with("by", &command.by.principal.id).with("request", command.by.request);
    if let Some(reason) = command.reason {
        let body = NewBody::new(reason.into_bytes());
        facts = facts.with("reason_digest", body.body.digest);
        change.bodies.push(body);
    }
    change.event(kind, facts);
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Settled { run, changed: true, repaired: false })
}
