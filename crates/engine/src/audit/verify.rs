//! Verifying: the chains of every run against themselves, and against what was exported (C-278 to C-280).
//!
//! Owns: reading what is to be verified. What is broken is judged in [`protocol::audit`].

use super::{Audit, AuditState, PublicKey};
use crate::engine::{Engine, needs_admin};
use crate::failure::Failure;
use protocol::audit::{self, Accepted, Anchored, Break, BreakKind, Evidence, Link};
use protocol::code::Code;
use protocol::command::Caller;
use protocol::id::RunId;
use protocol::time::Time;
use store::{Cursor, ReadError, RunFilter};

/// What was verified.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    pub runs: u64,
    pub events: u64,
    /// The first break.
    pub broken: Option<Break>,
    /// Where to go on, if there is more.
    pub next: Option<String>,
}

/// What became of comparing runs with what was anchored of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    pub anchors: u64,
    /// Runs whose last anchored head is in the ledger, or which were removed and are said to be.
    pub runs: u64,
    pub broken: Option<Break>,
    /// The run after which to go on, if there is more.
    pub next: Option<RunId>,
}

/// When a run that is not in the ledger any more may have been removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// An anchor tells of its removal.
    Told,
    /// None does: after the last one only.
    After(Time),
}

/// Which runs of an export to look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    All,
    One(RunId),
    After(RunId),
}

impl Runs {
    fn has(self, run: RunId) -> bool {
        match self {
            Runs::All => true,
            Runs::One(one) => run == one,
            Runs::After(last) => run > last,
        }
    }
}

/// Reads the lines of an export, with the key that they have to be signed with.
///
/// # Errors
/// The first break of the chain of anchors.
pub fn evidence<'l>(lines: impl IntoIterator<Item = &'l str>, key: &PublicKey) -> Result<Evidence, Break> {
    let mut evidence = Evidence::default();
    for line in lines {
        evidence.take(line, |text, signature| key.verifies(text, signature))?;
    }
    Ok(evidence)
}

impl Engine {
    /// The next runs of the whole ledger, newest first, each against itself.
    pub async fn verify_runs(&self, after: Option<&str>, limit: usize) -> Result<Verified, Failure> {
        let after = after.map(str::parse::<Cursor>).transpose()?;
        let page = self.ledger().runs(RunFilter::default(), after, limit).await?;
        let mut verified = Verified { next: page.next.map(|next| next.to_string()), ..Verified::default() };
        if let Some(fault) = page.faults.into_iter().next() {
            let at = match fault.key.parse() {
                Ok(run) => Link::Run { run, seq: None },
                Err(_) => return Err(Failure::Corrupt(fault.to_string())),
            };
            verified.broken = Some(unreadable(at, &fault));
            return Ok(verified);
        }
        for run in page.items {
            let one = self.verify_run(run.id).await?;
            verified.runs += one.runs;
            verified.events += one.events;
            if one.broken.is_some() {
                verified.broken = one.broken;
                break;
            }
        }
        Ok(verified)
    }

    /// One run against itself. A run that is not there is verified as none.
    pub async fn verify_run(&self, run: RunId) -> Result<Verified, Failure> {
        let at = Link::Run { run, seq: None };
        let chain = match self.ledger().chain(run).await {
            Ok(Some(chain)) => chain,
            Ok(None) => return Ok(Verified::default()),
            Err(ReadError::Corrupt(fault)) => {
                return Ok(Verified { runs: 1, broken: Some(unreadable(at, &fault)), ..Verified::default() });
            }
            Err(other) => return Err(other.into()),
        };
        let broken = audit::check(&chain).err();
        Ok(Verified { runs: 1, events: chain.events.len() as u64, broken, next: None })
    }

    /// The ledger against its own export, the next runs of it in the order of their ids; `None` is that nothing was exported
    /// (C-280).
    pub async fn verify_export(&self, runs: Runs, limit: usize) -> Result<Option<Compared>, Failure> {
        let Some(audit) = &self.inner.audit else { return Ok(None) };
        let Some(read) = audit.read().await? else { return Ok(None) };
        let mut compared = Compared { anchors: read.0, ..Compared::default() };
        let evidence = match read.1 {
            Ok(evidence) => evidence,
            Err(broken) => return Ok(Some(Compared { broken: Some(broken), ..compared })),
        };
        compared.broken = self.ends(&evidence).await?;
        if compared.broken.is_some() {
            return Ok(Some(compared));
        }
        let until = evidence.last.map_or(Time::EPOCH, |(_, _, at)| at);
        let Evidence { heads, removed, .. } = evidence;
        let mut wanted: Vec<(RunId, Anchored)> = heads.into_iter().filter(|(run, _)| runs.has(*run)).collect();
        wanted.sort_unstable_by_key(|(run, _)| *run);
        if wanted.len() > limit {
            wanted.truncate(limit);
            compared.next = wanted.last().map(|(run, _)| *run);
        }
        for (run, anchored) in wanted {
            let gone = if removed.contains(&run) { Gone::Told } else { Gone::After(until) };
            compared.broken = self.compare(run, anchored, gone).await?;
            if compared.broken.is_some() {
                break;
            }
            compared.runs += 1;
        }
        Ok(Some(compared))
    }

    /// Whether ledger and export end at the same anchor, but for one that may be on its way.
    async fn ends(&self, evidence: &Evidence) -> Result<Option<Break>, Failure> {
        let kept = self.ledger().last_anchor().await?.map_or(0, |kept| kept.n);
        let last = evidence.last.map_or(0, |(n, ..)| n);
        let (kind, n) = match kept {
            _ if kept > last + 1 => (BreakKind::Missing, last + 1),
            _ if kept < last => (BreakKind::Truncated, kept + 1),
            _ => return Ok(None),
        };
        let (expected, found) = match kind {
            BreakKind::Missing => (format!("{kept} in the export"), last.to_string()),
            _ => (format!("{last} in the ledger"), kept.to_string()),
        };
        Ok(Some(Break { at: Link::Anchor { n }, kind, field: "last anchor", expected, found }))
    }

    /// One run against what was anchored of it.
    pub async fn compare(&self, run: RunId, anchored: Anchored, gone: Gone) -> Result<Option<Break>, Failure> {
        let Anchored { n, head } = anchored;
        let seq = head.len.checked_sub(1);
        let at = Link::Run { run, seq };
        let found = match self.ledger().events(run, seq.and_then(|seq| seq.checked_sub(1)), 1).await {
            Ok(found) => found,
            Err(ReadError::Corrupt(fault)) => return Ok(Some(unreadable(at, &fault))),
            Err(other) => return Err(other.into()),
        };
        let expected = format!("{} of {} events by anchor {n}", head.digest, head.len);
        let broken =
            |kind, field, found: String| Ok(Some(Break { at, kind, field, expected: expected.clone(), found }));
        let Some(events) = found else {
            return match (self.ledger().removed(run).await?, gone) {
                (None, _) => broken(BreakKind::Missing, "run", "no such run".to_owned()),
                (Some(removed), Gone::After(until)) if removed.removed_at < until => {
                    broken(BreakKind::Missing, "run", "a removal that no anchor tells of".to_owned())
                }
                (Some(_), _) => Ok(None),
            };
        };
        match events.first() {
            Some(event) if event.digest == head.digest => Ok(None),
            Some(event) => broken(BreakKind::Altered, "event digest", event.digest.to_string()),
            None => {
                let len = self.ledger().run(run).await?.map_or(0, |run| run.events.len);
                broken(BreakKind::Truncated, "events", format!("{len} events"))
            }
        }
    }

    /// What is known of the export; `None` if this engine has none.
    pub async fn audit_state(&self) -> Option<AuditState> {
        match &self.inner.audit {
            Some(audit) => Some(audit.state(&self.inner.ledger).await),
            None => None,
        }
    }

    /// Why nothing is claimed: the ledger was restored from an old copy.
    pub fn behind(&self) -> Option<String> {
        self.inner.behind()
    }

    /// Lines of the export after anchor `after`, at most about a megabyte of them.
    pub async fn anchors(&self, after: u64) -> Result<Vec<String>, Failure> {
        match &self.inner.audit {
            Some(audit) => audit.lines(after).await,
            None => Ok(Vec::new()),
        }
    }

    /// Makes an anchor of what changed, now.
    pub async fn anchor(&self) -> Result<(), Failure> {
        self.inner.anchor().await.map_err(Failure::Audit)
    }

    /// Goes on with a ledger that was restored from an old copy. False: it was not.
    pub async fn accept_restored(&self, by: &Caller, reason: &str) -> Result<bool, Failure> {
        needs_admin(by)?;
        let Some(audit) = &self.inner.audit else { return Ok(false) };
        let reason = reason.trim();
        if reason.is_empty() {
            return Err(Failure::refused(Code::ReasonRequired, "a reason is needed: it stays in the export"));
        }
        let accepted = Accepted { by: by.principal.id.clone(), reason: reason.to_owned() };
        let changed = audit.accept(self.ledger(), accepted).await.map_err(Failure::Audit)?;
        if changed {
            tracing::warn!(by = by.principal.id, reason, "a restored ledger was accepted");
            self.inner.crew.look();
        }
        Ok(changed)
    }
}

/// How many bytes of lines one answer has.
const PAGE: usize = 1024 * 1024;

impl Audit {
    /// What the export says: how many anchors, and all of them together.
    async fn read(&self) -> Result<Option<(u64, Result<Evidence, Break>)>, Failure> {
        if self.exported().await.is_ok_and(|last| last.is_none()) {
            return Ok(None);
        }
        if !self.config.key.exists() {
            return Err(Failure::Audit(format!("the key {} is not there", self.config.key.display())));
        }
        let (export, key) = (self.export.clone(), self.key().await.map_err(Failure::Audit)?.public());
        let read = tokio::task::spawn_blocking(move || {
            let (mut evidence, mut count) = (Evidence::default(), 0);
            let all = export.read(|line| {
                count += 1;
                evidence.take(line, |text, signature| key.verifies(text, signature))
            })?;
            Ok::<_, std::io::Error>((count, all.map(|()| evidence)))
        });
        let read = read.await.map_err(|error| Failure::Internal(error.to_string()))?;
        match read {
            Ok((0, _)) => Ok(None),
            Ok(read) => Ok(Some(read)),
            Err(error) => Err(Failure::Audit(format!("{}: {error}", self.export.path().display()))),
        }
    }

    async fn lines(&self, after: u64) -> Result<Vec<String>, Failure> {
        let export = self.export.clone();
        let read = tokio::task::spawn_blocking(move || {
            let (mut n, mut size, mut lines) = (0, 0, Vec::new());
            let _enough: Result<(), ()> = export.read(|line| {
                n += 1;
                if n > after {
                    size += line.len();
                    lines.push(line.to_owned());
                }
                if size > PAGE { Err(()) } else { Ok(()) }
            })?;
            Ok::<_, std::io::Error>(lines)
        });
        let read = read.await.map_err(|error| Failure::Internal(error.to_string()))?;
        read.map_err(|error| Failure::Audit(format!("{}: {error}", self.export.path().display())))
    }
}

/// A row that no decision could have written.
fn unreadable(at: Link, fault: &store::Corrupt) -> Break {
    Break {
        at,
        kind: BreakKind::Altered,
        field: fault.field,
        expected: "a row as it was written".to_owned(),
        found: format!("{}: {}", fault.table, fault.why),
    }
}
