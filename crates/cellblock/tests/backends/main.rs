//! The contract of sessions, kept by each backend: the same tests on this machine's own walls and in containers.
//!
//! Containers need an engine and an image: `tests/with-docker cargo test -p cellblock --test backends` brings both.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod containers;
mod ground;
mod log;
mod relay;
mod sessions;
mod suite;

/// Every test of the suite, for each backend.
macro_rules! on_each_backend {
    ($($name:ident)*) => {
        mod local {
            $(#[test] fn $name() { super::suite::$name(super::ground::local()); })*
        }
        mod docker {
            $(#[test] fn $name() {
                if let Some(test_directory) = super::ground::docker() { super::suite::$name(test_directory); }
            })*
        }
    };
}

on_each_backend! {
    variables_live_from_cell_to_cell
    output_comes_in_order_and_as_it_is_written
    an_exception_is_a_failure_and_the_session_goes_on
    files_of_the_workspace_are_the_hosts_files
    a_result_names_what_changed
    a_cell_that_takes_too_long_is_stopped
    an_interrupted_cell_leaves_the_variables_alone
    a_cell_that_does_not_listen_to_an_interrupt_is_ended
    a_crash_is_told_with_its_signal
    an_exit_is_told_with_its_code
    more_memory_than_allowed_is_a_clean_error_or_a_clear_end
    processes_are_counted
    what_is_written_is_counted_with_and_without_a_name
    there_is_no_network
    what_was_allowed_on_the_network_is_reached
    only_the_workspace_and_tmp_can_be_changed
    seeds_imports_and_setup_come_before_the_first_cell
    a_question_is_answered
    tools_can_be_called_from_code
    an_expression_is_computed_beside_the_session
    variables_can_be_listed_looked_at_and_forgotten
    a_room_of_the_agents_executor_is_made_when_it_is_needed
    a_session_that_was_closed_says_so
}
