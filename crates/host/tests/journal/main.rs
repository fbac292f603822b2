//! What a session writes down, and what can be made of it: the session again, a script, a notebook.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by a panic"
)]

#[path = "../contracts/support.rs"]
#[allow(dead_code, reason = "the contract tests use the rest of it")]
mod support;

mod disk;
mod notebooks;
mod restoring;
mod scene;
mod scripts;
mod second_place;
mod writing;
