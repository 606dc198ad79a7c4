//! An approval for people: the exact arguments as the host will send them, what the agent claims apart from them.

use super::difference::difference;
use super::{arguments, indent, pretty, relative, short, table, visible};
use api::approval::{ApprovalKind, ApprovalStatus, Rule, Settle, Strength, Verdict};
use api::{Approval, Json};
use protocol::time::Time;
use std::fmt::Write as _;

pub(crate) fn list(approvals: &[Approval], now: Time) -> String {
    if approvals.is_empty() {
        return "no approvals\n".into();
    }
    // What nobody knows to have happened is more urgent than anything that may still happen.
    let mut sorted: Vec<&Approval> = approvals.iter().collect();
    sorted
        .sort_by_key(|approval| !(approval.kind == ApprovalKind::Settle && approval.status == ApprovalStatus::Pending));
    let rows = sorted.into_iter().map(|approval| {
        vec![
            approval.id.to_string(),
            question(approval.kind).to_owned(),
            approval.status.as_str().to_owned(),
            short(subject(approval), 30),
            short(arguments(approval.arguments.as_ref()), 48),
            visible(&approval.workflow),
            relative(approval.created_at, now),
            approval.expires_at.map_or_else(|| "never".into(), |at| relative(at, now)),
        ]
    });
    table(&["APPROVAL", "QUESTION", "STATUS", "FOR", "ARGUMENTS", "WORKFLOW", "ASKED", "EXPIRES"], rows.collect())
}

/// What is asked, in a column.
const fn question(kind: ApprovalKind) -> &'static str {
    match kind {
        ApprovalKind::Call => "may it happen?",
        ApprovalKind::Gate => "the program asks",
        ApprovalKind::Settle => "did it happen?",
    }
}

/// The tool, or the title of a gate.
fn subject(approval: &Approval) -> &str {
    match approval.kind {
        ApprovalKind::Gate => approval.title.as_deref().unwrap_or(&approval.tool),
        ApprovalKind::Call | ApprovalKind::Settle => &approval.tool,
    }
}

/// Id, subject and where it stands, on one line.
pub(crate) fn line(approval: &Approval, now: Time) -> String {
    let stands = match (approval.status, approval.expires_at) {
        (ApprovalStatus::Pending, expires_at) => {
            let asks = if approval.kind == ApprovalKind::Settle { "did it happen? " } else { "" };
            let expires = expires_at.map(|at| format!(", expires {}", relative(at, now))).unwrap_or_default();
            format!("{asks}pending{expires}")
        }
        _ => decided(approval),
    };
    format!("{}  {}  {stands}", approval.id, short(subject(approval), 60))
}

/// How a question ended, and who ended it so.
fn decided(approval: &Approval) -> String {
    let verdict = match (approval.status, approval.kind) {
        (ApprovalStatus::Approved, ApprovalKind::Settle) => Verdict::Happened,
        (ApprovalStatus::Rejected, ApprovalKind::Settle) => Verdict::DidNotHappen,
        (ApprovalStatus::Cancelled, ApprovalKind::Settle) => Verdict::GiveUp,
        (ApprovalStatus::Approved, _) => Verdict::Approve,
        (ApprovalStatus::Rejected, _) => Verdict::Reject,
        _ => return approval.status.as_str().to_owned(),
    };
    let said = approval.decisions.iter().filter(|decision| decision.verdict == verdict && !decision.late);
    let mut by: Vec<&str> = Vec::new();
    for decision in said {
        if !by.contains(&decision.principal.as_str()) {
            by.push(&decision.principal);
        }
    }
    let what = match verdict {
        Verdict::Happened => "it happened",
        Verdict::DidNotHappen => "it did not happen",
        Verdict::GiveUp => "given up: nobody will find out",
        Verdict::Approve if approval.arguments_digest != approval.asked_arguments_digest => "approved with an edit",
        _ => approval.status.as_str(),
    };
    let says = if approval.kind == ApprovalKind::Settle { ", as told by" } else { " by" };
    if by.is_empty() { what.to_owned() } else { format!("{what}{says} {}", visible(&by.join(", "))) }
}

/// After a vote that did not decide: what is still wanted, and that this vote stays.
pub(super) fn wanted(approval: &Approval) -> String {
    let progress = &approval.progress;
    let more = progress.quorum.saturating_sub(progress.approve);
    let people = if more == 1 { "one more".to_owned() } else { format!("{more} more") };
    format!(
        "{} of {} approved; your vote is recorded; waits for {people} of {}",
        progress.approve,
        progress.quorum,
        who(&approval.rule)
    )
}

/// Everything that a decider needs to see.
pub(crate) fn show(approval: &Approval, now: Time) -> String {
    let mut text = line(approval, now);
    text.push('\n');
    let version =
        if approval.kind == ApprovalKind::Call { format!("@{}", approval.tool_version) } else { String::new() };
    let question = match approval.kind {
        ApprovalKind::Call => "may this call go ahead?",
        ApprovalKind::Gate => "a question of the program",
        ApprovalKind::Settle => "did this call happen? its outcome is unknown",
    };
    let _ = writeln!(text, "\n{}{version}: {question}", visible(&approval.tool));
    if let Some(description) = &approval.description {
        let _ = writeln!(text, "  {}", visible(description));
    }
    match &approval.arguments {
        Some(arguments) => {
            let _ = writeln!(text, "arguments, exactly:\n{}", exact(arguments).trim_end());
        }
        None => text.push_str(
            "arguments withheld: they are for whoever asked, who may decide, and auditors (stasis approval read ID)\n",
        ),
    }
    let _ = writeln!(text, "digest {}", approval.arguments_digest);
    if !approval.operands.is_empty() {
        let _ = writeln!(text, "content it names, as it was when asked:\n{}", operands(approval).trim_end());
    }
    if let (Some(asked), Some(now)) = (&approval.asked_arguments, &approval.arguments) {
        let _ = writeln!(text, "edited (- as the program asked, + as they are now):");
        let _ = writeln!(text, "{}", indent(&difference(asked, now), "  ").trim_end());
        let _ = writeln!(text, "digest as asked {}", approval.asked_arguments_digest);
    }
    if approval.unrenderable {
        let _ = writeln!(text, "These arguments cannot be shown whole and plainly: approving needs --unrenderable.");
    }
    if let Some(claim) = &approval.claim {
        let _ = writeln!(
            text,
            "what the agent claims (its words, not checked):\n{}",
            indent(&visible(claim), "  > ").trim_end()
        );
    }
    if let Some(form) = &approval.form {
        let _ = writeln!(text, "wants an answer (--answer) that fits:\n{}", exact(form).trim_end());
    }
    if let Some(settle) = approval.settle.as_ref().filter(|_| approval.status == ApprovalStatus::Pending) {
        text.push_str(&about_settling(settle));
    }
    text.push_str(&context(approval, now));
    if approval.status == ApprovalStatus::Pending {
        let _ = writeln!(text, "\nhint: {}", next_step(approval));
    }
    text
}

/// The content that the arguments name, each with its digest.
fn operands(approval: &Approval) -> String {
    let mut text = String::new();
    for operand in &approval.operands {
        let name = operand.name.as_deref().map(|name| format!("  {}", visible(name))).unwrap_or_default();
        let _ = writeln!(text, "  {}{name}  {}", visible(&operand.pointer), operand.digest);
    }
    text
}

/// What was seen of the call, and what a result of it has to look like.
pub(crate) fn about_settling(settle: &Settle) -> String {
    let mut text = String::new();
    let times = if settle.attempts == 1 { "once".to_owned() } else { format!("{} times", settle.attempts) };
    let seen = settle.seen.as_deref().unwrap_or("nothing: its process ended before an answer was stored");
    let _ = writeln!(text, "sent {times}; the last attempt saw: {}", visible(seen));
    match &settle.output {
        Some(schema) => {
            let _ = writeln!(text, "if it happened, the result has to fit:\n{}", exact(schema).trim_end());
        }
        None => text.push_str(
            "this tool declares no output schema: if it happened, give what it would have answered; the program reads it\n",
        ),
    }
    if let Some(earlier) = &settle.earlier {
        let _ =
            writeln!(text, "an earlier call of it answered ({}):\n{}", earlier.call, exact(&earlier.result).trim_end());
    }
    text
}

/// JSON as it stands, with hidden characters marked.
pub(crate) fn exact(json: &Json) -> String {
    indent(&visible(&pretty(json)), "  ")
}

/// The commands that answer it.
pub(super) fn next_step(approval: &Approval) -> String {
    match approval.kind {
        ApprovalKind::Settle => {
            format!(
                "stasis effect settle {} --happened JSON | --did-not-happen | --give-up, with --reason",
                approval.call
            )
        }
        ApprovalKind::Call | ApprovalKind::Gate => {
            format!("stasis approve {0}; stasis reject {0} --reason ...", approval.id)
        }
    }
}

fn context(approval: &Approval, now: Time) -> String {
    let mut text = format!("run {} ({}), call {}\n", approval.run, visible(&approval.workflow), approval.identity);
    let acts = approval.acts_for.as_deref().map(|who| format!(" for {}", visible(who))).unwrap_or_default();
    let _ = writeln!(text, "asked by {}{acts} {}", visible(&approval.requester), relative(approval.created_at, now));
    if let Some(at) = approval.valid_until_at {
        let _ = writeln!(text, "a yes holds until {}", at.second());
    }
    if approval.kind == ApprovalKind::Settle {
        let _ = writeln!(text, "rule: one of {} says what became of it, and how they know", who(&approval.rule));
    } else {
        text.push_str(&votes(approval));
    }
    for decision in &approval.decisions {
        let reason = decision.reason.as_deref().map(|reason| format!(": {}", visible(reason))).unwrap_or_default();
        let late = if decision.late { " (too late to count)" } else { "" };
        let edited = if decision.edited { " with an edit" } else { "" };
        let _ = writeln!(
            text,
            "  {} {} {}{edited} by {}{late}{reason}",
            relative(decision.at, now),
            visible(&decision.principal),
            decision.verdict.as_str(),
            visible(&decision.method)
        );
    }
    if let Some(answer) = &approval.answer {
        let _ = writeln!(text, "answer:\n{}", exact(answer).trim_end());
    }
    if let Some(dispatch) = &approval.dispatch {
        let outcome = dispatch.outcome.as_deref().unwrap_or("in flight");
        let _ = writeln!(text, "dispatched: {outcome}");
    }
    text
}

/// The rule, and how the votes stand.
fn votes(approval: &Approval) -> String {
    let mut text = format!("rule: {}\n", rule(&approval.rule));
    let progress = approval.progress;
    let of = progress.of.map(|of| format!(" of {of}")).unwrap_or_default();
    let _ = writeln!(
        text,
        "so far: {} of {} to approve{of}, {} to reject, {} abstained",
        progress.approve, progress.quorum, progress.reject, progress.abstain
    );
    text
}

/// Who may decide.
fn who(rule: &Rule) -> String {
    let mut who: Vec<String> = rule.roles.iter().map(|role| format!("role {}", visible(role))).collect();
    who.extend(rule.principals.iter().map(|name| visible(name)));
    if who.is_empty() { "nobody".into() } else { who.join(", ") }
}

fn rule(rule: &Rule) -> String {
    let mut text = format!("{} of {}", rule.quorum, who(rule));
    if rule.separate_requester {
        text.push_str(", not the requester");
    }
    if rule.strength == Strength::StepUp {
        text.push_str(", freshly signed in");
    }
    let _ = write!(text, "; at expiry: {}", rule.on_expiry.as_str());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;
    use api::approval::Operand;
    use expect_test::expect;

    #[test]
    fn an_approval_shows_the_exact_arguments_and_the_claim_apart() {
        let asked = Approval { claim: Some("just a small one\u{202e}".into()), ..samples::approval() };
        expect![[r#"
            apr_01m8nwmc7ce009jh69rck9w39q  payments.refund  pending, expires in 24h

            payments.refund@1: may this call go ahead?
              Refund an order
            arguments, exactly:
              {
                "amount": 250.5,
                "order_id": "o-7"
              }
            digest sha256:1d4bde2c94cec964e480cc8717fb3213b58ee58b3b0b74c63b5aa03f30f2e040
            what the agent claims (its words, not checked):
              > just a small one<U+202E>
            run run_01m8nwmbe0e00bsaekf59edd1r (refund), call run_01m8nwmbe0e00bsaekf59edd1r/main/2
            asked by local 1m ago
            rule: 1 of role finance; at expiry: reject
            so far: 0 of 1 to approve, 0 to reject, 0 abstained

            hint: stasis approve apr_01m8nwmc7ce009jh69rck9w39q; stasis reject apr_01m8nwmc7ce009jh69rck9w39q --reason ...
        "#]].assert_eq(&show(&asked, samples::now())); // C-140
    }

    #[test]
    fn content_that_the_arguments_name_is_shown_by_its_digest() {
        let operand = Operand {
            pointer: "/manifest".into(),
            name: Some("/srv/ro\u{202e}lout.yaml".into()),
            digest: samples::approval().arguments_digest,
        };
        let text = show(&Approval { operands: vec![operand], ..samples::approval() }, samples::now());
        let shown =
            "content it names, as it was when asked:\n  /manifest  /srv/ro<U+202E>lout.yaml  sha256:1d4bde2c94ce";
        assert!(text.contains(shown), "{text}"); // C-142
    }

    #[test]
    fn a_question_what_became_of_a_call_says_what_is_known_and_what_an_answer_has_to_be() {
        let settle = Settle {
            output: Some(Json::parse(r#"{"required":["id"]}"#).unwrap()),
            earlier: None,
            attempts: 4,
            seen: Some("status 500".into()),
        };
        let asked =
            Approval { kind: ApprovalKind::Settle, expires_at: None, settle: Some(settle), ..samples::approval() };
        let text = show(&asked, samples::now());
        let told = "sent 4 times; the last attempt saw: status 500\nif it happened, the result has to fit:\n  {\n";
        assert!(text.contains(told), "{text}"); // C-238
        assert!(
            text.contains("rule: one of role finance says what became of it") && !text.contains("so far"),
            "{text}"
        );
    }

    #[test]
    fn a_list_has_one_line_for_each_approval() {
        expect![[r#"
            APPROVAL                        QUESTION        STATUS   FOR              ARGUMENTS                          WORKFLOW  ASKED   EXPIRES
            apr_01m8nwmc7ce009jh69rck9w39q  may it happen?  pending  payments.refund  {"amount":250.5,"order_id":"o-7"}  refund    1m ago  in 24h
        "#]].assert_eq(&list(&[samples::approval()], samples::now()));
        assert_eq!(list(&[], samples::now()), "no approvals\n");
    }
}
