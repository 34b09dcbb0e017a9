//! What the store contract means, as cases that every backend runs.
//!
//! A backend's `tests/conformance.rs` says `windrow_store_conformance::suite!(world = make_world);`
//! and gets one named test for each case, grouped by stage. `make_world` is an async function that
//! gives a [`World`]: a fresh, empty database and a clock that stands still until a case moves it.
//! `message_suite!` does the same, in a module of its own, for messages, events, objects and calls.
//!
//! Holds throughout: no case reads a clock, and real time passes only where calls are dropped half
//! way (`cancellation`) and where cases of `message` wait for other tasks (`a_moment`); each case
//! has its own world; after each case the database's deadlock counter is where it was. The list of
//! cases at the end of this file, and that of messages in `message`, are the only ones: a case that
//! is in neither is dead code, and the compiler says so.
//! Absent on purpose: SQL, plans and figures, which are the backends' own tests and the bench.

#![expect(clippy::unwrap_used, reason = "a case that cannot go on has failed, and says where")]

mod again;
mod audit_log;
mod batch;
mod cancellation;
mod claim;
mod description;
mod errors;
mod finalise;
mod fixture;
mod ingest;
mod inspect;
mod key;
mod member;
mod model;
mod order;
mod output;
mod pages;
mod random_walk;
mod recipe;
mod record;
mod reopen;
mod reprocess;
mod rules;
mod stress;
mod sweep;
mod upstream;
mod waiting;

use async_trait::async_trait;
use windrow_store::{Store, Time};

/// One backend with an empty database of its own, for one case.
#[async_trait]
pub trait World: Send + Sync {
    /// The backend.
    type Store: Store + Clone;

    /// A handle on the database.
    fn store(&self) -> &Self::Store;

    /// The clock that all handles of this world go by.
    fn time(&self) -> &Time;

    /// Another handle on the same database and clock, as another process would have.
    async fn another(&self) -> Self::Store;

    /// The database's deadlock counter; zero where there is none.
    async fn deadlocks(&self) -> u64;
}

/// Runs one case in its world, and asserts that it met no deadlock.
pub async fn run<W: World>(world: &W, case: impl AsyncFnOnce(&W)) {
    let before = world.deadlocks().await;
    case(world).await;
    assert_eq!(world.deadlocks().await, before, "the case met a deadlock");
}

/// Makes the re-exports and the macro of a suite from its one list of cases. The stages are modules
/// beside the place that calls it.
macro_rules! cases {
    ($suite:ident, $cases:ident; $( $stage:ident { $( $case:ident, )* } )*) => {
        /// Every case, by stage.
        pub mod $cases {
            $(
                #[doc = concat!("Cases of `", stringify!($stage), "`.")]
                pub mod $stage {
                    pub use super::super::$stage::{ $( $case ),* };
                }
            )*
        }

        /// One test for each case: `suite!(world = make_world);` with an async function that gives
        /// a fresh [`World`](crate::World). The crate that calls it needs `tokio` with its macros.
        #[macro_export]
        macro_rules! $suite {
            (world = $world:path) => {
                $(
                    mod $stage {
                        #[allow(unused_imports, reason = "the path may be absolute")]
                        use super::*;
                        $(
                            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                            async fn $case() {
                                let world = $world().await;
                                $crate::run(&world, $crate::$cases::$stage::$case).await;
                            }
                        )*
                    }
                )*
            };
        }
    };
}

// Behind the macro, which it uses.
mod message;

pub use message::message_cases;

cases! { suite, cases;
    ingest {
        an_open_file_is_visible_to_nobody,
        opening_again_has_no_effect,
        an_open_file_may_still_be_told_when_it_ends,
        opening_what_is_not_yours_or_sealed_is_a_conflict,
        a_chunk_written_twice_counts_once,
        a_gap_in_chunks_is_a_conflict,
        lines_that_are_not_dense_are_refused_whole,
        lanes_are_named_densely_and_once,
        more_lanes_than_the_bound_is_invalid,
        a_chunk_over_its_bounds_is_invalid,
        only_an_open_file_takes_lines,
        sealing_fixes_the_file_and_can_be_repeated,
        a_file_without_a_request_is_never_valid,
        a_file_knows_what_all_its_lines_ask_for,
        a_file_tells_its_lanes_and_the_sizes_of_its_chunks,
        bytes_read_back_exactly,
        lines_keep_their_numbers_across_chunks,
        an_invalid_file_keeps_its_errors_and_bytes,
        a_valid_file_has_no_errors,
        a_dropped_file_vanishes_and_leaves_nothing,
        an_upload_can_be_given_up,
        another_owners_file_is_missing,
        a_file_in_use_cannot_be_dropped,
        what_was_answered_outlives_its_writer,
        a_lane_without_a_line_is_invalid,
        a_lane_number_past_the_bound_is_invalid,
        an_abandoned_chunk_can_be_written_again,
    }
    batch {
        a_new_batch_has_every_line_untouched,
        creating_twice_gives_the_same_batch,
        an_idempotency_key_belongs_to_its_owner,
        one_key_makes_one_batch_however_many_ask,
        a_batch_needs_a_sealed_file_of_its_owner,
        a_file_and_its_batch_come_together_or_not_at_all,
        a_batch_over_an_invalid_file_is_failed,
        a_batch_that_is_created_with_errors_is_failed,
        metadata_over_the_bound_is_invalid,
        an_endless_window_is_answered,
        a_paused_batch_gives_no_lines_until_it_is_resumed,
        cancelling_with_nothing_leased_settles_at_once,
        leased_lines_may_finish_after_a_cancel,
        every_command_meets_every_state_as_the_domain_says,
        another_owners_batch_is_missing,
        a_deleted_batch_vanishes_and_leaves_nothing,
        a_refusal_names_the_state_and_the_command,
        an_owner_has_no_more_open_batches_than_it_may,
        a_repeated_creation_is_never_limited,
        the_bound_of_open_batches_holds_however_many_ask,
    }
    description {
        an_open_file_is_described_as_often_as_its_writer_learns_more,
        a_file_that_was_not_described_has_no_head_and_no_original,
        a_description_out_of_bounds_is_invalid,
        the_original_of_a_dropped_file_is_found_until_it_is_forgotten,
        the_original_of_an_abandoned_upload_is_found,
    }
    recipe {
        a_batch_keeps_the_recipe_that_it_was_made_with,
        a_batch_of_requests_has_no_recipe,
        a_repeat_with_another_recipe_is_a_conflict,
        a_recipe_out_of_bounds_is_invalid,
        a_batch_says_where_its_lanes_go,
        a_recipe_goes_with_its_batch,
        a_failed_batch_keeps_its_recipe,
    }
    audit_log {
        acts_are_listed_oldest_first,
        a_repeated_act_is_noted_once,
        acts_of_another_owners_batch_are_missing,
        the_newest_acts_are_kept,
        acts_go_with_their_batch,
        an_act_out_of_bounds_is_invalid,
    }
    again {
        a_result_that_is_put_back_keeps_its_class,
        misses_are_counted_over_generations,
        attempts_that_are_kept_go_on,
        permanent_failures_are_left_alone_unless_asked_for,
        a_line_that_was_tried_too_often_is_left_alone,
        a_line_that_is_put_back_again_within_the_hour_waits,
        named_lines_that_are_held_are_counted,
        guarded_steps_get_past_what_they_leave_alone,
        a_waiting_line_can_be_tried_now,
        only_waiting_lines_of_the_named_are_tried_now,
        a_paused_batch_tries_its_lines_when_it_goes_on,
        shaped_rows_are_written_anew,
        a_reshape_out_of_bounds_is_invalid,
        a_waiting_line_says_what_went_wrong,
        failures_are_listed_by_their_word,
    }
    reprocess {
        lines_of_a_status_run_again,
        chosen_lines_run_again,
        a_running_batch_can_be_reprocessed,
        a_reprocess_that_matches_nothing_changes_nothing,
        steps_continue_with_the_generation_of_the_first,
        a_step_of_another_generation_is_a_conflict,
        a_step_out_of_bounds_is_invalid,
        reprocessing_keeps_the_history,
        lanes_without_moved_lines_stay_done,
        a_reprocess_ends_a_finalisation,
        an_old_result_stays_in_the_history,
        a_lost_line_that_runs_again_has_both_in_its_history,
        a_line_that_is_throttled_for_long_has_few_entries,
        tries_are_counted_for_many_lines_at_once,
    }
    reopen {
        an_earlier_result_stands_in_until_there_is_a_new_one,
        a_closed_batch_that_runs_again_has_a_new_window,
        a_stopped_batch_goes_on_with_what_never_ran,
        a_late_batch_goes_on_with_a_new_window,
        a_stopped_batch_does_not_go_on_without_lines_a_file_or_room,
    }
    claim {
        a_tranche_holds_the_next_lines_with_their_bytes,
        two_instances_never_share_a_line,
        nothing_to_claim_is_none,
        a_repeated_claim_finds_its_lease,
        a_claim_sent_twice_at_once_gives_one_lease,
        another_instances_lease_id_is_a_conflict,
        a_claim_out_of_bounds_is_invalid,
        a_tranche_is_of_one_lane,
        a_claim_for_one_batch_takes_from_no_other,
        tokens_rise_with_every_grant,
        a_lease_id_granted_again_has_a_new_token,
        an_extended_lease_is_not_taken_back,
        extending_says_what_is_lost,
        leases_the_instance_forgot_are_released,
        an_extension_out_of_bounds_is_invalid,
        released_leases_go_back_untried,
        returned_lines_wait_and_then_go_first,
        a_drained_lane_wakes_when_its_retries_are_due,
        a_returned_set_is_split_by_the_claim,
        an_ended_batch_gives_no_lines,
        a_tranche_of_the_largest_size_is_whole,
        a_clock_that_goes_back_hides_no_untouched_lines,
        lines_that_come_back_moments_apart_share_a_row,
    }
    waiting {
        what_waits_is_told_by_target,
        what_waits_for_its_time_says_how_long,
        a_poll_for_what_waits_is_bounded,
        a_held_lease_that_must_not_go_on_is_told,
        nothing_is_claimed_past_the_window,
    }
    upstream {
        a_lane_is_claimed_by_its_upstream_only,
        lanes_of_one_batch_may_go_to_several_upstreams,
        what_waits_is_told_of_the_upstreams_asked_for,
        an_unknown_upstream_is_bound_by_the_first_claim,
        racing_claims_bind_a_lane_once,
        a_claim_that_may_not_bind_leaves_an_unknown_lane,
        a_batch_moved_while_it_is_claimed_goes_on_elsewhere,
        no_claim_of_the_old_upstream_slips_past_a_move,
        moving_is_noted_and_is_the_owners_alone,
        what_is_registered_first_stays_until_it_is_set,
        the_secret_of_marks_stays_the_same,
    }
    order {
        a_large_owner_does_not_starve_a_small_one,
        owners_take_turns,
        what_is_in_flight_counts_over_all_targets,
        priority_then_deadline_decide_within_an_owner,
        fairness_comes_before_priority,
        a_limit_holds_across_instances,
        every_way_out_makes_room_under_a_limit,
        a_limit_can_be_moved_and_removed,
        idle_permits_do_not_starve_another_instance,
        a_lowered_limit_recovers_whoever_frees_first,
        a_limit_set_while_batches_arrive_holds,
        many_targets_at_their_limit_cost_little,
    }
    record {
        a_result_reads_back_as_it_was_written,
        large_and_empty_bodies_read_back_exactly,
        a_zero_character_in_a_text_refuses_no_turn,
        lines_without_an_outcome_stay_leased,
        each_status_is_counted,
        a_stale_token_cannot_record,
        only_the_holder_can_record,
        a_repeated_record_changes_nothing,
        lines_that_are_not_outstanding_are_ignored,
        an_old_version_counts_for_what_is_outstanding,
        the_callers_belief_decides_nothing,
        a_line_with_two_outcomes_is_invalid,
        one_line_number_for_two_lines_is_a_conflict,
        a_turn_names_each_lease_once_and_not_too_many,
        a_turn_with_a_bad_claim_records_nothing,
        a_turn_records_and_claims,
        a_turn_folds_many_leases_in_order,
        a_retry_is_kept_in_the_history,
        the_history_of_a_line_that_is_not_there_is_missing,
        a_released_line_has_no_try_counted,
        the_last_line_reports_finalizing_once,
        an_empty_turn_does_nothing,
        two_batches_of_one_file_do_not_mix,
    }
    finalise {
        the_last_fold_flips_the_batch,
        taking_tells_what_closing_needs,
        only_a_finalizing_batch_can_be_taken,
        a_taken_finalisation_is_contended,
        a_finalisation_out_of_bounds_is_invalid,
        closing_can_be_repeated,
        rows_that_differ_from_the_counts_are_a_conflict,
        a_wrong_proof_closes_nothing,
        a_late_closing_that_nobody_took_counts,
        a_late_holder_that_nobody_followed_keeps_its_token,
        one_of_many_takes_the_finalisation,
        one_closing_sent_many_times_closes_once,
        unclosed_batches_are_found,
        a_batch_ends_as_it_was_ended,
        two_last_lines_at_once_settle_once,
        a_cancel_that_meets_the_last_line_settles_once,
        a_closing_that_meets_a_reprocess_leaves_the_batch_running,
    }
    output {
        outputs_are_files_of_their_owner,
        a_closing_that_is_refused_makes_no_output,
        a_repeated_closing_brings_no_output_back,
        closing_again_replaces_the_outputs,
        outputs_expire_after_the_closing,
        outputs_go_with_their_batch,
        a_dropped_output_stays_until_it_is_forgotten,
        forgetting_an_old_place_spares_the_new_one,
    }
    member {
        a_member_is_heard_of,
        a_stranger_has_no_heartbeat,
        members_are_listed_by_the_time_they_joined,
        who_leaves_gives_its_leases_back,
        a_tombstone_is_for_ever,
        a_tombstoned_instance_is_given_no_lines,
        a_stranger_cannot_be_tombstoned,
        who_is_buried_loses_its_leases,
        a_heartbeat_in_time_saves_a_silent_member,
        many_may_bury_at_once,
        who_holds_lines_is_told_and_until_when,
        a_lock_out_of_bounds_is_invalid,
        an_unregistered_instance_keeps_its_leases,
        leaving_may_settle_a_batch,
        a_duty_is_one_instances_at_a_time,
        one_of_many_takes_a_duty,
        a_tombstone_frees_duties,
        a_tombstone_frees_finalisations,
        a_duty_out_of_bounds_is_invalid,
    }
    sweep {
        lost_leases_come_back,
        a_loss_halves_the_next_tranche,
        a_try_forgets_the_crashes,
        a_line_that_kills_too_often_fails,
        a_line_that_did_not_run_alone_is_not_given_up_on,
        a_mark_is_fenced_and_one_for_each_instance,
        the_buried_mark_nothing,
        several_lines_never_fail_together,
        many_sweeps_take_each_lease_once,
        late_batches_expire,
        an_ended_batch_does_not_expire,
        closed_batches_are_pruned_after_their_retention,
        abandoned_uploads_are_pruned,
        expired_files_are_pruned_when_no_batch_needs_them,
        needed_files_do_not_hide_expired_ones,
        old_tombstones_are_pruned,
        reaping_spares_what_is_alive,
    }
    inspect {
        batches_are_listed_newest_first,
        new_batches_do_not_shift_the_pages,
        batches_are_filtered,
        files_are_listed_newest_first,
        gauges_add_up,
        a_page_out_of_bounds_is_invalid,
        a_tampered_cursor_is_invalid,
        a_cursor_fits_only_its_own_query,
        a_cursor_does_not_bind_the_page_size,
        a_line_without_failed_tries_has_no_history,
        finished_lines_are_paged_by_line,
        finished_lines_are_filtered,
        finished_pages_hold_while_lines_finish,
        a_page_of_finished_lines_is_bounded_in_bytes,
        a_cursor_does_not_bind_the_bytes_of_a_page,
    }
    errors {
        a_refused_argument_says_the_same_on_every_database,
        a_refused_argument_of_a_message_says_the_same_on_every_database,
        a_refused_file_says_the_same_on_every_database,
        a_refused_call_says_the_same_on_every_database,
        a_refused_message_says_the_same_on_every_database,
    }
    key {
        a_key_is_found_by_its_hash,
        adding_a_key_again_gives_the_same_key,
        an_id_or_a_hash_in_use_is_a_conflict,
        one_key_added_many_times_is_there_once,
        a_key_ends_with_its_time,
        a_revoked_key_is_let_in_no_more,
        another_owners_key_is_missing,
        the_last_use_of_keys_is_noted,
        many_note_the_same_keys_at_once,
        keys_are_listed_newest_first,
        a_key_out_of_bounds_is_invalid,
    }
    pages {
        files_are_listed_either_way_round,
        a_list_of_files_begins_behind_a_file,
        a_list_of_batches_begins_behind_a_batch,
        a_list_begins_behind_nothing_unknown,
        pending_lines_say_where_they_are,
        pending_pages_join_to_one_list,
        pending_lines_are_filtered,
        only_lines_that_may_still_run_are_pending,
        pages_skip_and_double_nothing_while_lines_move,
        sets_of_one_moment_are_merged,
        lost_lines_show_their_crashes,
        a_summary_reads_only_the_first_bytes,
        a_large_lane_is_paged_from_its_cursor,
        pages_of_every_size_give_every_row_once,
        a_page_of_any_size_continues_where_the_last_ended,
        a_row_says_what_the_other_pages_say,
        rows_are_filtered_by_status_or_place,
        an_earlier_result_stands_in_for_a_row_that_runs_again,
        rows_of_a_dropped_file_are_those_with_a_result,
        a_page_of_rows_is_bounded_in_bytes,
        rows_that_move_are_shown_once,
        a_page_of_rows_is_checked,
    }
    rules {
        rule_01_a_lease_is_recorded_or_taken_back,
        rule_01_a_lease_that_was_taken_back_records_nothing,
        rule_01_an_old_token_of_a_living_lease_records_nothing,
        rule_01_late_but_untaken_work_counts,
        rule_02_a_lease_its_instance_does_not_know_is_released,
        rule_02_a_turn_repeated_after_a_lost_reply_changes_nothing,
        rule_03_turns_in_any_order_never_deadlock,
        rule_03_turns_under_lowered_limits_never_deadlock,
        rule_04_two_turns_on_one_lease_keep_both_results,
        rule_05_every_way_out_of_a_lease_folds,
        rule_06_a_paused_batch_closes_with_its_last_line,
        rule_06_no_claim_slips_past_a_stop,
        rule_07_a_claim_that_meets_others_waits,
        rule_08_an_abandoned_turn_happens_whole_or_not_at_all,
        rule_08_an_abandoned_turn_holds_no_lock,
        rule_09_a_killing_line_fails_alone,
        rule_09_a_killing_line_takes_no_other_with_it,
        rule_10_a_retry_storm_makes_few_rows,
        rule_11_a_dropped_file_starts_no_batch,
        rule_11_a_file_stays_while_a_batch_needs_it,
        rule_12_a_limit_holds_across_instances,
        rule_13_claims_go_in_the_order_of_the_design,
    }
    stress {
        every_line_ends_once_in_a_storm,
        a_retry_storm_settles,
        steering_in_a_storm_loses_nothing,
        a_killing_line_among_many_workers_fails_alone,
    }
    random_walk {
        a_walk_agrees_with_the_model_seed_one,
        a_walk_agrees_with_the_model_seed_two,
        a_walk_agrees_with_the_model_seed_three,
        a_walk_agrees_with_the_model_seed_four,
    }
}
