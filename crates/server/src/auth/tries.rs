//! Slows down guesses of passwords.

use crate::error::ApiError;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failed tries that are free.
const FREE_TRIES: u32 = 5;
/// How long a name is closed after the free tries. Each further failure doubles it.
const FIRST_LOCKOUT: Duration = Duration::from_secs(5);
const MAX_LOCKOUT: Duration = Duration::from_secs(15 * 60);
/// Names that are remembered. Beyond that, the name with the fewest tries is forgotten: an attacker must not fill the memory, nor
/// make the server forget a name by trying others.
const MAX_NAMES: usize = 10_000;
/// No account has a longer name: one of 64 characters.
const MAX_NAME_BYTES: usize = 256;

/// Logins by name that have not succeeded.
#[derive(Debug, Default)]
pub(crate) struct LoginTries(Mutex<HashMap<String, Tries>>);

#[derive(Clone, Copy, Debug)]
struct Tries {
    count: u32,
    closed_until: Instant,
}

impl LoginTries {
    /// Counts a try as failed before its password is looked at: many at the same time must not all pass. Refuses a try while the
    /// name is closed.
    pub(crate) fn begin(&self, name: &str) -> Result<(), ApiError> {
        if name.len() > MAX_NAME_BYTES {
            return Ok(());
        }
        let name = name.to_lowercase();
        let mut all = self.lock();
        let now = Instant::now();
        if all.len() >= MAX_NAMES && !all.contains_key(&name) {
            forget_one(&mut all);
        }
        let tries = all.entry(name).or_insert(Tries {
            count: 0,
            closed_until: now,
        });
        let wait = tries.closed_until.saturating_duration_since(now);
        if !wait.is_zero() {
            return Err(ApiError::too_many(
                "too_many_tries",
                "there were too many wrong passwords for this name",
                wait.as_secs() + 1,
            ));
        }
        tries.count = tries.count.saturating_add(1);
        if let Some(beyond) = tries.count.checked_sub(FREE_TRIES) {
            let pause = FIRST_LOCKOUT
                .saturating_mul(1 << beyond.min(10))
                .min(MAX_LOCKOUT);
            tries.closed_until = now + pause;
        }
        Ok(())
    }

    /// Forgets the tries of a name after a right password.
    pub(crate) fn succeeded(&self, name: &str) {
        self.lock().remove(&name.to_lowercase());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Tries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_one(all: &mut HashMap<String, Tries>) {
    let fewest = all.iter().min_by_key(|(_, tries)| tries.count);
    if let Some(name) = fewest.map(|(name, _)| name.clone()) {
        all.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_at_the_same_time_all_count() {
        let tries = LoginTries::default();
        let passed = (0..50).filter(|_| tries.begin("ada").is_ok()).count();
        assert_eq!(passed, FREE_TRIES as usize);
        tries.succeeded("ADA");
        assert!(tries.begin("ada").is_ok());
    }

    #[test]
    fn a_name_stays_closed_however_many_others_are_tried() {
        let tries = LoginTries::default();
        while tries.begin("ada").is_ok() {}
        for number in 0..MAX_NAMES + 10 {
            assert!(tries.begin(&format!("user{number}")).is_ok());
        }
        assert!(tries.begin("ada").is_err());
        assert_eq!(tries.lock().len(), MAX_NAMES);
    }

    #[test]
    fn a_name_that_no_account_can_have_is_not_kept() {
        let tries = LoginTries::default();
        assert!(tries.begin(&"a".repeat(1 << 20)).is_ok());
        assert_eq!(tries.lock().len(), 0);
    }
}
