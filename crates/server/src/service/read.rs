//! Reading rows and the bodies that belong to them, for the views.

use super::Service;
use super::failure::unread;
use super::problem::{Answer, internal, not_found, problem};
use super::reading::{self, Bodies};
use crate::view;
use crate::view::run::Parts;
use api::run::Tier;
use api::{Approval, Call, Json, Run};
use protocol::approval::{self, Kind};
use protocol::call::Receipt;
use protocol::code::Code;
use protocol::command::Caller;
use protocol::digest::Digest;
use protocol::id::{ApprovalId, ReceiptId, RunId};
use protocol::json::{Canonical, Value};
use protocol::tool::ToolSpec;
use std::collections::HashMap;
use std::sync::Arc;

/// A run with everything that its views are drawn from.
pub(super) struct Read {
    pub(super) row: protocol::run::Run,
    pub(super) parts: Parts,
    pub(super) debts: Vec<protocol::rows::Debt>,
}

impl Service {
    /// The row of a run that the caller may know of (C-165).
    pub(super) async fn row(&self, by: &Caller, id: RunId) -> Answer<protocol::run::Run> {
        let row = self.engine.ledger().run(id).await.map_err(|error| unread(error, by))?;
        match row.filter(|row| row.namespace == by.principal.namespace) {
            Some(row) => Ok(row),
            None => Err(self.gone(by, id).await?),
        }
    }

    /// The same with every row that belongs to it.
    pub(super) async fn shown(&self, by: &Caller, id: RunId) -> Answer<store::Shown> {
        let shown = self.engine.ledger().rows(id).await.map_err(|error| unread(error, by))?;
        match shown.filter(|shown| shown.run.namespace == by.principal.namespace) {
            Some(shown) => Ok(shown),
            None => Err(self.gone(by, id).await?),
        }
    }

    /// What is told of a run that is not here: what stays of it, if it was removed.
    async fn gone(&self, by: &Caller, id: RunId) -> Answer<Box<api::Problem>> {
        let removed = self.engine.ledger().removed(id).await.map_err(|error| unread(error, by))?;
        let Some(removed) = removed.filter(|removed| removed.namespace == by.principal.namespace) else {
            return Ok(not_found());
        };
        let (status, at) = (removed.status, removed.removed_at.second());
        let mut problem = problem(Code::NotFound, format!("{id} ended as {status} and was removed at {at}"));
        problem.hint = Some("`[worker] retention` of the configuration says how long runs are kept".to_owned());
        problem.truth = view::run::removed(&removed);
        Ok(problem)
    }

    /// A run of the caller's namespace with its rows.
    pub(super) async fn whole(&self, by: &Caller, id: RunId) -> Answer<Read> {
        let shown = self.shown(by, id).await?;
        let row = shown.run;
        let result = match row.result() {
            Some(body) => Some(self.json(by, row.id, body.digest).await?),
            None => None,
        };
        let failure_detail = match row.failure() {
            Some(failure) => self.detail(by, row.id, failure).await?,
            None => None,
        };
        let mut titles = HashMap::new();
        let gates = shown.approvals.iter().filter(|approval| approval.kind() == Kind::Gate && approval.is_pending());
        for approval in gates.filter(|approval| reading::of_approval(by, approval) == Bodies::Shown) {
            titles.extend(self.title(by, approval).await?.map(|title| (approval.id, title)));
        }
        let receipts = match shown.calls.is_empty() {
            true => HashMap::new(),
            false => self.receipts(by, row.id).await?,
        };
        let registry = self.engine.ledger().registry();
        let parts = Parts {
            waits: shown.waits,
            approvals: shown.approvals,
            titles,
            calls: shown.calls,
            receipts,
            obligations: shown.obligations,
            jobs: shown.jobs,
            result,
            failure_detail,
            tier: self.tier(&row),
            place: self.engine.place_in_line(row.id).map(|place| place as u64),
            blocked: self.engine.blocked(row.id).map(|stuck| stuck.detail).or_else(|| self.not_claimed(&row)),
            pauses: view::run::pauses(&row, &registry),
            paused_us: protocol::pause::between(&row, &registry, row.clocks.since, self.now()),
        };
        Ok(Read { row, parts, debts: shown.debts })
    }

    /// Draws a run that was read.
    pub(super) fn draw(&self, read: &Read) -> Run {
        let registry = self.engine.ledger().registry();
        let specs = |name: &str, version: &str| registry.tool(name, version);
        view::run::run(&read.row, &read.parts, &self.facts.limits, &specs, self.now())
    }

    /// Where the run's waiting guest lives: in this process, or frozen beside its checkpoint.
    fn tier(&self, row: &protocol::run::Run) -> Option<Tier> {
        let status = row.status();
        if status.is_active() {
            let here = self.engine.guests().into_iter().any(|guest| guest.run == row.id && guest.resident);
            return here.then_some(Tier::Hot);
        }
        let kept = row.checkpoint.as_ref().is_some_and(|checkpoint| {
            checkpoint.snapshot.as_ref().is_some_and(|snapshot| snapshot.consumed_by.is_none())
        });
        (status.is_parked() && kept).then_some(Tier::Frozen)
    }

    /// The last receipt of each call, by the call's identity.
    pub(super) async fn receipts(&self, by: &Caller, run: RunId) -> Answer<HashMap<String, ReceiptId>> {
        let receipts = self.engine.ledger().receipts(run).await.map_err(|error| unread(error, by))?;
        let named = |receipt: &Receipt| {
            let call = receipt.record.value().get("call")?.as_str()?.to_owned();
            Some((call, receipt.id))
        };
        Ok(receipts.unwrap_or_default().iter().filter_map(named).collect())
    }

    /// Why nothing here claims a run that waits for a worker: the ledger was restored from an old copy.
    fn not_claimed(&self, row: &protocol::run::Run) -> Option<String> {
        let waits = row.status() == protocol::run::Status::Queued;
        self.engine.behind().filter(|_| waits).map(|why| format!("{why}; `stasis audit accept --reason ...` goes on"))
    }

    /// A stored body, which was verified against its digest.
    pub(super) async fn body(&self, by: &Caller, run: RunId, digest: Digest) -> Answer<Vec<u8>> {
        let body = self.engine.ledger().body(run, digest).await.map_err(|error| unread(error, by))?;
        body.ok_or_else(|| internal(&format!("body {digest} of {run} is not there"), by.request))
    }

    /// A stored JSON body, byte for byte (I-40).
    pub(super) async fn json(&self, by: &Caller, run: RunId, digest: Digest) -> Answer<Json> {
        let bytes = self.body(by, run, digest).await?;
        let canonical = Canonical::from_stored(&bytes);
        let canonical = canonical.ok_or_else(|| internal(&format!("body {digest} of {run} is no JSON"), by.request))?;
        Ok(view::json(&canonical))
    }

    /// What a failure says beside its message: of a script line and traceback, which is kept as a body (I-41).
    async fn detail(&self, by: &Caller, run: RunId, failure: &protocol::run::Failure) -> Answer<Option<Json>> {
        let Some(detail) = &failure.detail else { return Ok(None) };
        let Value::Object(mut fields) = detail.value() else { return Ok(Some(view::json(detail))) };
        let kept = fields.get("traceback").and_then(Value::as_str).and_then(|digest| digest.parse::<Digest>().ok());
        if let Some(digest) = kept {
            fields.insert("traceback".to_owned(), Value::String(self.text(by, run, digest).await?));
        }
        // Put together it may be over the limit of one body; then the digest has to do.
        let whole = Value::Object(fields).canonical();
        Ok(Some(view::json(whole.as_ref().unwrap_or(detail))))
    }

    /// A stored text.
    pub(super) async fn text(&self, by: &Caller, run: RunId, digest: Digest) -> Answer<String> {
        Ok(String::from_utf8_lossy(&self.body(by, run, digest).await?).into_owned())
    }

    /// The title of a gate, which the program gave as an argument. A run is shown without it where it is damaged.
    async fn title(&self, by: &Caller, row: &approval::Approval) -> Answer<Option<String>> {
        let arguments = match self.json(by, row.run, row.arguments.digest).await {
            Err(problem) if problem.is(Code::Internal) => return Ok(None),
            arguments => arguments?,
        };
        Ok(title_of(&arguments))
    }

    /// Draws an approval, with its bodies where they are the caller's business.
    pub(super) async fn draw_approval(
        &self,
        by: &Caller,
        row: &approval::Approval,
        workflow: &str,
    ) -> Answer<Approval> {
        self.draw_approval_with(by, row, workflow, reading::of_approval(by, row)).await
    }

    pub(super) async fn draw_approval_with(
        &self,
        by: &Caller,
        row: &approval::Approval,
        workflow: &str,
        bodies: Bodies,
    ) -> Answer<Approval> {
        let spec = self.spec(row);
        let bodies = match bodies {
            Bodies::Shown => Some(self.approval_bodies(by, row, spec.as_deref()).await?),
            Bodies::Withheld => None,
        };
        let title = match (row.kind(), &bodies) {
            (Kind::Gate, bodies) => bodies.as_ref().and_then(|b| title_of(b.arguments.as_ref()?)),
            (Kind::Call | Kind::Settle, _) => spec.as_ref().and_then(|spec| spec.title.clone()),
        };
        let description = spec.map(|spec| spec.description.clone()).filter(|text| !text.is_empty());
        let about = view::approval::About { workflow: workflow.to_owned(), title, description };
        Ok(view::approval::approval(row, about, bodies))
    }

    async fn approval_bodies(
        &self,
        by: &Caller,
        row: &approval::Approval,
        spec: Option<&ToolSpec>,
    ) -> Answer<view::approval::Bodies> {
        let mut reasons = HashMap::new();
        for reason in row.votes.iter().filter_map(|vote| vote.reason) {
            reasons.insert(reason.digest, self.text(by, row.run, reason.digest).await?);
        }
        Ok(view::approval::Bodies {
            arguments: Some(self.json(by, row.run, row.arguments.digest).await?),
            claim: match row.claim {
                Some(claim) => Some(self.text(by, row.run, claim.digest).await?),
                None => None,
            },
            form: self.maybe_json(by, row.run, row.form.map(|form| form.digest)).await?,
            answer: self.maybe_json(by, row.run, row.answer.map(|answer| answer.digest)).await?,
            asked: match row.asked_arguments == row.arguments.digest {
                true => None,
                false => Some(self.json(by, row.run, row.asked_arguments).await?),
            },
            settle: match row.kind() {
                Kind::Settle => Some(self.about_settling(by, row, spec).await?),
                Kind::Call | Kind::Gate => None,
            },
            reasons,
        })
    }

    /// Draws a call, with its bodies or without.
    pub(super) async fn draw_call(
        &self,
        by: &Caller,
        row: &protocol::call::Call,
        receipt: Option<ReceiptId>,
        bodies: Bodies,
    ) -> Answer<Call> {
        let bodies = match bodies {
            Bodies::Withheld => None,
            Bodies::Shown => Some(view::call::Bodies {
                arguments: self.json(by, row.run, row.arguments.digest).await?,
                outcome: self
                    .maybe_json(by, row.run, row.outcome().and_then(|o| o.body).map(|body| body.digest))
                    .await?,
                seen: self.seen(by, row).await?,
            }),
        };
        Ok(view::call::call(row, bodies, receipt))
    }

    pub(super) async fn maybe_json(&self, by: &Caller, run: RunId, digest: Option<Digest>) -> Answer<Option<Json>> {
        match digest {
            Some(digest) => self.json(by, run, digest).await.map(Some),
            None => Ok(None),
        }
    }

    fn spec(&self, row: &approval::Approval) -> Option<Arc<ToolSpec>> {
        self.engine.ledger().registry().tool(&row.binding.tool, &row.binding.tool_version)
    }

    /// An approval that the caller may know of, with the key of its workflow.
    pub(super) async fn approval_row(&self, by: &Caller, id: ApprovalId) -> Answer<store::ApprovalOf> {
        let found = self.engine.ledger().approval(id).await.map_err(|error| unread(error, by))?;
        found.filter(|found| found.run.namespace == by.principal.namespace).ok_or_else(not_found)
    }
}

/// The title that a program gave its gate.
fn title_of(arguments: &Json) -> Option<String> {
    Some(arguments.peek().get("title")?.as_str()?.to_owned())
}
