//! The commands: each asks the API and prints what it answers.
//!
//! Invariant: whatever is asked twice because an answer was lost is asked in a way that stands once: runs are
//! started under an id of ours, decisions and registrations repeat themselves. Only tokens are not asked for again.

mod approvals;
mod audit;
mod backup;
mod config;
mod effects;
mod images;
mod init;
mod interactive;
mod jobs;
mod operate;
mod program;
mod runs;
mod serve;
mod signals;
mod tail;
mod workflows;

use crate::app::App;
use crate::args::Command;
use crate::clock;
use crate::door::{Behind, Need};
use crate::failure::{Exit, Failure};
use clap::CommandFactory;

/// How often a command is begun again because the process it spoke to was done and left.
const AGAIN: u32 = 3;

/// Carries the command out.
pub(crate) async fn execute(app: &App, command: &Command) -> Result<Exit, Failure> {
    let mut again = 0;
    loop {
        let done = once(app, command).await;
        // The other command held the store only while it worked; now it is ours to open.
        let left_alone = matches!(&done, Err(failure) if failure.unanswered) && app.behind() == Some(Behind::Passing);
        if !left_alone || again == AGAIN || matches!(command, Command::Token(_)) {
            return done;
        }
        again += 1;
    }
}

async fn once(app: &App, command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Dev(dev) => serve::dev(app, dev).await,
        Command::Serve(flags) => serve::serve(app, flags).await,
        Command::Run(run) => runs::run(app, run).await,
        Command::Workflow(verb) => workflows::workflow(app, verb).await,
        Command::Approvals(approvals) => approvals::list(app, approvals).await,
        Command::Approve(approve) => approvals::approve(app, approve).await,
        Command::Reject(reject) => approvals::reject(app, reject).await,
        Command::Approval(verb) => approvals::approval(app, verb).await,
        Command::Call(verb) => effects::call(app, verb).await,
        Command::Signal(signal) => signals::send(app, signal).await,
        Command::Job(verb) => jobs::job(app, verb).await,
        Command::Effect(verb) => effects::effect(app, verb).await,
        Command::Guest(verb) => operate::guest(app, verb).await,
        Command::Tool(verb) => operate::tool(app, verb).await,
        Command::Resource(verb) => operate::resource(app, verb).await,
        Command::Queue(verb) => operate::queue(app, verb).await,
        Command::Audit(verb) => audit::audit(app, verb).await,
        Command::Token(verb) => operate::token(app, verb).await,
        Command::Backup { file } => backup::backup(app, file).await,
        Command::Doctor => doctor(app).await,
        Command::Init(flags) => init::init(app, &flags.dir),
        Command::Config(verb) => config::config(app, verb),
        Command::Completions { shell } => completions(app, *shell),
    }
}

async fn doctor(app: &App) -> Result<Exit, Failure> {
    let report = app.open(Need::Read).await?.client.doctor().await?;
    app.out.object(&report, crate::render::lists::doctor)?;
    Ok(if report.ok { Exit::Fine } else { Exit::Failed }) // I-11
}

fn completions(app: &App, shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::args::Cli::command(), "stasis", &mut script);
    app.out.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Fine)
}

/// The time that spans are shown against.
fn now() -> protocol::time::Time {
    clock::now()
}
