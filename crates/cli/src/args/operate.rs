//! Commands of operators: `signal`, `effect`, `guest`, `resource`, `tool`, `token`, `init`, `config` (I-8, I-9, I-11, I-14a, I-60).

use super::Paging;
use clap::{Args, Subcommand};
use protocol::id::{CallId, RunId, TokenId};
use protocol::time::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Subcommand, Debug)]
pub(crate) enum Call {
    /// Read the arguments and the result of a call as an auditor, which is an event of its run
    #[command(after_help = "Whoever asked, and who may decide, see them in `stasis run calls` without it.

Example:
  stasis call read call_01m8nwmc7be00865rzyjka792g --reason 'quarterly review'")]
    Read {
        /// The call's id
        id: CallId,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum Effect {
    /// List the write calls of all runs, newest first
    #[command(after_help = "Example:\n  stasis effect list --ambiguous")]
    List {
        /// Only those whose outcome nobody knows
        #[arg(long)]
        ambiguous: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Say what became of an ambiguous call
    #[command(after_help = "Examples:
  stasis effect settle call_01m8nwmc7be00865rzyjka792g --happened '{\"id\":\"r-1\"}' --reason 'seen in the ledger'
  stasis effect settle call_01m8nwmc7be00865rzyjka792g --did-not-happen --reason 'asked the bank'
  stasis effect settle call_01m8nwmc7be00865rzyjka792g --give-up --reason 'nobody can tell'

The program goes on with the result that --happened gives, so it has to look like one of the tool's: `stasis approval show`
of the question says what it has to fit. Exits 0 whenever the answer stands, whatever the run then does.")]
    Settle(Settle),
}

#[derive(Args, Debug)]
pub(crate) struct Settle {
    /// The call's id
    pub(crate) call: CallId,
    #[command(flatten)]
    pub(crate) answer: SettleAnswer,
    /// Wait for the run's next stop, with a server too
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct SettleAnswer {
    /// It happened, with this result
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) happened: Option<String>,
    /// It did not happen, and never will
    #[arg(long)]
    pub(crate) did_not_happen: bool,
    /// Nobody will find out: the run fails
    #[arg(long)]
    pub(crate) give_up: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Signal {
    /// The run's id
    pub(crate) run: RunId,
    /// What its program waits for
    pub(crate) name: String,
    /// What it brings: JSON, `@file`, or `-` for stdin [default: null]
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) payload: Option<String>,
    /// The same id and payload are one signal
    #[arg(long, value_name = "K")]
    pub(crate) id: Option<String>,
    /// Wait for the run's next stop, with a server too
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Guest {
    /// Tier, resident bytes, waiting since
    #[command(after_help = "Example:\n  stasis guest list")]
    List,
    /// The guest images of this machine's cache, and how many unfinished runs here need each
    #[command(after_help = "Example:\n  stasis guest images")]
    Images,
    /// Remove images that no unfinished run here needs
    #[command(
        after_help = "Example:\n  stasis guest remove sha256:7498b15f4e26bdd5fb6302baccd566617bbc8e19f40f42c346057fb19ab96da6"
    )]
    Remove {
        /// The images, as `stasis guest images` names them
        #[arg(value_name = "DIGEST", required = true)]
        images: Vec<protocol::digest::Digest>,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum Resource {
    /// State, leases, and who waits
    #[command(after_help = "Example:\n  stasis resource list")]
    List,
    /// Show a resource
    #[command(after_help = "Example:\n  stasis resource show chat:small")]
    Show {
        /// Its name
        name: String,
    },
    /// Bring a contained resource to a known state: what may still run of it is ended
    #[command(after_help = "Example:\n  stasis resource reset chat:small")]
    Reset {
        /// Its name
        name: String,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum Tool {
    /// List tools
    #[command(after_help = "Example:\n  stasis tool list")]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a tool
    #[command(after_help = "Examples:\n  stasis tool show payments.refund\n  stasis tool show payments.refund@1")]
    Show {
        /// The tool, in one version or all
        #[arg(value_name = "NAME[@VERSION]")]
        name: String,
    },
    /// Refuse its calls from now on, in running plans too
    #[command(after_help = "Example:\n  stasis tool withdraw payments.refund@1 --reason 'wrong account'")]
    Withdraw {
        /// The tool, in one version or all
        #[arg(value_name = "NAME[@VERSION]")]
        name: String,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum Queue {
    /// List the queues, with how many runs wait in each
    #[command(after_help = "Example:\n  stasis queue list")]
    List,
    /// Keep every run of a queue from workers; new ones are admitted and wait
    #[command(after_help = "Example:\n  stasis queue pause default --reason 'maintenance'")]
    Pause {
        /// The queue's name
        name: String,
    },
    /// Let them go on, but for those that are paused themselves
    #[command(after_help = "Example:\n  stasis queue resume default")]
    Resume {
        /// The queue's name
        name: String,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum Token {
    /// Make a token; it is printed once
    #[command(
        after_help = "Examples:\n  stasis token new --principal maria\n  stasis token new --principal ci --right runs:start --right runs:read --expires 30d"
    )]
    New {
        /// Whose it is: the id of a `[[principal]]`
        #[arg(long, value_name = "P")]
        principal: String,
        /// One of the principal's rights; may be repeated [default: all of them]
        #[arg(long, value_name = "R")]
        right: Vec<String>,
        /// How long it works (`12h`, `30d`)
        #[arg(long, value_name = "D", value_parser = duration)]
        expires: Option<Duration>,
    },
    /// List tokens, without their secrets
    #[command(after_help = "Example:\n  stasis token list")]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Revoke a token
    #[command(after_help = "Example:\n  stasis token revoke tok_01m8nwmc7be00865rzyjka792g")]
    Revoke {
        /// The token's id
        id: TokenId,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// Where [default: here]
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Config {
    /// Check the configuration and name every fault
    #[command(after_help = "Examples:\n  stasis config check\n  stasis config check --config /etc/stasis.toml")]
    Check,
    /// Print a commented configuration with every key and its default
    #[command(after_help = "Example:\n  stasis config example > stasis.toml")]
    Example,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}
