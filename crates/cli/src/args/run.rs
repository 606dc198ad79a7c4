//! `stasis run`: a file, or a verb (I-2, I-5).

use super::Paging;
use crate::input;
use api::run::Until;
use clap::{Args, Subcommand};
use protocol::id::RunId;
use protocol::time::{Time, parse_duration};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
#[command(override_usage = "stasis run [OPTIONS] <FILE>\n       stasis run [OPTIONS] <VERB>")]
#[command(subcommand_negates_reqs = true, subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(
    after_help = "Without a terminal one outcome is printed, and the exit code tells: 0 done, 3 stopped without an end, 4 failed,
5 cancelled, 2 refused before a run existed. A first word that is a verb is that verb; a file of that name is `./show`.

Examples:
  stasis run refund.py --input '{\"id\":\"o-7\"}'
  stasis run refund.py --input @order.json --output json
  echo '{\"id\":\"o-7\"}' | stasis run refund.py --input -
  stasis run list --status awaiting_consent
  stasis run show run_01m8nwmbe0e00bsaekf59edd1r"
)]
pub(crate) struct RunArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<RunVerb>,
    /// The program (`.py`), or a `.toml` or `.json` that names its kind
    #[arg(required = true)]
    pub(crate) file: Option<PathBuf>,
    /// Its input: JSON, `@file`, or `-` for stdin [default: {}]
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum RunVerb {
    /// Start a run of a registered workflow
    #[command(
        after_help = "Examples:\n  stasis run start refund --input '{\"id\":\"o-7\"}' --wait\n  stasis run start refund --input @order.json --idempotency-key order-7"
    )]
    Start(Start),
    /// List runs, newest first
    #[command(
        after_help = "Examples:\n  stasis run list\n  stasis run list --status awaiting_consent --workflow refund --limit 20"
    )]
    List(List),
    /// Show a run: status, waits, calls, effects, clocks
    #[command(after_help = "Example:\n  stasis run show run_01m8nwmbe0e00bsaekf59edd1r")]
    Show {
        /// The run's id
        run: RunId,
    },
    /// Wait for a run's next stop or its end; without a server this carries the run on
    #[command(
        after_help = "Exits as `stasis run FILE` does.\n\nExamples:\n  stasis run wait run_01m8nwmbe0e00bsaekf59edd1r\n  stasis run wait run_01m8nwmbe0e00bsaekf59edd1r --until terminal --timeout 10m"
    )]
    Wait(Wait),
    /// Print what the program printed
    #[command(
        after_help = "Examples:\n  stasis run log run_01m8nwmbe0e00bsaekf59edd1r\n  stasis run log run_01m8nwmbe0e00bsaekf59edd1r --follow"
    )]
    Log(Follow),
    /// List a run's tool calls
    #[command(after_help = "Example:\n  stasis run calls run_01m8nwmbe0e00bsaekf59edd1r")]
    Calls {
        /// The run's id
        run: RunId,
        #[command(flatten)]
        paging: Paging,
    },
    /// Print a run's events
    #[command(
        after_help = "Examples:\n  stasis run events run_01m8nwmbe0e00bsaekf59edd1r\n  stasis run events run_01m8nwmbe0e00bsaekf59edd1r --follow --output ndjson"
    )]
    Events(Follow),
    /// Say why a run is where it is, and what would move it
    #[command(after_help = "Example:\n  stasis run explain run_01m8nwmbe0e00bsaekf59edd1r")]
    Explain {
        /// The run's id
        run: RunId,
    },
    /// Keep a run from workers; its expiries, timers and deadline go on
    #[command(after_help = "Example:\n  stasis run pause run_01m8nwmbe0e00bsaekf59edd1r --reason 'the bank is closed'")]
    Pause {
        /// The run's id
        run: RunId,
    },
    /// Let a paused run go on, unless its workflow or queue is paused too
    #[command(after_help = "Example:\n  stasis run resume run_01m8nwmbe0e00bsaekf59edd1r")]
    Resume {
        /// The run's id
        run: RunId,
    },
    /// Begin a new run with what this one had come to at an event; what it did is not done again
    #[command(
        after_help = "Calls that had ended by that event keep their outcomes. What was open then (a question, a job, a wait) is not\n\
                      taken along: the new run comes to it again. `stasis run events` shows the numbers.\n\n\
                      Example:\n  stasis run fork run_01m8nwmbe0e00bsaekf59edd1r --from 12 --wait"
    )]
    Fork(Fork),
    /// Let a run that rests go on under another revision of its program, once that is proved
    #[command(
        name = "move",
        after_help = "The journal is told again to the other program, without any effect. A program that would do something else is\n\
                      refused with the first difference, and the run stays as it is.\n\n\
                      Example:\n  stasis run move run_01m8nwmbe0e00bsaekf59edd1r --to 3 --reason 'the mail had a typo'"
    )]
    Move {
        /// The run's id
        run: RunId,
        /// The revision; `stasis workflow show` lists them
        #[arg(long, value_name = "REVISION")]
        to: u32,
    },
    /// Vouch that something of a stopping run has stopped; it stays recorded as your word
    #[command(
        after_help = "`stasis run show` names what has not stopped yet.\n\nExample:\n  stasis run attest run_01m8nwmbe0e00bsaekf59edd1r job_01m8nwmbe0e00bsaekf59edd1r --reason 'its machine is switched off'"
    )]
    Attest {
        /// The run's id
        run: RunId,
        /// What has stopped: the hop's number, the call's or the job's id
        obligation: String,
    },
    /// Cancel a run; what it did is listed, not undone
    #[command(after_help = "Example:\n  stasis run cancel run_01m8nwmbe0e00bsaekf59edd1r --reason 'customer called'")]
    Cancel {
        /// The run's id
        run: RunId,
    },
}

/// Verbs of I-5 that this build does not have. They are verbs all the same, so that no file is run in their place.
pub(crate) const ABSENT_VERBS: [&str; 6] = ["retry", "release", "refuse", "compensate", "export", "import"];

#[derive(Args, Debug)]
pub(crate) struct Start {
    /// The workflow's key
    pub(crate) key: String,
    /// The input: JSON, `@file`, or `-` for stdin [default: {}]
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,
    /// The same key and request start one run only
    #[arg(long, value_name = "K")]
    pub(crate) idempotency_key: Option<String>,
    /// 0 to 100, higher is sooner
    #[arg(long, value_name = "N")]
    pub(crate) priority: Option<u8>,
    /// The queue to wait in
    #[arg(long, value_name = "Q")]
    pub(crate) queue: Option<String>,
    /// One run at a time in this session
    #[arg(long, value_name = "S")]
    pub(crate) session: Option<String>,
    /// When the run ends at the latest, RFC 3339
    #[arg(long, value_name = "T")]
    pub(crate) deadline: Option<Time>,
    /// Label the run; may be repeated
    #[arg(long, value_name = "K=V", value_parser = input::label)]
    pub(crate) label: Vec<(String, String)>,
    /// Wait for its next stop, print the outcome, and exit by it
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Fork {
    /// The run to take over from, which you started
    pub(crate) run: RunId,
    /// The number of its event up to which outcomes are taken
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: u32,
    /// 0 to 100, higher is sooner
    #[arg(long, value_name = "N")]
    pub(crate) priority: Option<u8>,
    /// Label the new run instead of with the other's labels; may be repeated
    #[arg(long, value_name = "K=V", value_parser = input::label)]
    pub(crate) label: Vec<(String, String)>,
    /// Wait for its next stop, print the outcome, and exit by it
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// One status, or several joined by commas
    #[arg(long, value_name = "S")]
    pub(crate) status: Option<String>,
    /// Only runs of this workflow
    #[arg(long, value_name = "KEY")]
    pub(crate) workflow: Option<String>,
    /// Only runs with this label
    #[arg(long, value_name = "K=V")]
    pub(crate) label: Option<String>,
    /// A kind of wait: approval, job, signal, timer, hardware
    #[arg(long, value_name = "KIND")]
    pub(crate) waiting_for: Option<String>,
    /// Only runs created after this, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) created_after: Option<Time>,
    /// Only runs created before this, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) created_before: Option<Time>,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

#[derive(Args, Debug)]
pub(crate) struct Wait {
    /// The run's id
    pub(crate) run: RunId,
    /// stopped or terminal: the next stop, or the end
    #[arg(long, value_name = "WHAT", default_value = "stopped", value_parser = until)]
    pub(crate) until: Until,
    /// Stop waiting after this long (`30s`, `10m`, `24h`): the run is told as it stands, with exit code 3
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Args, Debug)]
pub(crate) struct Follow {
    /// The run's id
    pub(crate) run: RunId,
    /// Go on as it grows, until the run ends
    #[arg(long, short)]
    pub(crate) follow: bool,
}

fn until(text: &str) -> Result<Until, String> {
    match text {
        "stopped" => Ok(Until::Stopped),
        "terminal" => Ok(Until::Terminal),
        _ => Err("expected stopped or terminal".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}
