//! Anchors and their proof: what the ledger's chains were, said outside of it (calls.md section 14, R-361, R-362).
//!
//! Owns: when an anchor is made, the export and its key, and whether the ledger stands behind what it has said before. An
//! anchor is kept in the ledger first and exported then, so that a crash between the two loses none: the next one exports
//! what is kept. Invariant: while the ledger is behind its export nothing is claimed and nothing is anchored.

mod export;
mod key;
mod verify;

pub use key::{NoPublicKey, PublicKey};
pub use verify::{Compared, Gone, Runs, Verified, evidence};

use crate::inner::Inner;
use export::Export;
use key::Key;
use protocol::audit::anchor::AnchoredHead;
use protocol::audit::{Accepted, Anchor, Signed};
use protocol::digest::Digest;
use protocol::time::Time;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use store::{LastAnchor, Ledger};

/// Where anchors go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditConfig {
    /// The export, best on another disk than the ledger.
    pub export: PathBuf,
    /// The signing key.
    pub key: PathBuf,
}

/// What is known of the export, for readiness and doctor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditState {
    /// Number, digest and time of the last exported anchor.
    pub last: Option<(u64, Digest, Time)>,
    /// Why the ledger stands behind it: it was restored from an old copy.
    pub behind: Option<String>,
    /// Why no anchor could be made or exported the last time.
    pub trouble: Option<String>,
    pub export: PathBuf,
    /// Public half of the key, if there is one.
    pub key: Option<PublicKey>,
}

/// Runs of one anchor: about a megabyte.
const HEADS: usize = 8_192;

/// The anchors of one process.
pub(crate) struct Audit {
    config: AuditConfig,
    export: Export,
    behind: Mutex<Option<String>>,
    trouble: Mutex<Option<String>>,
    /// Held while an anchor is made.
    turn: tokio::sync::Mutex<()>,
}

impl Audit {
    /// Compares the ledger with its export. It fails nothing: what is wrong is in the state.
    pub(crate) async fn open(config: AuditConfig, ledger: &Ledger) -> Audit {
        let audit = Audit {
            export: Export::new(config.export.clone()),
            config,
            behind: Mutex::default(),
            trouble: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        };
        match audit.stands(ledger).await {
            Ok(behind) => {
                if let Some(why) = &behind {
                    tracing::error!(why, "the ledger was restored from an old copy: nothing is claimed");
                }
                *audit.behind.lock().unwrap_or_else(PoisonError::into_inner) = behind;
            }
            Err(why) => audit.troubled(Some(why)),
        }
        audit
    }

    /// Why the ledger is behind its export.
    pub(crate) fn behind(&self) -> Option<String> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn troubled(&self, why: Option<String>) {
        if let Some(why) = &why {
            tracing::warn!(why, "no anchor is exported");
        }
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Whether the ledger stands behind its export, and why it does.
    async fn stands(&self, ledger: &Ledger) -> Result<Option<String>, String> {
        let Some(exported) = self.exported().await? else { return Ok(None) };
        let kept = ledger.last_anchor().await.map_err(|error| error.to_string())?;
        let (n, digest) = (exported.anchor.n, exported.anchor.digest());
        let export = self.config.export.display();
        Ok(match kept {
            None => Some(format!("{export} has anchor {n}, and the ledger knows of none")),
            Some(kept) if kept.n < n => Some(format!("{export} has anchor {n}, and the ledger ends at {}", kept.n)),
            Some(kept) if kept.n == n && kept.digest != digest => {
                Some(format!("anchor {n} of {export} is not the ledger's"))
            }
            Some(_) => None,
        })
    }

    /// The last exported anchor.
    async fn exported(&self) -> Result<Option<Signed>, String> {
        let export = self.export.clone();
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", self.config.export.display());
        let last = tokio::task::spawn_blocking(move || export.last()).await.map_err(|error| told(&error))?;
        let Some(line) = last.map_err(|error| told(&error))? else { return Ok(None) };
        serde_json::from_str(&line).map(Some).map_err(|error| told(&format!("its last line is no anchor: {error}")))
    }

    async fn key(&self) -> Result<Key, String> {
        let path = self.config.key.clone();
        tokio::task::spawn_blocking(move || Key::open(&path)).await.map_err(|error| error.to_string())?
    }

    async fn append(&self, line: String) -> Result<(), String> {
        let export = self.export.clone();
        let added =
            tokio::task::spawn_blocking(move || export.append(&line)).await.map_err(|error| error.to_string())?;
        added.map_err(|error| format!("{} cannot be written: {error}", self.config.export.display()))
    }

    /// Exports what is kept and was not exported, then what changed since.
    async fn make(&self, ledger: &Ledger) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        if let Some(why) = self.behind() {
            return Err(why);
        }
        self.catch_up(ledger).await?;
        loop {
            let last = ledger.last_anchor().await.map_err(|error| error.to_string())?;
            let changed = ledger.changed(last.clone(), HEADS).await.map_err(|error| error.to_string())?;
            let key = self.key().await?;
            let mut anchor = Anchor::after(last.map(|last| (last.n, last.digest)), ledger.now(), key.id());
            let head = |(run, head): &(_, protocol::run::Head)| AnchoredHead {
                run: *run,
                events: head.len,
                head: head.digest,
            };
            anchor.heads = changed.heads.iter().map(head).collect();
            anchor.removed = changed.removed;
            if anchor.is_empty() {
                return Ok(());
            }
            self.keep(ledger, &key, anchor, changed.seen).await?;
            if !changed.more {
                return Ok(());
            }
        }
    }

    /// Exports the kept anchor if the export does not have it: a process died between the two.
    async fn catch_up(&self, ledger: &Ledger) -> Result<(), String> {
        if let Some(why) = self.misfit(ledger).await? {
            return Err(why);
        }
        let Some(kept) = ledger.last_anchor().await.map_err(|error| error.to_string())? else { return Ok(()) };
        match self.exported().await? {
            Some(last) if last.anchor.n >= kept.n => Ok(()),
            _ => self.append(kept.line).await,
        }
    }

    /// Why nothing may be added to the export: it lacks earlier anchors, or another key has signed it, so that what is added
    /// would not verify. That needs a person.
    async fn misfit(&self, ledger: &Ledger) -> Result<Option<String>, String> {
        let Some(kept) = ledger.last_anchor().await.map_err(|error| error.to_string())? else { return Ok(None) };
        let (export, anew) =
            (self.config.export.display(), "move the export away and begin anew with `stasis audit accept`");
        let last = self.exported().await?;
        if let Some(last) = &last {
            let (signed, path) = (&last.anchor.key, self.config.key.display());
            if !self.config.key.exists() {
                return Ok(Some(format!(
                    "{export} was signed with key {signed}, and {path} is gone: bring it back, or {anew}"
                )));
            }
            if *signed != self.key().await?.id() {
                return Ok(Some(format!(
                    "{export} was signed with key {signed}, which {path} is not: bring it back, or {anew}"
                )));
            }
        }
        let n = last.map_or(0, |last| last.anchor.n);
        Ok((n + 1 < kept.n).then(|| {
            format!("{export} ends at anchor {n}, and the ledger has made {}: bring the rest back, or {anew}", kept.n)
        }))
    }

    /// Keeps an anchor, then exports it.
    async fn keep(&self, ledger: &Ledger, key: &Key, anchor: Anchor, seen: store::Seen) -> Result<(), String> {
        let text = anchor.text();
        let (n, digest) = (anchor.n, Digest::of(&text));
        let line = Signed { anchor, signature: key.sign(&text) }.line();
        let last = LastAnchor { n, digest, line: line.clone(), seen };
        ledger.anchor(last).await.map_err(|error| error.to_string())?;
        crate::failpoint::hit("anchor.kept");
        self.append(line).await?;
        crate::failpoint::hit("anchor.exported");
        Ok(())
    }

    /// Goes on from an old copy, or begins an export that was lost anew, with an operator's word for it; false if there
    /// is nothing to accept.
    async fn accept(&self, ledger: &Ledger, accepted: Accepted) -> Result<bool, String> {
        let _turn = self.turn.lock().await;
        let exported = self.exported().await?.map(|last| (last.anchor.n, last.anchor.digest()));
        let kept = ledger.last_anchor().await.map_err(|error| error.to_string())?.map(|kept| (kept.n, kept.digest));
        let last = match (exported, kept) {
            (Some(exported), _) if self.behind().is_some() => exported,
            (None, Some(kept)) => kept,
            _ => return Ok(false),
        };
        let key = self.key().await?;
        let mut anchor = Anchor::after(Some(last), ledger.now(), key.id());
        anchor.accepted = Some(accepted);
        // What it says of every run is said anew, from the first event on.
        self.keep(ledger, &key, anchor, store::Seen::default()).await?;
        *self.behind.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(true)
    }

    async fn state(&self, ledger: &Ledger) -> AuditState {
        let exported = self.exported().await;
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (last, unread) = match exported {
            Ok(last) => (last.map(|signed| (signed.anchor.n, signed.anchor.digest(), signed.anchor.at)), None),
            Err(why) => (None, Some(why)),
        };
        // A key that is not there yet is made with the first anchor.
        let (key, locked) = match self.config.key.exists() {
            true => self.key().await.map_or_else(|why| (None, Some(why)), |key| (Some(key.public()), None)),
            false => (None, None),
        };
        let misfit = self.misfit(ledger).await.ok().flatten();
        let export = self.config.export.clone();
        AuditState { last, behind: self.behind(), trouble: trouble.or(unread).or(locked).or(misfit), export, key }
    }
}

impl Inner {
    /// Whether hops may be claimed: not while the ledger is behind its own export.
    pub(crate) fn may_claim(&self) -> bool {
        self.behind().is_none()
    }

    /// Why nothing is claimed: the ledger was restored from an old copy.
    pub(crate) fn behind(&self) -> Option<String> {
        self.audit.as_ref().and_then(Audit::behind)
    }

    /// Makes an anchor of what changed, if anchors are made here.
    pub(crate) async fn anchor(&self) -> Result<(), String> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let made = audit.make(&self.ledger).await;
        audit.troubled(made.clone().err().filter(|_| audit.behind().is_none()));
        made
    }
}

/// An anchor every `anchor_every`, until the engine stops (C-276).
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut due = tokio::time::interval(inner.settings.anchor_every);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            _ = due.tick() => drop(inner.anchor().await),
        }
    }
}
