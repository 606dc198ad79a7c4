//! `stasis approvals`, `approve`, `reject`, `approval` (I-6).

use super::Paging;
use clap::{Args, Subcommand};
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::time::Time;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  stasis approvals\n  stasis approvals --mine\n  stasis approvals list --status rejected --run run_01m8nwmbe0e00bsaekf59edd1r"
)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    pub(crate) verb: Option<ApprovalsVerb>,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ApprovalsVerb {
    /// The same
    #[command(after_help = "Example:\n  stasis approvals list --status approved")]
    List(Filter),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Filter {
    /// Only those that you may decide
    #[arg(long)]
    pub(crate) mine: bool,
    /// pending, approved, rejected, expired, cancelled or all [default: pending]
    #[arg(long, value_name = "S")]
    pub(crate) status: Option<String>,
    /// Only those of this run
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<RunId>,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

#[derive(Args, Debug)]
#[command(after_help = "Without --digest the approval is read, what was found is printed, and that digest is sent.

Exits 0 whenever the decision stands, whatever the run then does: the outcome that is printed says that. 2: refused as it
was given, 6: not permitted, 7: no such approval, 8: decided already, expired, or other arguments by now.

Examples:
  stasis approve apr_01m8nwmc7ce009jh69rck9w39q
  stasis approve apr_01m8nwmc7ce009jh69rck9w39q --edit '{\"amount\":200,\"order_id\":\"o-7\"}'
  stasis approve apr_01m8nwmc7ce009jh69rck9w39q --digest sha256:1d4b...")]
pub(crate) struct Approve {
    /// The approval's id
    pub(crate) id: String,
    /// Approve these arguments instead: the complete new arguments, not a patch
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) edit: Option<String>,
    /// The gate's form, filled in
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) answer: Option<String>,
    /// Approve only the arguments of this digest
    #[arg(long, value_name = "D")]
    pub(crate) digest: Option<Digest>,
    /// Approve arguments that cannot be shown whole
    #[arg(long)]
    pub(crate) unrenderable: bool,
    /// Wait for the run's next stop, with a server too
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Exits as `stasis approve` does: 0 whenever the decision stands, whatever the run then does.\n\nExample:\n  stasis reject apr_01m8nwmc7ce009jh69rck9w39q --reason 'order was not returned'"
)]
pub(crate) struct Reject {
    /// The approval's id
    pub(crate) id: String,
    /// Reject only if the arguments have this digest
    #[arg(long, value_name = "D")]
    pub(crate) digest: Option<Digest>,
    /// Wait for the run's next stop, with a server too
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ApprovalVerb {
    /// Show the exact arguments, their digest, the rule and what was decided
    #[command(after_help = "Example:\n  stasis approval show apr_01m8nwmc7ce009jh69rck9w39q")]
    Show {
        /// The approval's id
        id: String,
    },
    /// Move the expiry of a question that somebody else asked to a later time
    #[command(
        after_help = "Example:\n  stasis approval extend apr_01m8nwmc7ce009jh69rck9w39q --until 2026-12-24T12:00:00Z --reason 'the board meets on Monday'"
    )]
    Extend {
        /// The approval's id
        id: String,
        /// The new expiry, at most 400 days after the question was asked
        #[arg(long, value_name = "T")]
        until: Time,
    },
    /// Read what `show` withholds as an auditor, which is an event of the run
    #[command(
        after_help = "Whoever asked, and who may decide, see it without.\n\nExample:\n  stasis approval read apr_01m8nwmc7ce009jh69rck9w39q --reason 'quarterly review'"
    )]
    Read {
        /// The approval's id
        id: String,
    },
    /// Say that you do not decide
    #[command(
        after_help = "Example:\n  stasis approval abstain apr_01m8nwmc7ce009jh69rck9w39q --reason 'not my department'"
    )]
    Abstain {
        /// The approval's id
        id: String,
    },
}
