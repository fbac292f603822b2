//! The targets from a seed: short here, two minutes each with `CELLBLOCK_LONG`.

use cellblock_fuzz::{frames, notifications, pipe, requests, run, terminal};

/// A target that accepts nothing checks nothing.
#[track_caller]
fn assert_some(accepted: usize) {
    assert!(accepted > 50, "only {accepted} inputs were accepted");
}

#[test]
fn whatever_a_guest_writes_to_its_socket_the_host_goes_on() {
    assert_some(run("frames", 1_000, frames));
}

#[test]
fn whatever_a_program_writes_to_the_pipe_it_gets_an_answer() {
    assert_some(run("pipe", 5_000, pipe));
}

#[test]
fn whatever_code_writes_to_its_proxy_only_what_was_judged_goes_on() {
    assert_some(run("requests", 20_000, requests));
}

#[test]
fn whatever_code_calls_init_and_the_standbys_are_not_touched() {
    assert_some(run("notifications", 20_000, notifications));
}

#[test]
fn whatever_text_is_printed_a_terminal_only_prints_it() {
    assert_some(run("terminal", 5_000, terminal));
}
