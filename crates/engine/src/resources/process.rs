//! The process group of one resource.
//!
//! Owns the process from its start to its reaping, and the last of what it printed. Nothing of the server's environment
//! reaches it but where programs and their files are, and what its declaration lists.

use crate::group::{Ends, Group};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Marks a process, and all that it starts, as of a resource of a ledger.
pub(super) const NAME: &str = "STASIS_RESOURCE";
pub(super) const OWNER: &str = "STASIS_RESOURCE_OWNER";

/// What every program may need to find itself and its files.
const ALWAYS: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH"];

/// Between the polite and the final signal.
const TERM_GRACE: Duration = Duration::from_secs(5);

/// For the kernel to end what got the final signal.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// Most that is kept of what it printed.
const OUTPUT_BYTES: usize = 4 * 1024;

/// What is to be started.
pub(super) struct Launch<'a> {
    pub(super) argv: &'a [String],
    pub(super) env: &'a [String],
    pub(super) folder: &'a Path,
    pub(super) owner: &'a str,
    pub(super) name: &'a str,
    /// What it started may go on when it has ended by itself.
    pub(super) hands_over: bool,
}

pub(super) struct Process {
    asked: CancellationToken,
    handed_over: AtomicBool,
    ended: watch::Receiver<Option<End>>,
    output: Output,
}

/// How a process ended.
#[derive(Clone)]
enum End {
    Exited(ExitStatus),
    /// It got the final signal, and nobody saw it end.
    Unseen(String),
}

impl Launch<'_> {
    pub(super) fn spawn(self) -> io::Result<Process> {
        let ends = Ends::listen()?;
        let (program, arguments) =
            self.argv.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program"))?;
        let listed = ALWAYS.iter().copied().chain(self.env.iter().map(String::as_str));
        let environment = listed.filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment)
            .env(NAME, self.name)
            .env(OWNER, self.owner)
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let output = Output::default();
        if let Some(stream) = child.stdout.take() {
            tokio::spawn(output.clone().keep(stream));
        }
        if let Some(stream) = child.stderr.take() {
            tokio::spawn(output.clone().keep(stream));
        }
        let (sender, ended) = watch::channel(None);
        let asked = CancellationToken::new();
        let group = Group::of(&child, ends);
        tokio::spawn(attend(child, group, self.hands_over, asked.clone(), sender));
        Ok(Process { asked, handed_over: AtomicBool::new(false), ended, output })
    }
}

/// Waits for the end of a process, asks for it when told to, and reaps it.
async fn attend(
    mut child: Child,
    mut group: Group,
    hands_over: bool,
    asked: CancellationToken,
    ended: watch::Sender<Option<End>>,
) {
    let by_itself = tokio::select! {
        () = group.leader_ended() => true,
        () = asked.cancelled() => {
            group.terminate();
            let _ = timeout(TERM_GRACE, group.leader_ended()).await;
            false
        }
    };
    if !(by_itself && hands_over) {
        // The leader is not reaped yet, so the group's number cannot belong to anybody else.
        group.kill();
    }
    let end = match timeout(KILL_GRACE, child.wait()).await {
        Ok(Ok(status)) => End::Exited(status),
        Ok(Err(error)) => End::Unseen(format!("its exit is unknown: {error}")),
        Err(_) => End::Unseen("it did not end when it was killed".to_owned()),
    };
    group.reaped();
    ended.send_replace(Some(end));
}

impl Process {
    /// Resolves when it has ended, however that came.
    pub(super) async fn ended(&self) {
        // The sender lives until it has said how.
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    pub(super) fn runs(&self) -> bool {
        self.ended.borrow().is_none()
    }

    pub(super) fn succeeded(&self) -> bool {
        matches!(&*self.ended.borrow(), Some(End::Exited(status)) if status.success())
    }

    /// How it ended, as far as it has.
    pub(super) fn how(&self) -> String {
        match &*self.ended.borrow() {
            None => "it runs".to_owned(),
            Some(End::Exited(status)) => status.to_string(),
            Some(End::Unseen(why)) => why.clone(),
        }
    }

    /// A start command that ended well has handed over to what it started; whether this one has.
    pub(super) fn hand_over(&self) -> bool {
        let over = self.succeeded();
        self.handed_over.store(over, Ordering::Relaxed);
        over
    }

    pub(super) fn handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Relaxed)
    }

    pub(super) fn was_asked(&self) -> bool {
        self.asked.is_cancelled()
    }

    /// Ends it with its group: politely first, and then for good.
    pub(super) async fn end(&self) {
        self.asked.cancel();
        self.ended().await;
    }

    /// The last that it printed.
    pub(super) fn output(&self) -> String {
        self.output.text()
    }
}

/// The end of what a process printed.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<VecDeque<u8>>>);

impl Output {
    async fn keep(self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; OUTPUT_BYTES];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(&buffer[..read]);
            let over = kept.len().saturating_sub(OUTPUT_BYTES);
            kept.drain(..over);
        }
    }

    fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept.iter().copied().collect::<Vec<_>>()).into_owned()
    }
}
