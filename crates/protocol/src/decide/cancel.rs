//! Cancelling a run, and the cleanup after any end (runs.md sections 11 and 13).

use super::{Cx, Decision, admit::not_permitted, step};
use crate::code::Code;
use crate::command::{Answer, Cancel};
use crate::event::Facts;
use crate::principal::Right;
use crate::refusal::Refusal;
use crate::rows::{Change, Debt, Rows};
use crate::run::{Charge, Edge, Stop};

/// E-16: the first cancel elects; a later one, or one of a final run, is answered with what stands.
pub(super) fn cancel(cancel: Cancel, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    if rows.run.namespace != cancel.by.principal.namespace {
        return Refusal::new(Code::NotFound, format!("there is no run {}", cancel.run)).into();
    }
    if !cancel.by.principal.rights.has(Right::RunsCancel) {
        return not_permitted(&cancel.by, Right::RunsCancel).into();
    }
    let status = rows.run.status();
    if status.is_final() || status.is_stopping() {
        let run = Box::new(rows.run);
        return Decision::stands(Answer::Settled { run, changed: false, repaired: false });
    }
    let mut change = Change::of(rows, cx.now);
    step::charge_queue(&mut change, cx);
    let mut why = Facts::new().with("request", cancel.by.request);
    if let Some(reason) = cancel.reason {
        why = why.with("reason_digest", reason.body.digest);
        change.bodies.push(reason);
    }
    let stop = Stop::Cancel { by: cancel.by.principal.id };
    let edges = step::StopEdges { stopping: Edge(16), direct: None, hop_must_acknowledge: true, why };
    step::stop(&mut change, stop, edges, Charge::default(), cx);
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Settled { run, changed: true, repaired: false })
}

/// a cleanup of a final run is done; its debt row goes.
pub(super) fn clean(debt: Debt, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    let mut change = Change::of(rows, cx.now);
    let final_run = change.run().status().is_final();
    let run = &mut change.rows.run;
    match debt {
        _ if !final_run => {
            let detail = format!("{} is {} and leaves nothing to clean up yet", run.id, run.status());
            return Refusal::new(Code::IllegalTransition, detail).into();
        }
        Debt::Checkpoint => run.checkpoint = None,
        Debt::Snapshot => {
            if let Some(checkpoint) = &mut run.checkpoint {
                checkpoint.snapshot = None;
            }
        }
    }
    change.paid.push(debt);
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Settled { run, changed: true, repaired: false })
}
