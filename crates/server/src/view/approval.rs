//! An approval as the wire shows it (I-43).

use api::approval::{ApprovalStatus, Decision, Dispatch, Operand, Progress, Rule, Settle};
use api::{Approval, Json};
use protocol::approval::{self, Ending, Phase, Status, Vote};
use protocol::digest::Digest;
use protocol::policy::Obligation;
use std::collections::HashMap;

/// The bodies of one approval, as they are stored.
#[derive(Clone, Default, Debug)]
pub(crate) struct Bodies {
    pub(crate) arguments: Option<Json>,
    /// Where an approver has edited them.
    pub(crate) asked: Option<Json>,
    /// What the agent says about it.
    pub(crate) claim: Option<String>,
    pub(crate) form: Option<Json>,
    pub(crate) answer: Option<Json>,
    pub(crate) settle: Option<Settle>,
    /// Reasons of votes, by digest.
    pub(crate) reasons: HashMap<Digest, String>,
}

/// What the tool's spec and the run say beside the row.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) workflow: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
}

/// Draws an approval; without bodies where they are withheld (C-282).
pub(crate) fn approval(row: &approval::Approval, about: About, bodies: Option<Bodies>) -> Approval {
    let withheld = bodies.is_none();
    let bodies = bodies.unwrap_or_default();
    let binding = &row.binding;
    let operands = operands(binding, bodies.arguments.as_ref());
    Approval {
        id: row.id,
        kind: row.kind().into(),
        status: status(&row.status),
        run: row.run,
        workflow: about.workflow,
        call: row.call,
        identity: binding.call.clone(),
        tool: binding.tool.clone(),
        tool_version: binding.tool_version.clone(),
        title: about.title,
        description: about.description,
        claim: bodies.claim,
        withheld,
        arguments: bodies.arguments,
        arguments_digest: row.arguments.digest,
        asked_arguments: bodies.asked,
        asked_arguments_digest: row.asked_arguments,
        operands,
        unrenderable: row.unrenderable,
        form: bodies.form,
        plan_digest: binding.plan,
        policy_digest: binding.policy,
        binding_digest: row.binding_digest,
        revision: binding.revision,
        requester: binding.requester.clone(),
        acts_for: binding.acts_for.clone(),
        rule: rule(&row.obligation),
        progress: progress(row),
        created_at: binding.created_at,
        expires_at: row.expires_at,
        valid_until_at: match row.status {
            Status::Approved { valid_until, .. } => valid_until,
            _ => None,
        },
        decided_at: row.decided_at(),
        decisions: row.votes.iter().map(|vote| decision(vote, &bodies.reasons)).collect(),
        answer: bodies.answer,
        dispatch: dispatch(&row.status),
        settle: bodies.settle,
    }
}

/// Content that the arguments name, by the digests to which the question is bound.
fn operands(binding: &approval::Binding, arguments: Option<&Json>) -> Vec<Operand> {
    if binding.operands.is_empty() {
        return Vec::new();
    }
    let arguments = arguments.map(Json::peek).unwrap_or_default();
    let operand = |(pointer, digest): &(String, Digest)| Operand {
        pointer: pointer.clone(),
        name: arguments.pointer(pointer).and_then(|name| name.as_str()).map(str::to_owned),
        digest: *digest,
    };
    binding.operands.iter().map(operand).collect()
}

pub(crate) const fn status(status: &Status) -> ApprovalStatus {
    match status {
        Status::Pending => ApprovalStatus::Pending,
        Status::Approved { .. } => ApprovalStatus::Approved,
        Status::Rejected { .. } => ApprovalStatus::Rejected,
        Status::Expired { .. } => ApprovalStatus::Expired,
        Status::Cancelled { .. } => ApprovalStatus::Cancelled,
    }
}

/// The resolved obligation as far as people have to know it.
fn rule(obligation: &Obligation) -> Rule {
    Rule {
        roles: obligation.roles.clone(),
        principals: obligation.principals.clone(),
        quorum: obligation.quorum,
        reject_quorum: obligation.reject_quorum,
        separate_requester: obligation.separate_requester,
        edit: obligation.edit.into(),
        reason: obligation.reason.into(),
        on_expiry: obligation.on_expiry.into(),
        strength: obligation.strength.into(),
        batch: obligation.batch,
    }
}

fn progress(row: &approval::Approval) -> Progress {
    let tally = row.tally();
    Progress {
        approve: tally.approve,
        reject: tally.reject,
        abstain: tally.abstain,
        quorum: row.obligation.quorum,
        of: row.obligation.all_named().map(|named| u32::try_from(named).unwrap_or(u32::MAX)), // C-180
    }
}

fn decision(vote: &Vote, reasons: &HashMap<Digest, String>) -> Decision {
    Decision {
        principal: vote.principal.clone(),
        method: vote.method.as_str().to_owned(),
        strength: vote.strength.into(),
        verdict: vote.verdict.into(),
        reason: vote.reason.and_then(|reason| reasons.get(&reason.digest).cloned()),
        at: vote.at,
        late: vote.late,
        edited: vote.edited,
    }
}

/// What became of a yes: there once its dispatch gate was passed, or once it is clear that it never will be (C-136).
fn dispatch(status: &Status) -> Option<Dispatch> {
    let Status::Approved { phase, .. } = status else { return None };
    match *phase {
        Phase::Open => None,
        Phase::Gated { at } => Some(Dispatch { gate_at: Some(at), executed: false, outcome: None, completed_at: None }),
        Phase::Ended { gate_at, at, how } => {
            let executed = matches!(how, Ending::Ok | Ending::Error | Ending::Ambiguous); // C-119
            let outcome = Some(how.as_str().to_owned());
            Some(Dispatch { gate_at, executed, outcome, completed_at: executed.then_some(at) })
        }
    }
}
