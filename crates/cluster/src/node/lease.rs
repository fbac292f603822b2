//! The lease of a node: until when it may start cells.

use crate::lock::lock;
use std::sync::Mutex;
use std::time::Duration;

/// A node's own view of its lease.
#[derive(Debug, Default)]
pub(super) struct Lease {
    until: Mutex<Duration>,
}

impl Lease {
    /// Whether the lease covers the time `now`.
    pub(super) fn is_valid(&self, now: Duration) -> bool {
        now < *lock(&self.until)
    }

    /// Extends the lease.
    pub(super) fn extend(&self, until: Duration) {
        let mut current = lock(&self.until);
        *current = until.max(*current);
    }
}
