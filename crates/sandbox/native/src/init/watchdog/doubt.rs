//! Memory of which one look cannot tell whether the head has it too.

use crate::sys::Pid;

/// How many processes are remembered. What others have cannot be settled.
const MAX_REMEMBERED: usize = 4;

/// How much memory is in doubt, and whose it is.
///
/// A standby that is being made is in doubt until the host says that it is a standby. Where cells follow each other quickly, every look meets
/// another one: each of these doubts is settled by the time of the next look, and they do not add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// What the session holds in any case.
    pub certain: u64,
    bytes: u64,
    remembered: [(Pid, u64); MAX_REMEMBERED],
}

impl Doubt {
    /// Adds bytes that this process may hold; `None` where it is not known which one does.
    pub fn add(&mut self, pid: Option<Pid>, bytes: u64) {
        self.bytes += bytes;
        let smallest = self.remembered.iter_mut().min_by_key(|(_, bytes)| *bytes);
        if let (Some(pid), Some(slot)) = (pid, smallest)
            && slot.1 < bytes
        {
            *slot = (pid, bytes);
        }
    }

    /// All that is in doubt.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is in doubt without these processes.
    pub fn without(&self, is_known: impl Fn(Pid) -> bool) -> u64 {
        let known = self.remembered.iter().filter(|(pid, _)| is_known(*pid));
        self.bytes - known.map(|(_, bytes)| bytes).sum::<u64>()
    }

    /// Whether the session was within its limit, now that these processes are known to be standbys. A process that has ended settles nothing: its
    /// memory may be another one's now.
    pub fn is_settled(&self, limit: u64, is_standby: impl Fn(Pid) -> bool) -> bool {
        self.certain + self.without(is_standby) <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_is_settled_by_standbys_and_by_nothing_else() {
        let mut doubt = Doubt {
            certain: 1000,
            ..Doubt::default()
        };
        doubt.add(Some(7), 500);
        doubt.add(Some(8), 250);
        doubt.add(None, 50);
        assert_eq!(doubt.bytes(), 800);
        assert!(!doubt.is_settled(1300, |_| false));
        assert!(doubt.is_settled(1300, |pid| pid == 7));
        assert!(!doubt.is_settled(1300, |pid| pid == 8));
        assert!(!doubt.is_settled(1049, |_| true));
    }

    #[test]
    fn the_largest_are_remembered() {
        let mut doubt = Doubt::default();
        for pid in 1..=6 {
            doubt.add(Some(pid), 10 * pid as u64);
        }
        assert_eq!((doubt.bytes(), doubt.without(|_| true)), (210, 30));
    }
}
