//! `cargo xtask model`: every order of events in small worlds, against the decisions that the product makes.
//!
//! Owns: starting the model, which is a test of `protocol`, with its tables shown. Never does: check anything itself.

use std::process::Command;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::steps::call;
use crate::tree;

#[derive(Args)]
pub(crate) struct ModelArgs {
    /// Show this table alone
    #[arg(long, value_enum)]
    only: Option<Table>,
}

/// What the model prints.
#[derive(Clone, Copy, ValueEnum)]
enum Table {
    /// The worlds, how many states each has, and what it promises
    Worlds,
    /// The faults that are planted, and a shortest way to the promise that each breaks
    Faults,
}

pub(crate) fn run(args: &ModelArgs) -> Result<()> {
    let tests = match args.only {
        None => "model::",
        Some(Table::Worlds) => "model::every_promise",
        Some(Table::Faults) => "model::every_planted_fault",
    };
    let mut command = Command::new("cargo");
    command.current_dir(tree::root()).args(["test", "--package", "stasis-protocol", "--lib", tests]);
    call(command.args(["--", "--nocapture", "--test-threads", "1"]))
}
