//! Code that attacks its own session: our descriptors, our processes, its limits, its interpreter, its workspace.
//!
//! Whatever it does, there is a clear status, the host lives, a session beside it is untouched, and when the session is closed
//! nothing of it is left. Whether the session itself survives is another question (see the tests of checkpoints).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

#[path = "../common/mod.rs"]
mod common;
mod descriptors;
mod disk;
mod interpreter;
mod kept_private;
mod kernel_memory;
mod left_behind;
mod marks;
mod netlink_sockets;
mod ordinary;
mod processes;
mod random_calls;
mod resources;
mod scene;
mod standbys;
mod uncommon_ways;
mod unseen_memory;
mod user_objects;
mod workspace;
