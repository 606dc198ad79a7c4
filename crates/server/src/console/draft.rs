//! What people answer on a page: the fields of its forms, the request that they are, and what comes back of one that is
//! refused.
//!
//! Nothing is decided here: a form becomes a [`DecisionRequest`], or faults that stand beside the field they are about, with
//! everything that was typed.

use super::fields;
use api::approval::{DecisionRequest, Verdict};
use api::{Json, Problem};
use protocol::code::Code;
use protocol::digest::Digest;
use serde::Deserialize;
use std::collections::BTreeSet;

/// The fields of the forms of an approval, as a browser sends them. Fields that nobody knows are refused (C-177).
#[derive(Clone, Default, Debug, Deserialize)]
#[serde(try_from = "Vec<(String, String)>")]
pub(super) struct DecisionForm {
    pub csrf: String,
    pub decision: String,
    pub digest: String,
    pub reason: String,
    pub edit: Option<String>,
    pub answer: Option<String>,
    pub unrenderable: Option<String>,
    /// The members of a gate's form, each by the name of its field.
    pub members: Vec<(String, String)>,
}

impl TryFrom<Vec<(String, String)>> for DecisionForm {
    type Error = String;

    fn try_from(sent: Vec<(String, String)>) -> Result<DecisionForm, String> {
        let mut form = DecisionForm::default();
        let mut seen = BTreeSet::new();
        for (name, text) in sent {
            if !seen.insert(name.clone()) {
                return Err(format!("duplicate field `{name}`"));
            }
            match name.as_str() {
                "csrf" => form.csrf = text,
                "decision" => form.decision = text,
                "digest" => form.digest = text,
                "reason" => form.reason = text,
                "edit" => form.edit = Some(text),
                "answer" => form.answer = Some(text),
                "unrenderable" => form.unrenderable = Some(text),
                _ if fields::is_member(&name) => form.members.push((name, text)),
                _ => return Err(format!("unknown field `{name}`")),
            }
        }
        Ok(form)
    }
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
    pub members: Vec<(String, String)>,
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
            members: form.members.clone(),
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

    pub(super) fn about(&self, field: Field) -> impl Iterator<Item = &str> {
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
            answer: match decision {
                Verdict::Approve | Verdict::Happened => match json(Field::Answer, &self.answer)? {
                    Some(answer) => Some(answer),
                    None => fields::answer(&self.members).map_err(|text| fault(Field::Answer, text))?,
                },
                Verdict::Reject | Verdict::Abstain | Verdict::DidNotHappen | Verdict::GiveUp => None,
            },
            reason: Some(self.reason.trim()).filter(|reason| !reason.is_empty()).map(str::to_owned),
            unrenderable: self.unrenderable.is_some(),
        })
    }
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
        let sent = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let form = |more: (String, String)| DecisionForm::try_from(vec![sent("decision", "approve"), more]);
        let refusal = form(sent("principal", "maria")).unwrap_err();
        assert!(refusal.contains("unknown field"), "{refusal}"); // C-177
        assert!(form(sent("decision", "reject")).is_err());
        assert!(form(sent("reason", "x")).is_ok());
    }
}
