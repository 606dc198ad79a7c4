//! Moving a parked run to another revision of its workflow (runs.md section 16).
//!
//! The proof is made before, without effects, by whoever asks; here it is held against the run as it is now. Invariant: the
//! run keeps its calls, questions and waits, and goes on from the very place at which it was proved.

use super::{Cx, Decision, admit::not_permitted};
use crate::approval::Approval;
use crate::code::Code;
use crate::command::{Answer, MoveRun};
use crate::digest::Digest;
use crate::event::{Facts, Kind};
use crate::principal::Right;
use crate::refusal::Refusal;
use crate::registry::Registry;
use crate::rows::{Change, Debt, NewBody, Rows};
use crate::run::{Head, PatternRef, Phase, Run, Settings, Status};

/// pin and plan are replaced in one change, if nothing has changed since the proof.
pub(super) fn move_run(command: MoveRun, rows: Box<Rows>, cx: &Cx<'_>) -> Decision {
    if let Err(refusal) = may(&command, &rows, cx) {
        return refusal.into();
    }
    if rows.run.pattern == command.to {
        return Decision::stands(Answer::Settled { run: Box::new(rows.run), changed: false, repaired: false });
    }
    let mut change = Change::of(rows, cx.now);
    let MoveRun { by, to, plan, max_calls, not_after, resume, proof, reason, .. } = command;
    let run = &mut change.rows.run;
    let facts = Facts::new()
        .with("by", &by.principal.id)
        .with("from_digest", run.pattern.digest)
        .number("from_revision", run.pattern.revision)
        .with("pattern_digest", to.digest)
        .with("proof", proof.digest(run, &to))
        .with("request", by.request)
        .number("revision", to.revision);
    run.moved_from.push(run.pattern.digest);
    run.pattern = to;
    run.plan = plan;
    run.settings = Settings { max_calls, not_after, resume, ..run.settings };
    // What was frozen runs the old program.
    if let Some(checkpoint) = run.checkpoint.as_mut().filter(|checkpoint| checkpoint.snapshot.is_some()) {
        checkpoint.snapshot = None;
        change.paid.push(Debt::Snapshot);
    }
    change.repinned = true;
    let facts = match reason.map(|reason| NewBody::new(reason.into_bytes())) {
        Some(body) => {
            let facts = facts.with("reason_digest", body.body.digest);
            change.bodies.push(body);
            facts
        }
        None => facts,
    };
    change.event(Kind::RunMoved, facts);
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Settled { run, changed: true, repaired: false })
}

fn may(command: &MoveRun, rows: &Rows, cx: &Cx<'_>) -> Result<(), Refusal> {
    let run = &rows.run;
    if run.namespace != command.by.principal.namespace {
        return Err(Refusal::new(Code::NotFound, format!("there is no run {}", command.run)));
    }
    if !command.by.principal.rights.has(Right::RunsMove) {
        return Err(not_permitted(&command.by, Right::RunsMove));
    }
    if run.pattern == command.to {
        return Ok(());
    }
    rests(run, cx.registry)?;
    let workflow = cx.registry.workflows.get(&run.pattern.key);
    let pattern = workflow.and_then(|workflow| workflow.patterns.get(&command.to.revision));
    if command.to.key != run.pattern.key || pattern.is_none_or(|pattern| pattern.digest != command.to.digest) {
        return Err(refused(format!("`{}` has no such revision {}", run.pattern.key, command.to.revision)));
    }
    if !command.proof.is_of(run) {
        return Err(refused("it changed while the move was being proved").hint("ask for the move again"));
    }
    let unspent = |approval: &&Approval| approval.is_pending() || approval.is_open_yes();
    if let (true, Some(approval)) = (run.plan != command.plan, rows.approvals.iter().find(unspent)) {
        let detail = format!("its plan would change under {}, which is open or not used yet", approval.id);
        return Err(
            refused(detail).hint("decide it first, or keep the tools, limits and grants of the plan as they are")
        );
    }
    Ok(())
}

/// it is parked, or waits for a worker that a pause keeps away.
pub fn rests(run: &Run, registry: &Registry) -> Result<(), Refusal> {
    let status = run.status();
    match &run.phase {
        Phase::Parked { .. } => Ok(()),
        Phase::Queued { .. } if crate::pause::is_paused(run, registry) => Ok(()),
        Phase::Final { .. } => Err(Refusal::new(Code::RunTerminal, format!("{} is {status}", run.id))),
        Phase::Stopping { .. } => Err(Refusal::new(Code::RunStopping, format!("{} is {status}", run.id))),
        Phase::Queued { .. } | Phase::Active { .. } => {
            let hint = format!("`stasis run pause {}` first; it is moved once it rests", run.id);
            Err(refused(format!("{} is {status}, and only a run that rests is moved", run.id)).hint(hint))
        }
    }
}

fn refused(why: impl Into<String>) -> Refusal {
    Refusal::new(Code::MoveRefused, format!("move refused: {}", why.into()))
}

/// Of what a proof speaks: the run as it was when it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    pub status: Status,
    pub seq: u32,
    pub fence: u64,
    /// The pattern that the run was pinned to.
    pub pattern: Digest,
    pub journal: Head,
    /// Number of the last event and its digest.
    pub events: Head,
}

impl Proof {
    pub fn of(run: &Run) -> Proof {
        let Run { seq, fence, journal, events, .. } = *run;
        Proof { status: run.status(), seq, fence, pattern: run.pattern.digest, journal, events }
    }

    fn is_of(&self, run: &Run) -> bool {
        *self == Proof::of(run)
    }

    /// What the event names: the run, both patterns, and the journal that was told again.
    fn digest(&self, run: &Run, to: &PatternRef) -> Digest {
        let mut record = crate::json::Record::new();
        record
            .text("from", self.pattern)
            .text("journal", self.journal.digest)
            .number("journal_length", self.journal.len);
        record.text("run", run.id).text("schema", "stasis.move-proof.v1").text("to", to.digest);
        record.digest()
    }
}
