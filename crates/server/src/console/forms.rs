//! The forms in which people answer.
//!
//! Each form carries the anti-forgery token and the digest of the arguments it was shown with (C-137, C-221). What was typed
//! into one that was refused comes back in it, with the faults beside the fields that they are about.

use super::approvals::{deciders, progress};
use super::body::{editable, exact};
use super::draft::{Draft, Field};
use super::fields;
use super::layout::{Bar, View, csrf};
use super::text::shown;
use api::approval::{ApprovalKind, EditRule, ReasonRule, Verdict};
use api::{Approval, Json};
use maud::{Markup, html};
use protocol::limits::REASON_BYTES;

/// The fields whose faults the form has no place for beside them: a refusal is always to be seen.
fn unplaced(approval: &Approval) -> Vec<Field> {
    let answered = approval.kind == ApprovalKind::Settle || approval.form.is_some();
    let mut fields = vec![Field::All];
    if !answered {
        fields.push(Field::Answer);
    }
    if !may_edit(approval) {
        fields.push(Field::Edit);
    }
    fields
}

fn may_edit(approval: &Approval) -> bool {
    approval.kind == ApprovalKind::Call && approval.rule.edit != EditRule::No
}

/// The forms of a pending approval.
pub(super) fn decide(view: &View, approval: &Approval, draft: &Draft) -> Markup {
    if let Err(bar) = view.may_decide(approval) {
        return barred(approval, bar, draft);
    }
    // An edit voids the votes before it.
    let since = approval.decisions.iter().rposition(|decision| decision.edited).unwrap_or(0);
    let said = approval.decisions[since..].iter().rev().find(|decision| decision.principal == view.subject);
    html! {
        section aria-labelledby="decide-title" {
            h2 #decide-title { "Your answer" }
            @if let Some(said) = said {
                p.notice.note #said { (voted(said.verdict)) " " (progress(approval)) ". You may still change your answer." }
            }
            @for field in unplaced(approval) { (faults(draft, field)) }
            form.decide method="post" action=(action(approval)) {
                (hidden(view, approval))
                @if approval.kind == ApprovalKind::Settle { (result_field(approval, draft)) }
                @if let Some(form) = &approval.form { (answer_field(form, draft)) }
                @if approval.unrenderable { (unrenderable_field(draft)) }
                (reason_field(approval, draft, "reason"))
                div.buttons {
                    @if approval.kind == ApprovalKind::Settle {
                        (button("happened", "primary", "It happened"))
                        (button("did_not_happen", "danger", "It did not happen"))
                        (button("give_up", "", "Give up: the run fails"))
                    } @else {
                        (button("approve", "primary", "Approve"))
                        (button("reject", "danger", "Reject"))
                        (button("abstain", "", "Abstain"))
                    }
                }
            }
            @if may_edit(approval) { (edit(view, approval, draft)) }
        }
    }
}

/// For somebody who may look and not decide: who may.
fn barred(approval: &Approval, bar: Bar, draft: &Draft) -> Markup {
    html! {
        section aria-labelledby="decide-title" {
            h2 #decide-title { "Who answers" }
            @for field in [Field::All, Field::Answer, Field::Edit, Field::Reason] { (faults(draft, field)) }
            @match bar {
                Bar::Own => p.notice.note { "This was asked for in your name, so somebody else has to decide it: " (deciders(&approval.rule)) "." },
                Bar::NotAsked => p.notice.note { "You may look at this; it is decided by " (deciders(&approval.rule)) "." },
            }
        }
    }
}

const fn voted(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approve => "You approved.",
        Verdict::Reject => "You rejected.",
        Verdict::Abstain => "You abstained.",
        Verdict::Happened | Verdict::DidNotHappen | Verdict::GiveUp => "You answered.",
    }
}

fn action(approval: &Approval) -> String {
    format!("/console/approvals/{}/decisions", approval.id)
}

fn hidden(view: &View, approval: &Approval) -> Markup {
    html! {
        (csrf(view))
        input type="hidden" name="digest" value=(approval.arguments_digest);
    }
}

fn button(decision: &str, class: &str, text: &str) -> Markup {
    html! { button.(class) id=(decision) type="submit" name="decision" value=(decision) { (text) } }
}

fn faults(draft: &Draft, field: Field) -> Markup {
    html! { @for text in draft.about(field) { p.fault role="alert" { (shown(text)) } } }
}

fn reason_field(approval: &Approval, draft: &Draft, id: &str) -> Markup {
    let hint = match (approval.kind, approval.rule.reason) {
        (ApprovalKind::Settle, _) => "how you found out",
        (_, ReasonRule::None) => "not needed",
        (_, ReasonRule::Reject) => "needed to reject",
        (_, ReasonRule::Always) => "needed",
    };
    html! {
        div.field {
            label for=(id) { "Reason " span.soft { (hint) } }
            textarea id=(id) name="reason" rows="2" maxlength=(REASON_BYTES) { (draft.reason) }
            (faults(draft, Field::Reason))
        }
    }
}

fn result_field(approval: &Approval, draft: &Draft) -> Markup {
    let settle = approval.settle.as_ref();
    let (output, earlier) = (settle.and_then(|s| s.output.as_ref()), settle.and_then(|s| s.earlier.as_ref()));
    html! {
        div.field {
            label for="answer" { "Result, if it happened " span.soft { "JSON; what the call would have given back" } }
            @match output {
                Some(schema) => details open { summary { "It has to fit" } (exact(schema)) },
                None => p.soft {
                    "This tool declares no output schema: give what it would have answered. The program reads it."
                },
            }
            @if let Some(earlier) = earlier {
                details open { summary { "What an earlier call of it answered" } (exact(&earlier.result)) }
            }
            textarea.code id="answer" name="answer" rows="3" spellcheck="false" { (draft.answer.as_deref().unwrap_or("")) }
            (faults(draft, Field::Answer))
        }
    }
}

/// The form of a gate: as fields where they can tell all of it, and as JSON in any case.
fn answer_field(form: &Json, draft: &Draft) -> Markup {
    let fields = fields::of(form);
    let as_json = |text: &str| {
        html! {
            textarea.code id="answer" name="answer" rows="4" spellcheck="false" { "\n" (text) }
        }
    };
    html! {
        @match fields {
            Some(fields) => {
                (fields::draw(&fields, &draft.members))
                (faults(draft, Field::Answer))
                details open[draft.answer.as_ref().is_some_and(|text| !text.trim().is_empty())] {
                    summary { "Answer as JSON instead" }
                    div.field {
                        label for="answer" { "Answer " span.soft { "counts instead of the fields, where it is not empty" } }
                        (as_json(draft.answer.as_deref().unwrap_or("")))
                    }
                    (exact(form))
                }
            },
            None => div.field {
                label for="answer" { "Answer " span.soft { "JSON that fits the form" } }
                (as_json(&draft.answer.clone().unwrap_or_else(|| skeleton(form))))
                (faults(draft, Field::Answer))
                details { summary { "The form" } (exact(form)) }
            },
        }
    }
}

fn unrenderable_field(draft: &Draft) -> Markup {
    html! {
        div.field.check {
            input type="checkbox" id="unrenderable" name="unrenderable" value="yes" checked[draft.unrenderable];
            label for="unrenderable" { "I cannot judge these arguments by eye and approve them all the same" }
        }
    }
}

fn edit(view: &View, approval: &Approval, draft: &Draft) -> Markup {
    let second = approval.rule.edit == EditRule::Second;
    html! {
        details.edit #edit open[draft.edit.is_some()] {
            summary { "Approve with other arguments" }
            form.decide method="post" action=(action(approval)) {
                (hidden(view, approval))
                div.field {
                    label for="edited" { "All arguments " span.soft { "complete JSON, not a patch" } }
                    textarea.code id="edited" name="edit" rows="8" spellcheck="false" autocomplete="off" {
                        // A browser drops the first line break of a field.
                        "\n" (draft.edit.clone().or_else(|| approval.arguments.as_ref().map(editable)).unwrap_or_default())
                    }
                    (faults(draft, Field::Edit))
                }
                (reason_field(approval, &Draft { faults: Vec::new(), ..draft.clone() }, "edit-reason"))
                p.soft {
                    "Votes on the present arguments become void. "
                    @if second { "Somebody else then has to approve these." } @else { "You approve these by sending them." }
                }
                div.buttons {
                    button.primary type="submit" name="decision" value="approve" {
                        @if second { "Propose these arguments" } @else { "Approve with these arguments" }
                    }
                }
            }
        }
    }
}

/// An answer to start from: the required members of the form, empty.
fn skeleton(form: &Json) -> String {
    let form = form.peek();
    let required = form["required"].as_array().into_iter().flatten().filter_map(|key| key.as_str());
    let member = |key: &str| {
        let value = match form["properties"][key]["type"].as_str() {
            Some("string") => "\"\"",
            Some("boolean") => "false",
            Some("number" | "integer") => "0",
            Some("array") => "[]",
            Some("object") => "{}",
            _ => "null",
        };
        format!("  {}: {value}", serde_json::Value::from(key))
    };
    let members: Vec<String> = required.map(member).collect();
    if members.is_empty() { String::new() } else { format!("{{\n{}\n}}", members.join(",\n")) }
}

/// A text as a part of a query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_of_a_gate_opens_with_its_required_members() {
        let form = Json::parse(
            r#"{"type":"object","required":["who","n"],"properties":{"who":{"type":"string"},"n":{"type":"integer"}}}"#,
        );
        assert_eq!(skeleton(&form.unwrap()), "{\n  \"who\": \"\",\n  \"n\": 0\n}");
        assert_eq!(skeleton(&Json::null()), "");
        assert_eq!(encoded("a b&=é"), "a%20b%26%3D%C3%A9");
    }
}
