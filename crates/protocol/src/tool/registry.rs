//! What needs the other tools to be judged: names and versions once used, and the tools that a tool refers to.

use std::collections::BTreeMap;

use super::{Effect, Fault, Followup, OnCancel, Recovery, ToolSpec};
use crate::code::Code;
use crate::policy::Trigger;

/// What registering a spec does beside a tool that is known under the same name and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// The name and version are new.
    New,
    /// The same tool is known: nothing changes but its own approval rule, which is policy.
    Known,
    /// Another tool is known under this name and version: `tool_conflict` (C-10).
    Conflict,
}

/// Compares a spec with the one known under its name and version, if there is one.
pub fn registration(spec: &ToolSpec, known: Option<&ToolSpec>) -> Registration {
    match known {
        None => Registration::New,
        Some(known) if known.digest() == spec.digest() => Registration::Known,
        Some(_) => Registration::Conflict,
    }
}

/// Checks the references among the tools of one plan or configuration, each in the version that would be used (C-13).
///
/// Pointers begin with the name of the tool: `/payments.refund/lookup/tool`.
pub fn check_references<'a>(tools: impl IntoIterator<Item = &'a ToolSpec>) -> Vec<Fault> {
    let tools: BTreeMap<&str, &ToolSpec> = tools.into_iter().map(|tool| (tool.name.as_str(), tool)).collect();
    let mut faults = Vec::new();
    for tool in tools.values() {
        for (field, followup, wanted) in tool.followups() {
            let message = match tools.get(followup.tool.as_str()) {
                None => format!("`{}` is not among the tools", followup.tool),
                Some(other) if other.effect != wanted => {
                    format!("`{}` must be a `{}` tool", followup.tool, wanted.as_str())
                }
                Some(other) if field == ON_CANCEL && always_asks(other) => {
                    format!("`{}` asks a person before each call, and nobody is asked for a cancel tool", followup.tool)
                }
                Some(_) if field == ON_CANCEL && is_stopped_by_itself(tool, &tools) => {
                    format!("`{}` would in the end be stopped by `{}` itself", followup.tool, tool.name)
                }
                Some(_) => continue,
            };
            let pointer = format!("/{}/{field}/tool", tool.name);
            faults.push(Fault { pointer, code: Code::ToolInvalid, message });
        }
    }
    faults
}

const ON_CANCEL: &str = "on_cancel";

fn always_asks(tool: &ToolSpec) -> bool {
    tool.approval.as_ref().is_some_and(|own| own.trigger == Trigger::Always)
}

/// Whether the cancel tools that begin at this tool lead back to it.
fn is_stopped_by_itself(tool: &ToolSpec, tools: &BTreeMap<&str, &ToolSpec>) -> bool {
    let next = |tool: &&ToolSpec| match &tool.on_cancel {
        OnCancel::Ask(followup) => tools.get(followup.tool.as_str()).copied(),
        OnCancel::Wait | OnCancel::Abort => None,
    };
    // A chain that is longer than the tools are many has met one of them twice.
    std::iter::successors(next(&tool), next).take(tools.len()).any(|other| other.name == tool.name)
}

impl ToolSpec {
    /// The tools that this one refers to: the field, the reference, and the effect that it must have.
    pub fn followups(&self) -> Vec<(&'static str, &Followup, Effect)> {
        let mut found = Vec::new();
        if let Recovery::Lookup(followup) = &self.recovery {
            found.push(("lookup", followup, Effect::Read));
        }
        if let OnCancel::Ask(followup) = &self.on_cancel {
            found.push((ON_CANCEL, followup, Effect::Write));
        }
        if let Some(followup) = &self.compensate {
            found.push(("compensate", followup, Effect::Write));
        }
        found
    }
}
