//! Calls that init has allowed and that may not have returned yet. The object that such a call makes is not there yet, so no count of objects
//! sees it.

use crate::sys::Pid;

/// The most calls that may be under way at once. Each thread is in one call at most.
const MAX_CALLS: usize = 64;

/// The threads that make these calls.
pub struct CallsUnderWay {
    callers: [Pid; MAX_CALLS],
    count: usize,
}

impl CallsUnderWay {
    /// Forgets the call of a thread: a thread that makes another call has returned from the one before.
    pub fn has_returned(&mut self, caller: Pid) {
        self.keep(|other| other != caller);
    }

    /// Notes that a thread is allowed its call. False when too many are under way.
    pub fn begin(&mut self, caller: Pid, may_be_in_call: impl Fn(Pid) -> bool) -> bool {
        if self.count == MAX_CALLS {
            self.keep(may_be_in_call);
        }
        let Some(slot) = self.callers.get_mut(self.count) else {
            return false;
        };
        *slot = caller;
        self.count += 1;
        true
    }

    /// How many may be under way. `may_be_in_call` tells whether a thread can still be in the call that it was allowed.
    pub fn count(&mut self, may_be_in_call: impl Fn(Pid) -> bool) -> u64 {
        self.keep(may_be_in_call);
        self.count as u64
    }

    fn keep(&mut self, is_kept: impl Fn(Pid) -> bool) {
        let mut kept = 0;
        for at in 0..self.count {
            let caller = self.callers[at];
            if is_kept(caller) {
                self.callers[kept] = caller;
                kept += 1;
            }
        }
        self.count = kept;
    }
}

impl Default for CallsUnderWay {
    fn default() -> CallsUnderWay {
        CallsUnderWay {
            callers: [0; MAX_CALLS],
            count: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_under_way_until_their_threads_are_seen_outside_of_them() {
        let mut calls = CallsUnderWay::default();
        assert!((1..=MAX_CALLS as Pid).all(|caller| calls.begin(caller, |_| true)));
        assert!(!calls.begin(99, |_| true));
        calls.has_returned(7);
        assert!(calls.begin(99, |_| true) && !calls.begin(100, |_| true));
        assert!(calls.begin(100, |caller| caller > 60));
        assert_eq!(calls.count(|_| true), 6);
        assert_eq!(calls.count(|caller| caller == 99), 1);
    }
}
