//! The words and flags of the command line (interfaces.md section 1).
//!
//! Owns what clap is told, and nothing of what a command does. Each command has help with examples (I-17).

pub(crate) mod approval;
pub(crate) mod audit;
pub(crate) mod job;
pub(crate) mod operate;
pub(crate) mod run;
pub(crate) mod workflow;

use crate::output::Format;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A runtime for agent work that has to stop and wait.
#[derive(Parser, Debug)]
#[command(name = "stasis", disable_help_subcommand = true, version = env!("CARGO_PKG_VERSION"))]
#[command(max_term_width = 110, arg_required_else_help = true)]
#[command(after_help = "Examples:
  stasis init hello && cd hello && stasis run hello.py
  stasis run refund.py --input '{\"id\":\"o-7\"}'
  stasis approvals
  stasis approve apr_01m8nwmc7ce009jh69rck9w39q
  stasis dev --open

STASIS_LOG (a level or filter, or `json`) sets the log of the server inside, on stderr.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command, before or after its words (I-15).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Globals {
    /// The data directory
    #[arg(
        long,
        global = true,
        env = "STASIS_DATA",
        hide_env_values = true,
        default_value = "./.stasis",
        value_name = "DIR"
    )]
    pub(crate) data: PathBuf,
    /// The configuration [default: ./stasis.toml if it is there]
    #[arg(long, global = true, env = "STASIS_CONFIG", hide_env_values = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Speak to this server instead of the data directory
    #[arg(long, global = true, env = "STASIS_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Be the principal of this token
    #[arg(long, global = true, env = "STASIS_TOKEN", hide_env_values = true, value_name = "T")]
    pub(crate) token: Option<String>,
    /// The form of the result [default: table on a terminal, json elsewhere]
    #[arg(long, global = true, value_enum, value_name = "FORM")]
    pub(crate) output: Option<Format>,
    /// At most so many items
    #[arg(long, global = true, value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// Why; recorded with the change
    #[arg(long, global = true, value_name = "T")]
    pub(crate) reason: Option<String>,
    /// Ask nothing
    #[arg(long, global = true)]
    pub(crate) yes: bool,
    /// Leave the run where the change puts it
    #[arg(long, global = true)]
    pub(crate) no_run: bool,
    /// Say nothing but results and errors
    #[arg(long, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Start server, console and workers on the data directory, and print how to sign in
    #[command(after_help = "Examples:\n  stasis dev\n  stasis dev --open --listen 127.0.0.1:9000")]
    Dev(Dev),
    /// Run a program to its next stop; or a verb on runs
    Run(run::RunArgs),
    /// Start the server
    #[command(
        after_help = "Examples:\n  stasis serve\n  stasis serve --config /etc/stasis.toml --data /var/lib/stasis"
    )]
    Serve(Serve),
    /// Register and inspect workflows
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Examples:\n  stasis workflow register refund.py\n  stasis workflow list")]
    Workflow(workflow::Workflow),
    /// List approvals, the pending ones unless told
    Approvals(approval::Approvals),
    /// Approve a call or gate
    Approve(approval::Approve),
    /// Reject a call or gate
    Reject(approval::Reject),
    /// Look at one approval, read it as an auditor, or abstain from it
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  stasis approval show apr_01m8nwmc7ce009jh69rck9w39q")]
    Approval(approval::ApprovalVerb),
    /// Read a call as an auditor
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  stasis call read call_01m8nwmc7be00865rzyjka792g --reason 'quarterly review'")]
    Call(operate::Call),
    /// Send a signal to a run; it is kept until its program waits for it
    #[command(
        after_help = "Exits 0 whenever the signal is taken in, whatever the run then does.\n\nExamples:\n  stasis signal run_01m8nwmbe0e00bsaekf59edd1r paid --payload '{\"amount\":250.5}'\n  stasis signal run_01m8nwmbe0e00bsaekf59edd1r paid --payload @paid.json --id payment-77"
    )]
    Signal(operate::Signal),
    /// List jobs that runs hand over, and do them as an agent
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Examples:\n  stasis job list --open\n  stasis job claim --kind reviewer")]
    Job(job::Job),
    /// List effects and settle those whose outcome nobody knows
    #[command(subcommand, arg_required_else_help = true)]
    #[command(
        after_help = "Examples:\n  stasis effect list --ambiguous\n  stasis effect settle call_01m8nwmc7be00865rzyjka792g --did-not-happen --reason 'asked the bank'"
    )]
    Effect(operate::Effect),
    /// List the guests that are alive, and the images that guests are made from
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Examples:\n  stasis guest list\n  stasis guest images")]
    Guest(operate::Guest),
    /// List, show and withdraw tools
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Examples:\n  stasis tool list\n  stasis tool show payments.refund")]
    Tool(operate::Tool),
    /// List and show resources, and reset one that is contained
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Examples:\n  stasis resource list\n  stasis resource reset chat:small")]
    Resource(operate::Resource),
    /// List, pause and resume queues
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Examples:\n  stasis queue list\n  stasis queue pause default --reason 'maintenance'")]
    Queue(operate::Queue),
    /// Prove that the record is what it was, and export that proof
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Examples:\n  stasis audit verify\n  stasis audit export --to /mnt/vault/anchors.ndjson")]
    Audit(audit::Audit),
    /// Make, list and revoke tokens
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  stasis token new --principal maria")]
    Token(operate::Token),
    /// Copy the embedded store while it is in use, and check the copy
    #[command(
        after_help = "The copy is a store: put it in a data directory as stasis.db to go back to it; docs/audit.md says what then.

Example:
  stasis backup /backups/stasis-$(date +%F).db"
    )]
    Backup {
        /// A new file
        file: PathBuf,
    },
    /// Check store, clock, kernel, guest image and approvers
    #[command(after_help = "Exits 1 if a check fails.\n\nExamples:\n  stasis doctor\n  stasis doctor --output json")]
    Doctor,
    /// Write a first configuration and a first program
    #[command(after_help = "Examples:\n  stasis init\n  stasis init refunds && cd refunds && stasis run hello.py")]
    Init(operate::Init),
    /// Check the configuration, or print an example of it
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Examples:\n  stasis config check\n  stasis config example > stasis.toml")]
    Config(operate::Config),
    /// Print shell completions
    #[command(
        after_help = "Examples:\n  stasis completions bash > /etc/bash_completion.d/stasis\n  stasis completions fish | source"
    )]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Dev {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:7878", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// Open the console in a browser
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen [default: `server.listen` of the configuration, else 127.0.0.1:7878]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
}

/// Where a list goes on.
#[derive(Args, Clone, Default, Debug)]
pub(crate) struct Paging {
    /// Go on where an earlier list ended (its `next_cursor`)
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}
