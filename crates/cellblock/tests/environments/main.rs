//! Environments and packages, as sessions see them. Packages come from a directory; no index is asked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod chosen;
#[path = "../common/mod.rs"]
mod common;
mod live;
mod shelf;
mod sources;
