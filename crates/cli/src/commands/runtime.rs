//! The asynchronous runtime of a command.

use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A runtime whose tasks all run on the calling thread: the quickest to start.
pub(crate) fn on_this_thread() -> io::Result<Runtime> {
    started(&mut Builder::new_current_thread())
}

/// A runtime with threads of its own.
pub(crate) fn on_threads(workers: usize) -> io::Result<Runtime> {
    started(Builder::new_multi_thread().worker_threads(workers))
}

/// Keeps the threads for blocking work that were ever started.
///
/// Tokio panics, or waits for ever, where blocking work is to be done, no thread for it is left, and none can be started.
fn started(builder: &mut Builder) -> io::Result<Runtime> {
    const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let runtime = builder.enable_all().thread_keep_alive(FOR_EVER).build()?;
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}
