//! Notifications that could not be passed on to the init of a fork, because it has not yet read those before. Their callers go on waiting.

use crate::init::notify::{self, Listener, Notification};
use crate::sys::{Errno, Result};

/// How often they are tried again, in milliseconds.
pub const PERIOD_MS: i32 = 2;

/// Most of them at once.
const MAX_CALLS: usize = 64;

/// The notifications, in no order.
pub struct PostponedCalls {
    calls: [Notification; MAX_CALLS],
    count: usize,
}

impl PostponedCalls {
    /// None.
    pub fn none() -> PostponedCalls {
        PostponedCalls {
            calls: [Notification::default(); MAX_CALLS],
            count: 0,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One more. An error when there are too many.
    pub fn add(&mut self, listener: Listener, notification: Notification) -> Result<()> {
        // A thread waits in one call at a time.
        self.keep(|call| call.caller() != notification.caller());
        if self.count == MAX_CALLS {
            self.keep(|call| notify::is_waiting(listener, call.id()));
        }
        let slot = self.calls.get_mut(self.count).ok_or(Errno::AGAIN)?;
        *slot = notification;
        self.count += 1;
        Ok(())
    }

    /// All, and how many they are.
    pub fn take_all(&mut self) -> ([Notification; MAX_CALLS], usize) {
        (self.calls, core::mem::take(&mut self.count))
    }

    fn keep(&mut self, is_kept: impl Fn(&Notification) -> bool) {
        let mut kept = 0;
        for index in 0..self.count {
            if is_kept(&self.calls[index]) {
                self.calls[kept] = self.calls[index];
                kept += 1;
            }
        }
        self.count = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LISTENER: Listener = Listener {
        head: -1,
        spawned: -1,
    };

    #[test]
    fn a_thread_has_one_call_and_those_that_do_not_wait_make_room() {
        let mut postponed = PostponedCalls::none();
        for id in 0..1000 {
            let call = Notification::with_id(id).with_caller(5);
            assert_eq!(postponed.add(NO_LISTENER, call), Ok(()));
        }
        let (calls, count) = postponed.take_all();
        assert_eq!((calls[0].id(), count), (999, 1));
        assert!(postponed.is_empty());
        for id in 0..=MAX_CALLS as u64 {
            let call = Notification::with_id(id).with_caller(id as i32);
            assert_eq!(postponed.add(NO_LISTENER, call), Ok(()));
        }
        assert_eq!(postponed.take_all().1, 1);
    }
}
