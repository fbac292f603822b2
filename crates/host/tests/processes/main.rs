//! Processes beside the interpreter: `docs/sessions.md` has the contract.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by a panic"
)]

#[path = "../common/mod.rs"]
mod common;

mod basics;
mod going_back;
mod hostile;
mod random;
mod walls;
