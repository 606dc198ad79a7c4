//! Whose business the bodies of a call or an approval are, and reading them as an auditor (C-282).
//!
//! Every answer that shows arguments, results, claims, forms, answers or reasons asks here first. For others they are
//! left out, which the answer says of itself by `withheld`. An auditor opens them by a request of its own, which is an
//! event of the run: a GET changes nothing (C-214), so no GET gives them.

use super::Service;
use super::failure::{told, unread};
use super::problem::{Answer, not_found, with_hint};
use api::run::ActionRequest;
use api::{Approval, Call};
use protocol::code::Code;
use protocol::command::{Caller, Opened};
use protocol::id::{ApprovalId, CallId};
use protocol::principal::Right;
use protocol::reading::concerns;
use protocol::{approval, call, run};
use store::CallOf;

/// Whether an answer has bodies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bodies {
    Shown,
    Withheld,
}

impl Bodies {
    fn shown_if(allowed: bool) -> Bodies {
        if allowed { Bodies::Shown } else { Bodies::Withheld }
    }
}

/// Of an approval: for who asked and who may decide it.
pub(super) fn of_approval(by: &Caller, row: &approval::Approval) -> Bodies {
    let binding = &row.binding;
    let acts_for = binding.acts_for.as_deref();
    Bodies::shown_if(concerns(&by.principal, &binding.requester, acts_for, [&*row.obligation]))
}

/// Of a call: for who asked, and who may decide one of the questions about it, which are among `questions`.
pub(super) fn of_call(by: &Caller, run: &run::Run, row: &call::Call, questions: &[approval::Approval]) -> Bodies {
    let about = questions.iter().filter(|question| question.call == row.id).map(|question| &*question.obligation);
    let acts_for = run.requester.acts_for.as_deref();
    Bodies::shown_if(concerns(&by.principal, &run.requester.subject, acts_for, about))
}

impl Service {
    /// As [`of_call`], with the questions about it read from the ledger.
    pub(super) async fn of_one_call(&self, by: &Caller, found: &CallOf) -> Answer<Bodies> {
        let mut questions = Vec::new();
        for id in [found.call.approval, found.call.settle].into_iter().flatten() {
            let question = self.engine.ledger().approval(id).await.map_err(|error| unread(error, by))?;
            questions.extend(question.map(|question| question.approval));
        }
        Ok(of_call(by, &found.run, &found.call, &questions))
    }

    /// An approval with its bodies. For whose business it is not, this is an auditor's reading.
    pub async fn read_approval(&self, by: &Caller, id: ApprovalId, request: &ActionRequest) -> Answer<Approval> {
        self.audits(by)?;
        let found = self.approval_row(by, id).await?;
        if of_approval(by, &found.approval) == Bodies::Withheld {
            self.open(by, Opened::Approval(id), request).await?;
        }
        self.draw_approval_with(by, &found.approval, &found.run.pattern.key, Bodies::Shown).await
    }

    /// A call with its bodies. For whose business it is not, this is an auditor's reading.
    pub async fn read_call(&self, by: &Caller, id: CallId, request: &ActionRequest) -> Answer<Call> {
        self.audits(by)?;
        let found = self.engine.ledger().call(id).await.map_err(|error| unread(error, by))?;
        let found = found.filter(|found| found.run.namespace == by.principal.namespace).ok_or_else(not_found)?;
        if self.of_one_call(by, &found).await? == Bodies::Withheld {
            self.open(by, Opened::Call(id), request).await?;
        }
        let receipt = self.receipts(by, found.run.id).await?.get(&found.call.identity.text(found.run.id)).copied();
        self.draw_call(by, &found.call, receipt, Bodies::Shown).await
    }

    async fn open(&self, by: &Caller, opened: Opened, request: &ActionRequest) -> Answer<()> {
        let reason = request.reason.as_deref();
        self.engine.read(by.clone(), opened, reason).await.map_err(|failure| told(failure, by))
    }

    fn audits(&self, by: &Caller) -> Answer<()> {
        if by.principal.can(Right::AuditRead) {
            return Ok(());
        }
        let detail = format!("{} does not have the right `{}`", by.principal.id, Right::AuditRead.as_str());
        let hint = "whoever asked, and who may decide, see what is theirs without it";
        Err(with_hint(Code::NotPermitted, detail, hint))
    }
}
