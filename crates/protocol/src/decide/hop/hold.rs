//! The hardware hold (runs.md section 7): a hop that waits for a resource, in its claim and without a lease.
//!
//! Invariant: the counters are raised in the commit that begins the hold, so before the manager is called.

use super::{illegal, save};
use crate::code::Code;
use crate::command::NewCheckpoint;
use crate::decide::{Cx, step};
use crate::event::Facts;
use crate::refusal::Refusal;
use crate::rows::Change;
use crate::run::{Charge, Edge, Phase, Status};

/// E-5.
pub(super) fn hold(
    change: &mut Change,
    resource: &str,
    checkpoint: NewCheckpoint,
    charge: Charge,
    cx: &Cx<'_>,
) -> Result<(), Refusal> {
    let run = change.run();
    let Phase::Active { claim, hardware: false } = run.phase.clone() else {
        return Err(illegal(run, Status::AwaitingHardware));
    };
    let raised = run
        .budget
        .hardware
        .with_call(resource, cx.limits)
        .map_err(|exhausted| Refusal::new(Code::HardwareBudgetExhausted, exhausted.failure(resource).message))?;
    let told = save(change, checkpoint, cx)?;
    let facts = told.with("resource", resource).number("calls", raised.total).number("in_row", raised.in_row(resource));
    change.rows.run.budget.hardware = raised;
    step::enter(change, Edge(5), Phase::Active { hardware: true, claim }, charge, facts);
    Ok(())
}

/// E-6.
pub(super) fn warm(change: &mut Change, charge: Charge) -> Result<(), Refusal> {
    let run = change.run();
    let Phase::Active { claim, hardware: true } = run.phase.clone() else {
        return Err(illegal(run, Status::Running));
    };
    let resource = run.budget.hardware.row.as_ref().map(|row| row.resource.clone());
    let facts = Facts::new().maybe("resource", resource);
    step::enter(change, Edge(6), Phase::Active { hardware: false, claim }, charge, facts);
    Ok(())
}
