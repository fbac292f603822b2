//! Work on many processes, divided over several threads of the host.
//!
//! The kernel divides processors evenly between all threads that can run. One thread that looks at forty processes gets a forty-first part
//! of a processor while they run; several threads get a part each, and a thread that was just started does not have to wait for its part.

use crate::processes::run_before_sessions;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Fewer items are left to the calling thread: to start a thread takes longer.
const MANY_ITEMS: usize = 8;
const MAX_THREADS: usize = 6;

/// Applies `work` to each item, and returns the results in the order of the items.
///
/// Where no thread can be started, the calling thread does everything.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if items.len() < MANY_ITEMS {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let take_turns = || {
        while let Some((number, item)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            items.get(number).map(|item| (number, item))
        } {
            let result = work(item);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((number, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..MAX_THREADS.min(items.len() / 4) {
            let thread = thread::Builder::new().name("cellblock-disk".to_owned());
            let started = thread.spawn_scoped(scope, || {
                run_before_sessions();
                take_turns();
            });
            if started.is_err() {
                break;
            }
        }
        take_turns();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn results_are_in_the_order_of_the_items_and_many_items_are_divided() {
        let threads = |count: usize| {
            let items: Vec<usize> = (0..count).collect();
            let pause = std::time::Duration::from_millis(1);
            let results = side_by_side(&items, |item| {
                thread::sleep(pause);
                (*item, thread::current().id())
            });
            assert!(results.iter().map(|(item, _)| item).eq(&items));
            let threads: HashSet<_> = results.into_iter().map(|(_, thread)| thread).collect();
            threads.len()
        };
        assert_eq!([threads(0), threads(1), threads(7)], [0, 1, 1]);
        assert!((2..=MAX_THREADS + 1).contains(&threads(100)));
    }
}
