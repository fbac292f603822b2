//! The agent through its public face: formats, executors, runs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "helpers of tests are tests"
)]

mod executors;
mod formats;
mod prompts;
mod properties;
mod repairs;
mod support;
