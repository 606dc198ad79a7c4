//! The checks of `stasis doctor` (I-11): what was found, with numbers, and what to do about it.
//!
//! A check fails where promises cannot be kept; it warns where something works less well, or waits for somebody.

use super::Service;
use super::failure::{NO_IMAGE, RESTORED, told, unread};
use super::problem::Answer;
use api::DoctorReport;
use api::operate::{Check, CheckVerdict};
use protocol::code::Code;
use protocol::command::Caller;
use protocol::policy::Verdict;
use protocol::principal::{Kind, Principal, Right};
use protocol::resource::State;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// A wall clock this far behind the store's has been set back.
const CLOCK_BEHIND: Duration = Duration::from_secs(1);
/// The first kernel with the memory advice that cools guests (MADV_COLD, MADV_PAGEOUT).
const COOLING_KERNEL: (u32, u32) = (5, 4);

/// Of more stuck runs than these, the doctor only says how many there are.
const STUCK_NAMED: usize = 10;

impl Service {
    pub async fn doctor(&self, by: &Caller) -> Answer<DoctorReport> {
        self.need(by, &[Right::Admin])?;
        let mut checks = self.store(by).await?;
        checks.push(self.clock());
        checks.push(self.folder());
        checks.push(swap(&read("/proc/swaps").await));
        checks.push(kernel(&read("/proc/sys/kernel/osrelease").await));
        checks.extend(self.anchored().await);
        checks.push(self.image());
        checks.extend(self.registry());
        checks.push(self.configuration());
        checks.push(self.approvers());
        checks.extend(self.nobody());
        checks.extend(self.hardware());
        checks.push(self.stuck(by).await?);
        let ok = checks.iter().all(|check| check.verdict != CheckVerdict::Failed);
        Ok(DoctorReport { ok, version: env!("CARGO_PKG_VERSION").to_owned(), checks })
    }

    async fn store(&self, by: &Caller) -> Answer<Vec<Check>> {
        let ledger = self.engine.ledger();
        if let Some(failure) = ledger.failure() {
            return Ok(vec![failed("store", failure, "start this process again; it goes on from disk")]);
        }
        let found = ledger.check().await.map_err(|error| unread(error, by))?;
        let pages = format!(
            "SQLite {}, schema {}, {} pages of {} bytes",
            found.sqlite, found.schema, found.pages, found.page_bytes
        );
        let store = match found.faults.as_slice() {
            [] => fine("store", pages),
            faults => failed(
                "store",
                format!("{pages}; {}", faults.join("; ")),
                "restore the last backup, and keep this file",
            ),
        };
        // The store does not open without `synchronous=FULL`; what is left to see is the journal.
        let durable = match found.journal_mode.as_str() {
            "wal" => {
                fine("durability", "journal wal, synchronous full: an answered commit survives a power cut".to_owned())
            }
            other => {
                failed("durability", format!("journal {other}, not wal"), "use a local file system that honours sync")
            }
        };
        Ok(vec![store, durable])
    }

    /// Rows without which something is as if it had never been registered.
    fn registry(&self) -> Option<Check> {
        let registry = self.engine.ledger().registry();
        let found = (!registry.unreadable.is_empty()).then(|| registry.unreadable.join("; "))?;
        Some(failed(
            "registry",
            found,
            "restore the last backup, and keep this file; or register what is missing again",
        ))
    }

    fn clock(&self) -> Check {
        let behind = self.now().since(crate::clock::now());
        if behind > CLOCK_BEHIND {
            let found = format!("this machine's clock is {} ms behind the last commit", behind.as_millis());
            return warning("clock", found, "set the clock; until then the ledger's time stands still");
        }
        fine("clock", "not behind the last commit".to_owned())
    }

    fn folder(&self) -> Check {
        let data = &self.facts.data;
        match std::fs::metadata(data) {
            Ok(folder) if folder.permissions().mode() & 0o077 == 0 => {
                fine("data directory", format!("{} is ours alone", data.display()))
            }
            Ok(folder) => {
                let found = format!(
                    "{} has mode {:o}: others reach the socket or the store",
                    data.display(),
                    folder.permissions().mode() & 0o777
                );
                failed("data directory", found, "chmod 700 it")
            }
            Err(error) => {
                failed("data directory", format!("{}: {error}", data.display()), "check that it is there and ours")
            }
        }
    }

    /// How the ledger stands to its export.
    async fn anchored(&self) -> Option<Check> {
        let state = self.engine.audit_state().await?;
        let export = state.export.display();
        Some(match (state.behind, state.trouble, state.last) {
            (Some(behind), ..) => failed("anchors", format!("{behind}: nothing is claimed"), RESTORED),
            (None, Some(trouble), _) => warning(
                "anchors",
                trouble,
                "mend that file, or name others in `[audit]` of stasis.toml; the next anchor catches up",
            ),
            (None, None, Some((n, _, at))) => fine("anchors", format!("{n} in {export}, the last of {}", at.second())),
            (None, None, None) => fine("anchors", format!("none yet in {export}")),
        })
    }

    fn image(&self) -> Check {
        match &self.facts.image {
            Ok(digest) => fine("guest image", digest.to_string()),
            Err(why) => failed("guest image", why.clone(), NO_IMAGE),
        }
    }

    fn configuration(&self) -> Check {
        match self.facts.doubts.as_slice() {
            [] => fine("configuration", "nothing in it looks like a mistake".to_owned()),
            doubts => warning("configuration", doubts.join("; "), "`stasis config check` names them by line"),
        }
    }

    /// Roles that rules in force ask and that no person has: such questions wait for `local` alone (C-145).
    fn nobody(&self) -> Option<Check> {
        let registry = self.engine.ledger().registry();
        let policy = &registry.policy;
        let asks = policy.rules.iter().filter_map(|rule| match &rule.verdict {
            Verdict::Ask(terms) => Some(terms),
            Verdict::Allow | Verdict::Deny { .. } => None,
        });
        let circles = asks.chain(policy.tools.values().map(|own| &own.terms)).flat_map(|terms| &terms.circles);
        let decides = |principal: &&Principal| principal.kind == Kind::Person && principal.can(Right::ApprovalsDecide);
        let people: Vec<&Principal> = registry.principals.values().filter(decides).collect();
        let missing: BTreeSet<&str> = circles
            .flat_map(|circle| &circle.roles)
            .filter(|role| !people.iter().any(|person| person.has_role(role)))
            .map(String::as_str)
            .collect();
        if missing.is_empty() || people.is_empty() {
            return None;
        }
        let roles = missing.into_iter().collect::<Vec<_>>().join(", ");
        let found = format!("rules ask people of role {roles}, and nobody has it: only `local` can decide");
        Some(warning("roles", found, "give somebody the role in `[[principal]]`, or mend the rule"))
    }

    fn approvers(&self) -> Check {
        let registry = self.engine.ledger().registry();
        let decides = |principal: &&Principal| principal.kind == Kind::Person && principal.can(Right::ApprovalsDecide);
        let people = registry.principals.values().filter(decides).count();
        match people {
            0 => warning(
                "approvers",
                "nobody but `local` can decide".to_owned(),
                "name people with `[[principal]]` in stasis.toml, and give them tokens with `stasis token new`",
            ),
            1 => fine("approvers", "one person can decide".to_owned()),
            n => fine("approvers", format!("{n} people can decide")),
        }
    }

    /// Resources that are closed until somebody resets them, and those whose last start failed; none is declared, none is told.
    fn hardware(&self) -> Option<Check> {
        let all = self.engine.resources();
        let contained = all.iter().filter_map(|resource| match &resource.state {
            State::Contained { why, .. } => Some(format!("{} is contained: {why}", resource.name)),
            _ => None,
        });
        let contained: Vec<String> = contained.collect();
        if !contained.is_empty() {
            let hint = "look at its processes, then `stasis resource reset NAME`";
            return Some(warning("resources", contained.join("; "), hint));
        }
        let failing = all.iter().filter(|resource| resource.state != State::Warm);
        let failing: Vec<String> = failing
            .filter_map(|resource| Some(format!("{}: {}", resource.name, resource.last_error.as_ref()?)))
            .collect();
        match (all.len(), failing.as_slice()) {
            (0, _) => None,
            (n, []) => Some(fine("resources", format!("{n} declared, none contained"))),
            _ => Some(warning("resources", failing.join("; "), "the next run that needs it starts it again")),
        }
    }

    /// Runs that cannot go on by themselves.
    async fn stuck(&self, by: &Caller) -> Answer<Check> {
        let counts = self.engine.ledger().counts().await.map_err(|error| unread(error, by))?;
        let waiting = format!("{} approvals wait for a person", counts.pending_approvals);
        let stuck = self.engine.stuck().await.map_err(|failure| told(failure, by))?;
        let stuck = self.known_to(by, stuck).await;
        if stuck.is_empty() {
            return Ok(fine("stuck runs", format!("none; {waiting}")));
        }
        let named = stuck.iter().take(STUCK_NAMED).map(|stuck| {
            format!("{} is {} since {}: {}", stuck.run, stuck.cause.as_str(), stuck.since.second(), stuck.detail)
        });
        let mut found = named.collect::<Vec<_>>().join("; ");
        if stuck.len() > STUCK_NAMED {
            found.push_str(&format!("; and {} more", stuck.len() - STUCK_NAMED));
        }
        let asked = stuck.iter().all(|stuck| stuck.cause == engine::Cause::Ambiguous);
        let hint = if asked { "stasis effect list --ambiguous" } else { "keep the ledger as it is; other runs go on" };
        Ok(warning("stuck runs", format!("{found}; {waiting}"), hint))
    }

    /// Those that the caller may know of. What cannot be read hides from nobody: it may be anybody's.
    async fn known_to(&self, by: &Caller, stuck: Vec<engine::Stuck>) -> Vec<engine::Stuck> {
        if by.principal.id == Principal::LOCAL {
            return stuck;
        }
        let mut known = Vec::new();
        for one in stuck {
            let row = match one.run.parse() {
                Ok(run) => self.row(by, run).await.map(drop),
                Err(_) => Ok(()),
            };
            if !row.is_err_and(|problem| problem.is(Code::NotFound)) {
                known.push(one);
            }
        }
        known
    }
}

async fn read(path: &str) -> String {
    tokio::fs::read_to_string(path).await.unwrap_or_default()
}

/// Guests' memory that is paged out lies on the swap device in plain text.
fn swap(swaps: &str) -> Check {
    match swaps.lines().skip(1).count() {
        0 => fine("swap", "none".to_owned()),
        n => warning(
            "swap",
            format!("{n} swap areas: what guests hold in memory may reach them"),
            "encrypt the swap, or keep `guest.page_out` off",
        ),
    }
}

fn kernel(release: &str) -> Check {
    let release = release.trim();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or_default());
    let version = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if version >= COOLING_KERNEL {
        return fine("kernel", format!("{release}: waiting guests can be cooled"));
    }
    let hint = "Linux 5.4 or newer cools waiting guests; everything else works";
    warning("kernel", format!("{release}: no advice to cool memory"), hint)
}

fn fine(name: &str, found: String) -> Check {
    Check { name: name.to_owned(), verdict: CheckVerdict::Ok, found, hint: None }
}

fn warning(name: &str, found: String, hint: &str) -> Check {
    Check { name: name.to_owned(), verdict: CheckVerdict::Warning, found, hint: Some(hint.to_owned()) }
}

fn failed(name: &str, found: String, hint: &str) -> Check {
    Check { name: name.to_owned(), verdict: CheckVerdict::Failed, found, hint: Some(hint.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_and_kernel_are_judged_by_what_the_system_says() {
        assert_eq!(swap("Filename Type Size\n").verdict, CheckVerdict::Ok); // I-11
        assert_eq!(swap("Filename Type Size\n/dev/sda2 partition 1\n").verdict, CheckVerdict::Warning); // I-11
        for (release, verdict) in [
            ("6.1.0-18-amd64", CheckVerdict::Ok),
            ("5.4.0", CheckVerdict::Ok),
            ("4.19.1", CheckVerdict::Warning),
            ("", CheckVerdict::Warning),
        ] {
            assert_eq!(kernel(release).verdict, verdict, "{release}"); // I-11
        }
    }
}
