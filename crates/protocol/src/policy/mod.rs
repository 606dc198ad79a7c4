//! Policy: whether a call may go ahead, and what a person must decide first (calls.md section 5).
//!
//! [`Policy::judge`] is a pure function of the policy document, the tool, its arguments and what the guest asks for; the
//! strictest of all that speak counts (C-54). Numbers are compared as they are written, never rounded (C-18). What cannot
//! be judged counts against the call (C-50, C-53).

mod condition;
mod judge;
mod obligation;
mod parse;
mod terms;
mod when;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::tool::{Effect, ToolSpec};

pub use crate::fields::Fault;
pub use condition::{Condition, Op};
pub use judge::{Judgement, Question};
pub use obligation::{
    Circle, Edit, Escalation, Finally, Grants, Obligation, ObligationSchema, OnExpiry, ReasonRule, Step, Strength,
};
pub use terms::Terms;
pub use when::{When, WhenFault};

/// How a call is treated, in rising strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Allow,
    Ask,
    Deny,
}

/// A policy: the rules in order, what counts where nothing speaks, and the tools' own rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    pub rules: Vec<Rule>,
    pub default: Defaults,
    /// The tools' own rules by `name@version`: they are part of the policy version (C-52).
    pub tools: BTreeMap<String, OwnRule>,
}

impl Policy {
    /// The same document, with the own rules of these tools: what is in force while they are.
    pub fn with_tools<'a>(self, tools: impl IntoIterator<Item = &'a ToolSpec>) -> Self {
        let own = |tool: &ToolSpec| Some((tool.identity(), tool.approval.clone()?));
        Self { tools: tools.into_iter().filter_map(own).collect(), ..self }
    }
}

/// What counts where neither a rule nor the tool's own rule speaks (C-51).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Defaults {
    pub pure: Outcome,
    pub read: Outcome,
    pub write: Outcome,
}

/// One rule of the policy document. It matches where everything that it names does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub tool: Option<ToolPattern>,
    pub effect: Option<Effect>,
    pub workflow: Option<String>,
    /// A role of the requester.
    pub role: Option<String>,
    /// All must hold.
    pub conditions: Vec<Condition>,
    pub verdict: Verdict,
}

/// What a rule says, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Ask(Terms),
    Deny { reason: Option<String> },
}

/// Which tools a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolPattern {
    /// One tool, by its full name.
    Name(String),
    /// All tools of a module, written `module.*`.
    Module(String),
}

/// A tool's own approval rule (C-52, I-63).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRule {
    pub trigger: Trigger,
    pub terms: Terms,
}

/// When a tool's own rule asks; else it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    Always,
    Never,
    When(When),
}
