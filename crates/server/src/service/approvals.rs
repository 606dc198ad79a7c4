//! The verbs of approvals (I-25 to I-27, I-30).

use super::failure::{told, unread};
use super::list::{self, Filling};
use super::problem::{Answer, not_found, problem};
use super::runs::unknown;
use super::turn::Turn;
use super::{Service, invalid};
use api::approval::{self, ApprovalQuery, BatchAnswer, BatchItem, BatchRequest, BatchResult, ExtendRequest, Order};
use api::page::Page;
use api::{Approval, DecisionRequest, Json, Verdict};
use engine::DecideRequest;
use protocol::code::Code;
use protocol::command::Caller;
use protocol::id::{ApprovalId, CallId};
use protocol::limits::BATCH_DECISIONS;
use protocol::principal::Right;
use store::{ApprovalFilter, ApprovalOf, ApprovalOrder, ApprovalStatus};

/// Pages that one request for `mine` reads at most; it goes on by its cursor.
const LOOKS: usize = 20;

impl Service {
    /// A page of approvals: the pending ones unless the query says otherwise.
    pub async fn approvals(&self, by: &Caller, query: &ApprovalQuery) -> Answer<Page<Approval>> {
        self.reads_approvals(by)?;
        let status = status(query.status.as_deref())?;
        let urgent = status == ApprovalStatus::Pending && query.order == Some(Order::Expiring);
        let (limit, mut turn) = (list::limit(query.limit)?, Some(Turn::of(urgent, query.cursor.as_deref())?));
        if let Some(run) = query.run {
            self.row(by, run).await?;
        }
        let mut filter = ApprovalFilter {
            namespace: Some(by.principal.namespace.clone()),
            run: query.run,
            status: Some(status),
            kinds: Vec::new(),
            order: match query.order {
                None | Some(Order::Newest) => ApprovalOrder::Newest,
                Some(Order::Oldest) => ApprovalOrder::Oldest,
                Some(Order::Expiring) => ApprovalOrder::Expiring,
            },
        };
        let mine = query.mine == Some(true);
        let mut filling = Filling::new();
        for _ in 0..LOOKS {
            let Some(here) = turn.filter(|_| filling.len() < limit) else { break };
            filter.kinds = here.kinds();
            let page = self.engine.ledger().approvals(filter.clone(), here.after, limit - filling.len()).await;
            let page = page.map_err(|error| unread(error, by))?;
            for found in page.items.iter().filter(|found| !mine || may_decide(by, found)) {
                filling.keep(self.draw_approval(by, &found.approval, &found.run.pattern.key).await)?;
            }
            filling.lost(&page.faults);
            turn = here.then(page.next);
        }
        Ok(filling.page(turn.map(Turn::cursor)))
    }

    pub async fn approval(&self, by: &Caller, id: ApprovalId) -> Answer<Approval> {
        self.reads_approvals(by)?;
        let found = self.approval_row(by, id).await?;
        self.draw_approval(by, &found.approval, &found.run.pattern.key).await
    }

    /// Brings a verdict to its decision. The same again is answered with what stands.
    pub async fn decide(&self, by: &Caller, id: ApprovalId, request: DecisionRequest) -> Answer<Approval> {
        // What may not be known of is told apart from what is not there nowhere, edits included (C-165).
        self.approval_row(by, id).await?;
        let text = |json: Json| json.as_str().as_bytes().to_vec();
        let decide = DecideRequest {
            approval: id,
            verdict: request.decision.into(),
            arguments_digest: request.arguments_digest,
            edit: request.edit.map(text),
            answer: request.answer.map(text),
            reason: request.reason,
            unrenderable: request.unrenderable,
        };
        let decided = self.engine.decide(by.clone(), decide).await.map_err(|failure| told(failure, by))?;
        self.draw_approval(by, &decided.approval, &decided.run.pattern.key).await
    }

    /// Gives a question more time (C-192).
    pub async fn extend(&self, by: &Caller, id: ApprovalId, request: &ExtendRequest) -> Answer<Approval> {
        self.approval_row(by, id).await?;
        let reason = request.reason.as_deref();
        let extended = self.engine.extend(by.clone(), id, request.until, reason).await;
        let extended = extended.map_err(|failure| told(failure, by))?;
        self.draw_approval(by, &extended.approval, &extended.run.pattern.key).await
    }

    /// Decides each item alone; one refusal stops no other (C-199).
    pub async fn decide_batch(&self, by: &Caller, request: BatchRequest) -> Answer<BatchAnswer> {
        self.need(by, &[Right::ApprovalsDecide])?;
        let count = request.items.len();
        if !(1..=BATCH_DECISIONS).contains(&count) {
            return Err(invalid(format!("field `items`: {count} is not within 1 to {BATCH_DECISIONS}")));
        }
        let mut items = Vec::with_capacity(count);
        for item in request.items {
            let id = item.approval;
            let result = self.decide_of_batch(by, item).await;
            let (approval, problem) = match result {
                Ok(approval) => (Some(approval), None),
                Err(problem) => (None, Some(*problem)),
            };
            items.push(BatchResult { id: id.to_string(), approval, problem });
        }
        Ok(BatchAnswer { items })
    }

    /// C-200: an item without a digest, or one that has to be decided alone, is refused in a batch, and only it.
    async fn decide_of_batch(&self, by: &Caller, item: BatchItem) -> Answer<Approval> {
        if item.arguments_digest.is_none() {
            return Err(invalid("in a batch every item says by `arguments_digest` what was shown"));
        }
        let found = self.approval_row(by, item.approval).await?;
        if !found.approval.obligation.batch || found.approval.unrenderable {
            return Err(problem(Code::InvalidAnswer, "this has to be decided alone, not in a batch"));
        }
        let request = DecisionRequest {
            arguments_digest: item.arguments_digest,
            answer: item.answer,
            reason: item.reason,
            ..DecisionRequest::of(item.decision)
        };
        self.decide(by, item.approval, request).await
    }

    /// The decision of a call's `settle` approval, by the call's name (I-30).
    pub async fn settle(&self, by: &Caller, call: CallId, request: DecisionRequest) -> Answer<Approval> {
        let found = self.engine.ledger().call(call).await.map_err(|error| unread(error, by))?;
        let found = found.filter(|found| found.run.namespace == by.principal.namespace).ok_or_else(not_found)?;
        self.need(by, &[Right::ApprovalsDecide])?;
        let Some(question) = found.call.settle else {
            let detail = format!(
                "nobody asks whether {call} happened: its outcome is known, or it never passed its dispatch gate"
            );
            return Err(problem(Code::NotDispatched, detail));
        };
        if !matches!(request.decision, Verdict::Happened | Verdict::DidNotHappen | Verdict::GiveUp) {
            let detail = format!("a question of kind settle has no answer `{}`", request.decision.as_str());
            return Err(problem(Code::InvalidAnswer, detail));
        }
        self.decide(by, question, request).await
    }
}

/// Whether the caller could decide it as it stands: eligible, and not the one who asked where that is ruled out.
fn may_decide(by: &Caller, found: &ApprovalOf) -> bool {
    let person = &by.principal;
    let rule = &found.approval.obligation;
    let binding = &found.approval.binding;
    let asked = binding.requester == person.id || binding.acts_for.as_deref() == Some(&person.id);
    person.can(Right::ApprovalsDecide) && rule.eligible(person) && !(rule.separate_requester && asked)
}

fn status(word: Option<&str>) -> Answer<ApprovalStatus> {
    use approval::ApprovalStatus as Wire;
    match word {
        None => Ok(ApprovalStatus::Pending),
        Some("all") => Ok(ApprovalStatus::Any),
        Some(word) => match Wire::parse(word) {
            Some(Wire::Pending) => Ok(ApprovalStatus::Pending),
            Some(Wire::Approved) => Ok(ApprovalStatus::Approved),
            Some(Wire::Rejected) => Ok(ApprovalStatus::Rejected),
            Some(Wire::Expired) => Ok(ApprovalStatus::Expired),
            Some(Wire::Cancelled) => Ok(ApprovalStatus::Cancelled),
            None => Err(unknown("status", word, &["pending", "approved", "rejected", "expired", "cancelled", "all"])),
        },
    }
}
