//! What is left when a host ends in any way: no process, no mount, and after the next start no cgroup.
//!
//! A host that can be killed must be a process of its own. So this test binary starts itself again as one that holds sessions
//! with running cells, and counts from outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

#[path = "../common/mod.rs"]
mod common;

mod borrowed;
mod forks;
mod holder;
mod killed_hosts;
mod killed_processes;
mod undone;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// They count the processes of this one, so one at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
