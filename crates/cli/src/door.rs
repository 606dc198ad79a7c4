//! How a command finds its ledger (I-1b, I-18, I-19): a server it was told of, the process that has the data directory
//! open, or the store itself.
//!
//! Whatever is found, the command speaks the same API through [`api::Client`]; nothing behind the door is reached around
//! it. Two processes at once never harm each other: the one without the lock becomes a client of the one with it.

use crate::args::Globals;
use crate::clock;
use crate::failure::Failure;
use crate::output::Out;
use api::{Client, Ready};
use protocol::digest::Digest;
use server::{Host, HostOptions, StartError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a held lock may go without an answering socket (I-18).
const LOCKED_FOR: Duration = Duration::from_secs(10);
/// How long a socket may take to say who is behind it.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// How often the socket and the lock are looked at while another process opens or closes the store.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a command needs of a store that it has to open itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// To read: no configuration is applied, nothing is dispatched, and there must be a store (I-19).
    Read,
    /// To change rows, but to carry no run.
    Change,
    /// To carry runs; without a person at the terminal a waiting run parks at once (I-19b).
    Carry { hot: bool },
}

impl Need {
    fn carries(self) -> bool {
        matches!(self, Need::Carry { .. })
    }
}

/// Who stands behind the door.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behind {
    /// A server that goes on when this command ends.
    Server,
    /// Another command, which leaves when its own work is done.
    Passing,
    /// This process.
    Own,
}

/// An open door.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) client: Client,
    pub(crate) behind: Behind,
    /// Of the configuration of the server behind it, where there is one that is asked here.
    pub(crate) config: Option<Digest>,
}

impl Door {
    /// Whether this command sees the run to its next stop (I-1b, I-19b).
    pub(crate) fn carries(&self, globals: &Globals, wait: bool) -> bool {
        wait || (self.behind != Behind::Server && !globals.no_run)
    }
}

/// Opens the door. The host is there when this process had to open the store.
pub(crate) async fn open(globals: &Globals, out: Out, need: Need) -> Result<(Door, Option<Host>), Failure> {
    if let Some(url) = &globals.server {
        let client = Client::tcp(url, globals.token.clone()).map_err(|error| Failure::usage(error.to_string()))?;
        return Ok((Door { client, behind: Behind::Server, config: None }, None));
    }
    let start = clock::instant();
    loop {
        // A process that is stopped takes connections and answers none: its lock is looked at again all the same.
        let answer = tokio::time::timeout(ANSWERS_WITHIN, knock(globals, need)).await;
        if let Some(door) = answer.unwrap_or(Ok(None))? {
            return Ok((door, None));
        }
        match Host::start(options(globals, out, need)?).await {
            Ok(host) => {
                let client = client(host.socket(), globals)?;
                return Ok((Door { client, behind: Behind::Own, config: None }, Some(host)));
            }
            Err(StartError::Locked { .. }) if !clock::left(start, LOCKED_FOR).is_zero() => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Err(error) => return Err(Failure::of(error.problem())),
        }
    }
}

/// The door of the process that has the data directory open, if one answers and serves the need.
async fn knock(globals: &Globals, need: Need) -> Result<Option<Door>, Failure> {
    let socket = globals.data.join("stasis.sock");
    if !socket.exists() {
        return Ok(None);
    }
    let client = client(&socket, globals)?;
    let Ok(Ready { lasting, workers, config_digest, .. }) = client.ready().await else { return Ok(None) };
    // Another command that only reads carries nothing; it is gone in a moment, and then the store is ours to open.
    if need.carries() && !lasting && !workers {
        return Ok(None);
    }
    let behind = if lasting { Behind::Server } else { Behind::Passing };
    Ok(Some(Door { client, behind, config: config_digest }))
}

fn client(socket: &Path, globals: &Globals) -> Result<Client, Failure> {
    Client::unix(socket, globals.token.clone()).map_err(|error| Failure::internal(error.to_string()))
}

fn options(globals: &Globals, out: Out, need: Need) -> Result<HostOptions, Failure> {
    let hot = need == Need::Carry { hot: true };
    Ok(HostOptions {
        config: config(globals)?,
        apply_config: need != Need::Read,
        carry: need.carries(),
        hot_window: (need.carries() && !hot).then_some(Duration::ZERO),
        progress: Some(Arc::new(move |line: &str| out.say(line))),
        ..HostOptions::new(&globals.data)
    })
}

/// The configuration: `--config`, which must be there, else `./stasis.toml` if it is (I-15).
pub(crate) fn config(globals: &Globals) -> Result<Option<PathBuf>, Failure> {
    match &globals.config {
        Some(path) if path.is_file() => Ok(Some(path.clone())),
        Some(path) => Err(Failure::unreadable(format!("there is no configuration {}", path.display()))),
        None => Ok(Some(PathBuf::from("stasis.toml")).filter(|path| path.is_file())),
    }
}
