//! Every page, drawn from samples: what must hold for all of them, and pictures of them for those who work on them.

use super::approvals::{self, Filter};
use super::draft::{DecisionForm, Draft, Field};
use super::layout::{Section, Tone, bare, notice, page};
use super::{approval, run, runs, samples, sign_in};
use api::approval::{ApprovalKind, ApprovalQuery, ApprovalStatus, Operand};
use api::run::RunQuery;
use api::{Approval, Page, Run};
use maud::{Markup, html};
use protocol::run::Status;

/// Texts that would break out of a page that does not escape.
const EVIL: &str = "</textarea></pre><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}gpj.exe\u{200b}";

fn evil_json() -> String {
    let text = serde_json::to_string(EVIL).unwrap();
    format!("{{\"body\":{text},{text}:{{\"nested\":[{text}]}}}}")
}

/// An approval in which every text is hostile.
fn evil_approval() -> Approval {
    let mut approval = samples::approval_of(&evil_json());
    approval.tool = EVIL.into();
    approval.tool_version = EVIL.into();
    approval.title = Some(EVIL.into());
    approval.description = Some(EVIL.into());
    approval.claim = Some(EVIL.into());
    approval.requester = EVIL.into();
    approval.acts_for = Some(EVIL.into());
    approval.workflow = EVIL.into();
    approval.identity = EVIL.into();
    approval.rule.roles = vec![EVIL.into()];
    approval.decisions[0].principal = EVIL.into();
    approval.decisions[0].method = EVIL.into();
    approval.decisions[0].reason = Some(EVIL.into());
    approval.form = Some(samples::json(&evil_json()));
    approval.operands =
        vec![Operand { pointer: EVIL.into(), name: Some(EVIL.into()), digest: approval.arguments_digest }];
    approval
}

fn evil_facts() -> run::Facts {
    let mut facts = samples::facts();
    facts.run.workflow = EVIL.into();
    facts.run.principal = EVIL.into();
    facts.run.session = Some(EVIL.into());
    facts.run.labels = [(EVIL.to_owned(), EVIL.to_owned())].into();
    facts.run.blocked = Some(EVIL.into());
    facts.run.waiting_for[0].name = Some(EVIL.into());
    let detail = format!("{{\"traceback\":{}}}", serde_json::to_string(EVIL).unwrap());
    facts.run.failure =
        Some(api::run::Failure { code: EVIL.into(), message: EVIL.into(), detail: Some(samples::json(&detail)) });
    facts.run.result = Some(samples::json(&evil_json()));
    facts.explain.why = EVIL.into();
    facts.explain.next = Some(EVIL.into());
    facts.explain.moves = vec![EVIL.into()];
    facts.explain.waits[0].ended_by = EVIL.into();
    facts.calls[0].tool = EVIL.into();
    facts.calls[0].code = Some(EVIL.into());
    facts.calls[0].arguments = Some(samples::json(&evil_json()));
    facts.calls[0].result = Some(samples::json(&evil_json()));
    facts.log[0].text = EVIL.into();
    facts.events[0].kind = EVIL.into();
    facts.events[0].facts = samples::json(&evil_json());
    facts.approvals = vec![evil_approval()];
    facts
}

fn approval_page(approval: &Approval, draft: &Draft, notice: Option<&Markup>) -> Markup {
    page(
        &samples::view(),
        Section::Approvals,
        "Approval",
        &approval::content(&samples::view(), approval, draft, notice),
    )
}

fn inbox(items: Vec<Approval>) -> Markup {
    let filter = Filter::of(&ApprovalQuery::default());
    let list = Page { items, next_cursor: Some(EVIL.into()), unreadable: 1 };
    page(&samples::view(), Section::Approvals, "Approvals", &approvals::inbox(&samples::view(), &filter, &list))
}

fn run_list(items: Vec<Run>) -> Markup {
    let list = Page { items, next_cursor: Some(EVIL.into()), unreadable: 1 };
    let query = RunQuery { workflow: Some(EVIL.into()), ..RunQuery::default() };
    page(&samples::view(), Section::Runs, "Runs", &runs::list(&samples::view(), &query, &list))
}

fn run_page(facts: &run::Facts) -> Markup {
    page(&samples::view(), Section::Runs, "Run", &run::content(&samples::view(), facts, None))
}

/// A gate, a settle question, an edited one and a final one beside the plain one.
fn variants() -> Vec<(&'static str, Approval)> {
    let mut gate = samples::approval_of(r#"{"question":"Which of the two orders?"}"#);
    gate.kind = ApprovalKind::Gate;
    gate.tool = "stasis.gate".into();
    gate.title = Some("Which of the two orders does the customer mean?".into());
    gate.form =
        Some(samples::json(r#"{"type":"object","required":["order_id"],"properties":{"order_id":{"type":"string"}}}"#));
    let mut settle = samples::approval();
    settle.kind = ApprovalKind::Settle;
    settle.expires_at = None;
    settle.decisions.clear();
    let mut edited = samples::approval();
    edited.revision = 2;
    let asked = samples::json(r#"{"amount":950,"order_id":"o-7"}"#);
    edited.asked_arguments_digest = protocol::digest::Digest::of(asked.as_str());
    edited.asked_arguments = Some(asked);
    edited.claim = Some("The customer was promised a full refund.\nThis is urgent; please approve at once.".into());
    let mut approved = edited.clone();
    approved.status = ApprovalStatus::Approved;
    approved.decided_at = Some(samples::START + std::time::Duration::from_secs(7_200));
    let mut expired = samples::approval();
    expired.status = ApprovalStatus::Expired;
    expired.decided_at = expired.expires_at;
    let hidden = samples::approval_of(&evil_json());
    vec![
        ("call", samples::approval()),
        ("gate", gate),
        ("settle", settle),
        ("edited", edited),
        ("approved", approved),
        ("expired", expired),
        ("hidden", hidden),
    ]
}

/// Every page by its name.
pub(super) fn all() -> Vec<(String, Markup)> {
    let typed = DecisionForm {
        edit: Some(EVIL.into()),
        reason: EVIL.into(),
        answer: Some(EVIL.into()),
        ..DecisionForm::default()
    };
    let said = notice(Tone::Bad, &html! { "The arguments have changed since you looked." });
    let mut failed = samples::facts();
    failed.run.status = Status::Failed;
    failed.run.waiting_for.clear();
    failed.approvals.clear();
    failed.run.finished_at = Some(samples::START + std::time::Duration::from_secs(7_300));
    failed.run.failure = Some(api::run::Failure {
        code: "step_failed".into(),
        message: "KeyError: 'paid'".into(),
        detail: Some(samples::json(
            r#"{"line":19,"traceback":"Traceback (most recent call last):\n  File \"refund.py\", line 19, in <module>\n    amount = round(min(owed, order['paid']), 2)\nKeyError: 'paid'"}"#,
        )),
    });
    let mut pages: Vec<(String, Markup)> = variants()
        .into_iter()
        .map(|(name, approval)| (format!("approval-{name}"), approval_page(&approval, &Draft::default(), None)))
        .collect();
    pages.push((
        "approval-evil".into(),
        approval_page(&evil_approval(), &Draft::of(&typed, Field::Edit, EVIL), Some(&said)),
    ));
    pages.push(("inbox".into(), inbox(variants().into_iter().take(4).map(|(_, approval)| approval).collect())));
    pages.push(("inbox-evil".into(), inbox(vec![evil_approval()])));
    pages.push(("inbox-empty".into(), inbox(Vec::new())));
    let mut ended = Run { status: Status::Done, ..samples::run() };
    ended.waiting_for.clear();
    let list =
        vec![samples::run(), Run { status: Status::AwaitingConsent, ..samples::run() }, ended, failed.run.clone()];
    pages.push(("runs".into(), run_list(list)));
    pages.push(("runs-evil".into(), run_list(vec![evil_facts().run])));
    pages.push(("run".into(), run_page(&samples::facts())));
    pages.push(("run-failed".into(), run_page(&failed)));
    pages.push(("run-evil".into(), run_page(&evil_facts())));
    let cancel = run::confirm_cancel(&samples::view(), &samples::run(), Some(EVIL));
    pages.push(("cancel".into(), page(&samples::view(), Section::Runs, "Cancel", &cancel)));
    pages.push(("sign-in".into(), bare("Sign in", &sign_in::form(Some(EVIL), Some(EVIL)))));
    pages.push(("link".into(), bare("Sign in", &sign_in::link("/console/sign-in/once"))));
    pages
}

#[test]
fn no_page_lets_a_text_out_of_its_place() {
    for (name, page) in all() {
        let page = page.into_string();
        assert!(!page.contains("<script>") && !page.contains("<img"), "{name}"); // I-52
        let hidden = page.chars().find(|c| *c != '\n' && protocol::text::is_hidden(*c));
        // Fields hold what was typed.
        let typed = ["approval-evil", "sign-in", "runs", "runs-evil"].contains(&name.as_str());
        assert!(typed || hidden.is_none(), "{name}: {hidden:?}"); // C-140
    }
}

#[test]
fn no_page_needs_an_inline_script_or_style_or_another_host() {
    for (name, page) in all() {
        let page = page.into_string();
        for forbidden in [" style=", "<style", " onclick=", "javascript:", "http://", "https://"] {
            assert!(!page.contains(forbidden), "{name} has {forbidden}"); // I-51, I-52
        }
    }
}

#[test]
fn every_form_that_posts_carries_the_token_of_its_page() {
    for (name, page) in all().into_iter().filter(|(name, _)| !["sign-in", "link"].contains(&name.as_str())) {
        let page = page.into_string();
        for form in
            page.split("<form").skip(1).filter(|form| form.split('>').next().unwrap().contains("method=\"post\""))
        {
            let form = form.split("</form>").next().unwrap();
            assert!(form.contains("name=\"csrf\" value=\"token-of-the-form\""), "{name}: {form}"); // C-221
        }
    }
}

#[test]
fn what_the_agent_claims_stands_apart_from_the_arguments() {
    let (_, edited) = variants().remove(3);
    let page = approval_page(&edited, &Draft::default(), None).into_string();
    let (before, claim) = page.split_once("<figure class=\"claim\">").unwrap();
    assert!(claim.starts_with("<figcaption>What the agent claims.")); // C-286
    assert!(!before.contains("please approve at once")); // C-286
    assert!(before.contains(&edited.arguments_digest.to_string())); // C-140
    assert!(before.contains("950") && before.contains("250.5")); // C-186
}

#[test]
fn a_final_approval_has_no_form_to_answer_in() {
    for (name, approval) in variants() {
        let page = approval_page(&approval, &Draft::default(), None).into_string();
        let open = approval.status == ApprovalStatus::Pending;
        assert_eq!(page.contains("name=\"decision\""), open, "{name}");
        assert!(!open || page.contains(&format!("name=\"digest\" value=\"{}\"", approval.arguments_digest)), "{name}"); // C-137
    }
}

#[test]
fn labels_and_fields_belong_together() {
    for (name, page) in all() {
        let page = page.into_string();
        for label in page.split("<label").skip(1) {
            let target = label.split("for=\"").nth(1).unwrap().split('"').next().unwrap();
            assert_eq!(page.matches(&format!("id=\"{target}\"")).count(), 1, "{name}: {target}"); // I-51
        }
        assert!(page.contains("lang=\"en\"") && page.contains("<main id=\"main\""), "{name}"); // I-51
    }
}

#[test]
fn content_that_the_arguments_name_is_shown_by_its_digest() {
    let digest = protocol::digest::Digest::of("kind: Deployment");
    let operand = Operand { pointer: "/manifest".into(), name: Some("/srv/rollout.yaml".into()), digest };
    let shown = Approval { operands: vec![operand], ..samples::approval() };
    let page = approval_page(&shown, &Draft::default(), None).into_string();
    for part in ["/manifest", "/srv/rollout.yaml", &format!("data-copy=\"{digest}\"")] {
        assert!(page.contains(part), "{part}"); // C-142
    }
}

#[test]
fn a_field_for_a_reason_takes_no_more_than_is_kept() {
    let approval = samples::approval();
    let withheld = Approval { withheld: true, arguments: None, ..samples::approval() };
    let mut auditor = samples::view();
    auditor.principal.rights = protocol::principal::Rights::all();
    let audit = approval::content(&auditor, &withheld, &Draft::default(), None).into_string();
    let cancel = run::confirm_cancel(&auditor, &samples::run(), None).into_string();
    for page in [approval_page(&approval, &Draft::default(), None).into_string(), audit, cancel] {
        let fields: Vec<&str> =
            page.split("<textarea").skip(1).filter(|field| field.contains("name=\"reason\"")).collect();
        let bound = format!("maxlength=\"{}\"", protocol::limits::REASON_BYTES);
        assert!(!fields.is_empty() && fields.iter().all(|field| field.contains(&bound)), "{fields:?}");
    }
}
