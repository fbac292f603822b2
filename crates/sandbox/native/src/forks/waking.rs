//! How a standby is woken. The signal that wakes it says so.

use crate::sys::{Pid, Result, kill, signals};

/// What a standby has to do before it goes on as the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waking {
    /// Part from the forks of its session: it is older than one of them.
    pub apart: bool,
    /// Leave a copy of itself as the next standby, so that the next cell need not wait for one.
    pub leaves_copy: bool,
}

impl Waking {
    /// All signals that wake, as a mask.
    pub const SIGNALS: u64 = 0b1111 << (signals::WAKE - 1);

    /// The signal that says this.
    pub fn signal(self) -> i32 {
        signals::WAKE + i32::from(self.apart) + 2 * i32::from(self.leaves_copy)
    }

    /// Wakes a standby, which is stopped.
    pub fn send(self, pid: Pid) -> Result<()> {
        kill(pid, self.signal())?;
        kill(pid, signals::CONT)
    }

    /// What one of those signals says.
    pub fn from_signal(signal: i32) -> Waking {
        let bits = signal - signals::WAKE;
        Waking {
            apart: bits & 1 != 0,
            leaves_copy: bits & 2 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_signal_of_its_own_that_wakes() {
        for (apart, leaves_copy) in [(false, false), (false, true), (true, false), (true, true)] {
            let waking = Waking { apart, leaves_copy };
            let signal = waking.signal();
            assert_eq!(Waking::from_signal(signal), waking);
            assert_ne!(Waking::SIGNALS & 1 << (signal - 1), 0);
        }
    }
}
