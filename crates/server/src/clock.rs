//! The wall clock of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock, by which everything ends that outlives the process: logins, tokens and invitations, and the day of a quota.
///
/// A person or a time server may set it at any moment, so nothing else uses it: cells a minute, pauses after wrong passwords, the life of
/// sessions and sandboxes, and everything that a request waits for use the monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// The seconds by which this clock differs from that of the machine.
    shift: Arc<AtomicI64>,
}

impl Clock {
    /// The seconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
        seconds.saturating_add(self.shift.load(Ordering::Relaxed))
    }

    /// Sets the clock forward, or back by a negative number of seconds, for this server alone. Tests see with it what becomes of a server
    /// whose machine is set to another time. Clones of the clock are the same clock.
    pub fn shift(&self, seconds: i64) {
        self.shift.fetch_add(seconds, Ordering::Relaxed);
    }
}
