//! The process group of one call.
//!
//! Owns the signals to the group and the moment in which the leader is dead but not yet reaped: only then is the group's
//! number certainly ours. Dropping a group that was not reaped kills it, so a call that is given up leaves nothing
//! behind.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Child;

pub(super) struct Group {
    /// The leader's process id, which is the group's; none once the leader is reaped.
    leader: Option<Pid>,
    watch: Option<AsyncFd<OwnedFd>>,
}

impl Group {
    /// The group of a process that was started as its leader.
    pub(super) fn of(child: &Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let watch = leader
            .and_then(|leader| pidfd_open(leader, PidfdFlags::NONBLOCK).ok())
            .and_then(|fd| AsyncFd::with_interest(fd, Interest::READABLE).ok());
        Self { leader, watch }
    }

    /// Waits until the leader is dead, without reaping it.
    pub(super) async fn leader_ended(&self) {
        match &self.watch {
            Some(watch) => {
                // The descriptor of a process becomes readable when it has ended, and stays so.
                let _ = watch.readable().await;
            }
            None => self.poll_leader().await,
        }
    }

    /// For kernels without process descriptors: looks every few milliseconds.
    async fn poll_leader(&self) {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let Some(leader) = self.leader else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Ok(None) = waitid(WaitId::Pid(leader), options) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// The leader is reaped: from here on its number may be anybody's.
    pub(super) fn reaped(mut self) {
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
