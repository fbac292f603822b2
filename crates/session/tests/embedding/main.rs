//! What programs that embed a session use: questions of an editor, displays, files, readers of events, pauses.
//!
//! One binary for all: all tests share one runtime and its zygote.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are tests"
)]

mod displays;
mod events;
mod files;
mod pauses;
mod questions;
mod support;
mod watches;
mod workspace_places;
