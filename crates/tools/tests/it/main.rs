//! Tools through the public face: schemas, checks, calls.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "helpers of tests are tests"
)]

mod calls;
mod checks;
mod page;
mod schemas;
mod support;
