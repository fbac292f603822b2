//! Calls that wait for the host's answer. None waits for ever, also when the host is slow or gone.

use crate::sys::{Errno, Result};

/// How long a call waits, in milliseconds. A copy of a large file takes seconds.
const COPY_TIMEOUT_MS: u64 = 30_000;
/// How long one waits that would else fail: a cell has a clock of its own.
const SHARED_FILE_TIMEOUT_MS: u64 = 600_000;
/// How often it is looked whether one has waited too long, in milliseconds.
pub const CHECK_PERIOD_MS: i32 = 1_000;
/// Most calls that wait at once.
const MAX_CALLS: usize = 256;

/// The calls, in no order.
pub struct WaitingCalls {
    calls: [Option<Call>; MAX_CALLS],
    count: usize,
}

#[derive(Clone, Copy)]
struct Call {
    id: u64,
    /// When it began to wait.
    since: u64,
    unanswered: Unanswered,
}

/// What becomes of a call that the host does not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It goes on: only a copy is lost.
    GoesOn,
    /// It fails: it would change a file of another session.
    Fails,
}

impl Unanswered {
    fn timeout_ms(self) -> u64 {
        match self {
            Unanswered::GoesOn => COPY_TIMEOUT_MS,
            Unanswered::Fails => SHARED_FILE_TIMEOUT_MS,
        }
    }

    fn outcome(self) -> Result<()> {
        match self {
            Unanswered::GoesOn => Ok(()),
            Unanswered::Fails => Err(Errno::IO),
        }
    }
}

impl WaitingCalls {
    /// No calls.
    pub const EMPTY: WaitingCalls = WaitingCalls {
        calls: [None; MAX_CALLS],
        count: 0,
    };

    /// Whether no call waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a slot is free.
    pub fn has_free_slot(&self) -> bool {
        self.count < MAX_CALLS
    }

    /// Adds a call that waits from this time on.
    pub fn add(&mut self, id: u64, since: u64, unanswered: Unanswered) {
        if let Some(slot) = self.calls.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(Call {
                id,
                since,
                unanswered,
            });
            self.count += 1;
        }
    }

    /// Removes a call that was answered.
    pub fn remove(&mut self, id: u64) {
        self.take(|call| call.id == id, |_, _| {});
    }

    /// Releases the calls that have waited for too long at this time.
    pub fn release_overdue(&mut self, now: u64, release: impl FnMut(u64, Result<()>)) {
        let is_overdue =
            |call: &Call| now.saturating_sub(call.since) >= call.unanswered.timeout_ms();
        self.take(is_overdue, release);
    }

    /// Releases all calls.
    pub fn release_all(&mut self, release: impl FnMut(u64, Result<()>)) {
        self.take(|_| true, release);
    }

    fn take(&mut self, which: impl Fn(&Call) -> bool, mut release: impl FnMut(u64, Result<()>)) {
        if self.is_empty() {
            return;
        }
        for slot in &mut self.calls {
            if let Some(call) = slot.take_if(|call| which(call)) {
                self.count -= 1;
                release(call.id, call.unanswered.outcome());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn released(act: impl FnOnce(&mut dyn FnMut(u64, Result<()>))) -> Vec<(u64, Result<()>)> {
        let mut ids = Vec::new();
        act(&mut |id, outcome| ids.push((id, outcome)));
        ids
    }

    #[test]
    fn a_call_that_is_not_answered_goes_on_after_a_while() {
        let mut waiting = WaitingCalls::EMPTY;
        for id in 1..=3 {
            waiting.add(id, id * 1000, Unanswered::GoesOn);
        }
        waiting.remove(1);
        let early = released(|release| waiting.release_overdue(3000, release));
        let late = released(|release| waiting.release_overdue(2000 + COPY_TIMEOUT_MS, release));
        let rest = released(|release| waiting.release_all(release));
        assert_eq!(
            [early, late, rest],
            [std::vec![], std::vec![(2, Ok(()))], std::vec![(3, Ok(()))]]
        );
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_call_that_would_change_a_shared_file_waits_longer_and_then_fails() {
        let mut waiting = WaitingCalls::EMPTY;
        waiting.add(1, 0, Unanswered::Fails);
        let early = released(|release| waiting.release_overdue(COPY_TIMEOUT_MS, release));
        let late = released(|release| waiting.release_overdue(SHARED_FILE_TIMEOUT_MS, release));
        assert_eq!([early, late], [std::vec![], std::vec![(1, Err(Errno::IO))]]);
    }

    #[test]
    fn slots_for_calls_are_bounded_and_come_back() {
        let mut waiting = WaitingCalls::EMPTY;
        for id in 0..MAX_CALLS as u64 {
            assert!(waiting.has_free_slot());
            waiting.add(id, 0, Unanswered::GoesOn);
        }
        assert!(!waiting.has_free_slot());
        waiting.remove(7);
        assert!(waiting.has_free_slot());
    }
}
