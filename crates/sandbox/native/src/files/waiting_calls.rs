//! Calls that wait for the host's answer. None waits for ever, also when the host is slow or gone.

use crate::init::notify::Notification;
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
    /// The number under which the host was asked.
    asked: u64,
    /// The call as it waits now: a signal interrupts a call, and then it is made again under a new number.
    current: CallIdentity,
    /// When it began to wait.
    since: u64,
    unanswered: Unanswered,
}

/// A call that the host did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The number under which the host was asked.
    pub asked: u64,
    /// The number that the call waits under now.
    pub current: u64,
    /// What becomes of it.
    pub outcome: Result<()>,
}

impl Call {
    fn overdue(self) -> Overdue {
        Overdue {
            asked: self.asked,
            current: self.current.id,
            outcome: self.unanswered.outcome(),
        }
    }
}

/// What becomes of a call that the host does not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It goes on: only a copy is lost.
    GoesOn,
    /// It fails: it would change a file of another session.
    Fails,
}

/// What tells that a call is one that was made before. The whole notification would take too much of init's stack.
#[derive(Clone, Copy)]
struct CallIdentity {
    id: u64,
    caller: i32,
    number: usize,
    arguments: [u64; 2],
}

impl CallIdentity {
    fn of(notification: &Notification) -> CallIdentity {
        let [first, second, ..] = *notification.arguments();
        CallIdentity {
            id: notification.id(),
            caller: notification.caller(),
            number: notification.number(),
            arguments: [first, second],
        }
    }

    fn is_repeated_by(&self, later: &CallIdentity) -> bool {
        (self.caller, self.number, self.arguments) == (later.caller, later.number, later.arguments)
    }
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
    pub fn add(&mut self, notification: &Notification, since: u64, unanswered: Unanswered) {
        if let Some(slot) = self.calls.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(Call {
                asked: notification.id(),
                current: CallIdentity::of(notification),
                since,
                unanswered,
            });
            self.count += 1;
        }
    }

    /// Whether the host was asked about this call before, when a signal interrupted it. The call waits for that answer then: signals may come
    /// faster than the host answers, and each would have the host asked once more.
    pub fn waits_again(&mut self, notification: &Notification) -> Option<u64> {
        let later = CallIdentity::of(notification);
        let mut calls = self.calls.iter_mut().flatten();
        let call = calls.find(|call| call.current.is_repeated_by(&later))?;
        call.current = later;
        Some(call.asked)
    }

    /// Removes a call that was answered, and returns the number that it waits under now.
    pub fn remove(&mut self, asked: u64) -> Option<u64> {
        let mut current = None;
        self.take(
            |call| call.asked == asked,
            |call| current = Some(call.current.id),
        );
        current
    }

    /// Releases the calls that have waited for too long at this time.
    pub fn release_overdue(&mut self, now: u64, mut release: impl FnMut(Overdue)) {
        let is_overdue =
            |call: &Call| now.saturating_sub(call.since) >= call.unanswered.timeout_ms();
        self.take(is_overdue, |call| release(call.overdue()));
    }

    /// Releases all calls.
    pub fn release_all(&mut self, mut release: impl FnMut(u64, Result<()>)) {
        self.take(
            |_| true,
            |call| {
                release(call.current.id, call.unanswered.outcome());
            },
        );
    }

    fn take(&mut self, which: impl Fn(&Call) -> bool, mut taken: impl FnMut(Call)) {
        if self.is_empty() {
            return;
        }
        for slot in &mut self.calls {
            if let Some(call) = slot.take_if(|call| which(call)) {
                self.count -= 1;
                taken(call);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// A call of a thread: the number of the thread tells one call from another.
    fn call(id: u64, thread: i32) -> Notification {
        Notification::with_id(id).with_caller(thread)
    }

    fn overdue(waiting: &mut WaitingCalls, now: u64) -> Vec<(u64, u64, Result<()>)> {
        let mut found = Vec::new();
        waiting.release_overdue(now, |call| {
            found.push((call.asked, call.current, call.outcome));
        });
        found
    }

    #[test]
    fn a_call_that_is_not_answered_goes_on_after_a_while() {
        let mut waiting = WaitingCalls::EMPTY;
        for id in 1..=3 {
            waiting.add(&call(id, id as i32), id * 1000, Unanswered::GoesOn);
        }
        assert_eq!(waiting.remove(1), Some(1));
        assert_eq!(overdue(&mut waiting, 3000), []);
        assert_eq!(
            overdue(&mut waiting, 2000 + COPY_TIMEOUT_MS),
            [(2, 2, Ok(()))]
        );
        let mut rest = Vec::new();
        waiting.release_all(|id, outcome| rest.push((id, outcome)));
        assert_eq!(rest, [(3, Ok(()))]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_call_that_would_change_a_shared_file_waits_longer_and_then_fails() {
        let mut waiting = WaitingCalls::EMPTY;
        waiting.add(&call(1, 1), 0, Unanswered::Fails);
        assert_eq!(overdue(&mut waiting, COPY_TIMEOUT_MS), []);
        assert_eq!(
            overdue(&mut waiting, SHARED_FILE_TIMEOUT_MS),
            [(1, 1, Err(Errno::IO))]
        );
    }

    #[test]
    fn slots_for_calls_are_bounded_and_come_back() {
        let mut waiting = WaitingCalls::EMPTY;
        for id in 0..MAX_CALLS as u64 {
            assert!(waiting.has_free_slot());
            waiting.add(&call(id, id as i32), 0, Unanswered::GoesOn);
        }
        assert!(!waiting.has_free_slot());
        assert_eq!(waiting.remove(7), Some(7));
        assert!(waiting.has_free_slot());
    }

    #[test]
    fn a_call_that_is_made_again_waits_for_the_answer_to_the_first() {
        let mut waiting = WaitingCalls::EMPTY;
        waiting.add(&call(1, 5), 0, Unanswered::GoesOn);
        assert_eq!(waiting.waits_again(&call(2, 6)), None);
        for id in 3..1000 {
            assert_eq!(waiting.waits_again(&call(id, 5)), Some(1));
        }
        assert_eq!(waiting.remove(1), Some(999));
        assert!(waiting.is_empty());
    }
}
