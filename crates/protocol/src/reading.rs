//! Who may read the bodies of calls and approvals: arguments, results, claims, forms, answers, reasons (C-282).
//!
//! Owns the rule alone. Doors draw what somebody may not read without its bodies; their digests are no secret. Reading as
//! an auditor is a command ([`crate::command::Read`]), since it is an event.

use crate::policy::Obligation;
use crate::principal::{Principal, Right};

/// Whether the bodies are a person's to read as their own business: they asked for the call, somebody asked for them, or
/// one of the questions about it is theirs to decide.
pub fn concerns<'a>(
    person: &Principal,
    requester: &str,
    acts_for: Option<&str>,
    questions: impl IntoIterator<Item = &'a Obligation>,
) -> bool {
    let asked = requester == person.id || acts_for == Some(&*person.id);
    let decides =
        || person.can(Right::ApprovalsDecide) && questions.into_iter().any(|obligation| obligation.eligible(person));
    asked || decides()
}
