//! Whole command lines through the real binary.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "helpers of tests are tests"
)]
#![cfg(target_os = "linux")]

mod ask;
mod ask_inputs;
mod ask_terminal;
mod bench;
mod chat;
mod clean;
mod config;
mod docker;
mod doctor;
mod environments;
mod eval;
mod exec;
mod exec_status;
mod fake_model;
mod faults;
mod help;
mod hidden_marks;
mod hints;
mod mcp;
mod model;
mod packaging;
mod pages;
mod pipe;
mod pipe_agents;
mod pipe_calls;
mod pipe_ends;
mod pipe_memory;
mod pipe_processes;
mod private;
mod repl;
mod runs;
mod sessions;
mod shown;
mod snapshot;
mod support;
mod surroundings;
mod terminal;
mod tools;
mod trace;
mod transcripts;
