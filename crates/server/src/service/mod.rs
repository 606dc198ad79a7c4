//! One method for each verb, for every door: the HTTP routes and the console ask the same ones.
//!
//! Owns: which rows and bodies an answer is drawn from, who may read what, and how a failure is told. It decides nothing:
//! every change is the engine's, whose commands check the rights again. Invariant: a row of another namespace is answered
//! as if it were not there, byte for byte (C-165).

mod approvals;
mod audit;
mod backup;
mod doctor;
mod effects;
mod events;
pub(crate) mod failure;
mod jobs;
mod list;
mod operate;
pub(crate) mod problem;
mod read;
mod reading;
mod runs;
mod settle;
mod signals;
mod turn;
mod webhooks;
mod workflows;

pub(crate) use backup::Backup;
pub(crate) use events::{AllEvents, Next, RunEvents};
pub use problem::Answer;

use engine::Engine;
use problem::{problem, with_hint};
use protocol::code::Code;
use protocol::command::Caller;
use protocol::digest::Digest;
use protocol::limits::Limits;
use protocol::principal::{Principal, Right};
use std::path::PathBuf;
use std::sync::Arc;

/// What the process knows of itself, beside engine and ledger.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Whoever reaches the socket (I-19a).
    pub(crate) local: Principal,
    /// Whether this process stays, or is a command that holds the store while it works (I-18).
    pub(crate) lasting: bool,
    /// Whether it claims runs (I-19).
    pub(crate) carries: bool,
    pub(crate) limits: Limits,
    pub(crate) data: PathBuf,
    /// Of the text of the configuration file.
    pub(crate) config: Option<Digest>,
    /// What in the configuration is valid and probably not what was meant.
    pub(crate) doubts: Vec<String>,
    /// The guest image, or why there is none.
    pub(crate) image: Result<Digest, String>,
}

/// The verbs. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    engine: Engine,
    facts: Arc<Facts>,
}

impl Service {
    pub(crate) fn new(engine: Engine, facts: Facts) -> Service {
        Service { engine, facts: Arc::new(facts) }
    }

    /// The store's clock, by which everything that is shown is dated.
    pub(crate) fn now(&self) -> protocol::time::Time {
        self.engine.ledger().now()
    }

    /// The principal of the socket.
    pub(crate) fn local(&self) -> Principal {
        self.facts.local.clone()
    }

    /// Who a token stands for, if it is good (I-65).
    pub(crate) fn authenticate(&self, secret: &str) -> Option<Principal> {
        self.engine.authenticate(secret)
    }

    /// A subject as it is registered now.
    pub(crate) fn principal(&self, subject: &str) -> Option<Principal> {
        if subject == Principal::LOCAL {
            return Some(self.local());
        }
        self.engine.ledger().registry().principals.get(subject).cloned()
    }

    /// Refuses a caller without any of the rights, naming the first.
    fn need(&self, by: &Caller, rights: &[Right]) -> Answer<()> {
        if rights.iter().any(|right| by.principal.can(*right)) {
            return Ok(());
        }
        let right = rights.first().map_or("", |right| right.as_str());
        let detail = format!("{} does not have the right `{right}`", by.principal.id);
        Err(with_hint(
            Code::NotPermitted,
            detail,
            format!("somebody with `admin` can give {} `{right}`", by.principal.id),
        ))
    }

    /// Whoever may read runs may read what belongs to them.
    fn reads(&self, by: &Caller) -> Answer<()> {
        self.need(by, &[Right::RunsRead])
    }

    /// Whoever decides may know what there is to decide, too.
    fn reads_approvals(&self, by: &Caller) -> Answer<()> {
        self.need(by, &[Right::RunsRead, Right::ApprovalsDecide])
    }
}

/// A request that says something that cannot be.
fn invalid(detail: impl Into<String>) -> Box<api::Problem> {
    problem(Code::InvalidRequest, detail)
}
