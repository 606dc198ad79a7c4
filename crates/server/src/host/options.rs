//! What a host is started with.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where a line of progress goes while something takes long (compiling a guest image).
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// The choices of the command that starts a host.
#[derive(Clone)]
pub struct HostOptions {
    /// The data directory; made with mode 0700 where it is not there.
    pub data: PathBuf,
    /// The configuration file, which must be there if it is named.
    pub config: Option<PathBuf>,
    /// Put the configuration's tools, policy and principals in force. A command that only reads does not, and then there
    /// must be a store (I-19).
    pub apply_config: bool,
    /// Claim runs and dispatch their calls (I-19).
    pub carry: bool,
    /// Whether this process stays (`dev`, `serve`): it serves TCP too, and says so to commands that find it (I-18).
    pub lasting: bool,
    /// Where TCP is served; `server.listen` of the configuration where this is `None`.
    pub listen: Option<SocketAddr>,
    /// How long a call waits in place before its run parks; the configuration's where this is `None` (I-19b).
    pub hot_window: Option<Duration>,
    /// Whether somebody else than the requester has to decide where no rule says so; `false` in `run` and `dev` (C-55).
    pub separate_requester: bool,
    /// Make a one-time sign-in and a token for `local`, to be printed (I-1).
    pub sign_in: bool,
    pub progress: Option<Progress>,
}

impl HostOptions {
    /// A command that holds a directory while it works, and carries the runs it starts.
    pub fn new(data: impl Into<PathBuf>) -> HostOptions {
        HostOptions {
            data: data.into(),
            config: None,
            apply_config: true,
            carry: true,
            lasting: false,
            listen: None,
            hot_window: None,
            separate_requester: false,
            sign_in: false,
            progress: None,
        }
    }
}

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostOptions").field("data", &self.data).field("config", &self.config).finish_non_exhaustive()
    }
}
