//! The policy of now, as decisions ask it (calls.md sections 5 and 8).

use super::Cx;
use crate::approval::{Approval, Verdict};
use crate::call::Call;
use crate::json::Canonical;
use crate::policy::{Circle, Judgement, Obligation, Question};
use crate::principal::Roles;
use crate::run::Run;

/// Judges a call by the policy in force. A tool that is not registered any more is denied; the gate's check of the
/// tool itself comes first and says so.
pub(super) fn judge(cx: &Cx<'_>, run: &Run, call: &Call, arguments: &Canonical) -> Judgement {
    let Some(tool) = cx.registry.tool(&call.tool.name, &call.tool.version) else {
        return Judgement::Deny { reason: format!("{} is not registered", call.tool.name) };
    };
    let nobody = Roles::These(std::collections::BTreeSet::new());
    let requester = cx.registry.principal(&run.requester.subject);
    cx.registry.policy.judge(&Question {
        tool: &tool,
        workflow: &run.pattern.key,
        requester: requester.as_ref().map_or(&nobody, |person| &person.roles),
        arguments: &arguments.value(),
        wishes: None,
        separate_requester: run.settings.separate_requester,
    })
}

/// Whether the votes recorded on an approval satisfy what is asked now (C-111, C-116).
pub(super) fn meets(cx: &Cx<'_>, approval: &Approval, now: &Obligation) -> bool {
    let count = approval
        .standing()
        .filter(|vote| matches!(vote.verdict, Verdict::Approve | Verdict::Happened))
        .filter(|vote| vote.strength >= now.strength)
        .filter(|vote| {
            let asked = approval.binding.requester == vote.principal
                || approval.binding.acts_for.as_ref() == Some(&vote.principal);
            !(now.separate_requester && asked)
        })
        .filter(|vote| cx.registry.principal(&vote.principal).is_some_and(|person| now.eligible(&person)))
        .count();
    count >= now.quorum as usize
}

/// The stricter of two obligations, after an edit (C-185): larger quorum, eligible under both, never more time.
pub(super) fn stricter(old: &Obligation, new: &Obligation) -> Obligation {
    let mut also = old.also.clone();
    let circle = Circle { roles: new.roles.clone(), principals: new.principals.clone() };
    let same = circle.roles == old.roles && circle.principals == old.principals;
    if !same && !also.contains(&circle) {
        also.push(circle);
    }
    for circle in &new.also {
        if !also.contains(circle) {
            also.push(circle.clone());
        }
    }
    Obligation {
        also,
        quorum: old.quorum.max(new.quorum),
        reject_quorum: old.reject_quorum.min(new.reject_quorum),
        separate_requester: old.separate_requester || new.separate_requester,
        reason: old.reason.max(new.reason),
        lease: old.lease.min(new.lease),
        on_expiry: old.on_expiry.max(new.on_expiry),
        dispatch_within: old.dispatch_within.min(new.dispatch_within),
        strength: old.strength.max(new.strength),
        grants: old.grants.max(new.grants),
        batch: old.batch && new.batch,
        ..old.clone()
    }
}

/// C-182: everyone eligible is named, and too few are left who could approve.
pub(super) fn unreachable(approval: &Approval) -> bool {
    let rule = &approval.obligation;
    if rule.all_named().is_none() {
        return false;
    }
    let gone = |id: &String| {
        let asked = approval.binding.requester == *id || approval.binding.acts_for.as_ref() == Some(id);
        let said_no = approval.standing().any(|vote| vote.principal == *id && vote.verdict == Verdict::Reject);
        (rule.separate_requester && asked) || said_no
    };
    let everywhere = |id: &&String| rule.also.iter().all(|circle| circle.principals.contains(id));
    let left = rule.principals.iter().filter(everywhere).filter(|id| !gone(id)).count();
    left < rule.quorum as usize
}
