//! Whole command lines through the real binary.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "helpers of tests are tests"
)]
#![cfg(target_os = "linux")]

mod ask;
mod completions;
mod config;
mod demo;
mod doctor;
mod exec;
mod exec_status;
mod fake_model;
mod help;
mod mcp;
mod pipe;
mod pipe_calls;
mod pipe_ends;
mod repl;
mod sessions;
mod support;
mod terminal;
mod tools;
mod trace;
