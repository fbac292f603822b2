//! Cellblock as an MCP server and as a client of MCP servers, against the official Python SDK and against peers that misbehave.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "helpers of tests are tests"
)]
#![cfg(target_os = "linux")]

mod address;
mod client_faults;
mod client_floods;
mod client_tools;
mod server_clients;
mod server_http;
mod server_streams;
mod small_values;
mod support;
