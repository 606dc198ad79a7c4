//! `stasis workflow` (I-4).

use super::Paging;
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub(crate) enum Workflow {
    /// Register a program or document; the same content again changes nothing
    #[command(
        after_help = "Examples:\n  stasis workflow register refund.py\n  stasis workflow register refund.py --inactive"
    )]
    Register {
        /// The program (`.py`), or a `.toml` or `.json` that names its kind
        path: PathBuf,
        /// Keep the revision that new runs use
        #[arg(long)]
        inactive: bool,
    },
    /// List workflows
    #[command(after_help = "Example:\n  stasis workflow list")]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a workflow and its revisions
    #[command(after_help = "Example:\n  stasis workflow show refund")]
    Show {
        /// The workflow's key
        key: String,
    },
    /// Let new runs use another revision
    #[command(after_help = "Example:\n  stasis workflow activate refund 3")]
    Activate {
        /// The workflow's key
        key: String,
        /// The revision, as `stasis workflow show` lists them
        revision: u32,
    },
    /// Keep every run of a workflow from workers; new ones are admitted and wait
    #[command(after_help = "Example:\n  stasis workflow pause refund --reason 'wrong account'")]
    Pause {
        /// The workflow's key
        key: String,
    },
    /// Let them go on, but for those that are paused themselves
    #[command(after_help = "Example:\n  stasis workflow resume refund")]
    Resume {
        /// The workflow's key
        key: String,
    },
}
