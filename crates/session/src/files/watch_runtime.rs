//! The threads that watch what sessions write. They come before the sessions when processors are short.
//!
//! A session with many processes would otherwise keep the host from looking, and write as long as the host waits for a processor.

use std::sync::OnceLock;
use tokio::runtime::{Builder, Handle, Runtime};

/// The handle of the runtime whose threads watch. It is made at the first call and stays as long as the process: all sessions share it.
///
/// Where no thread can be started, this is the runtime of the caller.
pub(crate) fn watch_runtime() -> Handle {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let own = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("cellblock-disk")
            .on_thread_start(cellblock_sandbox::run_before_sessions)
            .enable_all()
            .build()
            .ok()
    });
    own.as_ref()
        .map_or_else(Handle::current, |runtime| runtime.handle().clone())
}
