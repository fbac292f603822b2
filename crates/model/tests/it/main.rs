//! Models through their public face, against a real HTTP server that misbehaves on demand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod choice;
mod history;
mod recording;
mod server;
mod settings;
mod streaming;
mod tool_calls;
mod trouble;
