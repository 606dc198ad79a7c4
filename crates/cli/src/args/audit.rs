//! `stasis audit` (I-10).

use clap::Subcommand;
use engine::audit::PublicKey;
use protocol::id::RunId;
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub(crate) enum Audit {
    /// Recompute every chain, and compare the ledger with the anchors that were exported of it
    #[command(after_help = "Exits 1 and names run, sequence and field at the first broken link.

Examples:
  stasis audit verify
  stasis audit verify --run run_01m8nwmbe0e00bsaekf59edd1r
  stasis audit verify --anchors /mnt/vault/anchors.ndjson --public-key $(cat /mnt/vault/stasis.pub)

The server's own export is read in any case. A copy that whoever can write to the server cannot change proves more: give it
with --anchors, and the key that you noted when the first anchor was made with --public-key.")]
    Verify {
        /// Only this run
        #[arg(long, value_name = "ID", conflicts_with = "anchors")]
        run: Option<RunId>,
        /// A copy of the export, kept elsewhere
        #[arg(long, value_name = "FILE", requires = "public_key")]
        anchors: Option<PathBuf>,
        /// What its signatures are verified with: 64 hex digits
        #[arg(long, value_name = "HEX", requires = "anchors")]
        public_key: Option<PublicKey>,
    },
    /// Show how the ledger stands to its export, and the public key
    #[command(after_help = "Example:\n  stasis audit tail")]
    Tail,
    /// Anchor what changed now, and write every anchor, one a line
    #[command(after_help = "Examples:
  stasis audit export > anchors.ndjson
  stasis audit export --to /mnt/vault/anchors.ndjson")]
    Export {
        /// A new file, or one that an earlier export wrote [default: stdout]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Go on with a ledger that was restored from an old copy; the reason stays in the export
    #[command(after_help = "What happened after that copy is not in the ledger: look at what the other side has first.

Example:
  stasis audit accept --reason 'disk lost on 3 May, restored the backup of 2 May'")]
    Accept,
}
