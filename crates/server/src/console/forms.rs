//! The forms in which people answer, and what they send.
//!
//! Each form carries the anti-forgery token and the digest of the arguments it was shown with (C-137, C-221). Nothing
//! is decided here: a form becomes a [`DecisionRequest`] or faults that stand beside the field they are about, and what
//! was typed comes back with them.

use super::approvals::{deciders, progress};
use super::body::{editable, exact};
use super::layout::{Bar, View, csrf};
use super::text::shown;
use api::approval::{ApprovalKind, DecisionRequest, EditRule, ReasonRule, Verdict};
use api::{Approval, Json, Problem};
use maud::{Markup, html};
use protocol::code::Code;
use protocol::digest::Digest;
use serde::Deserialize;

/// The fields of the forms of an approval, as a browser sends them. Fields that nobody knows are refused (C-177).
#[derive(Clone, Default, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DecisionForm {
    pub csrf: String,
    pub decision: String,
    pub digest: String,
    pub reason: String,
    pub edit: Option<String>,
    pub answer: Option<String>,
    pub unrenderable: Option<String>,
}

/// The only field of the forms that have none of their own.
#[derive(Clone, Default, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BareForm {
    pub csrf: String,
    pub reason: Option<String>,
}

/// The field that a fault is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Reason,
    Edit,
    Answer,
    /// The form as a whole.
    All,
}

/// What somebody typed into a form that was refused, and why it was.
#[derive(Clone, Default, Debug)]
pub(super) struct Draft {
    pub reason: String,
    pub edit: Option<String>,
    pub answer: Option<String>,
    pub unrenderable: bool,
    pub faults: Vec<(Field, String)>,
}

impl Draft {
    /// What was typed, with a fault.
    pub(super) fn of(form: &DecisionForm, field: Field, fault: impl Into<String>) -> Draft {
        Draft {
            reason: form.reason.clone(),
            edit: form.edit.clone(),
            answer: form.answer.clone(),
            unrenderable: form.unrenderable.is_some(),
            faults: vec![(field, fault.into())],
        }
    }

    /// What was typed, beside what the service refused it for.
    pub(super) fn refused(form: &DecisionForm, problem: &Problem) -> Draft {
        let field = match problem.code.parse::<Code>() {
            Ok(Code::ReasonRequired) => Field::Reason,
            Ok(Code::InvalidAnswer) => Field::Answer,
            Ok(Code::EditRefused) => Field::Edit,
            Ok(Code::InvalidJson) if form.edit.is_some() => Field::Edit,
            _ => Field::All,
        };
        let mut draft = Draft::of(form, field, &*problem.detail);
        let more = problem.errors.iter().map(|fault| match &fault.key {
            Some(key) => format!("{key}: {}", fault.message),
            None => fault.message.clone(),
        });
        draft.faults.extend(more.map(|text| (field, text)));
        draft
    }

    fn about(&self, field: Field) -> impl Iterator<Item = &str> {
        self.faults.iter().filter(move |(at, _)| *at == field).map(|(_, text)| text.as_str())
    }
}

impl DecisionForm {
    /// The request that this form makes.
    ///
    /// # Errors
    /// A draft with the fault beside its field, where a text is no JSON or a word no verdict.
    pub(super) fn request(&self) -> Result<DecisionRequest, Box<Draft>> {
        let fault = |field, text: String| Box::new(Draft::of(self, field, text));
        let decision = serde_json::from_value::<Verdict>(serde_json::Value::String(self.decision.clone()))
            .map_err(|_| fault(Field::All, format!("`{}` is no decision.", self.decision)))?;
        let digest: Digest =
            self.digest.parse().map_err(|_| fault(Field::All, "The form has lost its digest.".into()))?;
        let json = |field, text: &Option<String>| match text.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => {
                Json::parse(text).map(Some).map_err(|error| fault(field, format!("This is no JSON: {error}.")))
            }
        };
        let edit = match self.edit.as_deref() {
            Some(text) if text.trim().is_empty() => {
                return Err(fault(Field::Edit, "There are no arguments here.".into()));
            }
            _ => json(Field::Edit, &self.edit)?,
        };
        Ok(DecisionRequest {
            decision,
            arguments_digest: Some(digest),
            edit,
            // An answer belongs to a yes; a reject with half an answer typed is a reject.
            answer: if matches!(decision, Verdict::Approve | Verdict::Happened) {
                json(Field::Answer, &self.answer)?
            } else {
                None
            },
            reason: Some(self.reason.trim()).filter(|reason| !reason.is_empty()).map(str::to_owned),
            unrenderable: self.unrenderable.is_some(),
        })
    }
}

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
            textarea id=(id) name="reason" rows="2" maxlength="8192" { (draft.reason) }
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

fn answer_field(form: &Json, draft: &Draft) -> Markup {
    html! {
        div.field {
            label for="answer" { "Answer " span.soft { "JSON that fits the form" } }
            textarea.code id="answer" name="answer" rows="4" spellcheck="false" {
                (draft.answer.clone().unwrap_or_else(|| skeleton(form)))
            }
            (faults(draft, Field::Answer))
            details { summary { "The form" } (exact(form)) }
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

    fn form() -> DecisionForm {
        DecisionForm {
            decision: "approve".into(),
            digest: Digest::of("{}").to_string(),
            reason: " because ".into(),
            ..DecisionForm::default()
        }
    }

    #[test]
    fn a_form_becomes_the_request_with_the_digest_it_was_shown_with() {
        let request = form().request().unwrap();
        assert_eq!(request.arguments_digest, Some(Digest::of("{}"))); // C-137
        assert_eq!(request.reason.as_deref(), Some("because"));
        let edit = DecisionForm { edit: Some("{\"n\": 1.0}".into()), ..form() };
        assert_eq!(edit.request().unwrap().edit.unwrap().as_str(), "{\"n\": 1.0}");
        let reject = DecisionForm { decision: "reject".into(), answer: Some("{".into()), ..form() };
        assert_eq!(reject.request().unwrap().answer, None);
    }

    #[test]
    fn what_was_typed_comes_back_beside_its_fault() {
        let refused = |form: DecisionForm| form.request().unwrap_err();
        let draft = refused(DecisionForm { edit: Some("{\"a\":".into()), ..form() });
        assert_eq!(draft.faults[0].0, Field::Edit);
        assert_eq!((draft.edit.as_deref(), draft.reason.as_str()), (Some("{\"a\":"), " because "));
        assert_eq!(refused(DecisionForm { edit: Some("  ".into()), ..form() }).faults[0].0, Field::Edit);
        assert_eq!(refused(DecisionForm { decision: "maybe".into(), ..form() }).faults[0].0, Field::All);
        assert_eq!(refused(DecisionForm { digest: String::new(), ..form() }).faults[0].0, Field::All); // C-137
        let problem = Problem::of(Code::ReasonRequired, "A reason is required.");
        assert_eq!(Draft::refused(&form(), &problem).faults[0].0, Field::Reason);
    }

    #[test]
    fn a_form_that_names_a_person_is_refused() {
        let body = serde_json::json!({"decision": "approve", "principal": "maria"});
        let refusal = serde_json::from_value::<DecisionForm>(body).unwrap_err();
        assert!(refusal.to_string().contains("unknown field"), "{refusal}"); // C-177
    }

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
