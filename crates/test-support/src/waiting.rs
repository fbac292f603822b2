//! Waiting for what tests begin, longer on a busy machine, but never for ever.

use crate::under_load;
use std::pin::pin;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// A test that waits longer than this on a quiet machine is stuck.
pub const MINUTE: Duration = Duration::from_secs(60);

/// The async runtime of this test program.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    });
    &RUNTIME
}

/// Waits for the output of a future.
///
/// # Panics
/// After a minute, or as much longer as the machine is busy.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(async {
        let begin = Instant::now();
        let mut future = pin!(future);
        loop {
            match tokio::time::timeout(MINUTE, &mut future).await {
                Ok(output) => return output,
                Err(_) => assert!(
                    begin.elapsed() < under_load(MINUTE),
                    "it did not end within a minute, or as much longer as the machine is busy"
                ),
            }
        }
    })
}

/// Waits until a condition is true.
///
/// # Panics
/// After a minute, or as much longer as the machine is busy.
pub fn eventually(what: &str, is_true: impl FnMut() -> bool) {
    assert!(within(MINUTE, is_true), "not within a minute: {what}");
}

/// Waits until a condition is true, and says whether it became true in time.
pub fn within(time: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !is_true() {
        if begin.elapsed() > under_load(time) {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
