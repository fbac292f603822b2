//! A session is as simple as this: the cells that were kept, in order, by plain Python. Crashes, time-outs and failed atomic cells
//! never happened, `undo` takes the last ones off, and a fork goes on from where it was made.
//!
//! Sequences are made up at random and shrunk when they fail. `CELLBLOCK_SEED` repeats a run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

#[path = "../common/mod.rs"]
mod common;
mod play;
mod steps;
mod story;

use common::is_long;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn any_sequence_of_cells_crashes_undos_and_forks_gives_what_plain_python_gives() {
    let seed = cellblock_test_support::seed("model");
    let config = Config {
        cases: if is_long() { 600 } else { 60 },
        max_shrink_iters: 300,
        max_shrink_time: 120_000,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let dice = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let outcome = TestRunner::new_with_rng(config, dice).run(&steps::scenario(), |scenario| {
        let played = catch_unwind(AssertUnwindSafe(|| play::play(&scenario)));
        played.map_err(|panic| TestCaseError::fail(words_of(panic.as_ref())))
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, scenario)) => panic!(
            "{}\nthe shortest sequence found that does this:\n\n{scenario:?}\nCELLBLOCK_SEED={seed} repeats this",
            reason.message()
        ),
        Err(error) => panic!("{error}"),
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default()
}
