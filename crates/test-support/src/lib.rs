//! What the tests of several crates share.
//!
//! Tests run as root and as an ordinary user, and from any directory: all they need is in the test
//! program or made in a temporary directory. This crate stands on sessions alone, so that every
//! crate above them can use it.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be prepared has failed"
)]

mod directories;
mod machine_load;
mod processes;
mod seeds;
mod sessions;
mod waiting;

pub use directories::{new_directory, test_directory};
pub use machine_load::under_load;
pub use processes::{
    Child, Process, command_lines, descendants, in_process_namespace, in_process_namespace_named,
    is_root, memory_in_process_namespace, memory_of, process, process_namespace, processes,
};
pub use seeds::{Dice, is_long, seed};
pub use sessions::{interpreter, open_session, python, runtime_builder, session_runtime};
pub use waiting::{MINUTE, eventually, runtime, wait, within};
