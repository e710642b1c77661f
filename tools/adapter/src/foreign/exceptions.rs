//! What servers that keep to the protocol lack, test by test.

/// The tests that fail against a server, and why they must.
///
/// # Panics
/// If nobody has looked at the server yet.
pub(crate) fn of(server: &str) -> Vec<(&'static str, &'static str)> {
    let only = match server {
        "npm" => ONLY_NPM,
        "rust" => ONLY_RUST,
        other => panic!("{other} is not known; npm and rust are"),
    };
    let tests = BOTH.iter().chain(only);
    tests.flat_map(|(why, tests)| tests.iter().map(move |test| (*test, *why))).collect()
}

type Reasons = &'static [(&'static str, &'static [&'static str])];

const BOUNDARIES: &str = "messages that are not JSON are stored end to end";
const POSITIONS: &str =
    "offsets say nothing of positions, nor where messages that are not JSON begin";
const READ_BOUNDS: &str = "a read brings as much as the server likes";
const LIVES: &str = "nobody is told when a stream was made, nor which life of its name it is";
const OUTCOMES: &str = "a close that was repeated is answered like the first";
const FACTS: &str = "refusals do not say what they were judged on, or are not made";
const EXPIRY: &str = "streams end and are prolonged by rules of the server's own";
const BOUNDS: &str = "the server has no such bound";
const WAITING: &str =
    "a long-poll does not end when its stream does, or cannot wait for a place ahead";

/// The npm reference server 0.3.7 and the official Rust server 0.1.5.
const BOTH: Reasons = &[
    (
        BOUNDARIES,
        &[
            "append::any_byte_comes_back_as_it_was",
            "append::appends_of_many_tasks_are_all_there_once",
            "append::appends_to_many_streams_stay_apart",
            "append::large_appends_come_back_whole",
            "append::slices_of_a_run_are_appended_as_they_are",
            "close::the_last_append_may_close",
            "create::a_confirmed_stream_is_told_as_it_is_now",
            "create::a_stream_may_be_made_closed",
            "delete::a_chain_of_deleted_forks_ends_with_its_last",
            "expiry::a_stream_in_use_outlives_its_time_many_times",
            "fork::a_chain_of_forks_may_get_so_long_and_no_longer",
            "fork::a_fork_does_not_inherit_the_close",
            "fork::a_fork_is_untouched_by_what_happens_to_its_source",
            "fork::a_fork_may_carry_messages_and_an_end",
            "fork::a_fork_of_a_fork_reads_through_both",
            "read::readers_see_a_growing_prefix",
            "read::reading_on_sees_every_message_once",
        ],
    ),
    (
        POSITIONS,
        &[
            "append::a_dropped_append_happened_or_did_not",
            "append::messages_keep_their_boundaries_and_order",
            "create::initial_messages_are_the_first",
            "delete::a_deleted_source_is_gone_for_all_but_its_forks",
            "fork::a_fork_begins_as_a_prefix_of_its_source",
            "fork::a_fork_does_not_know_what_its_source_did_later",
            "fork::a_fork_needs_an_offset_of_its_source",
            "fork::a_source_and_its_forks_grow_apart",
            "fork::a_sub_offset_counts_bytes_of_anything_else",
            "fork::a_sub_offset_counts_messages_of_json",
            "producer::retries_at_the_same_time_are_stored_once",
            "producer::the_table_of_the_protocol_holds",
            "read::an_offset_inside_a_message_is_unknown",
            "read::every_boundary_is_an_offset",
            "refork::a_fork_is_confirmed_after_its_source_was_deleted",
        ],
    ),
    (
        READ_BOUNDS,
        &[
            "fork::a_read_crosses_from_the_source_into_the_fork",
            "read::a_read_takes_whole_messages_up_to_its_bound",
            "read::freshness_tells_where_the_reader_stands",
        ],
    ),
    (
        LIVES,
        &[
            "create::a_new_stream_is_empty_and_open",
            "delete::a_name_can_be_used_many_times",
            "delete::a_stream_made_anew_knows_nothing_of_the_old",
            "expiry::an_expired_name_can_be_made_anew",
            "refork::a_deleted_fork_can_be_made_anew",
        ],
    ),
    (
        OUTCOMES,
        &[
            "close::a_close_is_judged_like_any_append",
            "close::closing_again_is_no_error",
            "close::the_closers_retry_is_recognised",
        ],
    ),
    (
        FACTS,
        &[
            "append::stream_seq_must_grow",
            "create::a_create_that_differs_is_refused",
            "fork::the_content_type_is_the_sources",
        ],
    ),
    (
        EXPIRY,
        &[
            "expiry::an_expired_fork_takes_its_deleted_source_along",
            "expiry::an_expired_source_is_gone_like_a_deleted_one",
            "expiry::reads_and_writes_prolong_a_sliding_life",
        ],
    ),
    (BOUNDS, &["producer::a_stream_remembers_so_many_producers_and_no_more"]),
    (
        WAITING,
        &[
            "tail::a_tail_that_has_moved_is_told_at_once",
            "tail::a_waiter_ahead_of_the_tail_waits_until_it_is_passed",
            "tail::an_expiry_wakes_a_waiter_with_an_error",
        ],
    ),
];

/// The npm reference server.
const ONLY_NPM: Reasons = &[(
    POSITIONS,
    &[
        "refork::a_fork_is_confirmed_after_both_have_grown",
        "refork::a_fork_that_differs_is_refused",
        "refork::the_same_fork_again_is_confirmed",
    ],
)];

/// The official Rust server.
const ONLY_RUST: Reasons = &[
    (
        POSITIONS,
        &[
            "read::an_offset_past_the_tail_is_caught_up",
            "refork::naming_the_tail_is_the_same_as_naming_nothing",
        ],
    ),
    (EXPIRY, &["expiry::a_fork_outlives_its_source"]),
    (
        WAITING,
        &[
            "tail::a_delete_wakes_a_waiter_though_forks_live_on",
            "tail::a_delete_wakes_a_waiter_with_an_error",
            "tail::a_waiter_is_not_handed_on_to_a_stream_made_anew",
        ],
    ),
];
