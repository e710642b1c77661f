//! The tests every engine must pass: [`crate::Log`]'s contract, one behaviour at a time.
//!
//! An engine's own crate says how to make an empty log and the world it lives in, and gets one
//! `#[test]` for each behaviour. Each runs on a single-threaded runtime with paused time, for which
//! that crate needs tokio's `test-util`:
//!
//! ```
//! use std::sync::Arc;
//!
//! use log::{MemoryLog, suite::Subject};
//! use sys::{Sys, UnixMs, disk::{SimDisk, SimFaults}};
//!
//! async fn memory() -> Subject {
//!     let disk = SimDisk::new(1, SimFaults::default());
//!     let sys = Sys::simulated(1, disk, UnixMs::new(1_000_000));
//!     Subject { log: Arc::new(MemoryLog::new(&sys)), sys, is_remote: false }
//! }
//!
//! log::suite!(memory);
//! ```
//!
//! An engine that talks to the outside world names a runtime of its own, and pays for the tests
//! that let time pass with real seconds: `log::suite!(over_http, Runtime::new().unwrap())`.
//!
//! The tests are keyed to [`crate::Log::capabilities`]: where one is missing, they demand that the
//! call says so.

use std::pin::Pin;

#[macro_use]
mod matching;
mod subject;

pub mod append;
pub mod back;
pub mod close;
pub mod create;
pub mod delete;
pub mod expiry;
pub mod fork;
pub mod list;
pub mod producer;
pub mod read;
pub mod refork;
pub mod system;
pub mod tail;
pub mod trim;
pub mod watch;

pub use subject::Subject;

/// Runs one test, by its group and name, on a log of its own. (By its name, so that it is compiled
/// with this crate, and not again for every engine.)
///
/// # Panics
/// If the test fails, or there is none of this name.
#[allow(clippy::needless_pass_by_value, reason = "a test ends with its runtime")]
pub fn run(
    runtime: tokio::runtime::Runtime,
    make: impl AsyncFnOnce() -> Subject,
    test: &'static str,
) {
    let named = all().into_iter().find(|(name, _)| *name == test);
    let (_, test) = named.expect("a test of the suite");
    runtime.block_on(async { test(make().await).await });
}

/// Certifies an engine: one `#[test]` for every test in the groups of [`mod@crate::suite`].
///
/// The first argument is an `async fn() -> Subject` that makes an empty log; the second, if there
/// is one, an expression for the runtime of each test.
#[macro_export]
macro_rules! suite {
    ($make:expr) => {
        $crate::suite!(
            $make,
            ::tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("a runtime on this thread needs nothing that could be missing")
        );
    };
    ($make:expr, $runtime:expr) => {
        $crate::suite_list! { suite_tests, $make, $runtime }
    };
}

/// A test of the suite, for those who run them by their names.
pub type Test = fn(Subject) -> Pin<Box<dyn Future<Output = ()>>>;

/// All tests, by group and name.
#[must_use]
pub fn all() -> Vec<(&'static str, Test)> {
    crate::suite_list! { suite_entries }
}

/// Hands the list of tests to another macro of this crate. Part of [`crate::suite!`].
#[doc(hidden)]
#[macro_export]
macro_rules! suite_list {
    ($callback:ident $(, $argument:expr)*) => {
        $crate::$callback! {
            $($argument),*;
            append: [
                messages_keep_their_boundaries_and_order,
                any_byte_comes_back_as_it_was,
                large_appends_come_back_whole,
                an_append_without_messages_is_refused,
                the_content_type_must_be_the_streams,
                stream_seq_must_grow,
                the_expected_offset_must_be_the_tail,
                one_of_many_with_the_same_expected_offset_wins,
                refusals_come_in_the_order_of_the_protocol,
                a_refused_append_changes_nothing,
                appends_of_many_tasks_are_all_there_once,
                appends_to_many_streams_stay_apart,
                a_dropped_append_happened_or_did_not,
                slices_of_a_run_are_appended_as_they_are,
            ],
            back: [
                a_read_backwards_keeps_the_newest_that_fit,
                reading_back_sees_every_message_once,
                a_read_backwards_begins_at_a_boundary,
                a_read_backwards_ends_at_the_earliest,
            ],
            close: [
                a_closed_stream_takes_no_more,
                an_empty_stream_can_be_closed,
                closing_again_is_no_error,
                the_last_append_may_close,
                the_closers_retry_is_recognised,
                other_producers_find_the_stream_closed,
                a_plain_close_belongs_to_no_producer,
                a_close_is_judged_like_any_append,
                a_close_without_messages_may_name_any_content_type,
                closed_comes_before_every_other_refusal,
                one_of_many_closers_has_the_last_word,
                a_closed_stream_can_be_forked_and_deleted,
            ],
            create: [
                a_new_stream_is_empty_and_open,
                settings_are_kept,
                the_same_create_again_is_confirmed,
                a_confirmed_stream_is_told_as_it_is_now,
                a_create_that_differs_is_refused,
                content_types_are_compared_by_meaning,
                a_stream_closed_since_is_not_confirmed_as_open,
                initial_messages_are_the_first,
                a_stream_may_be_made_closed,
                nothing_is_found_before_it_is_made,
                many_creates_at_once_make_one_stream,
                names_that_resemble_each_other_are_apart,
            ],
            delete: [
                a_deleted_stream_is_not_found,
                a_stream_made_anew_knows_nothing_of_the_old,
                a_name_can_be_used_many_times,
                a_deleted_source_is_gone_for_all_but_its_forks,
                the_last_fork_takes_its_source_along,
                a_chain_of_deleted_forks_ends_with_its_last,
                a_living_source_outlives_its_forks,
                an_erase_takes_the_forks_along,
                an_erase_stays_within_its_bounds,
                a_source_that_is_gone_can_be_erased,
                an_erased_fork_leaves_its_source,
                an_erased_last_fork_takes_its_deleted_source_along,
                one_of_many_deletes_wins,
            ],
            expiry: [
                an_idle_stream_expires,
                reads_and_writes_prolong_a_sliding_life,
                looking_does_not_prolong_a_life,
                a_stream_in_use_outlives_its_time_many_times,
                nothing_prolongs_a_life_until_a_given_time,
                an_expired_name_can_be_made_anew,
                a_stream_made_anew_has_a_whole_life,
                a_fork_is_prolonged_by_its_own_use,
                a_fork_outlives_its_source,
                an_expired_source_is_gone_like_a_deleted_one,
                an_expired_fork_takes_its_deleted_source_along,
                many_streams_expire_together,
            ],
            fork: [
                a_fork_begins_as_a_prefix_of_its_source,
                a_source_and_its_forks_grow_apart,
                a_fork_does_not_know_what_its_source_did_later,
                a_read_crosses_from_the_source_into_the_fork,
                a_sub_offset_counts_messages_of_json,
                a_sub_offset_counts_bytes_of_anything_else,
                a_sub_offset_needs_an_offset,
                a_fork_needs_an_offset_of_its_source,
                a_fork_may_carry_messages_and_an_end,
                a_fork_of_a_fork_reads_through_both,
                a_chain_of_forks_may_get_so_long_and_no_longer,
                a_fork_is_untouched_by_what_happens_to_its_source,
                writers_start_anew_in_a_fork,
                a_fork_does_not_inherit_the_close,
                the_content_type_is_the_sources,
                a_refused_fork_holds_nothing,
                a_forks_lifetime_is_its_own_or_its_sources,
                a_source_must_live,
                a_fork_does_not_replace_a_stream,
                many_forks_at_once_make_one_stream,
            ],
            list: [
                a_page_is_chosen_by_prefix_after_and_limit,
                pages_follow_each_other_to_the_end,
                a_list_shows_heads,
                a_list_hides_what_is_gone,
                hidden_streams_do_not_count,
                a_page_has_a_bound,
            ],
            producer: [
                the_table_of_the_protocol_holds,
                a_retry_with_other_bytes_is_the_first_append,
                a_sequence_counts_appends_and_not_messages,
                producers_do_not_know_each_other,
                a_producer_starts_anew_in_each_stream,
                appends_without_a_producer_pass_between,
                a_new_epoch_fences_the_old_one,
                a_retry_is_known_before_its_conditions_are_judged,
                a_refused_append_does_not_advance_its_producer,
                retries_at_the_same_time_are_stored_once,
                epochs_go_up_to_the_largest_integer,
                a_stream_remembers_so_many_producers_and_no_more,
            ],
            read: [
                a_read_takes_whole_messages_up_to_its_bound,
                reading_on_sees_every_message_once,
                every_boundary_is_an_offset,
                an_offset_inside_a_message_is_unknown,
                an_offset_past_the_tail_is_caught_up,
                now_is_the_tail,
                freshness_tells_where_the_reader_stands,
                a_chunk_tells_what_was_read,
                readers_see_a_growing_prefix,
            ],
            refork: [
                the_same_fork_again_is_confirmed,
                a_fork_is_confirmed_after_both_have_grown,
                naming_the_tail_is_the_same_as_naming_nothing,
                a_fork_is_confirmed_after_its_source_was_deleted,
                a_fork_is_confirmed_after_its_source_was_trimmed,
                a_fork_that_differs_is_refused,
                a_cut_message_tells_forks_apart,
                a_deleted_fork_can_be_made_anew,
            ],
            system: [
                a_system_stream_works_like_any_other,
                a_system_stream_and_a_users_of_one_name_are_apart,
                no_list_shows_a_system_stream,
                no_watcher_hears_of_a_system_stream,
            ],
            tail: [
                a_tail_that_has_moved_is_told_at_once,
                an_append_wakes_a_waiter,
                a_close_wakes_a_waiter,
                a_closed_stream_keeps_nobody_waiting,
                a_delete_wakes_a_waiter_with_an_error,
                a_delete_wakes_a_waiter_though_forks_live_on,
                an_erase_wakes_the_waiters_of_forks,
                a_waiter_is_not_handed_on_to_a_stream_made_anew,
                an_expiry_wakes_a_waiter_with_an_error,
                every_waiter_is_woken,
                a_waiter_that_leaves_disturbs_no_other,
                a_waiter_ahead_of_the_tail_waits_until_it_is_passed,
                nothing_else_wakes_a_waiter,
                a_source_does_not_wake_the_waiters_of_its_forks,
            ],
            trim: [
                a_trimmed_stream_begins_at_its_earliest,
                earlier_offsets_are_refused_and_later_ones_stay,
                trimming_less_than_before_is_no_error,
                a_trim_point_is_a_boundary_of_the_stream,
                everything_may_be_trimmed,
                an_empty_stream_can_be_trimmed,
                a_closed_stream_can_be_trimmed,
                a_fork_keeps_what_its_source_forgets,
                a_source_keeps_what_its_fork_forgets,
                a_fork_inherits_only_what_is_kept,
                a_fork_beside_a_trim_inherits_all_or_is_refused,
                forks_from_before_and_after_a_trim_differ,
            ],
            watch: [
                a_watcher_hears_of_every_change,
                a_watcher_hears_of_initial_messages,
                a_watcher_hears_only_of_what_matches,
                a_watcher_hears_nothing_of_reads_and_refusals,
                every_watcher_hears,
                a_watcher_that_lags_misses_nothing_unknowingly,
                a_watcher_that_lagged_hears_again,
                a_stream_made_anew_is_told_apart,
                watchers_come_and_go,
            ],
        }
    };
}

/// One `#[test]` for each test of the list. Part of [`crate::suite!`].
#[doc(hidden)]
#[macro_export]
macro_rules! suite_tests {
    (
        $make:expr, $runtime:expr;
        $($group:ident: [$($test:ident,)*],)*
    ) => {$(
        mod $group {
            #[allow(unused_imports, reason = "the expressions may need nothing from outside")]
            use super::*;

            $(
                #[test]
                fn $test() {
                    let test = concat!(stringify!($group), "::", stringify!($test));
                    $crate::suite::run($runtime, $make, test);
                }
            )*
        }
    )*};
}

/// The list as values. Part of [`all`].
#[doc(hidden)]
#[macro_export]
macro_rules! suite_entries {
    (; $($group:ident: [$($test:ident,)*],)*) => {
        vec![$($((
            concat!(stringify!($group), "::", stringify!($test)),
            (|subject| Box::pin($crate::suite::$group::$test(subject))) as $crate::suite::Test,
        ),)*)*]
    };
}

#[cfg(test)]
mod tests {
    /// The sources of the groups, and of this file, which lists their tests.
    const GROUPS: &[(&str, &str)] = &[
        ("append", include_str!("append.rs")),
        ("close", include_str!("close.rs")),
        ("create", include_str!("create.rs")),
        ("delete", include_str!("delete.rs")),
        ("expiry", include_str!("expiry.rs")),
        ("fork", include_str!("fork.rs")),
        ("list", include_str!("list.rs")),
        ("producer", include_str!("producer.rs")),
        ("read", include_str!("read.rs")),
        ("refork", include_str!("refork.rs")),
        ("system", include_str!("system.rs")),
        ("tail", include_str!("tail.rs")),
        ("trim", include_str!("trim.rs")),
        ("watch", include_str!("watch.rs")),
    ];
    const LIST: &str = include_str!("mod.rs");

    #[test]
    fn every_test_is_listed_in_its_group() {
        for (group, source) in GROUPS {
            let tests = source.lines().filter_map(|line| line.strip_prefix("pub async fn "));
            let tests = tests.filter_map(|line| line.split_once('(')).map(|(name, _)| name);
            let listed: String = tests.map(|name| format!("                {name},\n")).collect();
            let entry = format!("            {group}: [\n{listed}            ],\n");
            assert!(LIST.contains(&entry), "mod.rs should list:\n{entry}");
        }
    }
}
