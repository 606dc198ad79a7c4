//! `stasis job`: the side of the agents that runs hand work over to (I-7).

use super::Paging;
use clap::{Args, Subcommand};
use protocol::id::{JobId, RunId};

#[derive(Subcommand, Debug)]
pub(crate) enum Job {
    /// List jobs, newest first
    #[command(after_help = "Examples:\n  stasis job list --open\n  stasis job list --kind reviewer")]
    List {
        /// Only those that agents of this kind may claim
        #[arg(long, value_name = "K")]
        kind: Option<String>,
        /// Only those of one run
        #[arg(long, value_name = "ID")]
        run: Option<RunId>,
        /// Only those that have not ended
        #[arg(long)]
        open: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Claim jobs, of highest priority and oldest first
    #[command(after_help = "Prints each with its task and its token, which every later verb carries.

Example:
  stasis job claim --kind reviewer --lease 10m")]
    Claim(Claim),
    /// Say that the agent lives, and learn whether to stop
    #[command(
        after_help = "Example:\n  stasis job heartbeat job_01m8nwmc7be00865rzyjka792g --job-token 1 --progress '{\"done\":3}'"
    )]
    Heartbeat {
        #[command(flatten)]
        held: Held,
        /// What people are shown
        #[arg(long, value_name = "JSON|@FILE|-")]
        progress: Option<String>,
    },
    /// Bring the result
    #[command(
        after_help = "Example:\n  stasis job complete job_01m8nwmc7be00865rzyjka792g --job-token 1 --result @review.json"
    )]
    Complete {
        #[command(flatten)]
        held: Held,
        /// What the program gets
        #[arg(long, value_name = "JSON|@FILE|-")]
        result: String,
        /// Wait for the run's next stop, with a server too
        #[arg(long)]
        wait: bool,
    },
    /// Say that the work failed
    #[command(
        after_help = "Example:\n  stasis job fail job_01m8nwmc7be00865rzyjka792g --job-token 1 --error 'no access'"
    )]
    Fail {
        #[command(flatten)]
        held: Held,
        /// What went wrong; the program is told
        #[arg(long, value_name = "T")]
        error: String,
        /// Wait for the run's next stop, with a server too
        #[arg(long)]
        wait: bool,
    },
    /// Say that the agent has stopped, as it was asked to
    #[command(after_help = "Example:\n  stasis job ack-cancel job_01m8nwmc7be00865rzyjka792g --job-token 1")]
    AckCancel {
        #[command(flatten)]
        held: Held,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Claim {
    /// What the agent is, as programs name it
    #[arg(long, value_name = "K")]
    pub(crate) kind: String,
    /// How the agent names itself; people are shown it
    #[arg(long, value_name = "NAME", default_value = "cli")]
    pub(crate) worker: String,
    /// How soon after each heartbeat the next is due [default: the server's]
    #[arg(long, value_name = "D")]
    pub(crate) lease: Option<String>,
    /// The same again prints the same jobs
    #[arg(long, value_name = "K")]
    pub(crate) claim_id: Option<String>,
}

/// A job that an agent has.
#[derive(Args, Debug)]
pub(crate) struct Held {
    /// The job's id
    pub(crate) id: JobId,
    /// The token that its claim gave
    #[arg(long, value_name = "N")]
    pub(crate) job_token: u32,
}
