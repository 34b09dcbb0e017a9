//! What messages mean: partitions, messages, events, objects and calls.
//!
//! Holds throughout: as for the other suite. A backend that is a [`MessageStore`] says
//! `mod messages { windrow_store_conformance::message_suite!(world = crate::make_world); }`.
//! Absent on purpose: what only one database can do, such as a transaction held open while others
//! commit; and wakes, which are hints that may be missed.

mod batch_events;
mod call;
mod call_end;
mod commit;
mod dead;
mod event;
mod exchange;
pub(crate) mod fixture;
mod lock_order;
mod object;
mod partition;
mod prune;
mod race;
mod random_walk;
mod retention;
mod send;
mod states;
mod stats;
mod transactional;

use windrow_store::MessageStore;

use crate::World;

/// A world whose backend runs messages, too.
pub trait MessageWorld: World<Store: MessageStore> {}

impl<W: World<Store: MessageStore>> MessageWorld for W {}

cases! { message_suite, message_cases;
    partition {
        the_first_set_up_fixes_the_partitions,
        another_service_or_number_of_partitions_is_a_conflict,
        a_set_up_keeps_what_live_members_serve,
        only_members_that_run_messages_of_the_service_count,
        nobody_is_lost_of_many_who_set_up_at_once,
        one_of_many_first_set_ups_wins,
        nothing_is_sent_before_the_set_up,
        only_free_partitions_are_taken,
        epochs_rise_with_every_take,
        a_released_partition_is_free,
        only_its_owner_releases_a_partition,
        a_dead_owners_partitions_are_taken_as_suspects,
        suspects_stay_until_they_are_cleared,
        a_forgotten_owners_partitions_are_taken,
        a_tombstoned_instance_is_refused,
        a_stranger_takes_nothing,
        shares_cover_every_partition,
        one_of_many_takes_a_partition,
        a_set_up_out_of_bounds_is_invalid,
    }
    send {
        messages_are_read_as_they_were_sent,
        a_stream_is_read_in_its_order,
        a_streams_partition_is_the_domains,
        a_send_happens_whole_or_not_at_all,
        queues_of_one_stream_are_independent,
        owners_do_not_share_streams,
        a_repeated_message_counts_once,
        one_id_with_other_content_is_a_conflict,
        an_id_counts_once_in_each_queue,
        a_repeat_within_one_send_counts_once,
        a_repeat_after_it_is_done_counts_once,
        only_deduped_messages_of_the_outbox_count_once,
        a_message_that_waits_holds_up_its_own_stream_only,
        a_read_tells_when_the_next_is_due,
        one_stream_cannot_fill_a_read,
        a_read_walks_round_all_streams,
        held_streams_go_on_behind_their_position,
        reading_writes_nothing,
        a_lost_partition_is_reported,
        a_read_keeps_to_the_partitions_asked_for,
        a_message_out_of_bounds_is_invalid,
        a_read_out_of_bounds_is_invalid,
    }
    commit {
        what_is_done_is_gone,
        an_old_epoch_commits_nothing,
        a_tombstoned_instance_commits_nothing,
        one_stale_fence_refuses_the_whole_commit,
        a_message_that_ended_before_is_a_conflict,
        a_conflict_leaves_nothing_of_a_commit,
        effects_of_many_handlers_come_together,
        what_a_commit_sends_is_read_in_order,
        a_message_waits_for_all_its_consumers,
        a_consumer_that_is_not_waited_for_is_a_conflict,
        a_failed_message_waits_and_blocks_its_stream,
        a_started_try_counts_once,
        a_try_may_fail_without_counting,
        a_failure_may_change_who_is_waited_for,
        one_consumer_may_be_done_while_another_failed,
        an_error_is_cut_and_kept,
        a_commit_out_of_bounds_is_invalid,
        a_commit_without_effects_does_nothing,
    }
    transactional {
        own_rows_and_effects_come_together,
        a_script_that_fails_leaves_nothing,
        a_statement_that_fails_undoes_its_script,
        a_script_cannot_end_its_transaction,
        a_stale_epoch_runs_no_script,
        a_late_script_is_cut,
        a_script_given_up_on_leaves_nothing,
        a_refused_commit_leaves_no_own_rows,
        a_scripts_neighbours_are_unaffected,
        values_come_back_as_they_were,
        a_script_out_of_bounds_is_invalid,
    }
    exchange {
        an_exchange_gives_what_is_next,
        exchanges_give_every_message_once,
        an_exchange_counts_as_a_heartbeat,
        a_refused_exchange_does_nothing,
        an_exchange_reads_what_it_asks_for,
    }
    event {
        versions_are_dense,
        event_streams_belong_to_their_owner,
        another_version_is_a_conflict_that_names_both,
        a_repeated_append_gives_the_same_answer,
        appends_of_one_call_follow_one_another,
        one_of_many_writers_wins_a_version,
        the_feed_gives_every_event_once,
        a_feed_read_while_others_write_misses_nothing,
        a_feeds_cursor_is_bound_to_its_scope,
        a_snapshot_never_goes_back,
        an_append_out_of_bounds_is_invalid,
    }
    prune {
        events_stay_unless_a_snapshot_stands_for_them,
        only_old_events_before_the_snapshot_go,
        a_snapshot_that_moves_lets_more_go,
        an_emptied_stream_goes_on,
        a_step_of_pruning_is_bounded,
        the_feed_goes_on_behind_what_was_pruned,
        pruning_that_meets_appends_loses_nothing,
    }
    batch_events {
        what_is_done_to_a_batch_is_told_once,
        acts_at_once_are_each_told_once,
        acts_that_meet_other_writers_never_deadlock,
        events_of_ended_batches_can_be_pruned,
        a_closed_batch_is_told_of_once,
        a_batch_that_is_created_failed_is_told_of,
        a_batch_that_closes_again_is_told_of_again,
        nothing_is_told_where_nobody_asked,
        only_the_closing_that_counts_is_told_of,
        a_closing_and_its_message_come_together,
    }
    object {
        an_object_is_what_was_committed_last,
        states_come_in_the_order_asked_for,
        the_later_of_two_states_counts,
        sleepers_miss_no_work,
    }
    dead {
        a_dead_letter_keeps_what_happened,
        the_last_attempt_of_a_dead_letter_counts_unless_it_is_not_to,
        the_history_is_bounded,
        a_replay_goes_to_the_end_of_its_stream,
        another_owners_dead_letters_are_missing,
        dead_letters_are_listed_newest_first,
        messages_that_wait_are_listed,
        a_list_of_messages_out_of_bounds_is_invalid,
        the_backlog_tells_every_queue,
    }
    call {
        a_call_is_read_as_a_message,
        an_unknown_call_is_missing,
        calls_of_an_object_are_in_order,
        a_repeated_question_gives_the_answer,
        another_question_under_the_id_is_a_conflict,
        a_failed_call_keeps_its_error,
        an_answer_is_never_replaced,
        an_old_epoch_answers_nothing,
        a_call_that_is_tried_again_is_pending,
        a_call_that_runs_for_long_is_processing,
        what_is_told_late_of_a_call_changes_nothing,
        an_old_epoch_tells_of_no_call,
        a_call_is_no_dead_letter,
        a_commit_may_ask_objects,
        a_call_out_of_bounds_is_invalid,
    }
    call_end {
        a_call_that_waits_too_long_fails,
        a_call_behind_others_expires,
        a_call_that_runs_does_not_expire,
        a_cancelled_call_fails_and_its_handler_is_refused,
        a_call_with_an_answer_cannot_be_cancelled,
        many_calls_are_submitted_at_once,
        of_many_calls_all_or_none_are_submitted,
        many_submits_at_once_never_deadlock,
        calls_repeated_again_and_again_are_told_by_object,
    }
    states {
        every_event_leads_a_call_where_the_domain_says,
        a_walk_of_calls_agrees_with_the_domain_seed_one,
        a_walk_of_calls_agrees_with_the_domain_seed_two,
    }
    stats {
        calls_are_listed_newest_first,
        a_list_of_calls_out_of_bounds_is_invalid,
        stuck_calls_are_listed,
        statistics_of_nothing_are_empty,
        statistics_tell_how_calls_are_doing,
        old_calls_count_while_they_have_no_answer,
        statistics_tell_what_is_repeated,
        statistics_count_the_archive,
        statistics_of_an_owner_tell_of_nobody_else,
    }
    retention {
        ids_are_forgotten_after_their_window,
        ids_outlive_their_messages,
        dead_letters_stay_as_long_as_is_said,
        empty_streams_are_forgotten,
        a_replay_brings_its_stream_back,
        answered_calls_are_archived,
        an_expired_call_is_never_run_again,
        a_call_without_an_answer_is_not_pruned,
        the_archive_keeps_answers_as_long_as_it_is_told,
        a_step_of_pruning_is_bounded,
        endless_times_are_answered,
    }
    race {
        sends_at_once_keep_an_order,
        a_reader_skips_nothing_that_appears_later,
        repeats_at_once_make_one_message,
        two_contents_at_once_are_a_conflict,
        a_commit_that_meets_a_take_counts_once,
        a_commit_that_meets_a_release_is_told,
        commits_at_once_never_deadlock,
        questions_at_once_make_one_call,
        pruning_that_meets_a_send_loses_nothing,
        epochs_only_rise_while_members_come_and_go,
    }
    lock_order {
        answers_that_meet_repeats_never_deadlock,
        exchanges_that_meet_a_release_never_deadlock,
        two_questions_at_once_are_a_conflict,
        a_dead_letter_is_replayed_once,
        pruning_at_once_takes_only_what_is_empty,
    }
    random_walk {
        a_walk_of_streams_agrees_with_the_model_seed_one,
        a_walk_of_streams_agrees_with_the_model_seed_two,
        a_walk_of_streams_agrees_with_the_model_seed_three,
    }
}
