//! A fork begins where its session stands; from then on the two have nothing to do with each other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by a panic"
)]

#[path = "../contracts/support.rs"]
#[allow(dead_code, reason = "the contract tests use the rest of it")]
mod support;

#[path = "../common/working_threads.rs"]
mod working_threads;

mod apart;
mod capabilities;
mod deputy;
mod early_code;
mod events;
mod files;
mod inherited;
mod kin;
mod lives;
mod not_copied;
mod race;
mod shared;
mod state;
mod threads;
mod walls;
