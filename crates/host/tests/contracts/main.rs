//! What a session promises, contract by contract, each as a short example. The ids (R5, E3, …) are those of the specification.
//!
//! One binary for all: linking is the slow part, and all tests share one host.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are tests"
)]

mod bad_input;
mod bridge;
mod compute;
mod files;
mod for_model;
mod laws;
mod limits;
mod linux;
mod live;
mod many;
mod packages;
mod results;
mod support;
mod tool_values;
