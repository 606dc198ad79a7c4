//! Every code that a decision about a run can tell, and a story that shows it: a new code fails here until it has one.

use super::{able, admission, approvals, ends, gate, hold, hops, jobs, moves, pause, recovery, settle, signals, waits};
use crate::world::{World, caller, denied, person, told};
use protocol::call::{Outcome, OutcomeStatus, RecoveryClass, State};
use protocol::code::Code;
use protocol::command::{Act, Command, Concluded, Hop, Progress};
use protocol::journal::Entry;
use protocol::json::canonicalize;
use protocol::registry;
use protocol::tool::Effect;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A story by the code that somebody in it is told.
const SHOWN: &[(Code, fn())] = &[
    (Code::AlreadyCompleted, settle::did_not_happen_sends_nothing_again),
    (Code::AlreadyDecided, approvals::the_first_decision_stands),
    (Code::AlreadyDispatched, gate::an_approval_passes_the_gate_once),
    (Code::ApprovalCancelled, ends::cancelling_a_parked_run_closes_its_question),
    (Code::ApprovalExpired, approvals::expiry_is_judged_in_the_deciding_statement),
    (Code::ApprovalUnavailable, waits::a_run_may_have_256_open_waits_each_decided_alone),
    (Code::ArgsDigestMismatch, approvals::a_verdict_names_the_bytes_it_was_given_for),
    (Code::AuthorityUnavailable, gate::a_right_that_is_gone_by_the_time_of_the_gate_is_gone),
    (Code::CallBudgetExceeded, hops::a_call_beyond_the_budget_is_refused),
    (Code::CancelledBeforeDispatch, ends::a_final_commit_closes_everything_at_once),
    (Code::CapacityClosed, a_full_queue_takes_no_more),
    (Code::DigestMismatch, gate::other_bytes_than_approved_are_never_dispatched),
    (Code::EditRefused, approvals::an_edit_that_the_rule_or_the_schema_forbids_is_refused),
    (Code::EffectAmbiguous, a_refused_connection_is_not_the_end_of_what_is_unknown),
    (Code::EffectNotExecuted, settle::did_not_happen_sends_nothing_again),
    (Code::ExpiredBeforeDispatch, gate::a_yes_lapses_between_decision_and_gate),
    (Code::HardwareBudgetExhausted, hold::the_fourth_in_a_row_and_the_ninth_in_all_are_never_made),
    (Code::IdempotencyMismatch, admission::the_same_request_under_one_key_is_one_run),
    (Code::IllegalTransition, hops::a_hop_of_a_run_that_is_not_stopping_has_nothing_to_acknowledge),
    (Code::InvalidAnswer, approvals::a_reject_needs_its_reason),
    (Code::InvalidInput, signals::a_payload_that_does_not_fit_is_refused_or_set_aside),
    (Code::InvalidRequest, admission::admission_refuses_what_it_does_not_know),
    (Code::JobNotOwner, jobs::a_job_has_one_claimant_and_one_claim_one_answer),
    (Code::JobRequestMismatch, jobs::one_call_hands_over_one_job),
    (Code::JobTerminal, jobs::the_first_end_stands),
    (Code::LimitExceeded, admission::what_a_request_says_beside_its_input_is_short),
    (Code::MoveRefused, moves::what_changed_since_the_proof_moves_nothing),
    (Code::NotApproved, gate::a_pending_or_rejected_question_lets_nothing_through),
    (Code::NotDispatched, gate::an_outcome_needs_its_gate),
    (Code::NotFound, approvals::an_unknown_approval_is_one_answer),
    (Code::NotNow, pause::each_pause_over_a_run_holds_it_until_that_one_is_cleared),
    (Code::NotPermitted, approvals::only_those_who_may_decide),
    (Code::OperandChanged, gate::content_that_is_another_than_when_it_was_approved_runs_nothing),
    (Code::PatternConflict, able::a_revision_that_its_owner_numbers_is_the_next_one_or_the_same),
    (Code::PinnedPatternUnavailable, able::a_run_that_nobody_can_run_is_refused_after_a_grace),
    (Code::PolicyChanged, gate::a_policy_that_answers_for_people_makes_no_wait_and_is_asked_again_at_the_gate),
    (Code::PolicyDenied, gate::policy_is_judged_again_at_the_gate),
    (Code::ReasonRequired, approvals::a_reject_needs_its_reason),
    (Code::ResultInvalid, jobs::a_result_that_does_not_fit_leaves_the_job_to_its_agent),
    (Code::ResumeDisabled, waits::a_run_that_may_not_resume_may_not_park),
    (Code::RevisionNotActive, admission::admission_refuses_what_it_does_not_know),
    (Code::RunDeadlineExceeded, recovery::a_run_past_its_deadline_ends_by_the_edge_of_its_status),
    (Code::RunPaused, pause::the_gate_waits_for_the_end_of_a_pause_and_keeps_what_was_approved),
    (Code::RunStopping, ends::cancelling_a_running_run_waits_for_its_hop),
    (Code::RunTerminal, signals::a_run_that_cannot_use_a_signal_refuses_it),
    (Code::SelfApprovalForbidden, approvals::only_those_who_may_decide),
    (Code::SessionBusy, a_session_has_one_run_that_is_not_final),
    (Code::SignalInboxFull, signals::a_run_keeps_so_many_signals_and_no_more),
    (Code::Skipped, hops::a_claim_names_a_hop_that_is_there),
    (Code::StaleClaim, gate::a_lapsed_claim_passes_no_gate),
    (Code::StaleHop, a_hop_goes_on_from_the_journal_that_is_there),
    (Code::StrengthRequired, approvals::only_those_who_may_decide),
    (Code::ToolChanged, gate::a_tool_that_became_another_one_lets_nothing_through),
    (Code::ToolConflict, a_tool_keeps_its_digest_under_its_version),
    (Code::ToolUnavailable, gate::a_right_that_is_gone_by_the_time_of_the_gate_is_gone),
    (Code::UnknownWorkflow, admission::admission_refuses_what_it_does_not_know),
    (Code::WaitClosed, signals::a_run_that_cannot_use_a_signal_refuses_it),
    (Code::WaitConsumed, signals::to_one_wait_the_first_answer_wins),
    (Code::WaitCorrupt, recovery::a_parked_run_whose_owner_is_missing_is_corrupt),
    (Code::WaitOwnerMismatch, jobs::a_run_that_has_nothing_else_left_waits_for_all_jobs_that_were_asked_to_stop),
    (Code::WaitUnsafe, hops::a_park_with_nothing_to_wait_for_is_refused),
    (Code::WorkerLost, recovery::a_fourth_continuation_without_progress_is_worker_lost),
];

#[test]
fn every_code_that_a_decision_tells_is_shown_by_a_story() {
    let mut stated = BTreeSet::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/decide"), &mut stated);
    assert!(stated.len() > 50, "{stated:?}");
    let shown: BTreeSet<String> = SHOWN.iter().map(|(code, _)| format!("{code:?}")).collect();
    let failures = ["RunDeadlineExceeded", "PinnedPatternUnavailable"].map(str::to_owned);
    assert_eq!(shown, stated.into_iter().chain(failures).collect());
    for (code, story) in SHOWN {
        assert!(told::by(story).contains(code), "nobody is told {code}");
    }
}

/// The names of the codes that the files of a folder name.
fn collect(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the sources").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            collect(&entry, names);
            continue;
        }
        let text = fs::read_to_string(&entry).expect("a source");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let words = code.flat_map(|line| line.split("Code::").skip(1));
        let name =
            |word: &str| word.split(|sign: char| !sign.is_ascii_alphanumeric()).next().unwrap_or_default().to_owned();
        names.extend(words.map(name).filter(|name| name.starts_with(|sign: char| sign.is_ascii_uppercase())));
    }
}

fn refused<T: std::fmt::Debug>(answer: Result<T, protocol::refusal::Refusal>) -> Code {
    answer.expect_err("refused").code
}

#[test]
fn a_full_queue_takes_no_more() {
    let mut world = World::new();
    world.admit();
    let full = world.admission_with(|admit| admit.max_queued = Some(1));
    let refusal = world.give(full).expect_err("one waits already");
    assert_eq!(refusal.code, Code::CapacityClosed);
    assert!(refusal.retry_after_ms.is_some());
}

#[test]
fn a_session_has_one_run_that_is_not_final() {
    let mut world = World::running_with(|admit| admit.session = Some("one".to_owned()));
    let another = world.admission_with(|admit| admit.session = Some("one".to_owned()));
    let refusal = world.give(another).expect_err("busy");
    assert_eq!(refusal.code, Code::SessionBusy);
    assert!(refusal.detail.contains(&world.run().id.to_string()));
}

#[test]
fn a_hop_goes_on_from_the_journal_that_is_there() {
    let mut world = World::running();
    world.enter(Effect::Read, RecoveryClass::Retry);
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let progress = Progress { base: 0, entries: vec![Entry::Call(Box::new(call))], ..Progress::default() };
    let hop = Hop { run: world.run().id, token: world.token(), progress, act: Act::Record };
    let before = world.journal.clone();
    assert_eq!(refused(world.give(Command::Hop(Box::new(hop)))), Code::StaleHop);
    assert_eq!(world.journal, before);
}

#[test]
fn a_refused_connection_is_not_the_end_of_what_is_unknown() {
    let mut world = World::running();
    let call = world.in_flight(RecoveryClass::Idempotent);
    world.concluded(call, Concluded::Ambiguous { ask: false, seen: None }).expect("unknown");
    let outcome = Outcome { status: OutcomeStatus::Error, ..denied(Code::ConnectorUnreachable) };
    assert_eq!(refused(world.end(call, outcome)), Code::EffectAmbiguous);
    assert!(matches!(world.calls[&call].state, State::Ambiguous(_)));
}

#[test]
fn a_tool_keeps_its_digest_under_its_version() {
    let mut world = World::new();
    let mut spec = crate::world::write_tool();
    spec.description = "Refund twice".to_owned();
    let tools = vec![registry::NewTool { spec: spec.into(), grant: canonicalize(b"{}").expect("JSON") }];
    let (by, policy) = (caller(person("ana")), world.registry.policy.clone());
    let apply = registry::Apply { by, tools, policy, principals: Vec::new() };
    let before = world.registry.tools.clone();
    assert_eq!(refused(world.change_registry(registry::Change::Apply(Box::new(apply)))), Code::ToolConflict);
    assert_eq!(world.registry.tools, before);
}
