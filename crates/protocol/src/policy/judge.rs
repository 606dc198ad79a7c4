//! Judging one call (C-49 to C-54).

use super::obligation::Obligation;
use super::{Outcome, OwnRule, Policy, Rule, Terms, ToolPattern, Trigger, Verdict};
use crate::json::Value;
use crate::principal::Roles;
use crate::tool::{Effect, ToolSpec};

/// The call that is judged.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub tool: &'a ToolSpec,
    pub workflow: &'a str,
    /// The roles of the principal that started the run.
    pub requester: &'a Roles,
    pub arguments: &'a Value,
    /// What the guest asks for, where it asks (`stasis.gate`); it can only tighten.
    pub wishes: Option<&'a Terms>,
    /// The default of `separate_requester`: `false` in `stasis run` and `stasis dev`, else `true`.
    pub separate_requester: bool,
}

/// What the policy says to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    Allow,
    Ask(Box<Obligation>),
    Deny { reason: String },
}

impl Judgement {
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Allow => Outcome::Allow,
            Self::Ask(_) => Outcome::Ask,
            Self::Deny { .. } => Outcome::Deny,
        }
    }
}

impl Verdict {
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Allow => Outcome::Allow,
            Self::Ask(_) => Outcome::Ask,
            Self::Deny { .. } => Outcome::Deny,
        }
    }
}

impl Policy {
    /// Judges a call: the strictest of the first rule that matches, the tool's own rule and the guest's wishes.
    pub fn judge(&self, question: &Question<'_>) -> Judgement {
        let rule = self.rules.iter().find(|rule| rule.matches(question)).map(|rule| rule.verdict.clone());
        let own = self.own_rule(question.tool).map(|own| own.verdict(question.arguments));
        let wishes = question.wishes.map(|terms| Verdict::Ask(terms.clone()));
        let default = match self.default.of(question.tool.effect) {
            _ if rule.is_some() || own.is_some() => None,
            Outcome::Allow => Some(Verdict::Allow),
            Outcome::Ask => Some(Verdict::Ask(Terms::default())),
            Outcome::Deny => Some(Verdict::Deny { reason: None }),
        };
        let strictest = [rule, own, wishes, default].into_iter().flatten().reduce(Verdict::strictest);
        match strictest.expect("the default speaks where nothing else does") {
            Verdict::Allow => Judgement::Allow,
            Verdict::Ask(terms) => Judgement::Ask(Box::new(terms.resolve(question.separate_requester))),
            Verdict::Deny { reason } => {
                Judgement::Deny { reason: reason.unwrap_or_else(|| reason_of(question.tool.effect)) }
            }
        }
    }

    /// The present own rule of a tool: the policy's, else the one its spec was registered with.
    fn own_rule<'a>(&'a self, tool: &'a ToolSpec) -> Option<&'a OwnRule> {
        self.tools.get(&tool.identity()).or(tool.approval.as_ref())
    }
}

/// The reason of a `deny` that gives none.
fn reason_of(effect: Effect) -> String {
    format!("the policy denies this `{}` call", effect.as_str())
}

impl Verdict {
    /// Deny over ask over allow; two that ask join what they ask for.
    fn strictest(self, other: Self) -> Self {
        match (self, other) {
            (Self::Ask(a), Self::Ask(b)) => Self::Ask(a.strictest(b)),
            (a, b) if b.outcome() > a.outcome() => b,
            (a, _) => a,
        }
    }
}

impl OwnRule {
    fn verdict(&self, arguments: &Value) -> Verdict {
        let asks = match &self.trigger {
            Trigger::Always => true,
            Trigger::Never => false,
            Trigger::When(when) => when.holds(arguments),
        };
        if asks { Verdict::Ask(self.terms.clone()) } else { Verdict::Allow }
    }
}

impl Rule {
    fn matches(&self, question: &Question<'_>) -> bool {
        // What cannot be judged counts against the call (C-50).
        let unjudged = self.verdict.outcome() != Outcome::Allow;
        self.tool.as_ref().is_none_or(|pattern| pattern.matches(&question.tool.name))
            && self.effect.is_none_or(|effect| effect == question.tool.effect)
            && self.workflow.as_ref().is_none_or(|workflow| workflow == question.workflow)
            && self.role.as_ref().is_none_or(|role| question.requester.has(role))
            && self.conditions.iter().all(|condition| condition.holds(question.arguments).unwrap_or(unjudged))
    }
}

impl ToolPattern {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(wanted) => wanted == name,
            Self::Module(module) => name.split_once('.').is_some_and(|(known, _)| known == module),
        }
    }
}
