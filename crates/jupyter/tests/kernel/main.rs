//! The kernel over a real session, by the messages that clients send.
#![allow(clippy::unwrap_used)]

mod cells;
mod client;
mod commands;
mod questions;
mod sockets;
