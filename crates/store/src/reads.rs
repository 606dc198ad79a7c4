//! Reading the ledger. Every answer is a copy of one moment; nothing here locks, waits for, or changes a row.

use protocol::approval::Approval;
use protocol::audit::Chain;
use protocol::call::{Call, Receipt};
use protocol::digest::Digest;
use protocol::event::Event;
use protocol::id::{ApprovalId, CallId, JobId, MessageId, RunId, WebhookId};
use protocol::journal::Entry;
use protocol::pause::Shared;
use protocol::rows::LogLine;
use protocol::run::Run;
use protocol::time::Time;
use protocol::webhook::Message;
use std::collections::BTreeSet;

use crate::error::{Corrupt, ReadError};
use crate::ledger::Ledger;
use crate::page::{ApprovalFilter, Cursor, JobFilter, Page, RunFilter};
use crate::sqlite::{
    ApprovalOf, CallOf, Changed, Check, Claimable, Counts, Due, JobOf, LastAnchor, Old, Reach, Removed, Shown,
};

type Read<T> = Result<T, ReadError>;

/// `None` is: no such run, approval or call.
impl Ledger {
    pub async fn run(&self, id: RunId) -> Read<Option<Run>> {
        self.inner.readers.read(move |r| r.run(id)).await
    }

    /// A run with every row that belongs to it, ended ones too.
    pub async fn rows(&self, id: RunId) -> Read<Option<Shown>> {
        self.inner.readers.read(move |r| r.shown(id)).await
    }

    /// Runs, newest first.
    pub async fn runs(&self, filter: RunFilter, after: Option<Cursor>, limit: usize) -> Read<Page<Run>> {
        self.inner.readers.read(move |r| r.runs(&filter, after, limit)).await
    }

    pub async fn approval(&self, id: ApprovalId) -> Read<Option<ApprovalOf>> {
        self.inner.readers.read(move |r| r.approval(id)).await
    }

    /// Approvals with their runs, in the filter's order.
    pub async fn approvals(
        &self,
        filter: ApprovalFilter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Read<Page<ApprovalOf>> {
        self.inner.readers.read(move |r| r.approvals(&filter, after, limit)).await
    }

    /// The calls of a run in journal order; those the engine made itself come last.
    pub async fn calls(&self, run: RunId) -> Read<Option<Vec<Call>>> {
        self.inner.readers.read(move |r| r.calls(run)).await
    }

    pub async fn call(&self, id: CallId) -> Read<Option<CallOf>> {
        self.inner.readers.read(move |r| r.call(id)).await
    }

    /// Writes past their dispatch gate, newest first; or only the calls whose outcome is not known.
    pub async fn effects(
        &self,
        ambiguous: bool,
        run: Option<RunId>,
        after: Option<Cursor>,
        limit: usize,
    ) -> Read<Page<CallOf>> {
        self.inner.readers.read(move |r| r.effects(ambiguous, run, after, limit)).await
    }

    /// Jobs with their runs, newest first.
    pub async fn jobs(&self, filter: JobFilter, after: Option<Cursor>, limit: usize) -> Read<Page<JobOf>> {
        self.inner.readers.read(move |r| r.jobs(&filter, after, limit)).await
    }

    /// Jobs that were claimed under a key, whoever claimed them.
    pub async fn claimed_jobs(&self, claim_id: &str) -> Read<Page<JobOf>> {
        let claim_id = claim_id.to_owned();
        self.inner.readers.read(move |r| r.claimed(&claim_id)).await
    }

    /// Jobs of a kind that wait for an agent, in the order in which they are given out.
    pub async fn queued_jobs(&self, kind: &str, namespace: &str, limit: usize) -> Read<Vec<JobId>> {
        let [kind, namespace] = [kind, namespace].map(str::to_owned);
        self.inner.readers.read(move |r| r.queued_jobs(&kind, &namespace, limit)).await
    }

    /// The journal in order of position. Compare it with the run's head before use: [`protocol::journal::verify`].
    pub async fn journal(&self, run: RunId) -> Read<Option<Vec<Entry>>> {
        self.inner.readers.read(move |r| r.journal(run)).await
    }

    /// The body of the run's current checkpoint, its digest verified. `None` is a read that found nothing.
    pub async fn checkpoint(&self, run: RunId) -> Read<Option<Vec<u8>>> {
        self.inner.readers.read(move |r| r.checkpoint(run)).await
    }

    /// The frozen guest beside the checkpoint, its digest verified.
    pub async fn snapshot(&self, run: RunId) -> Read<Option<Vec<u8>>> {
        self.inner.readers.read(move |r| r.snapshot(run)).await
    }

    /// Receipts in order of commit.
    pub async fn receipts(&self, run: RunId) -> Read<Option<Vec<Receipt>>> {
        self.inner.readers.read(move |r| r.receipts(run)).await
    }

    /// Events of a run after number `after`, oldest first.
    pub async fn events(&self, run: RunId, after: Option<u32>, limit: usize) -> Read<Option<Vec<Event>>> {
        self.inner.readers.read(move |r| r.events(run, after, limit)).await
    }

    /// Events of all runs in order of commit, each with the place after it. `next` is where to go on (I-32).
    pub async fn events_all(&self, after: Option<Cursor>, limit: usize) -> Read<Page<(Cursor, Event)>> {
        self.inner.readers.read(move |r| r.events_all(after, limit)).await
    }

    /// The place after the last event of all.
    pub async fn last_event(&self) -> Read<Cursor> {
        self.inner.readers.read(|r| r.last_event()).await
    }

    /// Lines of the program's log after line `after`.
    pub async fn log(&self, run: RunId, after: Option<u32>, limit: usize) -> Read<Option<Vec<LogLine>>> {
        self.inner.readers.read(move |r| r.log(run, after, limit)).await
    }

    /// A body of a run, its digest verified.
    pub async fn body(&self, run: RunId, digest: Digest) -> Read<Option<Vec<u8>>> {
        self.inner.readers.read(move |r| r.body(run, digest)).await
    }

    /// A shared blob, its digest verified: a source, plan, tool spec or grant.
    pub async fn blob(&self, digest: Digest) -> Read<Option<Vec<u8>>> {
        self.inner.readers.read(move |r| r.blob(digest)).await
    }

    /// Hops that wait for a worker and that no pause holds, in the order of R-74, and rows among them that cannot be read.
    pub async fn claimable(&self, skip: usize, limit: usize) -> Read<(Vec<Claimable>, Vec<Corrupt>)> {
        let now = self.now();
        let registry = self.registry();
        let paused = registry.pauses.iter().filter(|(_, shade)| shade.now.is_some()).map(|(scope, _)| scope.clone());
        let paused: Vec<Shared> = paused.collect();
        self.inner.readers.read(move |r| r.claimable(now, &paused, skip, limit)).await
    }

    /// Hops that wait for a worker and whose pattern is none of these, the first so many of each pin.
    pub async fn waiting_for_others(&self, able: BTreeSet<Digest>, limit: usize) -> Read<Vec<Claimable>> {
        let now = self.now();
        self.inner.readers.read(move |r| r.waiting_for_others(now, &able, limit)).await
    }

    /// What is due at `now`, each list at most `limit` long and `skip` rows on.
    pub async fn due(&self, now: Time, reach: Reach, skip: usize, limit: usize) -> Read<Due> {
        self.inner.readers.read(move |r| r.due(now, reach, skip, limit)).await
    }

    /// Final runs that ended at `before` or earlier, among the next `limit` runs in the order of their admission.
    pub async fn old(&self, after: Option<Cursor>, before: Time, limit: usize) -> Read<Old> {
        self.inner.readers.read(move |r| r.old(after, before, limit)).await
    }

    /// What stays of a run that was removed.
    pub async fn removed(&self, id: RunId) -> Read<Option<Removed>> {
        self.inner.readers.read(move |r| r.removed(id)).await
    }

    /// All chains of a run, of one moment. What cannot be read is the error.
    pub async fn chain(&self, id: RunId) -> Read<Option<Chain>> {
        self.inner.readers.read(move |r| r.chain(id)).await
    }

    /// The last anchor that was kept.
    pub async fn last_anchor(&self) -> Read<Option<LastAnchor>> {
        self.inner.readers.read(|r| r.last_anchor()).await
    }

    /// Runs that changed, and runs that were removed, after what an anchor has seen; at most about `limit` of each.
    pub async fn changed(&self, after: Option<LastAnchor>, limit: usize) -> Read<Changed> {
        self.inner.readers.read(move |r| r.changed(after.as_ref(), limit)).await
    }

    /// Messages of a webhook that are to be sent at `now`, those that wait longest first.
    pub async fn due_messages(&self, webhook: WebhookId, now: Time, limit: usize) -> Read<Vec<Message>> {
        self.inner.readers.read(move |r| r.due_messages(webhook, now, limit)).await
    }

    /// One message of a webhook.
    pub async fn message(&self, id: MessageId) -> Read<Option<Message>> {
        self.inner.readers.read(move |r| r.message(id)).await
    }

    /// Messages of a webhook, newest first.
    pub async fn messages(&self, webhook: WebhookId, after: Option<Cursor>, limit: usize) -> Read<Page<Message>> {
        self.inner.readers.read(move |r| r.messages(webhook, after, limit)).await
    }

    /// When the next open wait ends by itself; `None` if none does.
    pub async fn next_due(&self) -> Read<Option<Time>> {
        self.inner.readers.read(|r| r.next_due()).await
    }

    /// How many runs wait in a queue, paused ones too.
    pub async fn queued(&self, queue: &str) -> Read<u64> {
        let queue = queue.to_owned();
        self.inner.readers.read(move |r| r.queued(&queue)).await
    }

    /// The run that an idempotency key made, with the digest of the request it came with.
    pub async fn admission(&self, namespace: &str, principal: &str, key: &str) -> Read<Option<(Digest, Run)>> {
        let [namespace, principal, key] = [namespace, principal, key].map(str::to_owned);
        self.inner.readers.read(move |r| r.admission(&namespace, &principal, &key)).await
    }

    /// How many approvals of all namespaces are pending.
    pub async fn pending_count(&self) -> Read<u64> {
        self.inner.readers.read(|r| r.pending_count()).await
    }

    /// How many approvals of a namespace are pending (C-143).
    pub async fn pending_count_of(&self, namespace: &str) -> Read<u64> {
        let namespace = namespace.to_owned();
        self.inner.readers.read(move |r| r.pending_count_of(&namespace)).await
    }

    pub async fn counts(&self) -> Read<Counts> {
        self.inner.readers.read(|r| r.counts()).await
    }

    /// Reads every page of the store and says what it found.
    pub async fn check(&self) -> Read<Check> {
        self.inner.readers.read(|r| r.check()).await
    }

    /// Copies the store into a new file while it is in use, and checks the copy (I-14a).
    pub async fn backup(&self, to: std::path::PathBuf) -> Read<Check> {
        self.inner.readers.read(move |r| r.backup(&to)).await
    }

    /// The approvals of a run that are still pending, oldest first (I-42).
    pub async fn pending(&self, run: RunId) -> Read<Vec<Approval>> {
        let rows = self.rows(run).await?;
        Ok(rows.map_or(Vec::new(), |rows| rows.approvals.into_iter().filter(Approval::is_pending).collect()))
    }
}
