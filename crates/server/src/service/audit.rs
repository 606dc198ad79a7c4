//! Verifying the ledger against itself and against its export (I-33).
//!
//! The whole ledger is the operator's: anchors name runs of every namespace. In other namespaces an auditor verifies one
//! run at a time.

use super::failure::told;
use super::problem::{Answer, not_found, with_hint};
use super::{Service, invalid};
use api::audit::{AuditHead, Broken, ClaimedHead, CompareRequest, VerifyAnswer, VerifyRequest};
use api::run::ActionRequest;
use api::{Json, Tail};
use engine::audit::{Gone, Runs, Verified};
use protocol::audit::Anchored;
use protocol::code::Code;
use protocol::command::Caller;
use protocol::id::RunId;
use protocol::principal::{DEFAULT_NAMESPACE, Right};
use protocol::run::Head;

/// Runs of one answer: some hundredths of a second.
const PAGE: usize = 200;
/// Heads of one request.
const HEADS: usize = 1_000;
/// Runs of the export in one answer. The whole export is read for each, so it is a longer one.
const EXPORTED: usize = 20_000;
/// What the cursors after the last run begin with.
const EXPORT: &str = "export:";

impl Service {
    pub async fn audit_head(&self, by: &Caller) -> Answer<AuditHead> {
        self.audits_all(by)?;
        self.drawn_head().await
    }

    async fn drawn_head(&self) -> Answer<AuditHead> {
        let Some(state) = self.engine.audit_state().await else { return Err(not_found()) };
        let (anchor, digest, at) = match state.last {
            Some((n, digest, at)) => (Some(n), Some(digest), Some(at)),
            None => (None, None, None),
        };
        Ok(AuditHead {
            anchor,
            digest,
            anchored_at: at,
            export: state.export.display().to_string(),
            public_key: state.key.map(|key| key.to_string()),
            behind: state.behind,
            last_error: state.trouble,
            changed: None,
        })
    }

    /// Lines of the export after an anchor.
    pub async fn anchors(&self, by: &Caller, after: Option<&str>) -> Answer<Tail<Json>> {
        self.audits_all(by)?;
        let from = after.unwrap_or("0");
        let from: u64 = from.parse().map_err(|_| invalid(format!("parameter `after`: `{from}` is no number")))?;
        let lines = self.engine.anchors(from).await.map_err(|failure| told(failure, by))?;
        let next = from + lines.len() as u64;
        // A line that is no JSON any more is shown as the text that it is; verifying tells where.
        let drawn = |line: String| Json::parse(&line).unwrap_or_else(|_| Json::of(&line).expect("a text is JSON"));
        Ok(Tail { items: lines.into_iter().map(drawn).collect(), next_after: Some(next.to_string()) })
    }

    /// Makes an anchor of what changed.
    pub async fn anchor(&self, by: &Caller) -> Answer<AuditHead> {
        self.audits_all(by)?;
        self.engine.anchor().await.map_err(|failure| told(failure, by))?;
        self.drawn_head().await
    }

    /// Goes on with a ledger that was restored from an old copy. `changed` of the answer says whether it was.
    pub async fn accept_restored(&self, by: &Caller, request: &ActionRequest) -> Answer<AuditHead> {
        self.need(by, &[Right::Admin])?;
        self.audits_all(by)?;
        let reason = request.reason.as_deref().unwrap_or_default();
        let accepted = self.engine.accept_restored(by, reason).await;
        let changed = Some(accepted.map_err(|failure| told(failure, by))?);
        Ok(AuditHead { changed, ..self.drawn_head().await? })
    }

    /// The next page of the whole ledger, or one run.
    pub async fn verify(&self, by: &Caller, request: &VerifyRequest) -> Answer<VerifyAnswer> {
        if let Some(run) = request.run {
            return self.verify_one(by, run).await;
        }
        self.audits_all(by)?;
        let exported = request.cursor.as_deref().and_then(|cursor| cursor.strip_prefix(EXPORT));
        if let Some(last) = exported {
            let runs = match last {
                "" => Runs::All,
                run => Runs::After(run.parse().map_err(|_| invalid("field `cursor`: it is not one of these answers"))?),
            };
            return self.verify_export(by, runs).await;
        }
        let verified = self.engine.verify_runs(request.cursor.as_deref(), PAGE).await;
        let verified = verified.map_err(|failure| told(failure, by))?;
        let next = verified.next.clone().unwrap_or_else(|| EXPORT.to_owned());
        let next_cursor = verified.broken.is_none().then_some(next);
        Ok(VerifyAnswer { next_cursor, ..drawn(verified) })
    }

    async fn verify_one(&self, by: &Caller, run: RunId) -> Answer<VerifyAnswer> {
        self.need(by, &[Right::AuditRead])?;
        match self.row(by, run).await {
            Ok(_) => {}
            // It may be gone, or not be readable: the whole ledger's auditor is told what is known of it.
            Err(_) if self.audits_all(by).is_ok() => {}
            Err(problem) => return Err(problem),
        }
        let verified = drawn(self.engine.verify_run(run).await.map_err(|failure| told(failure, by))?);
        if verified.broken.is_some() {
            return Ok(verified);
        }
        let export = self.verify_export(by, Runs::One(run)).await?;
        if verified.runs == 0 && export.anchored == 0 && export.broken.is_none() {
            return Err(not_found());
        }
        Ok(VerifyAnswer { runs: verified.runs, events: verified.events, ..export })
    }

    async fn verify_export(&self, by: &Caller, runs: Runs) -> Answer<VerifyAnswer> {
        let compared = self.engine.verify_export(runs, EXPORTED).await.map_err(|failure| told(failure, by))?;
        let Some(compared) = compared else { return Ok(VerifyAnswer { anchors: Some(0), ..VerifyAnswer::default() }) };
        let broken = compared.broken.as_ref().map(Broken::from);
        let next_cursor = compared.next.filter(|_| broken.is_none()).map(|run| format!("{EXPORT}{run}"));
        let (anchors, anchored) = (Some(compared.anchors), compared.runs);
        Ok(VerifyAnswer { anchors, anchored, broken, next_cursor, ..VerifyAnswer::default() })
    }

    /// Compares the ledger with what an export elsewhere says of it.
    pub async fn compare(&self, by: &Caller, request: &CompareRequest) -> Answer<VerifyAnswer> {
        self.audits_all(by)?;
        if request.heads.len() > HEADS {
            return Err(invalid(format!(
                "field `heads`: {} of them, and {HEADS} are one request",
                request.heads.len()
            )));
        }
        let mut answer = VerifyAnswer::default();
        for ClaimedHead { run, anchor, events, head, removed } in &request.heads {
            let anchored = Anchored { n: *anchor, head: Head { len: *events, digest: *head } };
            let gone = if *removed { Gone::Told } else { Gone::After(request.until) };
            let found = self.engine.compare(*run, anchored, gone).await.map_err(|failure| told(failure, by))?;
            answer.broken = found.as_ref().map(Broken::from);
            if answer.broken.is_some() {
                break;
            }
            answer.anchored += 1;
        }
        Ok(answer)
    }

    /// Refuses whoever may not know of runs of every namespace.
    fn audits_all(&self, by: &Caller) -> Answer<()> {
        self.need(by, &[Right::AuditRead])?;
        if by.principal.namespace == DEFAULT_NAMESPACE {
            return Ok(());
        }
        let detail = "anchors name runs of every namespace".to_owned();
        Err(with_hint(Code::NotPermitted, detail, "verify one run of your own with `run`"))
    }
}

fn drawn(verified: Verified) -> VerifyAnswer {
    let broken = verified.broken.as_ref().map(Broken::from);
    VerifyAnswer { runs: verified.runs, events: verified.events, broken, ..VerifyAnswer::default() }
}
