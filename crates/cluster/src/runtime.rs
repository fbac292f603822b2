//! Time and tasks, behind a trait, so that a simulation can run the same code with a clock of its own.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// A boxed future, as the traits of this crate return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A clock and a way to start tasks.
pub trait Runtime: Send + Sync {
    /// The time since a fixed moment. It never goes back, and it goes on while the process is stopped.
    fn now(&self) -> Duration;

    /// Waits.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;

    /// Starts a task that runs beside the caller.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// The runtime of a real process: tokio.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    started: Instant,
}

impl TokioRuntime {
    /// A runtime whose clock begins now. Its tasks are started on the tokio runtime of the caller.
    #[expect(clippy::new_without_default, reason = "the moment of the call matters")]
    pub fn new() -> TokioRuntime {
        TokioRuntime {
            started: Instant::now(),
        }
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}

/// Waits for a future, but no longer than `time`.
pub async fn timeout<T>(
    runtime: &dyn Runtime,
    time: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = runtime.sleep(time) => None,
    }
}
