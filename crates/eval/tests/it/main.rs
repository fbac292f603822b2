//! Evaluations through the public face: files of tasks, checks, recordings, results.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "helpers of tests are tests"
)]

mod evaluations;
mod recordings;
mod reports;
mod suites;
mod support;
