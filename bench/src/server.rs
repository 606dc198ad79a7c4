//! A `stasis dev` of its own, in a folder of its own, that can be killed and started again on the same data.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::Client;

use crate::clock;

/// Where a server keeps its data, and which binary serves it.
pub(crate) struct Place {
    binary: PathBuf,
    folder: tempfile::TempDir,
}

/// What waits parks at once: hot waits are measured by the guests' own figures.
const CONFIG: &str = "[worker]\nhot_window = \"0s\"\n";

/// A server that is up.
pub(crate) struct Server {
    child: Child,
    pub(crate) client: Client,
    /// From the start of the process to its first answer that it is ready.
    pub(crate) ready: Duration,
}

impl Place {
    /// Takes the binary that STASIS_BIN names.
    pub(crate) fn new() -> Result<Place> {
        let binary = std::env::var_os("STASIS_BIN").context("STASIS_BIN must name a release build of `stasis`")?;
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("stasis.toml"), CONFIG)?;
        Ok(Place { binary: binary.into(), folder })
    }

    pub(crate) async fn serve(&self) -> Result<Server> {
        let start = clock();
        let mut child = Command::new(&self.binary)
            .args(["dev", "--listen", "127.0.0.1:0"])
            .current_dir(self.folder.path())
            .env_remove("STASIS_DATA")
            .env_remove("STASIS_CONFIG")
            .env("STASIS_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is a pipe")).read_line(&mut line)?;
        ensure!(!line.is_empty(), "the server ended before it was up");
        // Only the first of a process is taken.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::unix(&self.data().join("stasis.sock"), None)?;
        client.ready().await?;
        Ok(Server { child, client, ready: start.elapsed() })
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join(".stasis")
    }

    /// Bytes of the ledger on disk, of a server that has ended. Its log is bounded whatever is parked, and not counted.
    pub(crate) fn bytes(&self) -> Result<u64> {
        Ok(std::fs::metadata(self.data().join("stasis.db"))?.len())
    }
}

impl Server {
    /// Ends it without a warning.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end, and waits until it has: its log is then part of its database.
    pub(crate) fn end(mut self) -> Result<()> {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        ensure!(asked.success() && self.child.wait()?.success(), "the server did not end well");
        Ok(())
    }

    /// Bytes of memory that are its own (VmRSS less what is mapped from files).
    pub(crate) fn memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line =
            status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("the kernel tells no RssAnon")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
