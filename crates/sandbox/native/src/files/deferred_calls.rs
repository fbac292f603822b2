//! Calls that init will do once it has heard something: from the host, or of a fork that is being made.

use crate::files::file_argument::FileArgument;
use crate::init::memory;
use crate::init::notify::Notification;
use crate::sys::{Errno, Result};
use core::mem::MaybeUninit;

/// Most of them at once. Each holds two paths.
const MAX_CALLS: usize = 32;

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
    /// A process that reads from the pipe.
    Reader,
}

impl DeferredCalls {
    /// No calls.
    pub const NONE: DeferredCalls = DeferredCalls {
        awaited: [None; MAX_CALLS],
        calls: None,
    };

    /// One more. An error when no slot is free.
    pub fn add(
        &mut self,
        awaited: Awaited,
        notification: Notification,
        file_argument: FileArgument,
    ) -> Result<()> {
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

    /// Puts a call that is made again, after a signal has interrupted it, in the place of the first. Says whether there was one.
    pub fn renew(&mut self, awaited: Awaited, later: (Notification, FileArgument)) -> bool {
        let index = self.awaited.iter().position(|slot| *slot == Some(awaited));
        match (index, &mut self.calls) {
            (Some(index), Some(calls)) => {
                calls[index].write(later);
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

    #[test]
    fn a_call_comes_back_when_what_it_waited_for_has_come() {
        let mut deferred = DeferredCalls::NONE;
        for awaited in [Awaited::Host(7), Awaited::Fork, Awaited::Fork] {
            assert!(
                deferred
                    .add(awaited, Notification::default(), FileArgument::unknown())
                    .is_ok()
            );
        }
        let taken = [7, 8, 7].map(|id| deferred.take(Awaited::Host(id)).is_some());
        assert_eq!(taken, [true, false, false]);
        let taken = [(); 3].map(|()| deferred.take(Awaited::Fork).is_some());
        assert_eq!(taken, [true, true, false]);
    }

    #[test]
    fn slots_are_bounded() {
        let mut deferred = DeferredCalls::NONE;
        while deferred.has_free_slot() {
            assert!(
                deferred
                    .add(
                        Awaited::Fork,
                        Notification::default(),
                        FileArgument::unknown()
                    )
                    .is_ok()
            );
        }
        assert!(
            deferred
                .add(
                    Awaited::Fork,
                    Notification::default(),
                    FileArgument::unknown()
                )
                .is_err()
        );
    }
}
