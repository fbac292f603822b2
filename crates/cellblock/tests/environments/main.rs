//! Environments and packages, as sessions see them. Packages come from a directory, or from an index that the tests serve.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod chosen;
mod index;
mod live;
mod packages;
mod sandboxed;
mod sources;
