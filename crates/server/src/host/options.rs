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
    pub connections: Connections,
}

/// What is borne of the peers of one listener (I-39).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connections {
    /// How long the head of a request may take, and so how long a connection may be idle: long enough for a bad line,
    /// short enough that places held for nothing come free.
    pub head_within: Duration,
    /// How long a peer may take nothing of an answer.
    pub taken_within: Duration,
    /// At once; more wait to be accepted.
    pub most: usize,
    /// Of one address at once; more are closed. Others still find a place, and a proxy in front has enough.
    pub of_one: usize,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            head_within: Duration::from_secs(15),
            taken_within: Duration::from_secs(60),
            most: 4_096,
            of_one: 1_024,
        }
    }
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
            connections: Connections::default(),
        }
    }
}

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostOptions").field("data", &self.data).field("config", &self.config).finish_non_exhaustive()
    }
}
