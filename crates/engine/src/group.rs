//! The process group of one program that this process started.
//!
//! Owns the signals to the group and the moment in which the leader is dead but not yet reaped: only then is the group's
//! number certainly ours. Dropping a group that was not reaped kills it, so what is given up leaves nothing
//! behind.

use std::io;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::Child;
use tokio::signal::unix::{self, SignalKind};

/// Listens for the ends of children; to be had before the child is started, so that no end is missed.
pub(crate) struct Ends(unix::Signal);

impl Ends {
    pub(crate) fn listen() -> io::Result<Self> {
        unix::signal(SignalKind::child()).map(Self)
    }
}

pub(crate) struct Group {
    /// The leader's process id, which is the group's; none once the leader is reaped.
    leader: Option<Pid>,
    ends: Ends,
}

impl Group {
    /// The group of a process that was started as its leader.
    pub(crate) fn of(child: &Child, ends: Ends) -> Self {
        Self { leader: child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw), ends }
    }

    /// Waits until the leader is dead, without reaping it.
    pub(crate) async fn leader_ended(&mut self) {
        while self.is_alive() {
            self.ends.0.recv().await;
        }
    }

    fn is_alive(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.leader.is_some_and(|leader| matches!(waitid(WaitId::Pid(leader), options), Ok(None)))
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// The leader is reaped: from here on its number may be anybody's.
    pub(crate) fn reaped(mut self) {
        self.leader = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // Nobody there is the usual answer, and fine.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
