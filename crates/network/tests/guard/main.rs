//! The guard between clients and servers on this machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are tests"
)]

mod exchanges;
mod own_addresses;
mod rebinding;
mod smuggling;
mod support;
mod tls_names;
