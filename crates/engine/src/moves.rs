//! Moving a run to another revision: proved first, without effects, then pinned in one commit.

use crate::failpoint;
use crate::failure::Failure;
use crate::hop;
use crate::inner::Inner;
use crate::pinned::{self, PinError};
use protocol::code::Code;
use protocol::command::{Answer, Caller, Command, MoveRun};
use protocol::decide::{self, Proof};
use protocol::id::RunId;
use protocol::principal::Right;
use protocol::refusal::Refusal;
use protocol::run::{Kind, PatternRef, Run, Settings};
use protocol::workflow::Pattern;
use std::sync::Arc;

/// Proves and moves; false if the run is pinned to that revision already.
pub(crate) async fn move_run(
    inner: &Arc<Inner>,
    by: Caller,
    id: RunId,
    revision: u32,
    reason: Option<String>,
) -> Result<(Run, bool), Failure> {
    let run = inner.ledger.run(id).await?.filter(|run| run.namespace == by.principal.namespace);
    let run = run.ok_or_else(|| Failure::refused(Code::NotFound, format!("there is no run {id}")))?;
    // The decision says who may; a proof is work that nobody else is to cause.
    let may = by.principal.rights.has(Right::RunsMove);
    let to = pattern(inner, &run, revision)?;
    let pin = PatternRef { key: run.pattern.key.clone(), revision, digest: to.digest };
    let pinned = match pinned::load(inner, &to).await {
        Ok(pinned) => pinned,
        Err(PinError::Unavailable(why)) => return Err(refused(format!("revision {revision} cannot run here: {why}"))),
        Err(PinError::Unread(reason)) => return Err(Failure::Unavailable(reason)),
    };
    let (max_calls, not_after, resume) = (pinned.plan.max_calls, pinned.plan.not_after, to.manifest.resume);
    let proof = Proof::of(&run);
    if may && run.pattern != pin {
        decide::rests(&run, &inner.ledger.registry())?;
        compatible(inner, &run, &to)?;
        let mut moved = Run {
            pattern: pin.clone(),
            plan: to.manifest.plan,
            settings: Settings { max_calls, not_after, resume, ..run.settings },
            ..run.clone()
        };
        moved.moved_from.push(run.pattern.digest);
        hop::prove(inner.clone(), moved).await.map_err(|unproved| refused(unproved.why()))?;
    }
    let plan = to.manifest.plan;
    let command = MoveRun { by, run: id, to: pin, plan, max_calls, not_after, resume, proof, reason };
    failpoint::hit("move.before");
    let answer = inner.ledger.transact(Command::Move(Box::new(command))).await?;
    failpoint::hit("move.after");
    match answer {
        Answer::Settled { run, changed, .. } => Ok((*run, changed)),
        other => unreachable!("a move is answered with its run: {other:?}"),
    }
}

fn pattern(inner: &Inner, run: &Run, revision: u32) -> Result<Pattern, Failure> {
    let registry = inner.ledger.registry();
    let key = &run.pattern.key;
    let workflow = registry.workflows.get(key);
    let found = workflow.and_then(|workflow| workflow.patterns.get(&revision)).cloned();
    found.ok_or_else(|| {
        let refusal = Refusal::new(Code::MoveRefused, format!("move refused: `{key}` has no revision {revision}"));
        Failure::Refused(refusal.hint(format!("`stasis workflow show {key}` lists them")))
    })
}

/// a program in Rust has to say that it goes on with what the other one left.
fn compatible(inner: &Inner, run: &Run, to: &Pattern) -> Result<(), Failure> {
    if run.kind != to.manifest.kind {
        return Err(refused(format!(
            "revision {} is a {}, the run is a {}",
            to.revision,
            to.manifest.kind.as_str(),
            run.kind.as_str()
        )));
    }
    if run.kind != Kind::Rust {
        return Ok(());
    }
    let code = inner.workflows.get(&to.manifest.key, to.revision);
    if code.is_some_and(|code| code.continues().contains(&run.pattern.revision)) {
        return Ok(());
    }
    let (old, new) = (run.pattern.revision, to.revision);
    Err(refused(format!("the code of revision {new} does not declare that it goes on with runs of revision {old}")))
}

fn refused(why: impl Into<String>) -> Failure {
    let refusal = Refusal::new(Code::MoveRefused, format!("move refused: {}", why.into()));
    Failure::Refused(refusal.hint("the run is as it was; it goes on under its own revision"))
}
