//! A run for people: one line in a list, the whole story of one, and why it is where it is.

use super::{indent, or_dash, pretty, relative, short, span_ms, table, visible};
use api::approval::ApprovalStatus;
use api::call::CallState;
use api::explain::ExplainedWait;
use api::run::{Clocks, Failure, Obligation, ObligationState, Outcome, Pause, PauseScope, WaitingFor};
use api::{Approval, Call, Explain, Run};
use protocol::run::Status;
use protocol::time::Time;
use std::fmt::Write as _;

/// `AWAITING_CONSENT`: prose writes statuses in upper case (R-11).
fn prose(status: Status) -> String {
    status.as_str().to_ascii_uppercase()
}

/// How long it has been so.
fn lasted(since: Time, now: Time) -> String {
    span_ms(now.since(since).as_millis())
}

pub(crate) fn list(runs: &[Run], now: Time) -> String {
    if runs.is_empty() {
        return "no runs\n".into();
    }
    let rows = runs.iter().map(|run| {
        vec![
            run.id.to_string(),
            visible(&run.workflow),
            run.status.to_string(),
            lasted(run.since_at, now),
            relative(run.created_at, now),
            waits_short(run),
        ]
    });
    table(&["RUN", "WORKFLOW", "STATUS", "FOR", "CREATED", "WAITS FOR"], rows.collect())
}

fn waits_short(run: &Run) -> String {
    let names = run.waiting_for.iter().map(|wait| wait.name.as_deref().unwrap_or(wait.kind.as_str()));
    short(&names.collect::<Vec<_>>().join(", "), 40)
}

/// Status and what follows from it, in a few lines.
pub(crate) fn brief(run: &Run, now: Time) -> String {
    let mut text = format!("{}  {}@{}  {}", run.id, run.workflow, run.revision, prose(run.status));
    let _ = writeln!(text, "  for {}", lasted(run.since_at, now));
    if let Some(result) = &run.result {
        let _ = writeln!(text, "result:\n{}", indent(&visible(&pretty(result)), "  ").trim_end());
    }
    if let Some(failure) = &run.failure {
        text.push_str(&failure_text(failure));
    }
    if let Some(blocked) = &run.blocked {
        let _ = writeln!(text, "blocked: {}", visible(blocked));
    }
    if run.status.is_active() && !run.paused.is_empty() {
        text.push_str("pausing: its hop goes on to the next safe place\n");
    }
    for pause in &run.paused {
        let _ = writeln!(text, "{}", pause_text(pause, now));
    }
    run.obligations.iter().filter_map(to_stop).for_each(|line| text.push_str(&(line + "\n")));
    if run.status == Status::Queued && run.paused.is_empty() {
        let _ = writeln!(text, "hint: stasis run wait {}", run.id); // I-19
    }
    if run.status == Status::AwaitingTimer {
        let due = run.waiting_for.iter().filter_map(|wait| wait.due_at).min();
        let due = due.map(|due| format!(" {}", relative(due, now))).unwrap_or_default();
        let _ = writeln!(
            text,
            "hint: its timer ends{due}; then `stasis run wait {}`, or a server, goes on with it",
            run.id
        );
    }
    text
}

/// What has not stopped yet, and what stopped by somebody's word alone.
fn to_stop(obligation: &Obligation) -> Option<String> {
    let name = obligation.name.as_deref().map(|name| format!(" of {}", visible(name))).unwrap_or_default();
    let what = format!("{:?} {}{name}", obligation.kind, obligation.of);
    let text = |text: &Option<String>| text.as_deref().map(visible).unwrap_or_default();
    match obligation.state {
        ObligationState::Open if obligation.last_error.is_none() => Some(format!("not stopped yet: {what}")),
        ObligationState::Open => Some(format!("not stopped yet: {what}: {}", text(&obligation.last_error))),
        ObligationState::Acknowledged => None,
        ObligationState::Attested => {
            Some(format!("attested by {}: {what} has stopped: {}", text(&obligation.by), text(&obligation.reason)))
        }
    }
}

fn failure_text(failure: &Failure) -> String {
    let mut text = format!("failure {}: {}\n", failure.code, visible(&failure.message));
    let Some(detail) = failure.detail.as_ref().filter(|detail| !detail.is_null()) else { return text };
    let peek = detail.peek();
    match peek.get("traceback").and_then(|trace| trace.as_str()) {
        Some(trace) => text.push_str(&indent(&visible(trace), "  ")),
        None => text.push_str(&indent(&visible(&pretty(detail)), "  ")),
    }
    text
}

/// The run that was paused, and what goes on all the same (R-371).
pub(crate) fn paused(run: &Run, now: Time) -> String {
    let mut text = brief(run, now);
    let waits = run.waiting_for.iter().filter_map(|wait| Some((wait.kind.as_str(), Some(&wait.id), wait.due_at?)));
    let deadline = run.deadline_at.map(|at| ("deadline", None, at));
    let due = waits.chain(deadline).map(|(kind, id, at)| {
        let id = id.map(|id| format!(" {id}")).unwrap_or_default();
        format!("goes on: {kind}{id}, {at} ({})", relative(at, now))
    });
    due.for_each(|line| text.push_str(&(line + "\n")));
    text
}

pub(crate) fn pause_text(pause: &Pause, now: Time) -> String {
    let scope = match pause.scope {
        PauseScope::Run => "run",
        PauseScope::Workflow => "workflow",
        PauseScope::Queue => "queue",
    };
    let reason = pause.reason.as_deref().map(|reason| format!(": {}", visible(reason))).unwrap_or_default();
    format!(
        "paused ({scope} {}) by {} {}{reason}",
        visible(&pause.name),
        visible(&pause.by),
        relative(pause.since_at, now)
    )
}

/// The whole story.
pub(crate) fn story(run: &Run, calls: &[Call], approvals: &[Approval], now: Time) -> String {
    let mut text = brief(run, now);
    text.push('\n');
    let _ = writeln!(
        text,
        "started by {} {}, queue {}, priority {}",
        visible(&run.principal),
        relative(run.created_at, now),
        run.queue,
        run.priority
    );
    for (name, of) in [("retry of", run.retry_of), ("forked from", run.forked_from.as_ref().map(|f| f.run))] {
        if let Some(of) = of {
            let _ = writeln!(text, "{name} {of}");
        }
    }
    if let Some(deadline) = run.deadline_at {
        let _ = writeln!(text, "deadline {} ({})", deadline.second(), relative(deadline, now));
    }
    if !run.labels.is_empty() {
        let labels = run.labels.iter().map(|(key, value)| format!("{}={}", visible(key), visible(value)));
        let _ = writeln!(text, "labels {}", labels.collect::<Vec<_>>().join(" "));
    }
    let _ = writeln!(
        text,
        "calls {} of {}, active {} of {}, hop {}",
        run.budgets.calls.used,
        run.budgets.calls.of,
        span_ms(run.budgets.active_ms.used.into()),
        span_ms(run.budgets.active_ms.of.into()),
        run.seq
    );
    let _ = writeln!(text, "time: {}", clocks(&run.clocks_ms));
    section(&mut text, "waits for", run.waiting_for.iter().map(|wait| wait_line(wait, now)));
    section(&mut text, "approvals", approvals.iter().map(|a| super::approval::line(a, now)));
    if !calls.is_empty() {
        let _ = write!(text, "\ncalls\n{}", indent(&super::lists::calls(calls, now), "  "));
    }
    section(
        &mut text,
        "effects",
        run.effects.iter().map(|effect| {
            let call = calls.iter().find(|call| call.id == effect.call);
            let outcome = effect.outcome.map_or_else(|| call.map_or("open", stands), |outcome| outcome.as_str());
            let applied = effect.applied.map(|applied| format!(", applied: {}", applied.as_str())).unwrap_or_default();
            let code = effect.code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default();
            format!("{}  {outcome}{code}{applied}  {}", visible(&effect.tool), effect.call)
        }),
    );
    text
}

/// Where a call without outcome stands.
fn stands(call: &Call) -> &'static str {
    match call.state {
        CallState::Intended => "not sent yet",
        CallState::Asked => "waits for approval",
        CallState::Dispatched => "in flight",
        CallState::Ambiguous => "ambiguous",
        CallState::Ended => "ended",
    }
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let body: String = lines.map(|line| indent(&line, "  ")).collect();
    if !body.is_empty() {
        let _ = write!(text, "\n{title}\n{body}");
    }
}

fn wait_line(wait: &WaitingFor, now: Time) -> String {
    let name = wait.name.as_deref().map(|name| format!(" {}", visible(name))).unwrap_or_default();
    let due = wait.due_at.map(|due| format!(", due {}", relative(due, now))).unwrap_or_default();
    let tier = wait.tier.map(|tier| format!(", guest {}", tier.as_str())).unwrap_or_default();
    format!("{}{name}  {}  for {}{due}{tier}", wait.kind.as_str(), wait.id, lasted(wait.since_at, now))
}

/// The clocks that ran, longest names left out.
fn clocks(clocks: &Clocks) -> String {
    let all = [
        ("queued", clocks.queued),
        ("active", clocks.active),
        ("calls", clocks.calls),
        ("hold", clocks.hold),
        ("person", clocks.person),
        ("machine", clocks.machine),
        ("paused", clocks.paused),
        ("stopping", clocks.stopping),
    ];
    let ran = all.iter().filter(|(_, ms)| *ms > 0).map(|(name, ms)| format!("{name} {}", span_ms((*ms).into())));
    let ran = ran.collect::<Vec<_>>().join(", ");
    if ran.is_empty() { "none yet".into() } else { ran }
}

/// What a run that was carried or awaited came to.
pub(crate) fn outcome(outcome: &Outcome, now: Time) -> String {
    let mut text = String::new();
    // One that is still pending stands below, with what it waits for.
    if let Some(approval) = outcome.approval.as_ref().filter(|approval| approval.status != ApprovalStatus::Pending) {
        let _ = writeln!(text, "{}", super::approval::line(approval, now));
    }
    text.push_str(&brief(&outcome.run, now));
    if outcome.run.status == Status::Failed {
        let _ = writeln!(text, "hint: stasis run show {} tells what became of each call", outcome.run.id);
    }
    for approval in &outcome.approvals {
        let _ = writeln!(text, "\nwaits for approval {}", super::approval::line(approval, now));
        if outcome.approval.as_ref().is_some_and(|decided| decided.id == approval.id) {
            // Whoever has just voted cannot vote more.
            let _ = writeln!(text, "{}", super::approval::wanted(approval));
            continue;
        }
        let _ = writeln!(text, "hint: stasis approval show {}; {}", approval.id, super::approval::next_step(approval));
    }
    text
}

pub(crate) fn explain(explain: &Explain, now: Time) -> String {
    let mut text = format!(
        "{}  {}  for {}\n{}\n",
        explain.run,
        prose(explain.status),
        lasted(explain.since_at, now),
        visible(&explain.why)
    );
    section(&mut text, "waits", explain.waits.iter().map(|wait| explained(wait, now)));
    section(&mut text, "pauses", explain.paused.iter().map(|pause| pause_text(pause, now)));
    section(&mut text, "to stop", explain.obligations.iter().filter_map(to_stop));
    section(
        &mut text,
        "still to clean up",
        explain.debts.iter().map(|d| format!("{} {} ({} tries)", d.kind, d.of, d.attempts)),
    );
    let _ = writeln!(text, "\ntime: {}", clocks(&explain.clocks_ms));
    let _ = writeln!(text, "next by itself: {}", explain.next.as_deref().map_or_else(|| "nothing".into(), visible));
    section(&mut text, "what moves it", explain.moves.iter().map(|line| visible(line)));
    text
}

fn explained(wait: &ExplainedWait, now: Time) -> String {
    let due = or_dash(wait.due_at.map(|due| relative(due, now)));
    let name = wait.name.as_deref().map(visible).unwrap_or_default();
    format!(
        "{} {name}  {}  for {}, due {due}\n  ended by {}",
        wait.kind.as_str(),
        wait.id,
        lasted(wait.since_at, now),
        visible(&wait.ended_by)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;
    use api::Json;
    use expect_test::expect;

    #[test]
    fn a_list_has_one_line_for_each_run() {
        expect![[r#"
            RUN                             WORKFLOW  STATUS            FOR  CREATED  WAITS FOR
            run_01m8nwmbe0e00bsaekf59edd1r  refund    awaiting_consent  59s  1m ago   payments.refund
        "#]]
        .assert_eq(&list(&[samples::run()], samples::now()));
        assert_eq!(list(&[], samples::now()), "no runs\n");
    }

    #[test]
    fn the_story_of_a_parked_run_says_what_it_waits_for() {
        let text = story(&samples::run(), &[], &[samples::approval()], samples::now());
        expect![[r#"
            run_01m8nwmbe0e00bsaekf59edd1r  refund@1  AWAITING_CONSENT  for 59s

            started by local 1m ago, queue default, priority 50
            calls 2 of 10000, active 4ms of 1m, hop 0
            time: active 4ms, calls 11ms, person 2s

            waits for
              approval payments.refund  apr_01m8nwmc7ce009jh69rck9w39q  for 1m, due in 24h, guest frozen

            approvals
              apr_01m8nwmc7ce009jh69rck9w39q  payments.refund  pending, expires in 24h
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn an_outcome_ends_with_what_can_be_done() {
        let waits = Outcome { approval: None, run: samples::run(), approvals: vec![samples::approval()], jobs: vec![] };
        expect![[r#"
            run_01m8nwmbe0e00bsaekf59edd1r  refund@1  AWAITING_CONSENT  for 59s

            waits for approval apr_01m8nwmc7ce009jh69rck9w39q  payments.refund  pending, expires in 24h
            hint: stasis approval show apr_01m8nwmc7ce009jh69rck9w39q; stasis approve apr_01m8nwmc7ce009jh69rck9w39q; stasis reject apr_01m8nwmc7ce009jh69rck9w39q --reason ...
        "#]].assert_eq(&outcome(&waits, samples::now()));
    }

    #[test]
    fn a_question_what_became_of_a_call_offers_its_own_answers() {
        let settle = Approval { kind: api::approval::ApprovalKind::Settle, ..samples::approval() };
        let call = settle.call;
        let waits = Outcome { approval: None, run: samples::run(), approvals: vec![settle], jobs: vec![] };
        let text = outcome(&waits, samples::now());
        let wanted = format!("stasis effect settle {call} --happened JSON | --did-not-happen | --give-up");
        assert!(text.contains(&wanted) && !text.contains("stasis approve"), "{text}"); // C-131
    }

    #[test]
    fn a_failure_shows_its_traceback_and_a_result_its_own_numbers() {
        let failure = Failure {
            code: "step_failed".into(),
            message: "ValueError: no such order".into(),
            detail: Some(Json::parse(r#"{"line":7,"traceback":"Traceback:\n  line 7"}"#).unwrap()),
        };
        let failed = Run { status: Status::Failed, failure: Some(failure), ..samples::run() };
        let done = Run { status: Status::Done, result: Some(Json::parse(r#"{"n":1.50}"#).unwrap()), ..samples::run() };
        expect![[r#"
            run_01m8nwmbe0e00bsaekf59edd1r  refund@1  FAILED  for 59s
            failure step_failed: ValueError: no such order
              Traceback:
                line 7
        "#]]
        .assert_eq(&brief(&failed, samples::now()));
        expect![[r#"
            run_01m8nwmbe0e00bsaekf59edd1r  refund@1  DONE  for 59s
            result:
              {
                "n": 1.50
              }
        "#]]
        .assert_eq(&brief(&done, samples::now()));
    }

    #[test]
    fn a_queued_run_says_how_to_go_on() {
        let queued = Run { status: Status::Queued, ..samples::run() };
        let hint = format!("hint: stasis run wait {}\n", queued.id);
        assert!(brief(&queued, samples::now()).ends_with(&hint)); // I-19
    }
}
