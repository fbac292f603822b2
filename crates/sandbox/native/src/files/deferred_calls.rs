//! Calls that init will do once it has heard something: from the host, or of a fork that is being made.

use crate::files::file_argument::FileArgument;
use crate::init::memory;
use crate::init::notify::Notification;
use crate::sys::{Errno, Pid, Result};
use core::mem::MaybeUninit;

/// Most of them at once: as many as calls that wait for the host. Each holds two paths, in memory that is there when it is first used.
const MAX_CALLS: usize = 256;

/// The calls, in no order.
pub struct DeferredCalls {
    awaited: [Option<Awaited>; MAX_CALLS],
    /// Made when it is needed: most sessions never do, and the inits of forks of forks live on one stack.
    calls: Option<&'static mut Calls>,
}

type Calls = [MaybeUninit<(Notification, FileArgument)>; MAX_CALLS];

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The host's word about the call with this number.
    Host(u64),
    /// The end of the making of a fork.
    Fork,
    /// The next time that init tries: the pipe had no reader, files changed too fast, or there was no room for a question to the host.
    NextTry,
}

impl Awaited {
    /// Whether the call is known by its number elsewhere, where the answer to it will come.
    fn is_asked_elsewhere(self) -> bool {
        matches!(self, Awaited::Host(_))
    }
}

impl DeferredCalls {
    /// No calls.
    pub const NONE: DeferredCalls = DeferredCalls {
        awaited: [None; MAX_CALLS],
        calls: None,
    };

    /// One more. An error when no slot is free.
    ///
    /// A thread waits in one call at a time. A signal ends the wait and the thread makes the call again; so an earlier call of the same thread is given up.
    /// With a timer of less than a millisecond, such calls would take all slots while a fork is made.
    pub fn add(
        &mut self,
        awaited: Awaited,
        notification: Notification,
        file_argument: FileArgument,
    ) -> Result<()> {
        self.give_up_call_of(notification.caller());
        let Some(index) = self.awaited.iter().position(Option::is_none) else {
            return Err(Errno::AGAIN);
        };
        if self.calls.is_none() {
            self.calls = empty_slots().ok();
        }
        let Some(calls) = &mut self.calls else {
            return Err(Errno::AGAIN);
        };
        calls[index].write((notification, file_argument));
        self.awaited[index] = Some(awaited);
        Ok(())
    }

    fn give_up_call_of(&mut self, thread: Pid) {
        let Some(calls) = &self.calls else {
            return;
        };
        for (slot, call) in self.awaited.iter_mut().zip(calls.iter()) {
            let Some(awaited) = *slot else { continue };
            if awaited.is_asked_elsewhere() {
                continue;
            }
            // SAFETY: it was written when the slot was taken.
            if unsafe { call.assume_init_ref() }.0.caller() == thread {
                *slot = None;
                // SAFETY: the slot is free now, so this is the one time that it is read. Its descriptors are closed.
                drop(unsafe { call.assume_init_read() });
            }
        }
    }

    /// Puts a call that is made again, after a signal has interrupted it, in the place of the first. Says whether there was one.
    pub fn renew(&mut self, awaited: Awaited, later: (Notification, FileArgument)) -> bool {
        let index = self.awaited.iter().position(|slot| *slot == Some(awaited));
        match (index, &mut self.calls) {
            (Some(index), Some(calls)) => {
                // SAFETY: it was written when the slot was taken. The descriptors of the first call are closed.
                *unsafe { calls[index].assume_init_mut() } = later;
                true
            }
            _ => false,
        }
    }

    /// Whether a slot is free.
    pub fn has_free_slot(&self) -> bool {
        self.awaited.iter().any(Option::is_none)
    }

    /// Whether one waits for this.
    pub fn has(&self, awaited: Awaited) -> bool {
        self.awaited.contains(&Some(awaited))
    }

    /// One that waited for this, if there is one.
    pub fn take(&mut self, awaited: Awaited) -> Option<(Notification, FileArgument)> {
        self.take_from(0, awaited).map(|(_, call)| call)
    }

    /// The next one from this place on, and the place after it. One that is added meanwhile comes before that.
    pub fn take_from(
        &mut self,
        start: usize,
        awaited: Awaited,
    ) -> Option<(usize, (Notification, FileArgument))> {
        let slots = self.awaited.iter().enumerate().skip(start);
        let (index, _) = { slots }.find(|(_, slot)| **slot == Some(awaited))?;
        self.awaited[index] = None;
        let calls = self.calls.as_ref()?;
        // SAFETY: it was written when the slot was taken, and is read once.
        Some((index + 1, unsafe { calls[index].assume_init_read() }))
    }
}

fn empty_slots() -> Result<&'static mut Calls> {
    let buffer = memory::allocate::<Calls>()?;
    // SAFETY: an array of slots that need not be initialised needs not be either.
    Ok(unsafe { buffer.assume_init_mut() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{self, Fd, open_flags};

    fn add(deferred: &mut DeferredCalls, awaited: Awaited, thread: usize) -> Result<()> {
        let notification = Notification::default().with_caller(thread as Pid);
        deferred.add(awaited, notification, FileArgument::unknown())
    }

    #[test]
    fn a_call_comes_back_when_what_it_waited_for_has_come() {
        let mut deferred = DeferredCalls::NONE;
        for (thread, awaited) in [Awaited::Host(7), Awaited::Fork, Awaited::Fork]
            .into_iter()
            .enumerate()
        {
            assert!(add(&mut deferred, awaited, thread).is_ok());
        }
        let taken = [7, 8, 7].map(|id| deferred.take(Awaited::Host(id)).is_some());
        assert_eq!(taken, [true, false, false]);
        let taken = [(); 3].map(|()| deferred.take(Awaited::Fork).is_some());
        assert_eq!(taken, [true, true, false]);
    }

    /// A signal can interrupt one call hundreds of times before the host answers.
    #[test]
    fn a_call_that_is_made_again_closes_the_descriptors_of_the_first() {
        let mut deferred = DeferredCalls::NONE;
        let (first, later) = (a_directory(), a_directory());
        let call = |directory| {
            let file_argument = FileArgument::beginning_at(directory);
            (Notification::default(), file_argument)
        };
        let (notification, file_argument) = call(first);
        let added = deferred.add(Awaited::Host(7), notification, file_argument);
        assert!(added.is_ok());
        assert!(deferred.renew(Awaited::Host(7), call(later)));
        assert_eq!([first, later].map(is_open), [false, true]);
        drop(deferred.take(Awaited::Host(7)));
        assert!(!is_open(later));
    }

    /// A descriptor with a high number, which no other test gets.
    fn a_directory() -> Fd {
        const LOWEST: Fd = 900;
        let directory = sys::open(c"/", open_flags::PATH, 0).unwrap();
        let high = sys::duplicate_above(directory, LOWEST).unwrap();
        sys::close(directory);
        high
    }

    fn is_open(descriptor: Fd) -> bool {
        sys::status(descriptor).is_ok()
    }

    #[test]
    fn slots_are_bounded() {
        let mut deferred = DeferredCalls::NONE;
        for thread in 0..MAX_CALLS {
            assert!(add(&mut deferred, Awaited::Fork, thread).is_ok());
        }
        assert!(!deferred.has_free_slot());
        assert!(add(&mut deferred, Awaited::Fork, MAX_CALLS).is_err());
    }

    #[test]
    fn calls_that_a_thread_makes_again_and_again_take_one_slot() {
        let mut deferred = DeferredCalls::NONE;
        assert!(add(&mut deferred, Awaited::Host(7), 1).is_ok());
        for awaited in [Awaited::Fork, Awaited::NextTry].repeat(MAX_CALLS) {
            assert!(add(&mut deferred, awaited, 1).is_ok());
        }
        // What the host was asked about stays until it answers.
        let found = [Awaited::Host(7), Awaited::Fork, Awaited::NextTry];
        assert_eq!(
            found.map(|awaited| deferred.take(awaited).is_some()),
            [true, false, true]
        );
        assert!(deferred.take(Awaited::NextTry).is_none());
    }
}
