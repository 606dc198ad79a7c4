//! What every store must do, as stories that run against an open ledger.
//!
//! A store that passes them loads and saves what decisions need, keeps its promises about order, fences and isolation,
//! and reads back what it wrote. [`crate::conformance_tests!`] makes a test of each story; the test supplies a
//! [`World`] on the store it is about.

mod admission;
mod ends;
mod hops;
mod jobs;
mod lists;
mod pauses;
mod records;
mod recovery;
mod registry;
mod removal;
mod signals;
mod verdicts;
mod webhooks;
mod world;

pub use signals::Contested;
pub use world::{Asked, START, World};

pub mod stories {
    //! All stories, by name.
    pub use super::admission::*;
    pub use super::ends::*;
    pub use super::hops::*;
    pub use super::jobs::*;
    pub use super::lists::*;
    pub use super::pauses::*;
    pub use super::records::*;
    pub use super::recovery::*;
    pub use super::registry::*;
    pub use super::removal::*;
    pub use super::signals::*;
    pub use super::verdicts::*;
    pub use super::webhooks::*;
}

/// Makes a test of each story. `$world` is an expression that gives a fresh [`World`](conformance::World).
#[macro_export]
macro_rules! conformance_tests {
    ($world:expr) => {
        $crate::conformance_tests! { @each $world;
            a_run_is_there_once_it_is_answered
            equal_requests_make_one_run
            a_key_with_another_request_is_refused
            a_run_id_is_its_own_key
            keys_of_two_people_are_two_keys
            a_session_has_one_run_at_a_time
            of_many_admissions_to_a_session_one_is_taken
            a_refusal_changes_nothing_and_writes_no_event
            an_unknown_id_is_refused_alike
            a_caller_that_goes_away_changes_nothing
            a_full_queue_takes_no_more_and_lets_every_run_return
            a_run_keeps_its_queue_and_priority_in_every_delivery
            of_many_claims_one_wins
            a_claim_hands_out_a_larger_token
            an_old_token_changes_nothing
            a_renewal_moves_the_deadline_and_writes_no_event
            a_thousand_claims_are_renewed_at_once
            a_park_leaves_no_worker_and_keeps_its_checkpoint
            a_second_checkpoint_replaces_the_first
            a_hold_and_its_counters_are_there_for_every_later_hop
            progress_is_stored_as_a_prefix
            a_verdict_returns_the_run_in_its_own_commit
            a_verdict_may_hand_the_run_to_a_worker
            a_verdict_may_be_in_the_batch_of_its_question
            a_second_verdict_is_told_the_first
            a_verdict_before_the_park_returns_the_run_at_the_park
            commands_on_one_run_are_serial
            an_approval_expires_by_nobodys_hand
            an_edit_and_a_reason_are_kept
            an_approved_write_passes_its_gate_once
            a_timer_returns_its_run
            a_finished_run_is_frozen
            a_final_commit_is_one_transaction
            a_cancel_closes_what_is_open
            a_cancel_of_a_busy_run_waits_for_its_hop
            a_failure_with_a_call_in_flight_waits_for_it
            a_final_run_owes_its_checkpoint_until_it_is_cleaned
            a_run_goes_whole_once_it_was_kept_long_enough
            what_somebody_may_still_come_for_stays
            old_runs_are_found_page_by_page
            waits_of_namespaces_take_turns
            a_lapsed_claim_is_taken_over_once
            claims_of_other_processes_are_taken_over_at_once
            a_call_in_flight_at_a_crash_asks_a_person
            a_late_outcome_of_a_lost_worker_changes_nothing
            events_are_a_chain_without_gaps
            a_command_s_events_are_read_once_and_in_order
            bodies_come_back_by_digest
            a_reading_is_told_in_the_run_of_what_was_read
            a_log_is_read_in_lines
            receipts_are_a_chain
            everything_of_a_run_is_shown
            runs_are_listed_newest_first_and_by_filter
            approvals_are_listed_in_each_order
            effects_are_listed
            work_is_found_in_order_of_priority
            what_is_paused_is_kept_from_workers
            a_pause_is_kept_with_its_run
            a_signal_returns_the_run_that_waits_for_it
            signals_are_kept_until_a_wait_takes_them
            a_job_returns_the_run_that_waits_for_it
            jobs_are_given_out_in_order_and_each_once
            what_is_due_of_jobs_is_found_and_ends_them
            a_job_that_may_be_done_twice_is_given_out_again
            a_run_is_kept_while_an_agent_may_still_work_for_it
            a_stopping_run_keeps_what_its_agents_owe
            a_word_for_what_stopped_stays_with_its_run
            a_sweep_finds_what_was_committed_late
            the_figures_count_what_is_there
            a_workflow_is_registered_once
            a_token_is_kept_until_it_is_revoked
            messages_are_made_with_the_change_they_tell_of
            what_is_read_is_a_copy
            hints_follow_the_commit
            time_never_goes_back
        }
    };
    (@each $world:expr; $($story:ident)*) => {$(
        #[tokio::test]
        async fn $story() {
            $crate::conformance::stories::$story($world).await
        }
    )*};
}
