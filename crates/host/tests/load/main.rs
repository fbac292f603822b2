//! Many sessions, many cells, many crashes, much data; and then nothing is left of them.
//!
//! Short unless `CELLBLOCK_LONG` is set. Nothing here is a matter of speed: what takes long is not wrong, what hangs is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod cells;
mod census;
#[path = "../common/mod.rs"]
mod common;
mod crashes;
mod forks;
mod large;
mod sessions;
mod storm;

use common::{is_long, new_directory, new_host, runtime};
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// Nothing here takes that long, however busy the machine is.
const HANG_TIMEOUT: Duration = Duration::from_secs(900);

/// They count what this process has, so one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The short or the long version.
fn scaled<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// Waits for a load to be done.
fn wait<T>(what: &str, future: impl Future<Output = T>) -> T {
    let limited = async { tokio::time::timeout(HANG_TIMEOUT, future).await };
    let done = runtime().block_on(limited);
    done.unwrap_or_else(|_| panic!("it hangs: not over after {HANG_TIMEOUT:?}: {what}"))
}

/// A host of its own for each test, and a directory for all that it leaves.
fn scene() -> (cellblock_host::Host, TempDir) {
    allow_many_descriptors();
    let directory = new_directory();
    let host = new_host(directory.path());
    // The zygote comes with the first session.
    let first = wait("the first session", host.session().start()).unwrap();
    wait("the first cell", first.run("1 + 1")).unwrap();
    wait("the first end", first.close());
    (host, directory)
}

/// Hundreds of sessions need thousands, and shells give out 1024.
fn allow_many_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}
