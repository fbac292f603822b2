//! The agent through its public face: formats, executors, runs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "helpers of tests are tests"
)]

mod answers;
mod candidates;
mod context;
mod dialects;
mod endings;
mod executors;
mod formats;
mod prompts;
mod properties;
mod repairs;
mod requests;
mod resuming;
mod run_store;
mod runs;
mod support;
mod templates;
