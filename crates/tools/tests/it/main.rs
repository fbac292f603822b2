//! Tools through the public face: schemas, checks, calls.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "helpers of tests are tests"
)]

mod approval;
mod bridge;
mod builtin;
mod calls;
mod checks;
mod chinese;
mod hosts;
mod page;
mod plan;
mod plan_edits;
mod python_tools;
mod python_tools_beside;
mod recording;
mod schemas;
mod shell;
mod support;
