//! Idempotency keys of a session: a request that is sent again does not run again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The keys of the cells that have happened, and of those that are under way on this node.
#[derive(Debug, Default)]
pub(crate) struct Keys(Arc<Mutex<KnownKeys>>);

#[derive(Debug, Default)]
struct KnownKeys {
    /// The number of the cell of each key.
    done: HashMap<String, u64>,
    under_way: HashMap<String, Arc<Notify>>,
}

/// What is known of a key.
pub(crate) enum KeyState {
    /// The cell with this number has happened under it.
    Done(u64),
    /// It is new. The request runs, and other requests with the key wait until the guard is dropped.
    New(KeyGuard),
}

/// Marks a key as under way until it is dropped.
#[derive(Debug)]
pub(crate) struct KeyGuard {
    state: Arc<Mutex<KnownKeys>>,
    key: String,
}

impl Keys {
    /// Notes that a cell has happened under a key.
    pub(crate) fn note(&self, key: String, cell: u64) {
        lock(&self.0).done.insert(key, cell);
    }

    /// Looks a key up. One that is under way is waited for.
    pub(crate) async fn begin(&self, key: &str) -> KeyState {
        loop {
            let other = {
                let mut state = lock(&self.0);
                if let Some(cell) = state.done.get(key) {
                    return KeyState::Done(*cell);
                }
                match state.under_way.get(key) {
                    Some(other) => Arc::clone(other),
                    None => {
                        state.under_way.insert(key.to_owned(), Arc::default());
                        return KeyState::New(KeyGuard {
                            state: Arc::clone(&self.0),
                            key: key.to_owned(),
                        });
                    }
                }
            };
            // Asked for before the state is looked at again, so that no end is missed.
            let ended = other.notified();
            if lock(&self.0).under_way.contains_key(key) {
                ended.await;
            }
        }
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        if let Some(others) = lock(&self.state).under_way.remove(&self.key) {
            others.notify_waiters();
        }
    }
}

fn lock(state: &Mutex<KnownKeys>) -> MutexGuard<'_, KnownKeys> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_request_of_a_key_waits_for_the_first_and_gets_its_cell() {
        let keys = Arc::new(Keys::default());
        let KeyState::New(first) = keys.begin("k").await else {
            panic!("the key is new");
        };
        let other = Arc::clone(&keys);
        let second = tokio::spawn(async move {
            match other.begin("k").await {
                KeyState::Done(cell) => Some(cell),
                KeyState::New(_) => None,
            }
        });
        tokio::task::yield_now().await;
        keys.note("k".to_owned(), 7);
        drop(first);
        assert_eq!(second.await.unwrap(), Some(7));
    }

    #[tokio::test]
    async fn a_key_whose_request_came_to_nothing_is_new_again() {
        let keys = Keys::default();
        drop(keys.begin("k").await);
        assert!(matches!(keys.begin("k").await, KeyState::New(_)));
    }
}
