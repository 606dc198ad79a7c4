//! The command connector (C-265 to C-267).
//!
//! Owns one call as one process: fixed program and arguments, no shell, the call's arguments on stdin, the result on
//! stdout. Nothing of the server's environment reaches it but what the tool lists. Invariant: when a call has ended, its
//! process is reaped and its process group has been killed; what fled from the group is reported.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use protocol::call::Applied;
use protocol::code::Code;
use protocol::tool::{Command, Effect, Meaning};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Unready;
use super::answer::{self, Form};
use super::outcome::{Ended, Outcome, detail};
use super::secret::{Redactor, SECRET_BYTES};
use crate::group::{Ends, Group};

/// Between the polite and the final signal (C-267).
const TERM_GRACE: Duration = Duration::from_secs(5);

/// Output that a group's last members may still write once the program itself has ended.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// Most that is kept of stderr.
const STDERR_BYTES: usize = 64 * 1024;

/// The variable that carries the key, for a tool that lists it.
pub(super) const KEY_VARIABLE: &str = "IDEMPOTENCY_KEY";

/// One call, ready to go.
pub(super) struct Call<'a> {
    pub(super) effect: Effect,
    pub(super) command: &'a Command,
    /// The whole environment.
    pub(super) environment: Vec<(String, std::ffi::OsString)>,
    /// Canonical JSON, with the values of secrets in place of their names (C-270).
    pub(super) input: Vec<u8>,
    pub(super) result_bytes: u64,
    pub(super) redactor: &'a Redactor,
    pub(super) deadline: Instant,
    pub(super) timeout: Duration,
    pub(super) cancel: &'a CancellationToken,
}

/// Whether the program is there.
pub(super) fn ready(command: &Command) -> Result<(), Unready> {
    let program = command.argv.first().map(Path::new).unwrap_or(Path::new(""));
    if !program.is_absolute() {
        return Err(Unready::new("the program is no absolute path"));
    }
    match rustix::fs::access(program, rustix::fs::Access::EXEC_OK) {
        Ok(()) if program.is_file() => Ok(()),
        _ => Err(Unready::new(format!("{} is no program", program.display()))),
    }
}

/// How a process came to its end.
enum End {
    /// By itself.
    Exited,
    /// The tool's time was over.
    TimedOut,
    /// The call was cut.
    Aborted,
}

/// Makes the call and returns when the process is reaped.
pub(super) async fn run(call: Call<'_>) -> Ended {
    let (mut child, ends) = match Ends::listen().and_then(|ends| Ok((spawn(&call)?, ends))) {
        Ok(started) => started,
        Err(error) => {
            let detail = format!("the program did not start: {error}");
            return Ended::plain(Outcome::error(Code::ConnectorUnreachable, detail, Applied::No)); // C-122
        }
    };
    let mut group = Group::of(&child, ends);
    let mut output = Output::of(&mut child, call.input.clone(), call.result_bytes);

    let end = tokio::select! {
        biased;
        () = group.leader_ended() => End::Exited,
        () = sleep_until(call.deadline) => End::TimedOut,
        () = call.cancel.cancelled() => End::Aborted,
    };
    match end {
        End::Exited => {
            let _ = timeout(OUTPUT_GRACE, output.ended()).await;
        }
        End::TimedOut | End::Aborted => {
            group.terminate();
            let _ = timeout(TERM_GRACE, async {
                group.leader_ended().await;
                output.ended().await;
            })
            .await;
        }
    }
    // The leader is not reaped yet, so the group's number cannot belong to anybody else.
    group.kill();
    let status = child.wait().await;
    group.reaped();
    let escaped = timeout(OUTPUT_GRACE, output.ended()).await.is_err();
    if escaped {
        tracing::warn!(program = ?call.command.argv.first(), "a child of a command left its process group and holds its output");
    }
    let (stdout, stderr) = output.take();
    let mut stderr = call.redactor.clean(&stderr.bytes);
    stderr.truncate(STDERR_BYTES);
    let outcome = outcome(&call, end, status, &stdout, &stderr);
    Ended { outcome, stderr: (!stderr.is_empty()).then_some(stderr), escaped }
}

fn spawn(call: &Call<'_>) -> std::io::Result<tokio::process::Child> {
    let (program, arguments) = call
        .command
        .argv
        .split_first()
        .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidInput, "no program"))?;
    tokio::process::Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(call.environment.iter().map(|(name, value)| (name, value)))
        // A place that is always there and that no call can be about.
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

fn outcome(call: &Call<'_>, end: End, status: std::io::Result<ExitStatus>, stdout: &Kept, stderr: &[u8]) -> Outcome {
    let tail = &stderr[stderr.len().saturating_sub(super::outcome::DETAIL_BYTES / 2)..];
    let say = |ours: &str| detail(ours, tail, &Redactor::default());
    let unsettled = |ours: &str, code: Code| match call.effect {
        Effect::Write => Outcome::ambiguous(say(ours)), // C-121, C-266
        Effect::Pure | Effect::Read => Outcome::error(code, say(ours), Applied::No),
    };
    let status = match (end, status) {
        (End::TimedOut, _) => {
            return unsettled(&format!("not ended within {:?}", call.timeout), Code::HandlerTimeout);
        }
        (End::Aborted, _) => return unsettled("cut off by a cancel", Code::HandlerError),
        (End::Exited, Err(error)) => return unsettled(&format!("its exit is unknown: {error}"), Code::HandlerError),
        (End::Exited, Ok(status)) => status,
    };
    let Some(code) = status.code() else {
        return unsettled(&format!("ended by a signal ({status})"), Code::HandlerError);
    };
    let said = u8::try_from(code).ok().and_then(|code| call.command.exit.get(&code).copied());
    match said.or((code == 0).then_some(Meaning::Ok)) {
        Some(Meaning::Ok) => result(call, stdout),
        Some(Meaning::Error) => Outcome::error(Code::HandlerError, say(&format!("exit {code}")), Applied::No),
        Some(Meaning::Ambiguous) | None => unsettled(&format!("exit {code}"), Code::HandlerError),
    }
}

fn result(call: &Call<'_>, stdout: &Kept) -> Outcome {
    let read = if stdout.cut {
        Err(answer::Unfit::too_large(call.result_bytes))
    } else {
        answer::read(&stdout.bytes, Form::Unsaid, call.result_bytes, call.redactor)
    };
    match read {
        Ok(result) => Outcome::Ok { result },
        Err(unfit) => unfit.outcome(call.effect),
    }
}

/// What was kept of a stream.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    cut: bool,
}

/// The streams of a process, fed and drained while it runs.
struct Output {
    stdout: Drain,
    stderr: Drain,
    _stdin: AbortOnDropHandle<()>,
}

impl Output {
    fn of(child: &mut tokio::process::Child, input: Vec<u8>, result_bytes: u64) -> Self {
        let stdin = child.stdin.take().expect("asked for above");
        Self {
            stdout: Drain::of(
                child.stdout.take().expect("asked for above"),
                usize::try_from(result_bytes).unwrap_or(usize::MAX),
            ),
            // More than is kept, so that a secret across the cut is still whole when it is replaced.
            stderr: Drain::of(child.stderr.take().expect("asked for above"), STDERR_BYTES + SECRET_BYTES),
            _stdin: AbortOnDropHandle::new(tokio::spawn(feed(stdin, input))),
        }
    }

    /// Both streams are at their end: nobody holds the other side any more.
    async fn ended(&mut self) {
        self.stdout.ended().await;
        self.stderr.ended().await;
    }

    fn take(self) -> (Kept, Kept) {
        (self.stdout.take(), self.stderr.take())
    }
}

async fn feed(mut stdin: ChildStdin, input: Vec<u8>) {
    // A program need not read its arguments; that it does not is no error.
    let _ = stdin.write_all(&input).await;
    let _ = stdin.shutdown().await;
}

/// Reads a stream to its end and keeps its beginning. What is beyond the limit is read and dropped: a program that
/// writes too much shall still come to its own end.
struct Drain {
    kept: Arc<Mutex<Kept>>,
    task: AbortOnDropHandle<()>,
    done: bool,
}

impl Drain {
    fn of(stream: impl AsyncRead + Send + Unpin + 'static, limit: usize) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let task = AbortOnDropHandle::new(tokio::spawn(drain(stream, limit, kept.clone())));
        Self { kept, task, done: false }
    }

    async fn ended(&mut self) {
        if !self.done {
            let _ = (&mut self.task).await;
            self.done = true;
        }
    }

    fn take(self) -> Kept {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn drain(mut stream: impl AsyncRead + Unpin, limit: usize, kept: Arc<Mutex<Kept>>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = limit - kept.bytes.len();
                kept.cut |= read > room;
                kept.bytes.extend_from_slice(&buffer[..read.min(room)]);
            }
        }
    }
}
