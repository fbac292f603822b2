//! Models through the public API, against a real HTTP server that fails on demand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod failures;
mod recording;
mod server;
mod settings;
mod streaming;
mod tool_calls;
