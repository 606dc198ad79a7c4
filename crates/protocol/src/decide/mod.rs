//! Every decision about a run: rows and a command in, changed rows with their events or a typed refusal out.
//!
//! Owns: the dispatch from a command to its decision, one file per command. Nothing here reads a clock, draws
//! randomness or does I/O: `now`, fresh ids and the registry are in [`Cx`]. Nothing outside this module changes a
//! status.

mod admit;
mod approval;
mod attest;
mod cancel;
mod claim;
mod expire;
mod extend;
mod found;
mod hop;
mod job;
mod moves;
mod pause;
mod read;
mod recover;
mod registry;
mod remove;
mod rules;
mod settle;
mod signal;
mod step;

pub use moves::{Proof, rests};
pub use registry::{RegistryChange, decide_registry};

use crate::code::Code;
use crate::command::{Answer, Command, KnownKey, Renew, Renewed};
use crate::id::Ids;
use crate::refusal::Refusal;
use crate::registry::Registry;
use crate::rows::{Change, Rows};
use crate::run::{Phase, Run};
use crate::time::Time;

/// What a decision is made with, beside rows and command.
pub struct Cx<'a> {
    /// The store's clock, read once in the transaction and never less than the largest time committed before.
    pub now: Time,
    pub ids: &'a mut Ids,
    pub registry: &'a Registry,
    pub limits: &'a crate::limits::Limits,
}

/// What the store found for a command's subject.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// No run, approval or wait of that id, or none that this ledger knows.
    Missing,
    /// For an admission: the run under its idempotency key or id, and the run that holds its session.
    New {
        known: Option<(KnownKey, Box<Run>)>,
        session: Option<crate::id::RunId>,
        /// Runs that wait in its queue; counted only where the admission has a bound for them.
        queued: u64,
        /// The namespace of the run of its id that was here, and was removed.
        removed: Option<String>,
    },
    Rows(Box<Rows>),
    /// For a removal: the rows, and what holds them here that only the store knows.
    Old {
        rows: Box<Rows>,
        hold: Hold,
    },
}

/// What holds a final run in the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hold {
    /// Cleanup of it is still owed.
    pub owes: bool,
    /// It has the largest of the numbers by which the store counts; without it they would be given out again.
    pub newest: bool,
}

/// What came of a command: what to save, if anything, and what to answer after the commit.
#[derive(Debug)]
pub struct Decision {
    pub change: Option<Box<Change>>,
    pub answer: Result<Answer, Refusal>,
}

impl Decision {
    fn done(change: Change, answer: Answer) -> Decision {
        Decision { change: Some(Box::new(change)), answer: Ok(answer) }
    }

    /// The truth, with nothing to save.
    fn stands(answer: Answer) -> Decision {
        Decision { change: None, answer: Ok(answer) }
    }
}

impl From<Refusal> for Decision {
    fn from(refusal: Refusal) -> Decision {
        Decision { change: None, answer: Err(refusal) }
    }
}

/// Decides one command on one run.
pub fn decide(command: Command, loaded: Loaded, cx: &mut Cx<'_>) -> Decision {
    match (command, loaded) {
        (Command::Admit(admit), Loaded::New { known, session, queued, removed }) => {
            admit::admit(*admit, known, admit::Around { session, queued, removed }, cx)
        }
        (Command::Claim(claim), Loaded::Rows(rows)) => claim::claim(claim, rows, cx),
        (Command::Hop(hop), Loaded::Rows(rows)) => hop::hop(*hop, rows, cx),
        (Command::Decide(decide), Loaded::Rows(rows)) => approval::decide(*decide, rows, cx),
        (Command::Extend(extend), Loaded::Rows(rows)) => extend::extend(*extend, rows, cx),
        (Command::Expire { wait, .. }, Loaded::Rows(rows)) => expire::expire(wait, rows, cx),
        (Command::Cancel(cancel), Loaded::Rows(rows)) => cancel::cancel(cancel, rows, cx),
        (Command::Attest(attest), Loaded::Rows(rows)) => attest::attest(attest, rows, cx),
        (Command::Pause(pause), Loaded::Rows(rows)) => pause::pause(pause, rows, cx),
        (Command::Resume(resume), Loaded::Rows(rows)) => pause::resume(resume, rows, cx),
        (Command::Move(command), Loaded::Rows(rows)) => moves::move_run(*command, rows, cx),
        (Command::Send(send), Loaded::Rows(rows)) => signal::send(*send, rows, cx),
        (Command::Job(command), Loaded::Rows(rows)) => job::job(*command, rows, cx),
        (Command::ExpireJob { job, .. }, Loaded::Rows(rows)) => job::expire(job, rows, cx),
        (Command::Recover(recover), Loaded::Rows(rows)) => recover::recover(recover, rows, cx),
        (Command::Found(found), Loaded::Rows(rows)) => found::found(*found, rows, cx),
        (Command::AskToStop(alone), Loaded::Rows(rows)) => found::ask_to_stop(*alone, rows, cx),
        (Command::Read(read), Loaded::Rows(rows)) => read::read(read, rows, cx),
        (Command::Clean { debt, .. }, Loaded::Rows(rows)) => cancel::clean(debt, rows, cx),
        (Command::Remove { retention, .. }, Loaded::Old { rows, hold }) => remove::remove(retention, rows, hold, cx),
        (command, Loaded::Missing) => missing(&command).into(),
        (command, loaded) => unreachable!("the store loads what the command names: {command:?} {loaded:?}"),
    }
}

/// The answer for an unknown id: one shape, whatever the id would have named (R-193, C-165).
fn missing(command: &Command) -> Refusal {
    let detail = match command {
        Command::Decide(decide) => format!("there is no approval {}", decide.approval),
        Command::Extend(extend) => format!("there is no approval {}", extend.approval),
        other => match other.subject() {
            crate::command::Subject::Wait(wait, _) => format!("there is no wait {wait}"),
            crate::command::Subject::Job(job) => format!("there is no job {job}"),
            crate::command::Subject::Run(run) | crate::command::Subject::Signal(run, _) => {
                format!("there is no run {run}")
            }
            _ => "there is nothing of that id".to_owned(),
        },
    };
    Refusal::new(Code::NotFound, detail)
}

/// Decides one claim of a renewal: a new deadline, or `stale_claim`. It writes no event.
///
/// A lapsed claim that nobody took over may still be renewed.
pub fn renew(run: &mut Run, token: u64, renew: &Renew, registry: &Registry, now: Time) -> Renewed {
    let paused = crate::pause::is_paused(run, registry);
    let stopping = run.status().is_stopping();
    let late = run.deadline.is_some_and(|deadline| now >= deadline);
    let claim = match &mut run.phase {
        Phase::Active { claim, .. } => Some(claim),
        Phase::Stopping { hop, .. } => hop.as_mut(),
        _ => None,
    };
    match claim {
        Some(claim) if claim.token == token && claim.worker == renew.worker => {
            claim.deadline = now + renew.ttl;
            claim.renewed_at = now;
            Renewed::Until { deadline: claim.deadline, stopping, paused, late }
        }
        _ => Renewed::StaleClaim,
    }
}
