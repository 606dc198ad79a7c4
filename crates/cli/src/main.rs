//! The binary `stasis`: words and flags in, one request or a few to the API, results out.
//!
//! It decides nothing: every command speaks to the API through the client of `api`, whether a server answers or this
//! process opened the store itself (see [`door`]). What it owns is the contract of interfaces.md section 1: words, forms
//! of output, exit codes, and who is asked what on a terminal.

mod app;
mod args;
mod carry;
mod clock;
mod commands;
mod door;
mod failure;
mod input;
mod output;
mod render;
mod signals;
mod start;
mod terminal;

use app::App;
use failure::{Exit, Failure};
use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything can make a TLS configuration: the process has one provider. A second install is a bug elsewhere.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match start::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(early) => return early,
    };
    start::log(&cli.command);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&Failure::internal(format!("cannot start: {error}")), false),
    };
    let app = App::new(cli.globals);
    let done = runtime.block_on(carry_out(&app, cli.command));
    // What is left behind (a reader of the terminal) must not hold up the exit.
    runtime.shutdown_background();
    match done {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => report(&failure, !app.out.format.is_table()),
    }
}

/// Runs the command until it is done or interrupted, and closes the store behind it either way.
async fn carry_out(app: &App, command: args::Command) -> Result<Exit, Failure> {
    let own_signals = matches!(command, args::Command::Dev(_) | args::Command::Serve(_));
    let done = tokio::select! {
        done = commands::execute(app, &command) => done,
        () = signals::interrupted(), if !own_signals => {
            app.say_interrupted();
            Err(Failure::interrupted())
        }
    };
    app.close().await;
    done.map_err(|failure| app.with_its_run(failure))
}

fn report(failure: &Failure, json: bool) -> ExitCode {
    // Nobody is left to tell when stderr is closed.
    let _ = std::io::stderr().write_all(failure.render(json).as_bytes());
    ExitCode::from(failure.exit.code())
}
