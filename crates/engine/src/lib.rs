//! Carrying runs: workers, the step runner, the broker and its connectors, recovery.
//!
//! Owns everything that happens between two commits: which hops this process has, the guests in them, the calls that
//! leave them. It decides no status: every change of truth is a command of the ledger, decided in `protocol`. Start at
//! [`Engine`]; a hop's life is in `hop`, a call's way out in `broker` and `tools`.

mod ability;
mod admit;
mod agents;
mod apply;
pub mod audit;
mod broker;
mod clock;
pub mod config;
mod embed;
mod engine;
pub mod failpoint;
mod failure;
mod fork;
mod group;
mod hop;
mod inner;
mod jobs;
mod maintenance;
mod migrate;
mod moves;
mod pinned;
mod reading;
mod ready;
mod register;
mod resources;
mod tend;
#[cfg(test)]
mod testing;
mod tokens;
pub mod tools;
mod verdict;
mod waiting;
mod webhooks;
mod worker;
pub mod workflow;

/// Whoever embeds the engine needs no other crate of Stasis: ids, rows and laws, and the ledger.
pub use {protocol, store};

pub use admit::{StartRun, Started};
pub use engine::{Engine, EngineConfig, GuestInfo, Image, SendSignal, StartError};
pub use failure::Failure;
pub use fork::ForkRun;
pub use jobs::{ClaimJobs, JobProgress};
pub use maintenance::{Cause, Pass, Stuck};
pub use migrate::{Migrator, Migrators};
pub use register::{RegisterScript, Registered};
pub use tokens::MintToken;
pub use verdict::DecideRequest;
pub use waiting::Until;
pub use webhooks::NewWebhook;
