//! Locks whose holders do not panic in the middle of a change.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A panic of another task left the value whole: no code here panics in the middle of a change.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
