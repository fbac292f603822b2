//! Slows down guesses of passwords.

use crate::error::ApiError;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failed tries that are free.
const FREE_TRIES: u32 = 5;
/// How long a name is closed after the free tries. Each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);
/// Names that are remembered. Beyond that, the table is emptied: an attacker must not fill the memory.
const MAX_NAMES: usize = 10_000;

/// Failed logins by name.
#[derive(Debug, Default)]
pub(crate) struct LoginTries(Mutex<HashMap<String, Failures>>);

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    closed_until: Instant,
}

impl LoginTries {
    /// Refuses a try while the name is closed.
    pub(crate) fn check(&self, name: &str) -> Result<(), ApiError> {
        let tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = tries
            .get(&name.to_lowercase())
            .map(|failures| {
                failures
                    .closed_until
                    .saturating_duration_since(Instant::now())
            })
            .unwrap_or_default();
        if wait.is_zero() {
            return Ok(());
        }
        Err(ApiError::too_many(
            "too_many_tries",
            "there were too many wrong passwords for this name",
            wait.as_secs() + 1,
        ))
    }

    /// Notes a wrong password.
    pub(crate) fn failed(&self, name: &str) {
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.len() >= MAX_NAMES {
            tries.clear();
        }
        let now = Instant::now();
        let failures = tries.entry(name.to_lowercase()).or_insert(Failures {
            count: 0,
            closed_until: now,
        });
        failures.count = failures.count.saturating_add(1);
        if let Some(beyond) = failures.count.checked_sub(FREE_TRIES) {
            let pause = FIRST_PAUSE
                .saturating_mul(1 << beyond.min(10))
                .min(LONGEST_PAUSE);
            failures.closed_until = now + pause;
        }
    }

    /// Forgets the failures of a name after a right password.
    pub(crate) fn succeeded(&self, name: &str) {
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tries.remove(&name.to_lowercase());
    }
}
