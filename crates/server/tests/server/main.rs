//! The server, asked as its callers ask it.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    reason = "helpers of tests are tests"
)]

mod accounts;
mod common;
mod demo;
mod events;
mod isolation;
mod jupyter;
mod requests;
mod runs;
mod serving;
mod sessions;
