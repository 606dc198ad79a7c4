//! `cargo xtask`: the chores of this repository.
//!
//! Owns: the list of chores and how each is started. Never does: anything the product does at run time; it starts
//! the product's own binary for that. Light on purpose: it must build in seconds, before anything else does.

#![allow(clippy::print_stdout, reason = "a chore's result is what it prints on stdout")]

mod bench;
mod ci;
mod demo;
mod guest;
mod model;
mod pages;
mod source;
mod spec;
mod steps;
mod tidy;
mod tree;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The chores of this repository")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that a change must pass, in the order CI runs it
    Ci(ci::CiArgs),
    /// Check the rules of this repository that no compiler checks
    Tidy,
    /// List the clauses of docs/spec with and without a test
    Spec(spec::SpecArgs),
    /// Walk every state of small worlds, and show that the walk sees planted faults
    Model(model::ModelArgs),
    /// Build the Python guest image, or find it in the cache
    Guest(guest::GuestArgs),
    /// Run the refund example to its approval, and to its end
    Demo(demo::DemoArgs),
    /// Run the release benchmarks and print one JSON object
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.chore {
        Chore::Ci(args) => ci::run(&args),
        Chore::Tidy => tidy::run(),
        Chore::Spec(args) => spec::run(&args),
        Chore::Model(args) => model::run(&args),
        Chore::Guest(args) => guest::run(args),
        Chore::Demo(args) => demo::run(&args),
        Chore::Bench(args) => bench::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
