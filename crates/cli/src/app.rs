//! What every command works with: the flags, where results go, and the door it opened.
//!
//! Owns the host that this process started, if it did, so that an interrupt can close it cleanly whatever the command
//! was doing.

use crate::args::Globals;
use crate::clock;
use crate::door::{self, Behind, Door, Need};
use crate::failure::Failure;
use crate::output::Out;
use crate::terminal::Terminal;
use api::approval::ApprovalKind;
use api::{Approval, Problem};
use protocol::code::Code;
use protocol::id::{RunId, SignalId};
use std::path::PathBuf;
use std::sync::OnceLock;
use tokio::sync::Mutex;

pub(crate) struct App {
    pub(crate) globals: Globals,
    pub(crate) out: Out,
    host: Mutex<Option<server::Host>>,
    /// Who stood behind the door that was opened last.
    behind: std::sync::Mutex<Option<Behind>>,
    /// The run this command starts: the same when it has to ask again.
    run: OnceLock<RunId>,
    signal: OnceLock<SignalId>,
    /// The run that this command carries or waits for.
    on: OnceLock<RunId>,
}

impl App {
    pub(crate) fn new(globals: Globals) -> App {
        let out = Out::new(globals.output, globals.quiet);
        App {
            globals,
            out,
            host: Mutex::new(None),
            behind: std::sync::Mutex::new(None),
            run: OnceLock::new(),
            signal: OnceLock::new(),
            on: OnceLock::new(),
        }
    }

    /// Opens the door (I-1b) and keeps the host behind it, if this process had to start one.
    pub(crate) async fn open(&self, need: Need) -> Result<Door, Failure> {
        self.close().await;
        let (door, host) = door::open(&self.globals, self.out, need).await?;
        *self.host.lock().await = host;
        *self.behind.lock().expect("nothing panics while it is held") = Some(door.behind);
        self.compare(&door, need);
        Ok(door)
    }

    /// A server keeps the configuration that it was started with: says so where the file has become another.
    fn compare(&self, door: &Door, need: Need) {
        if need == Need::Read || door.behind != Behind::Server || self.globals.server.is_some() {
            return;
        }
        let Ok(Some(file)) = self.config() else { return };
        let Ok(text) = std::fs::read(&file) else { return };
        if door.config != Some(protocol::digest::Digest::of(&text)) {
            let file = file.display();
            self.out.say(&format!(
                "note: the server here runs with another configuration than {file} is now; start it again to apply it"
            ));
        }
    }

    /// Who stood behind the door that was opened last.
    pub(crate) fn behind(&self) -> Option<Behind> {
        *self.behind.lock().expect("nothing panics while it is held")
    }

    /// A clean shutdown of the host of this process; nothing where there is none.
    pub(crate) async fn close(&self) {
        let host = self.host.lock().await.take();
        if let Some(host) = host {
            host.shutdown().await;
        }
    }

    /// Refuses to say yes to a call that this very process would have to make and cannot: a yes is used up by its first
    /// dispatch, and a forgotten variable is no reason to lose it. Nothing is asked of a server, whose settings are its own.
    pub(crate) async fn can_call(&self, approval: &Approval) -> Result<(), Failure> {
        let host = self.host.lock().await;
        let Some(host) = host.as_ref().filter(|_| !self.globals.no_run && approval.kind == ApprovalKind::Call) else {
            return Ok(());
        };
        let Some(why) = host.lacking(&approval.tool, &approval.tool_version).await else { return Ok(()) };
        let detail = format!("{} cannot be called from here: {why}; nothing was decided", approval.tool);
        let problem = Problem::of(Code::ToolUnavailable, detail).status(503);
        let hint = format!("set it and say it again; `stasis approve {} --no-run` only decides", approval.id);
        Err(Failure::of(problem.hint(hint)))
    }

    pub(crate) fn new_run(&self) -> RunId {
        *self.run.get_or_init(clock::new_run_id)
    }

    pub(crate) fn new_signal(&self) -> SignalId {
        *self.signal.get_or_init(clock::new_signal_id)
    }

    /// Says which run would be left behind by an interrupt.
    pub(crate) fn works_on(&self, run: RunId) {
        let _ = self.on.set(run);
    }

    /// Names the run that this command worked on, where no answer came: whatever became of it, it is found by its id.
    pub(crate) fn with_its_run(&self, failure: Failure) -> Failure {
        match self.on.get().or_else(|| self.run.get()) {
            Some(run) if failure.unanswered => {
                failure.hint(format!("{run} may be there and go on: `stasis run show {run}` once the server is back"))
            }
            _ => failure,
        }
    }

    /// What an interrupt is about to do, said at once: closing takes as long as the call in flight.
    pub(crate) fn say_interrupted(&self) {
        match (self.on.get(), self.behind()) {
            (Some(run), Some(Behind::Own)) => self.out.say(&format!(
                "stopping: a call in flight is finished first; {run} stays, and `stasis run wait {run}` goes on with it"
            )),
            (Some(run), _) => {
                self.out.say(&format!("{run} goes on without this command; `stasis run wait {run}` waits for it"))
            }
            (None, _) => {}
        }
    }

    /// The configuration file, if there is one (I-15).
    pub(crate) fn config(&self) -> Result<Option<PathBuf>, Failure> {
        door::config(&self.globals)
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.globals.reason.clone()
    }

    /// Asks before something that cannot be taken back; without a terminal, or with `--yes`, the command is the yes.
    pub(crate) async fn confirm(&self, question: &str) -> Result<(), Failure> {
        if self.globals.yes {
            return Ok(());
        }
        let Some(mut terminal) = Terminal::open() else { return Ok(()) };
        if terminal.confirm(question).await { Ok(()) } else { Err(Failure::interrupted()) }
    }
}
