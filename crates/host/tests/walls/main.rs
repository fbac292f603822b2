//! Each wall, taken away by a public policy and put back: the same snippet must succeed without it and fail behind it.
//!
//! A wall that is never seen to stop anything may as well not be there. So every test runs its attack three times: with the wall
//! and its helpers off, where it succeeds; with only the wall back, where it fails; and behind all walls, where it fails too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod attack;
#[path = "../common/mod.rs"]
mod common;
mod inherited;
mod kernel;
mod limits;
mod reach;
#[path = "../common/stage.rs"]
mod stage;
