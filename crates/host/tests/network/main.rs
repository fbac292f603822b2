//! The guarded network: what was named is reached, in the way that programs know; nothing else is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod clients;
#[path = "../common/mod.rs"]
mod common;
mod database;
mod postgres;
mod refusals;
mod servers;
mod ways;
