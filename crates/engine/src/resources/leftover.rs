//! What processes of resources there are on this machine, whoever started them (Linux: `/proc`).
//!
//! A resource's processes carry a mark in their environment, as do all that they start in turn, even out of their group
//! and even when the server is gone. So what a killed server left is found without a record that it could have failed to
//! write, and what a stop left over is seen.

use super::effect::Local;
use super::process::{NAME, OWNER};
use crate::clock::monotonic;
use crate::tools::Connectors;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::time::Duration;

/// Between the polite and the final signal to what was found, and for the final one to do its work.
const TERM_GRACE: Duration = Duration::from_secs(5);
const KILL_GRACE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// Resources of which something runs already. Processes of those that are declared no more are ended here.
pub(super) async fn names(owner: &str, local: &BTreeMap<String, Local>, connectors: &Connectors) -> Vec<String> {
    let mut names: Vec<String> = marked(owner, None).await.into_iter().map(|found| found.name).collect();
    for (name, local) in local.iter().filter(|(_, local)| local.hands_over()) {
        if let Some(url) = &local.ready
            && connectors.probe(url).await.is_ok()
        {
            names.push(name.clone());
        }
    }
    names.sort();
    names.dedup();
    for name in &names {
        tracing::warn!(resource = name, "an earlier process left a resource running; it is stopped");
        if !local.contains_key(name)
            && let Err(why) = clear(owner, name).await
        {
            tracing::error!(resource = name, why, "a resource that is declared no more may still run");
        }
    }
    names
}

/// Ends every process of a resource; why that is not certain, if it is not.
pub(super) async fn clear(owner: &str, name: &str) -> Result<(), String> {
    for (signal, grace) in [(Signal::TERM, TERM_GRACE), (Signal::KILL, KILL_GRACE)] {
        let until = monotonic() + grace;
        loop {
            let found = marked(owner, Some(name)).await;
            if found.is_empty() {
                return Ok(());
            }
            // What a process started meanwhile is found by the next look.
            for found in &found {
                // It may have ended since, which is all that is wanted.
                let _ = pidfd_send_signal(&found.process, signal);
            }
            if monotonic() >= until {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    let left: Vec<String> =
        marked(owner, Some(name)).await.into_iter().map(|found| found.pid.as_raw_nonzero().to_string()).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("processes of it do not end: {}", left.join(", "))),
    }
}

struct Found {
    pid: Pid,
    /// Names the very process that was looked at, not whoever has its number later.
    process: OwnedFd,
    name: String,
}

/// The processes with the mark of this owner, of one resource or of all.
async fn marked(owner: &str, name: Option<&str>) -> Vec<Found> {
    let (owner, name) = (owner.to_owned(), name.map(str::to_owned));
    let found = tokio::task::spawn_blocking(move || {
        let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
        pids.filter_map(|pid| look(pid, &owner, name.as_deref())).collect()
    });
    found.await.unwrap_or_default()
}

/// A process that is dead and not reaped has no environment any more, and is not found.
fn look(pid: Pid, owner: &str, name: Option<&str>) -> Option<Found> {
    let environment = format!("/proc/{}/environ", pid.as_raw_nonzero());
    mark(&std::fs::read(&environment).ok()?, owner, name)?;
    // The number may have changed hands since: only what is read with the process in hand counts.
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let name = mark(&std::fs::read(&environment).ok()?, owner, name)?;
    Some(Found { pid, process, name })
}

fn mark(environment: &[u8], owner: &str, name: Option<&str>) -> Option<String> {
    let value = |key: &str| {
        let lines = environment.split(|byte| *byte == 0);
        let mut found = lines.filter_map(|line| line.strip_prefix(key.as_bytes())?.strip_prefix(b"="));
        found.next().and_then(|value| std::str::from_utf8(value).ok())
    };
    let found = value(NAME).filter(|found| name.is_none_or(|name| name == *found))?;
    (value(OWNER)? == owner).then(|| found.to_owned())
}
